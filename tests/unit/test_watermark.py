"""Watermarks only move forward, and only over files that a mark proves to be settled."""

from dataclasses import replace
from itertools import permutations
from types import MappingProxyType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blizzard.manifest.segments import Closing, SettleMark, Sweep
from blizzard.state.checkpoint import FINISHED, Checkpoint, WatermarkState
from blizzard.state.watermark import SourceProgress, join_path, no_folder, split_path
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


def progress(
    watermarks: dict[str, str] | None = None, files: dict[str, int] | None = None, closed_through: str | None = None
) -> SourceProgress:
    return SourceProgress(watermarks or {}, files or {}, closed_through, None, dated_folder)


def closing(after: str | None, through: str, *, cold: bool = False) -> Sweep:
    return Sweep(closing=Closing(after, through, cold))


@given(strategies.any_path)
def test_a_path_is_its_partition_and_its_file_name(path: str) -> None:
    partition, name = split_path(path)
    assert "/" not in name
    assert join_path(partition, name) == path or path.startswith("/")


# Marks


def test_a_mark_from_the_start_of_a_new_partition_becomes_its_watermark() -> None:
    state = progress()
    state.advance_watermark(SettleMark("date=1", None, "c"))
    assert state.watermarks == {"date=1": "c"}
    assert state.changed


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
def test_a_mark_moves_the_watermark_only_if_it_starts_at_or_below_it_and_ends_above_it(
    watermark: str | None, after: str | None, through: str, expected: str | None
) -> None:
    state = progress({"p": watermark} if watermark else {})
    state.advance_watermark(SettleMark("p", after, through))
    assert state.watermarks.get("p") == expected
    assert state.changed == (watermark != expected)


def test_a_mark_moves_only_the_watermark_of_its_own_partition() -> None:
    state = progress({"date=2": "c"})
    state.advance_watermark(SettleMark("date=2/hour=7", None, "f"))
    assert state.watermarks == {"date=2": "c", "date=2/hour=7": "f"}
    assert not state.is_settled("date=2/d")


@given(states, st.lists(sweeps, max_size=6))
def test_no_watermark_ever_moves_backwards(checkpoint: Checkpoint, applied: list[Sweep]) -> None:
    state = SourceProgress.from_checkpoint(checkpoint, dated_folder)
    for sweep in applied:
        before = SourceProgress(dict(state.watermarks), {}, state.closed_through, state.late_swept_ts, dated_folder)
        state.apply_sweep(sweep)
        for partition, name in before.watermarks.items():
            assert state.is_closed(partition) or state.watermarks[partition] >= name
        assert (state.closed_through or "") >= (before.closed_through or "")
        assert (state.late_swept_ts or 0) >= (before.late_swept_ts or 0)


@given(states, st.lists(sweeps, max_size=6))
def test_sweeps_never_change_the_tracked_files_and_the_flag_says_whether_anything_changed(
    checkpoint: Checkpoint, applied: list[Sweep]
) -> None:
    state = SourceProgress.from_checkpoint(checkpoint, dated_folder)
    for sweep in applied:
        state.apply_sweep(sweep)
    before = (checkpoint.partition_watermarks, checkpoint.closed_through, checkpoint.late_swept_ts)
    assert state.files == checkpoint.files
    assert state.changed == ((state.watermarks, state.closed_through, state.late_swept_ts) != before)


@given(states, st.lists(sweeps, max_size=4), marks, sweeps)
def test_applying_a_sweep_twice_changes_nothing(
    checkpoint: Checkpoint, applied: list[Sweep], mark: SettleMark, last: Sweep
) -> None:
    state = SourceProgress.from_checkpoint(checkpoint, dated_folder)
    for sweep in [*applied, replace(last, marks=(mark,))]:
        state.apply_sweep(sweep)
    state.changed = False
    state.apply_sweep(replace(last, marks=(mark,)))
    assert not state.changed


@given(states, st.lists(marks, max_size=4))
def test_the_order_of_connecting_marks_does_not_matter(checkpoint: Checkpoint, drawn: list[SettleMark]) -> None:
    start = checkpoint.partition_watermarks
    joinable = [m for m in drawn if m.after is None or (m.partition in start and start[m.partition] >= m.after)]
    ends = []
    for order in permutations(joinable):
        state = SourceProgress.from_checkpoint(checkpoint, dated_folder)
        for mark in order:
            state.advance_watermark(mark)
        ends.append(state.watermarks)
    assert all(end == ends[0] for end in ends)


