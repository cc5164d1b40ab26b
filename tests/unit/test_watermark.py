"""Settling: marks only ever move a watermark forward, and only over what is proven."""

from dataclasses import replace
from itertools import permutations
from types import MappingProxyType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blizzard.manifest.segments import Closing, SettleMark, Sweep
from blizzard.state.checkpoint import FINISHED, Checkpoint, WatermarkState
from blizzard.state.watermark import Settling, join, no_folder, split
from tests.unit import strategies
from tests.unit.strategies import dated_folder, names, partitions

IN_PROGRESS = 7

marks = st.builds(SettleMark, partitions, st.none() | names, names)
folders = st.sampled_from(["date=0", "date=1", "date=2", "date=3"])
sweeps = st.builds(
    Sweep,
    marks=st.lists(marks, max_size=3).map(tuple),
    closing=st.none() | st.builds(Closing, st.none() | folders, folders, st.booleans()),
    late_swept_ts=st.none() | st.floats(0, 100),
)
states = st.builds(
    Checkpoint,
    pipeline=st.just("events"),
    source=st.just("landing"),
    partition_watermarks=st.dictionaries(partitions, names).map(MappingProxyType),
    closed_through=st.none() | folders,
    late_swept_ts=st.none() | st.floats(0, 100),
    files=st.dictionaries(strategies.crowded_paths(), st.sampled_from([FINISHED, IN_PROGRESS])).map(MappingProxyType),
)


def settling(
    watermarks: dict[str, str] | None = None, files: dict[str, int] | None = None, closed_through: str | None = None
) -> Settling:
    return Settling(watermarks or {}, files or {}, closed_through, None, dated_folder)


def closing(after: str | None, through: str, *, cold: bool = False) -> Sweep:
    return Sweep(closing=Closing(after, through, cold))


@given(strategies.any_path)
def test_a_path_is_its_partition_and_its_name(path: str) -> None:
    partition, name = split(path)
    assert "/" not in name
    assert join(partition, name) == path or path.startswith("/")


# Marks


def test_a_mark_from_the_start_of_a_new_partition_is_its_watermark() -> None:
    state = settling()
    state.settle(SettleMark("date=1", None, "c"))
    assert state.watermarks == {"date=1": "c"}
    assert state.moved


@pytest.mark.parametrize(
    ("watermark", "after", "through", "expected"),
    [
        ("c", "c", "f", "f"),
        ("c", "b", "f", "f"),
        ("c", None, "f", "f"),
        ("c", "d", "f", "c"),
        ("c", "a", "b", "c"),
        ("c", "a", "c", "c"),
        ("c", None, "a", "c"),
        (None, "a", "f", None),
    ],
)
def test_a_mark_joins_at_or_below_the_watermark_and_ends_above_it(
    watermark: str | None, after: str | None, through: str, expected: str | None
) -> None:
    state = settling({"p": watermark} if watermark else {})
    state.settle(SettleMark("p", after, through))
    assert state.watermarks.get("p") == expected
    assert state.moved == (watermark != expected)


def test_a_mark_speaks_of_its_own_partition_only() -> None:
    state = settling({"date=2": "c"})
    state.settle(SettleMark("date=2/hour=7", None, "f"))
    assert state.watermarks == {"date=2": "c", "date=2/hour=7": "f"}
    assert not state.covers("date=2/d")


@given(states, st.lists(sweeps, max_size=6))
def test_nothing_ever_moves_backwards(checkpoint: Checkpoint, said: list[Sweep]) -> None:
    state = Settling.of(checkpoint, dated_folder)
    for sweep in said:
        before = Settling(dict(state.watermarks), {}, state.closed_through, state.late_swept_ts, dated_folder)
        state.apply(sweep)
        for partition, name in before.watermarks.items():
            assert state.closed(partition) or state.watermarks[partition] >= name
        assert (state.closed_through or "") >= (before.closed_through or "")
        assert (state.late_swept_ts or 0) >= (before.late_swept_ts or 0)


@given(states, st.lists(sweeps, max_size=6))
def test_no_watermark_and_no_closing_passes_a_file_in_progress(checkpoint: Checkpoint, said: list[Sweep]) -> None:
    state = Settling.of(checkpoint, dated_folder)
    ahead = [path for path in checkpoint.in_progress if not state.covers(path)]
    for sweep in said:
        state.apply(sweep)
    assert not [path for path in ahead if state.covers(path)]


