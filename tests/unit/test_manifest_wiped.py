"""A manifest that was deleted, cut or restarted: everything that is left is read, and nothing lost counts as
settled."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blizzard.manifest.pending_manifest import Manifest
from blizzard.manifest.segment_codec import encode_segment
from blizzard.manifest.segments import Position, Segment, SettleMark, Sweep
from blizzard.storage.memory import MemoryStore
from tests.unit.manifests import append, consumed, entry, filled, key, paths, walk, wipe
from tests.unit.strategies import PENDING, SOURCE_ID, manifest_on, memory_store

MARK = SettleMark("date=1", None, "z")

Happening = Callable[[MemoryStore, Manifest], None]


def wiped_and_empty(store: MemoryStore, manifest: Manifest) -> None:
    wipe(store)


def begun_again_at_zero(store: MemoryStore, manifest: Manifest) -> None:
    wipe(store)
    append(manifest_on(store), "x", "y")


def grown_past_the_position(store: MemoryStore, manifest: Manifest) -> None:
    wipe(store)
    for word in ("u", "v", "w", "x", "y"):
        append(manifest_on(store), word)


def grown_up_to_the_position(store: MemoryStore, manifest: Manifest) -> None:
    wipe(store)
    for word in ("u", "v", "w"):
        append(manifest_on(store), word)


def begun_again_at_the_floor(store: MemoryStore, manifest: Manifest) -> None:
    wipe(store)
    append(manifest_on(store), "x", floor=3)


def begun_again_behind_a_gap(store: MemoryStore, manifest: Manifest) -> None:
    wipe(store)
    append(manifest_on(store), "x", floor=8)


def begun_again_without_and_then_with_the_floor(store: MemoryStore, manifest: Manifest) -> None:
    wipe(store)
    append(manifest_on(store), "x")
    append(manifest_on(store), "y", floor=3)


def the_tail_was_deleted(store: MemoryStore, manifest: Manifest) -> None:
    wipe(store, 2)
    append(manifest_on(store), "x")


def the_tail_was_deleted_and_is_longer_again(store: MemoryStore, manifest: Manifest) -> None:
    wipe(store, 1, 2)
    for word in ("x", "y", "z"):
        append(manifest_on(store), word)


@pytest.mark.parametrize(
    ("happened", "there"),
    [
        (wiped_and_empty, ""),
        (begun_again_at_zero, "xy"),
        (grown_past_the_position, "uvwxy"),
        (grown_up_to_the_position, "uvw"),
        (begun_again_at_the_floor, "x"),
        (begun_again_behind_a_gap, "x"),
        (begun_again_without_and_then_with_the_floor, "xy"),
        (the_tail_was_deleted, "x"),
        (the_tail_was_deleted_and_is_longer_again, "xyz"),
    ],
)
@pytest.mark.parametrize("count", [4, 5], ids=["mid-segment", "at-the-end"])
def test_after_a_deletion_all_segments_are_yielded_in_a_new_chain(happened: Happening, there: str, count: int) -> None:
    store, manifest = filled("ab", "c", "de")
    position = consumed(manifest, count)
    happened(store, manifest)
    items = walk(manifest, position)
    assert set(there) <= set(paths(items))
    assert all(item.chain != position.chain for item in items)


def test_the_rest_of_a_lost_segment_at_the_position_breaks_the_chain() -> None:
    store, manifest = filled("ab", "c")
    position = consumed(manifest, 1)
    wipe(store, 0)
    [item] = walk(manifest, position)
    assert (item.segment.number, item.segment.previous, item.unbroken_since) == (1, position.etag, 1)
    assert item.chain != position.chain


def test_a_replaced_segment_at_the_position_is_read_from_its_start() -> None:
    store, manifest = filled("ab", "cd")
    position = consumed(manifest, 1)
    store.put(key(0), encode_segment(Segment(0, (entry("x"), entry("y")), None, None, "other", 2.0), SOURCE_ID))
    items = walk(manifest, position)
    assert paths(items) == "xycd"
    assert items[0].unbroken_since == 0
    assert items[0].chain != position.chain
    assert items[1].unbroken_since == 1


def test_a_trim_leaves_a_restarted_manifest_alone() -> None:
    store, manifest = filled("ab", "c", "de")
    position = consumed(manifest, 5)
    wipe(store)
    for word in "uvwxy":
        append(manifest_on(store), word)
    assert manifest.trim(position) == 0
    assert paths(walk(manifest, position)) == "uvwxy"


def test_marks_hold_if_all_segments_that_they_rest_on_were_consumed() -> None:
    _, manifest = filled("a", "b")
    seen = walk(manifest)
    append(manifest, sweep=Sweep((MARK,), relies_on=0, chain=seen[0].chain))
    assert [item.marks_are_valid for item in walk(manifest)] == [False, False, True]
    assert walk(manifest, consumed(manifest, 2))[0].marks_are_valid


def test_marks_that_rest_on_a_lost_segment_do_not_hold() -> None:
    store, manifest = filled("a", "b")
    append(manifest, sweep=Sweep((MARK,), relies_on=0))
    wipe(store, 1)
    assert [item.marks_are_valid for item in walk(manifest)] == [False, False]


def test_marks_that_rest_on_deleted_segments_do_not_hold_even_if_the_numbers_are_the_same() -> None:
    store, manifest = filled("a", "b")
    seen = walk(manifest)
    wipe(store)
    append(manifest, "x")
    append(manifest, sweep=Sweep((MARK,), relies_on=seen[0].segment.number, chain=seen[0].chain))
    assert [item.marks_are_valid for item in walk(manifest)] == [False, False]


def test_marks_that_rest_on_nothing_hold_in_a_restarted_manifest() -> None:
    store, manifest = filled("a", "b")
    position = consumed(manifest, 2)
    wipe(store)
    append(manifest, sweep=Sweep((MARK,), relies_on=position.segment), floor=position.segment)
    assert [item.marks_are_valid for item in walk(manifest, position)] == [True]


class History:
    """A writer appends, a job consumes and commits, a sweep reads from an old checkpoint, and the manifest is wiped."""

    def __init__(self) -> None:
        self.store = memory_store()
        self.job = manifest_on(self.store)
        self.position = Position()
        self.yielded: set[str] = set()
        self.committed = [(Position(), frozenset[str]())]
        self.sweeps: list[tuple[int, str | None, frozenset[str]]] = []
        self.rests_on: dict[str, frozenset[str]] = {}
        self.appended = 0

    def append(self, entries: int, floor: bool) -> None:
        self.appended += 1
        floor_number = self.committed[-1][0].segment if floor else 0
        append(manifest_on(self.store), *(f"{self.appended}-{n}" for n in range(entries)), floor=floor_number)

    def consume(self, count: int) -> None:
        for item in self.job.unconsumed(self.position):
            taken = item.segment.entries[item.first_entry :][:count]
            count -= len(taken)
            self.yielded.update(e.path for e in taken)
            self.position = item.position_at(item.first_entry + len(taken))
            if self.position.segment > item.segment.number and item.marks_are_valid:
                assert self.rests_on[item.segment.writer_id] <= self.yielded
            if not count:
                return

    def commit(self, trim: bool) -> None:
        self.committed.append((self.position, frozenset(self.yielded)))
        if trim:
            self.job.trim(self.position)

    def crash(self) -> None:
        self.position, yielded = self.committed[-1]
        self.yielded = set(yielded)

    def sweep_reads(self, stale: int) -> None:
        position = self.committed[max(0, len(self.committed) - 1 - stale)][0]
        items = walk(manifest_on(self.store), position)
        if items:
            known = frozenset(e.path for item in items for e in item.segment.entries[item.first_entry :])
            self.sweeps.append((items[0].segment.number, items[0].chain, known))

    def sweep_appends(self) -> None:
        if self.sweeps:
            number, chain, known = self.sweeps.pop(0)
            self.appended += 1
            writer = f"sweep {self.appended}"
            self.rests_on[writer] = known
            append(manifest_on(self.store), sweep=Sweep((MARK,), relies_on=number, chain=chain), writer=writer)

    def wipe(self) -> None:
        wipe(self.store)

    def lose(self, kept: int) -> None:
        """Delete any segments except the newest."""
        for bit, info in enumerate(list(self.store.list(PENDING))[:-1]):
            if not kept >> bit & 1:
                self.store.delete([info.key])

    def cut(self, count: int) -> None:
        for info in list(self.store.list(PENDING))[-count:]:
            self.store.delete([info.key])

    def check(self) -> None:
        refs = self.job.refs()
        there = {e.path for ref in refs for e in self.job.read(ref).entries}
        walked = {e.path for i in walk(self.job, self.position) for e in i.segment.entries[i.first_entry :]}
        assert there - self.yielded <= walked


appends = st.tuples(st.just("append"), st.integers(1, 3), st.booleans())
steps = st.one_of(
    appends,
    appends,
    st.tuples(st.just("consume"), st.integers(1, 5)),
    st.tuples(st.just("consume"), st.just(100)),
    st.tuples(st.just("commit"), st.booleans()),
    st.tuples(st.just("crash")),
    st.tuples(st.just("wipe")),
    st.tuples(st.just("lose"), st.integers(0, 255)),
)
cuts = st.tuples(st.just("cut"), st.integers(1, 4))
sweeping = st.tuples(st.just("sweep_reads"), st.integers(0, 3)) | st.tuples(st.just("sweep_appends"))


Step = tuple[Any, ...]


def run(history: History, steps: Sequence[Step]) -> None:
    for name, *arguments in steps:
        getattr(history, name)(*arguments)


@given(st.lists(steps | cuts, max_size=25))
def test_whatever_is_deleted_every_segment_that_is_left_is_yielded(steps: list[Step]) -> None:
    history = History()
    run(history, steps)
    history.check()


@given(st.lists(steps | sweeping, max_size=30))
def test_whatever_is_deleted_marks_hold_only_if_all_that_they_rest_on_was_yielded(steps: list[Step]) -> None:
    history = History()
    run(history, steps)
    history.consume(1000)
