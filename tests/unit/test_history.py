"""Packs of the history: a question has the same answer with them and without them, whatever becomes of them."""

import json
import random
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blizzard.errors import UnreadableState
from blizzard.history import pack_file
from blizzard.history.pack_file import SCHEMA, EncodedPack, Pack, encode_pack, rows_of
from blizzard.history.packer import DAY_SECS
from blizzard.history.packs import PackRef, put_packs
from blizzard.state.checkpoint import Checkpoint
from blizzard.state.delta_log import Commit, commit_key
from blizzard.state.receipts import ReceiptLine
from tests.unit.history_world import (
    FOLDER,
    SMALL,
    HistoryWorld,
    answers,
    days,
    found,
    line,
    memory_world,
    random_memory_world,
    stored,
)
from tests.unit.operator_world import IDENTITY
from tests.unit.test_receipts import lines
from tests.unit.watched_calls import Calls, WatchedStore

SEEDS = range(60)


# -- the same answers


@pytest.mark.parametrize("seed", SEEDS)
def test_packed_partly_or_wholly_the_answers_are_the_same(seed: int) -> None:
    world = random_memory_world(seed)
    plain = answers(world, packed=False)
    assert answers(world) == plain
    world.now_ts += 5 * DAY_SECS
    world.pack()
    assert answers(world) == answers(world, packed=False)


def torn(data: bytes, chance: random.Random) -> bytes:
    return data[: chance.randrange(len(data))]


def flipped(data: bytes, chance: random.Random) -> bytes:
    at = chance.randrange(len(data))
    return data[:at] + bytes([data[at] ^ 1 << chance.randrange(8)]) + data[at + 1 :]


def other(data: bytes, chance: random.Random) -> bytes:
    return chance.choice([b"", b"PAR1", b"{}", data * 2, bytes(len(data))])


@pytest.mark.parametrize("damage", [torn, flipped, other, None])
@pytest.mark.parametrize("seed", SEEDS[:20])
def test_a_damaged_or_missing_object_changes_no_answer(
    seed: int, damage: Callable[[bytes, random.Random], bytes] | None
) -> None:
    world, chance = random_memory_world(seed), random.Random(seed)
    world.now_ts += 5 * DAY_SECS
    world.pack()
    plain = answers(world, packed=False)
    for name in stored(world):
        data = world.store.get(FOLDER + name)
        world.store.delete([FOLDER + name])
        if damage is not None:
            world.store.put(FOLDER + name, damage(data, chance))
        assert answers(world) == plain
        if chance.random() < 0.5:
            world.store.put(FOLDER + name, data)


def forged(world: HistoryWorld, ref: PackRef) -> EncodedPack:
    """A whole pack that claims other things of the same files, and another commit time."""
    receipts = [receipt for receipt in world.receipts if ref.first <= receipt.sequence <= ref.last]
    lies = [
        replace(r, written_ts=1.0, lines=tuple(one._replace(found_by="forged", error="forged") for one in r.lines))
        for r in receipts
    ]
    return encode_pack([rows_of(receipt, Commit(666, {}, None, 6.0)) for receipt in lies])


def test_a_forged_pack_in_place_of_a_true_one_does_not_count() -> None:
    world = days(memory_world(), 4, 4, 1)
    world.pack()
    for ref in world.packs():
        world.store.put(FOLDER + ref.name, forged(world, ref).data)
    assert found(world) == {}
    assert answers(world) == answers(world, packed=False)


def test_a_forged_pack_of_the_same_size_does_not_count() -> None:
    world, liar = memory_world(), memory_world()
    for here, found_by in ((world, "sweep"), (liar, "event")):
        here.commit(line("a", found_by=found_by))
        here.commit(line("b", found_by=found_by))
        here.now_ts += DAY_SECS
    world.pack()
    (ref,) = world.packs()
    lies = encode_pack(
        [
            rows_of(replace(r, name=true.name), Commit(r.sequence, {}, None, r.written_ts + 0.007))
            for r, true in zip(liar.receipts, world.receipts, strict=False)
        ]
    )
    assert (len(lies.data), lies.footer_at) == (ref.size, ref.footer_at)
    world.store.put(FOLDER + ref.name, lies.data)
    assert found(world) == {}
    assert answers(world) == answers(world, packed=False)