@given(states, st.lists(sweeps, max_size=6))
def test_what_sweeps_say_never_touches_the_files_and_the_flag_tells_whether_anything_changed(
    checkpoint: Checkpoint, said: list[Sweep]
) -> None:
    state = Settling.of(checkpoint, dated_folder)
    for sweep in said:
        state.apply(sweep)
    before = (checkpoint.partition_watermarks, checkpoint.closed_through, checkpoint.late_swept_ts)
    assert state.files == checkpoint.files
    assert state.moved == ((state.watermarks, state.closed_through, state.late_swept_ts) != before)


@given(states, st.lists(sweeps, max_size=4), marks, sweeps)
def test_what_is_replayed_changes_nothing(
    checkpoint: Checkpoint, said: list[Sweep], mark: SettleMark, last: Sweep
) -> None:
    state = Settling.of(checkpoint, dated_folder)
    for sweep in [*said, replace(last, marks=(mark,))]:
        state.apply(sweep)
    state.moved = False
    state.apply(replace(last, marks=(mark,)))
    assert not state.moved


@given(states, st.lists(marks, max_size=4))
def test_the_order_of_marks_that_all_join_does_not_matter(checkpoint: Checkpoint, drawn: list[SettleMark]) -> None:
    start = checkpoint.partition_watermarks
    joinable = [m for m in drawn if m.after is None or (m.partition in start and start[m.partition] >= m.after)]
    ends = []
    for order in permutations(joinable):
        state = Settling.of(checkpoint, dated_folder)
        for mark in order:
            state.settle(mark)
        ends.append(state.watermarks)
    assert all(end == ends[0] for end in ends)


def test_a_watermark_stops_before_a_file_in_progress_and_may_pass_it_when_it_is_finished() -> None:
    state = settling({"p": "b"}, {"p/d": IN_PROGRESS})
    state.settle(SettleMark("p", "b", "c"))
    state.settle(SettleMark("p", "b", "f"))
    assert state.watermarks == {"p": "c"}
    state.files["p/d"] = FINISHED
    state.settle(SettleMark("p", "c", "f"))
    assert state.watermarks == {"p": "f"}


@pytest.mark.parametrize("path", ["p/b", "p/g", "q/d", "d"])
def test_a_file_in_progress_elsewhere_stops_no_mark(path: str) -> None:
    state = settling({"p": "b"}, {path: IN_PROGRESS})
    state.settle(SettleMark("p", "b", "f"))
    assert state.watermarks == {"p": "f"}


def test_the_later_of_two_late_sweeps_counts() -> None:
    state = settling()
    for ts in (5.0, 9.0, 7.0):
        state.apply(Sweep(late_swept_ts=ts))
    assert state.late_swept_ts == 9.0


# Closing


def test_closing_drops_the_watermarks_of_what_it_closes_and_no_others() -> None:
    state = settling(
        {"": "a", "date=1": "a", "date=2/hour=7": "a", "date=3": "a", "other": "a"}, closed_through="date=0"
    )
    state.apply(closing("date=0", "date=2"))
    assert state.closed_through == "date=2"
    assert sorted(state.watermarks) == ["", "date=3", "other"]


@pytest.mark.parametrize(
    ("closed_through", "after", "through", "expected"),
    [
        ("date=1", "date=1", "date=2", "date=2"),
        ("date=1", "date=0", "date=2", "date=2"),
        ("date=1", None, "date=2", "date=2"),
        (None, None, "date=2", "date=2"),
        ("date=0", "date=1", "date=2", "date=0"),
        (None, "date=1", "date=2", None),
        ("date=2", "date=1", "date=2", "date=2"),
        ("date=3", "date=1", "date=2", "date=3"),
    ],
)
def test_closing_needs_the_base_that_it_began_from(
    closed_through: str | None, after: str | None, through: str, expected: str | None
) -> None:
    state = settling(closed_through=closed_through)
    state.apply(closing(after, through))
    assert state.closed_through == expected