def test_the_latest_late_sweep_time_is_kept() -> None:
    state = progress()
    for ts in (5.0, 9.0, 7.0):
        state.apply_sweep(Sweep(late_swept_ts=ts))
    assert state.late_swept_ts == 9.0


# Closing


def test_closing_drops_only_the_watermarks_of_closed_partitions() -> None:
    state = progress(
        {"": "a", "date=1": "a", "date=2/hour=7": "a", "date=3": "a", "other": "a"}, closed_through="date=0"
    )
    state.apply_sweep(closing("date=0", "date=2"))
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
def test_a_closing_applies_only_if_it_connects_to_what_is_closed(
    closed_through: str | None, after: str | None, through: str, expected: str | None
) -> None:
    state = progress(closed_through=closed_through)
    state.apply_sweep(closing(after, through))
    assert state.closed_through == expected


def test_a_cold_closing_applies_only_if_nothing_before_its_window_was_settled() -> None:
    cold, settled, known = progress({"date=3": "a"}), progress({"date=1": "a"}), progress(closed_through="date=0")
    for state in (cold, settled, known):
        state.apply_sweep(closing(None, "date=2", cold=True))
    assert [s.closed_through for s in (cold, settled, known)] == ["date=2", None, "date=0"]


def test_a_mark_for_a_closed_partition_is_ignored() -> None:
    state = progress(closed_through="date=2")
    state.advance_watermark(SettleMark("date=2/hour=7", None, "f"))
    assert state.watermarks == {}


@pytest.mark.parametrize(
    ("path", "settled"),
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
def test_a_path_at_or_below_its_watermark_or_in_a_closed_partition_is_settled(path: str, settled: bool) -> None:
    assert progress({"date=3": "c"}, closed_through="date=2").is_settled(path) is settled


def test_a_partition_without_a_date_is_never_closed() -> None:
    state = SourceProgress({}, {}, "date=9", None, no_folder)
    assert not state.is_closed("date=1")


# Forgetting settled files


@given(states, st.lists(sweeps, max_size=4))
def test_only_settled_finished_files_are_forgotten(checkpoint: Checkpoint, applied: list[Sweep]) -> None:
    state = SourceProgress.from_checkpoint(checkpoint, dated_folder)
    for sweep in applied:
        state.apply_sweep(sweep)
    state.forget_settled_files()
    kept = {p: read for p, read in checkpoint.files.items() if read == IN_PROGRESS or not state.is_settled(p)}
    assert state.files == kept
    assert all(state.is_settled(path) for path in checkpoint.files if path not in state.files)


@given(states, st.lists(sweeps, max_size=4), st.booleans())
def test_the_next_checkpoint_holds_the_progress_and_the_highest_watermark(
    checkpoint: Checkpoint, applied: list[Sweep], active: bool
) -> None:
    state = SourceProgress.from_checkpoint(checkpoint, dated_folder)
    for sweep in applied:
        state.apply_sweep(sweep)
    after = state.to_checkpoint(checkpoint, active=active)
    assert SourceProgress.from_checkpoint(after, dated_folder) == SourceProgress(
        state.watermarks, state.files, state.closed_through, state.late_swept_ts, dated_folder
    )
    assert all((after.watermark or "") >= join_path(p, name) for p, name in after.partition_watermarks.items())


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
def test_the_state_is_initial_without_a_watermark_and_idle_after_a_batch_without_files(
    watermarks: dict[str, str], highest: str | None, active: bool, expected: WatermarkState
) -> None:
    after = progress(watermarks).to_checkpoint(Checkpoint("events", "landing", watermark=highest), active=active)
    assert after.state is expected


def test_the_highest_watermark_is_kept_when_its_partition_closes() -> None:
    state = progress({"date=1": "z"})
    state.apply_sweep(closing(None, "date=1"))
    assert (
        state.to_checkpoint(Checkpoint("events", "landing", watermark="date=1/z"), active=True).watermark == "date=1/z"
    )


def test_a_file_in_progress_stops_neither_a_mark_nor_a_closing() -> None:
    state = progress({"p": "b"}, {"p/d": 7, "date=1/a": 7})
    state.advance_watermark(SettleMark("p", "b", "f"))
    state.apply_sweep(closing(None, "date=2"))
    assert (state.watermarks, state.closed_through) == ({"p": "f"}, "date=2")
    assert state.files == {"p/d": 7, "date=1/a": 7}
