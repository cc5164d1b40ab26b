"""One batch: limits, marks of sweeps, and files that are read in slices."""

from dataclasses import replace

from blizzard.manifest.segment_codec import encode_segment
from blizzard.manifest.segments import Entry, FoundBy, Position, Segment, SettleMark, Sweep
from blizzard.state.batch import (
    PlannedFile,
    add_late_files,
    next_checkpoint,
    plan_batch,
    planned_file,
)
from blizzard.state.checkpoint import FINISHED, WatermarkState
from tests.unit import strategies
from tests.unit.batches import NOW, OVERLAP, checkpoint, entry, manifest_of, plan, resolved, rules, settle_mark, taken
from tests.unit.strategies import manifest_on, memory_store


def test_a_batch_takes_new_files_and_counts_the_others() -> None:
    state = checkpoint({"p": "c"}, {"p/x": FINISHED}, before_ledger_ts=NOW)
    old = entry("p/a", event_ts=NOW - OVERLAP - 1)
    batch = plan(state, manifest_of([entry("p/d"), entry("p/d"), entry("p/b"), old]))
    assert taken(batch) == ["p/d", "p/b"]
    assert (batch.duplicates, batch.settled, batch.segments) == (1, 1, 1)
    assert batch.position.segment == 1


def test_a_file_announced_twice_with_different_content_is_read_once() -> None:
    batch = plan(checkpoint(), manifest_of([entry("p/a", etag="e1")], [entry("p/a", etag="e2")]))
    assert len(batch.suspects) == 2
    assert taken(resolved(batch)) == ["p/a"]


def test_a_batch_ends_at_the_file_limit_within_a_segment() -> None:
    batch = plan(checkpoint(), manifest_of([entry(f"p/{n}") for n in "abc"], [entry("p/d")]), rules(files=2))
    assert (taken(batch), batch.full, batch.segments) == (["p/a", "p/b"], True, 0)
    assert (batch.position.segment, batch.position.entry) == (0, 2)


def test_a_batch_ends_before_the_file_that_would_exceed_the_byte_limit() -> None:
    batch = plan(checkpoint(), manifest_of([entry("p/a", 600), entry("p/b", 400), entry("p/c", 1)]), rules(size=1000))
    assert (taken(batch), batch.bytes, batch.full) == (["p/a", "p/b"], 1000, True)


def test_a_batch_that_ends_between_two_segments_keeps_the_chain() -> None:
    manifest = manifest_of([entry("p/a")], [entry("p/b"), settle_mark("p", "b", relies_on=0)])
    first = next_checkpoint(plan(checkpoint(), manifest, rules(size=15)), {})
    assert (first.position.segment, first.position.entry, first.position.etag) == (1, 0, manifest.refs()[0].etag)
    assert next_checkpoint(plan(first, manifest, rules(size=15)), {}).partition_watermarks == {"p": "b"}


def test_a_batch_that_ends_before_a_segment_of_another_chain_continues_with_it() -> None:
    store = memory_store()
    manifest = manifest_on(store)
    for number, (path, previous) in enumerate([("p/a", None), ("p/b", "of a segment that is gone")]):
        segment = Segment(number, (entry(path),), None, previous, "w", NOW)
        store.put(f"{strategies.PENDING}{number:020d}.json", encode_segment(segment, strategies.SOURCE_ID))
    state = checkpoint({"p": "z"})
    for expected in ("p/a", "p/b"):
        batch = plan(state, manifest, rules(size=15))
        assert [e.path for e in batch.suspects] == [expected]
        state = next_checkpoint(add_late_files(batch, (), rules()), {})


def test_suspects_count_towards_the_limits() -> None:
    state = checkpoint({"p": "b"})
    batch = plan(state, manifest_of([entry("p/a"), entry("p/b"), entry("p/c")]), rules(files=2))
    assert taken(batch) == ["p/a", "p/b"]
    assert batch.position.entry == 2


def test_duplicates_after_a_full_batch_are_still_consumed() -> None:
    batch = plan(checkpoint(), manifest_of([entry("p/a"), entry("p/a")], [entry("p/a")]), rules(files=1))
    assert (batch.full, batch.duplicates, batch.position.segment) == (True, 1, 1)