@pytest.mark.parametrize("path", ["date=1/a", "date=2/hour=7/a"])
def test_a_partition_with_a_file_in_progress_is_not_closed(path: str) -> None:
    state = settling({"date=1": "z"}, {path: IN_PROGRESS})
    state.apply(closing(None, "date=2"))
    assert state.closed_through is None
    assert state.watermarks == {"date=1": "z"}


def test_a_cold_start_closes_only_while_nothing_before_its_window_was_settled() -> None:
    cold, settled, known = settling({"date=3": "a"}), settling({"date=1": "a"}), settling(closed_through="date=0")
    for state in (cold, settled, known):
        state.apply(closing(None, "date=2", cold=True))
    assert [s.closed_through for s in (cold, settled, known)] == ["date=2", None, "date=0"]


def test_marks_for_a_closed_partition_come_too_late() -> None:
    state = settling(closed_through="date=2")
    state.settle(SettleMark("date=2/hour=7", None, "f"))
    assert state.watermarks == {}


@pytest.mark.parametrize(
    ("path", "covered"),
    [
        ("date=2/zz", True),
        ("date=2/hour=7/zz", True),
        ("date=1/a", True),
        ("date=3/c", True),
        ("date=3/d", False),
        ("date=3/hour=1/a", False),
        ("other/a", False),
        ("a", False),
    ],
)
def test_covered_is_what_lies_at_or_below_its_watermark_or_in_a_closed_partition(path: str, covered: bool) -> None:
    assert settling({"date=3": "c"}, closed_through="date=2").covers(path) is covered


def test_what_is_not_dated_never_closes() -> None:
    state = Settling({}, {}, "date=9", None, no_folder)
    assert not state.closed("date=1")


# Pruning


@given(states, st.lists(sweeps, max_size=4))
def test_pruning_keeps_exactly_what_is_above_its_watermark_or_in_progress(
    checkpoint: Checkpoint, said: list[Sweep]
) -> None:
    state = Settling.of(checkpoint, dated_folder)
    for sweep in said:
        state.apply(sweep)
    state.prune()
    kept = {p: read for p, read in checkpoint.files.items() if read == IN_PROGRESS or not state.covers(p)}
    assert state.files == kept
    assert all(state.covers(path) for path in checkpoint.files if path not in state.files)


@given(states, st.lists(sweeps, max_size=4), st.booleans())
def test_the_next_checkpoint_holds_the_state_and_its_watermark_is_the_highest(
    checkpoint: Checkpoint, said: list[Sweep], active: bool
) -> None:
    state = Settling.of(checkpoint, dated_folder)
    for sweep in said:
        state.apply(sweep)
    after = state.onto(checkpoint, active=active)
    assert Settling.of(after, dated_folder) == Settling(
        state.watermarks, state.files, state.closed_through, state.late_swept_ts, dated_folder
    )
    assert all((after.watermark or "") >= join(p, name) for p, name in after.partition_watermarks.items())


@pytest.mark.parametrize(
    ("watermarks", "highest", "active", "expected"),
    [
        ({}, None, True, WatermarkState.INITIAL),
        ({}, None, False, WatermarkState.INITIAL),
        ({"p": "a"}, None, True, WatermarkState.ACTIVE),
        ({"p": "a"}, None, False, WatermarkState.IDLE),
        ({}, "date=1/z", False, WatermarkState.IDLE),
    ],
)
def test_initial_is_before_any_settling_and_idle_is_a_batch_without_files(
    watermarks: dict[str, str], highest: str | None, active: bool, expected: WatermarkState
) -> None:
    after = settling(watermarks).onto(Checkpoint("events", "landing", watermark=highest), active=active)
    assert after.state is expected


def test_the_highest_watermark_stays_known_when_its_partition_closes() -> None:
    state = settling({"date=1": "z"})
    state.apply(closing(None, "date=1"))
    assert state.onto(Checkpoint("events", "landing", watermark="date=1/z"), active=True).watermark == "date=1/z"


@given(states, partitions, st.sets(names))
def test_names_that_are_not_covered_are_those_whose_paths_are_not(
    state: Checkpoint, partition: str, some: set[str]
) -> None:
    found = Settling.of(state, dated_folder)
    expected = {name for name in some if not found.covers(join(partition, name))}
    assert {*found.not_covered(partition, some)} == expected
