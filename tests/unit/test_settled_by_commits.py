"""Which letters of topics a repair has settled, by the receipts alone: marks may be lost, or not be there yet."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blizzard.audit.settled_by_commits import settled_by_commits
from blizzard.state.dead_letters import DeadLetter, DeadLetters, Stage
from blizzard.state.receipts import ReceiptLine, Receipts, Repair
from blizzard.state.topic_checkpoint import TopicCheckpoint
from blizzard.storage.base import ObjectInfo
from blizzard.storage.memory import MemoryStore
from tests.unit.strategies import SOURCE_ID, STATE_PREFIX, memory_store

KEY = ("clicks/0", "topic-id")
NOW = 1_706_450_400.0


class ReadStore(MemoryStore):
    """`read`: the keys of objects, in order."""

    def __init__(self) -> None:
        super().__init__(lambda: NOW)
        self.read = list[str]()

    def get(self, key: str) -> bytes:
        self.read.append(key)
        return super().get(key)


class Unreadable(MemoryStore):
    def list(self, prefix: str = "", *, start_after: str = "", recursive: bool = True) -> Iterator[ObjectInfo]:
        raise AssertionError(prefix)


class Source:
    """Its runs and repairs, one after the other: each stores its letters, then its receipt, then commits."""

    def __init__(self, store: MemoryStore | None = None) -> None:
        self.store = store or memory_store()
        self.letters = DeadLetters(self.store, STATE_PREFIX, SOURCE_ID)
        self.receipts = Receipts(self.store, STATE_PREFIX)
        self.checkpoint = TopicCheckpoint("events", "clicks")
        self.attempts = 0

    def run(self, *refused: int, commits: bool = True) -> str:
        """Returns the name of its receipt."""
        return self._attempt(refused, (), commits=commits)

    def repair(self, *settled: int, refused: Collection[int] = (), commits: bool = True, says: bool = True) -> str:
        """`refused`: again. `says`: whether the receipt does."""
        return self._attempt(refused, settled, commits=commits, says=says, is_repair=True)

    def settled(self, *offsets: int) -> set[int]:
        found = settled_by_commits(
            self.letters, self.receipts, self.checkpoint, {KEY: {*offsets}, ("other/1", "x"): ()}
        )
        assert found.keys() <= {KEY}
        return found.get(KEY, set())

    def _attempt(
        self,
        refused: Collection[int],
        settles: Collection[int],
        *,
        commits: bool,
        says: bool = True,
        is_repair: bool = False,
    ) -> str:
        self.attempts += 1
        name, base = f"attempt{self.attempts}", self.checkpoint
        sequence = base.sequence + 1
        letters = [DeadLetter(*KEY, Stage.PARSE, name, offset, "{") for offset in sorted(refused)]
        of_repair = f"{sequence:020d}-{name}" if is_repair else name
        self.letters.write_records(letters, NOW + self.attempts, of_repair)
        line = ReceiptLine(*KEY, 0, 1, len(letters), NOW, finished=False, repair=Repair.WHOLE if is_repair else None)
        stored = self.receipts.put(
            sequence=sequence,
            attempt=name,
            previous=base.receipt,
            now_ts=NOW,
            lines=[line],
            settles={KEY[0]: tuple(sorted(settles))} if says and settles else {},
        )
        if commits:
            self.checkpoint = replace(base, sequence=sequence, receipt=stored.name)
        return stored.name


@pytest.fixture
def source() -> Source:
    made = Source()
    made.run()
    made.run(3, 4, 5)
    return made


def test_what_a_repair_has_settled_stays_so(source: Source) -> None:
    source.repair(3, 5)
    assert source.settled(3, 4) == {3}
    source.run(8)
    source.repair(4)
    assert source.settled(3, 4, 5, 8) == {3, 4, 5}


def test_a_repair_that_made_no_commit_settles_nothing(source: Source) -> None:
    source.repair(3, commits=False)
    assert source.settled(3) == set()
    source.run()
    assert source.settled(3) == set()


def test_a_message_that_was_refused_again_is_not_settled(source: Source) -> None:
    source.repair(3, 4, refused=[4])
    assert source.settled(3, 4) == {3}
    source.repair(4)
    assert source.settled(3, 4) == {3, 4}
    source.repair(3, 4, refused=[3])
    assert source.settled(3, 4) == {4}


def test_a_repair_without_a_commit_that_refused_it_again_changes_nothing(source: Source) -> None:
    source.repair(3)
    source.repair(3, refused=[3], commits=False)
    assert source.settled(3) == {3}


def test_other_messages_of_this_offset_are_others(source: Source) -> None:
    """The topic was made again."""
    source.repair(3)
    other = (KEY[0], "another-id")
    source.letters.write_records([DeadLetter(*other, Stage.PARSE, "no", 3, "{")], NOW, "attempt99")
    assert settled_by_commits(source.letters, source.receipts, source.checkpoint, {other: [3]}) == {}


def test_receipts_of_versions_that_do_not_say_it_settle_nothing(source: Source) -> None:
    source.repair(3, says=False)
    assert source.settled(3) == set()


def test_behind_a_receipt_that_is_lost_letters_count_as_open(source: Source) -> None:
    source.repair(3)
    lost = source.run()
    source.repair(4)
    source.store.delete([f"{STATE_PREFIX}/receipts/{lost}"])
    assert source.settled(3, 4, 5) == {4}


def test_receipts_are_read_back_to_the_commit_that_refused_the_message() -> None:
    store = ReadStore()
    source = Source(store)
    for _ in range(200):
        source.run()
    source.run(3)
    source.repair(4)
    store.read.clear()
    assert source.settled(3) == set()
    sequences = [int(key.rpartition("/")[2].partition("-")[0]) for key in store.read if "/receipts/" in key]
    assert min(sequences) > 150


def test_nothing_is_read_if_no_message_is_asked_for(source: Source) -> None:
    unreadable = Unreadable(lambda: NOW)
    letters, receipts = DeadLetters(unreadable, STATE_PREFIX, SOURCE_ID), Receipts(unreadable, STATE_PREFIX)
    assert settled_by_commits(letters, receipts, source.checkpoint, {KEY: set()}) == {}


FATES = st.booleans()
SOME = st.sets(st.integers(0, 6), max_size=4)


@given(st.lists(st.tuples(st.booleans(), SOME, SOME, st.booleans()), max_size=12))
def test_whatever_happens_exactly_what_commits_have_settled_is_settled(
    attempts: Sequence[tuple[bool, set[int], set[int], bool]],
) -> None:
    """A run refuses messages that no commit has yet, and a repair settles letters that are open, and refuses some."""
    source, open_ones, settled = Source(), set[int](), set[int]()
    for is_repair, meant, again, commits in attempts:
        if is_repair:
            settles, refused = meant & open_ones, again & (open_ones | settled)
            source.repair(*sorted(settles | refused & open_ones), refused=refused, commits=commits)
        else:
            settles, refused = set(), meant - open_ones - settled
            source.run(*sorted(refused), commits=commits)
        if commits:
            open_ones = (open_ones - settles) | refused
            settled = (settled | settles) - refused
    assert source.settled(*range(7)) == settled