def test_a_forged_row_group_below_a_true_footer_does_not_count() -> None:
    world = days(memory_world(), 4, 1)
    world.pack()
    (ref,) = world.packs()
    true, lies = world.store.get(FOLDER + ref.name), forged(world, ref).data
    spliced = (lies + bytes(ref.footer_at))[: ref.footer_at] + true[ref.footer_at :]
    world.store.put(FOLDER + ref.name, spliced)
    with pytest.raises(UnreadableState, match="not that of its name"):
        [*Pack(world.store, FOLDER, ref).find([("f00000", 0)])]
    assert answers(world) == answers(world, packed=False)


def test_a_forged_index_that_vouches_for_a_forged_pack_does_not_count() -> None:
    world = days(memory_world(), 4, 1)
    world.pack()
    (ref,) = world.packs()
    lies, true = forged(world, ref), str(world.checkpoint.history)
    fake = replace(ref, size=len(lies.data), footer_at=lies.footer_at, digest=lies.digest)
    world.store.put(FOLDER + fake.name, lies.data)
    index = put_packs(world.store, IDENTITY, [fake])
    assert {row.line.found_by for row in found(replace(world, checkpoint=naming(world, index))).values()} == {"forged"}
    world.store.put(FOLDER + true, world.store.get(FOLDER + index))
    assert world.history().packs == ()
    assert answers(world) == answers(world, packed=False)


def naming(world: HistoryWorld, index: str) -> Checkpoint:
    return replace(world.checkpoint, history=index)


# -- what packs have


@pytest.mark.parametrize("seed", SEEDS[:20])
def test_packs_have_what_committed_receipts_say_and_nothing_else(seed: int) -> None:
    world = random_memory_world(seed)
    world.now_ts += 5 * DAY_SECS
    world.pack()
    rows = found(world)
    covered = world.packs()
    for receipt in world.receipts[: covered[-1].last + 1 if covered else 0]:
        for one in receipt.lines:
            row = rows[one.path, receipt.sequence]
            assert (row.line, row.receipt, row.written_ts) == (one, receipt.name, receipt.written_ts)
            assert row.committed_ts == pytest.approx(receipt.written_ts + 0.007)
            log = json.loads(world.store.get(commit_key(row.table_version or 0)).splitlines()[1])
            assert log["txn"]["version"] == receipt.sequence
    assert sum(ref.files for ref in covered) == len(rows)
    assert [ref.first for ref in covered] == [0, *(ref.last + 1 for ref in covered[:-1])][: len(covered)]


@given(st.lists(st.lists(lines, max_size=5, unique_by=lambda one: one.path), min_size=1, max_size=3))
def test_lines_are_read_as_they_were_packed(commits: list[list[ReceiptLine]]) -> None:
    world = memory_world()
    for some in commits:
        world.commit(*some)
    world.now_ts += DAY_SECS
    world.pack()
    rows = found(world)
    assert {key: row.line for key, row in rows.items()} == {
        (one.path, n): one for n, some in enumerate(commits) for one in some
    }


def test_every_field_of_a_receipts_line_is_a_column() -> None:
    assert SCHEMA.names[: len(ReceiptLine._fields)] == [*ReceiptLine._fields]


def test_a_question_about_one_file_reads_one_row_group(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pack_file, "GROUP_ROWS", 50)
    monkeypatch.setattr(pack_file, "FOOTER_BYTES", 1)
    world = days(memory_world(), 10, 1, files=100)
    world.settings = replace(SMALL, files=10_000)
    world.pack()
    assert len(world.packs()) == 1
    calls = Calls()
    history = replace(world.history(), store=WatchedStore(world.store, calls))
    ((_, row),) = history.find([("f00321", 3)]).items()
    assert (row.line.path, row.sequence) == ("f00321", 3)
    assert len(calls.names) <= 3, calls.names
    assert history.find([("f00321", 4), ("nowhere", 3), ("f00321", 10)]) == {}