def test_without_unconsumed_entries_the_plan_is_empty_and_the_position_stays() -> None:
    state = replace(checkpoint(), position=Position(4, 0, "e", 1))
    batch = plan_batch(state, (), rules())
    assert batch.empty
    assert not batch.full
    assert next_checkpoint(batch, {}) == replace(state, state=WatermarkState.INITIAL)


def test_the_marks_of_a_segment_apply_once_it_is_completely_consumed() -> None:
    manifest = manifest_of([entry("p/a"), entry("p/b"), settle_mark("p", "b")])
    first = next_checkpoint(plan(checkpoint(), manifest, rules(files=1)), {})
    assert (dict(first.partition_watermarks), dict(first.files)) == ({}, {})
    second = next_checkpoint(plan(first, manifest, rules(files=1)), {})
    assert (dict(second.partition_watermarks), dict(second.files)) == ({"p": "b"}, {})


def test_a_folder_without_a_date_keeps_its_watermark() -> None:
    folders = [f"p{n}" for n in range(300)]
    state = checkpoint()
    for folder in folders:
        manifest = manifest_of([entry(f"{folder}/a"), settle_mark(folder, "a")])
        state = replace(next_checkpoint(plan(state, manifest), {}), position=Position())
    assert dict(state.partition_watermarks) == dict.fromkeys(folders, "a")


def test_marks_that_rely_on_a_lost_segment_are_ignored() -> None:
    manifest = manifest_of([entry("p/b"), settle_mark("p", "b", relies_on=0)])
    state = replace(checkpoint(), position=Position(3, 0, "what was wiped", 2))
    items = [replace(item, unbroken_since=1) for item in manifest.unconsumed(state.position)]
    after = next_checkpoint(plan_batch(state, items, rules()), {})
    assert dict(after.partition_watermarks) == {}


# Files larger than a batch


def test_a_file_larger_than_a_batch_is_alone_in_it_and_read_in_slices() -> None:
    batch = plan(checkpoint(), manifest_of([entry("p/a", 1001), entry("p/b", 0)]), rules(size=1000))
    assert resolved(batch).files == (PlannedFile("p/a", 1001, NOW, FoundBy.EVENT, slice_bytes=1000),)
    assert (batch.full, batch.position.entry) == (True, 1)


def test_a_file_as_large_as_a_batch_is_read_whole() -> None:
    batch = plan(checkpoint(), manifest_of([entry("p/a", 1000)]), rules(size=1000))
    assert resolved(batch).files[0].slice_bytes is None


def test_a_large_file_waits_until_the_batch_is_empty() -> None:
    batch = plan(checkpoint(), manifest_of([entry("p/a", 1), entry("p/b", 1001)]), rules(size=1000))
    assert (taken(batch), batch.position.entry) == (["p/a"], 1)


def test_a_mark_may_pass_a_file_in_slices_which_stays_in_progress() -> None:
    manifest = manifest_of([entry("p/b", 5000), Sweep((SettleMark("p", None, "c"),))])
    after = next_checkpoint(resolved(plan(checkpoint(), manifest)), {"p/b": 40})
    assert (dict(after.partition_watermarks), after.in_progress) == ({"p": "c"}, {"p/b": 40})
    assert taken(plan(after, manifest)) == ["p/b"]


def test_a_file_in_progress_comes_first_and_alone_and_no_entry_is_consumed() -> None:
    state = checkpoint(files={"p/b": 40, "p/c": FINISHED})
    batch = plan(state, manifest_of([entry("p/b"), entry("p/c")], [entry("p/a")]), rules(size=1000))
    assert batch.files == (PlannedFile("p/b", 1000, NOW, FoundBy.EVENT, skip_records=40, slice_bytes=1000),)
    assert (batch.position, batch.full) == (state.position, True)


def test_two_files_in_progress_come_one_after_the_other() -> None:
    batch = plan(checkpoint(files={"p/c": 7, "p/b": 40}), manifest_of())
    assert taken(batch) == ["p/b"]
    after = next_checkpoint(batch, {"p/b": FINISHED})
    assert dict(after.files) == {"p/c": 7}


def test_a_planned_file_has_the_fields_of_its_entry() -> None:
    file = planned_file(Entry("p/a", 10, "e1", NOW, FoundBy.LATE), rules(size=10))
    assert file == PlannedFile("p/a", 10, NOW, FoundBy.LATE)
