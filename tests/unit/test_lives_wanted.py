"""Questions about some of the files: the answers are those of a look at every file, and others are not looked at."""

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from benchmarks.counting_store import CountingStore
from blizzard.audit import lives
from blizzard.audit.plan import backlog_of
from blizzard.audit.question import Question
from blizzard.ledger import block_codec, run
from blizzard.ledger.ledger import ledger_folder
from blizzard.paths.pattern import Pattern
from blizzard.state.checkpoint import Checkpoint
from blizzard.state.receipts import Receipt, ReceiptLine, Receipts
from blizzard.storage.local import LocalStore
from blizzard.storage.memory import MemoryStore
from tests.unit.lives_world import (
    BEGIN_TS,
    GLOBS,
    LivesWorld,
    put_run,
    put_state,
    random_question,
    source_of,
    wants,
)
from tests.unit.operator_world import IDENTITY

SEEDS = range(60)


@pytest.fixture(params=[1, 5], ids=lambda count: f"blocks of {count}")
def block_entries(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(run, "BLOCK_ENTRIES", request.param)
    monkeypatch.setattr(lives, "BLOCK_ENTRIES", request.param)
    monkeypatch.setattr(lives, "MOST_BLOCKS", 4)
    monkeypatch.setattr(lives, "AT_ONCE", 2)
    return int(request.param)


@pytest.mark.parametrize("seed", SEEDS)
def test_the_answers_are_those_of_a_look_at_every_file(seed: int, block_entries: int) -> None:
    chance = random.Random(seed)
    world = LivesWorld(chance, MemoryStore(lambda: BEGIN_TS))
    for _ in range(6):
        glob = chance.choice([*[None] * len(GLOBS), *GLOBS])
        prefix = chance.choice(["", "", "", "", "", "", "", "a", "a/", "b/", "d/*", "é", "\uffff", "nothing"])
        question, asked = random_question(chance, glob), world.lives(glob, prefix)
        expected = [*filter(wants(question), asked)]
        listed = asked.listed
        assert [*filter(wants(question), asked.wanted(question))] == expected
        assert asked.listed == listed


@pytest.mark.parametrize("seed", range(40))
def test_with_a_damaged_run_too_the_answers_are_those_of_a_look_at_every_file(
    seed: int, block_entries: int, tmp_path: Path
) -> None:
    chance = random.Random(seed)
    world = LivesWorld(chance, LocalStore(tmp_path))
    runs = [info.key for info in world.table.list(ledger_folder(IDENTITY))]
    for key in runs[:1]:
        data = world.table.get(key)
        world.table.put(key, bytes(len(data) // 2) + data[len(data) // 2 :])
    question = random_question(chance, None)
    expected = [*filter(wants(question), world.lives())]
    assert [*filter(wants(question), world.lives().wanted(question))] == expected


@pytest.fixture
def many() -> LivesWorld:
    """5,000 files in four runs, all of which are there; one is new, one was overwritten, and one is torn."""
    world = LivesWorld(random.Random(0), MemoryStore(lambda: BEGIN_TS), names=())
    infos = [world.objects.put(f"f{number:05}", b"x") for number in range(5_000)]
    receipts = Receipts(world.table, IDENTITY.state_prefix)
    found = list[Receipt]()
    for sequence in range(4):
        lines = [ReceiptLine(info.key, info.etag, 1, 1, 0, BEGIN_TS + sequence) for info in infos[sequence::4]]
        if sequence == 1:
            lines[7] = lines[7]._replace(error="torn")
        previous = found[-1].name if found else None
        found.append(receipts.put(sequence=sequence, attempt="a", previous=previous, now_ts=BEGIN_TS, lines=lines))
    runs = tuple(put_run(world.table, [receipt]) for receipt in found)
    put_state(
        world.table,
        Checkpoint(IDENTITY.pipeline, IDENTITY.source, sequence=3, receipt=found[-1].name, ledger=runs),
    )
    world.source = source_of(world.objects, world.table)
    world.objects.put("f02000", b"y")
    world.objects.put("new", b"x")
    return world


@dataclass
class Made:
    """How many there were of each."""

    counts: Counter[str] = field(default_factory=Counter)

    def counted(self, name: str, make: Callable[..., Any]) -> Callable[..., Any]:
        def counting(*args: Any, **more: Any) -> Any:
            self.counts[name] += 1
            return make(*args, **more)

        return counting


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> Made:
    """The entries of the ledger, the lives, and the blocks whose paths are decoded."""
    found = Made()
    monkeypatch.setattr(block_codec, "LedgerEntry", found.counted("entries", block_codec.LedgerEntry))
    monkeypatch.setattr(lives, "Life", found.counted("lives", lives.Life))
    monkeypatch.setattr(block_codec._Text, "paths", found.counted("paths", block_codec._Text.paths))
    return found


def test_nothing_is_made_of_files_that_are_no_answer(many: LivesWorld, made: Made) -> None:
    assert backlog_of(many.lives(), interval_files=10, interval_bytes=10).listed == 5_001
    assert (made.counts["entries"], made.counts["lives"]) == (2, 3)
    question = Question(states=frozenset({"pending"}))
    assert [life.path for life in many.lives().wanted(question) if life.state == "pending"] == ["f02000", "new"]
    assert (made.counts["entries"], made.counts["lives"]) == (4, 6)


def test_of_files_that_are_gone_only_blocks_with_an_answer_are_decoded(many: LivesWorld, made: Made) -> None:
    many.objects.delete([info.key for info in many.objects.list()])
    assert [*many.lives().wanted(Question(states=frozenset({"pending"})))] != []
    assert (made.counts["entries"], made.counts["lives"]) == (1, 1)
    assert made.counts["paths"] == 1 + 4, "of the block that has it, and then of one block of each run"
    since = [life.sequence for life in many.lives().wanted(Question(since_ts=BEGIN_TS + 3))]
    assert since == [3] * 1_250
    assert made.counts["lives"] == 1_251
    assert [*many.lives().wanted(Question(since_ts=BEGIN_TS + 4))] == []
    assert made.counts["lives"] == 1_251


def test_a_file_that_is_named_is_looked_for_in_one_block_of_each_run(many: LivesWorld) -> None:
    counted = CountingStore(many.table)
    many.source = source_of(many.objects, counted)
    asked = many.lives("f04321", "f04321")
    before = counted.read_bytes
    (life,) = asked.wanted(Question(expression=Pattern("f04321").bytes_expression()))
    assert (life.path, life.state) == ("f04321", "committed")
    refs = asked.snapshot.checkpoint.ledger
    index_bytes = sum(ref.size - ref.index_at for ref in refs)
    block_bytes = max(ref.filter_at for ref in refs) / 3
    assert 0 < counted.read_bytes - before - index_bytes < len(refs) * 1.5 * block_bytes


def test_an_expression_that_is_too_long_leaves_nothing_out(many: LivesWorld) -> None:
    question = Question(states=frozenset({"pending"}), expression="(?:a{1000}){1000}")
    assert [life.path for life in many.lives().wanted(question) if life.state == "pending"] == ["f02000", "new"]


def test_progress_is_told_even_if_there_is_no_answer(many: LivesWorld) -> None:
    told: list[int] = []
    asked = replace(many.lives(), progress=told.append)
    assert [*asked.wanted(Question(since_ts=BEGIN_TS + 1e9))] == []
    assert told == sorted(told)
    assert (len(told) > 3, told[-1] >= 5_001) == (True, True)
