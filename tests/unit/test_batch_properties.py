"""Properties of batch planning: limits hold, nothing is lost or doubled, and equal inputs give equal batches."""

from dataclasses import dataclass, field, replace

from hypothesis import given, settings
from hypothesis import strategies as st

from blizzard.manifest.pending_manifest import Manifest
from blizzard.manifest.segments import Entry, FoundBy, Position, SettleMark, Sweep
from blizzard.state.batch import (
    BatchRules,
    EntryClass,
    OnOverwrite,
    PlannedFile,
    add_late_files,
    classify,
    next_checkpoint,
)
from blizzard.state.checkpoint import FINISHED, Checkpoint
from blizzard.state.watermark import SourceProgress
from tests.unit import strategies
from tests.unit.batches import NOW, OVERLAP, Item, checkpoint, manifest_of, plan, rules, taken
from tests.unit.strategies import dated_folder

LATE, OLD = NOW + 150, NOW + 101

drawn_entries = st.builds(
    Entry,
    path=strategies.crowded_paths(),
    size=st.integers(0, 12),
    etag=st.sampled_from(["e1", "e2"]),
    event_ts=st.just(NOW),
    found_by=st.sampled_from(FoundBy),
)
arbitrary_sweeps = st.builds(
    Sweep,
    marks=st.lists(
        st.builds(SettleMark, strategies.partitions, st.none() | strategies.names, strategies.names), max_size=3
    ).map(tuple),
)
segments = st.lists(st.tuples(st.lists(drawn_entries, max_size=5), st.none() | arbitrary_sweeps), max_size=5)
limits = st.builds(rules, st.integers(1, 4), st.integers(3, 30))
states = st.builds(
    checkpoint,
    st.dictionaries(strategies.partitions, strategies.names, max_size=3),
    st.dictionaries(strategies.crowded_paths(), st.just(FINISHED), max_size=4),
    st.none() | st.just("date=1"),
    st.none() | st.just(NOW + OVERLAP + 1),
)


Drawn = list[tuple[list[Entry], Sweep | None]]


def as_manifest(drawn: Drawn) -> Manifest:
    segments: list[list[Item]] = [[*entries, *([sweep] if sweep else [])] for entries, sweep in drawn]
    return manifest_of(*segments)


@given(segments, states, limits)
def test_no_batch_exceeds_its_limits_unless_it_has_a_single_file(
    drawn: Drawn, state: Checkpoint, by: BatchRules
) -> None:
    batch = plan(state, as_manifest(drawn), by)
    sizes = [file.size for file in batch.files] + [e.size for e in batch.suspects]
    assert len(sizes) <= by.interval_files
    assert sum(sizes) <= by.interval_bytes or len(sizes) == 1
    assert batch.full or batch.position.segment == len(drawn)
    assert add_late_files(batch, batch.suspects, by).bytes == sum(sizes)


@given(segments, states, limits)
def test_every_entry_is_taken_or_counted_or_after_the_position(drawn: Drawn, state: Checkpoint, by: BatchRules) -> None:
    batch = plan(state, as_manifest(drawn), by)
    segment, index = batch.position.segment, batch.position.entry
    before = [e for entries, _ in drawn[:segment] for e in entries]
    before += drawn[segment][0][:index] if segment < len(drawn) else []
    assert len(batch.files) + len(batch.suspects) + batch.duplicates + batch.settled == len(before)
    assert {*taken(batch)} <= {e.path for e in before}
    assert len({(e.path, e.etag) for e in batch.suspects}) == len(batch.suspects)


@given(segments, states, limits)
def test_the_same_inputs_give_the_same_batch(drawn: Drawn, state: Checkpoint, by: BatchRules) -> None:
    manifest = as_manifest(drawn)
    assert plan(state, manifest, by) == plan(state, manifest, by)


entries_anywhere = st.lists(
    st.builds(
        Entry,
        path=st.sampled_from(["date=1/m", "date=5/m", "date=5/n", "undated/m", "m"]),
        size=st.just(10),
        etag=st.sampled_from(["e1", "e2"]),
        event_ts=st.sampled_from([NOW, LATE, OLD]),
        found_by=st.sampled_from(FoundBy),
    ),
    max_size=12,
)
states_anywhere = st.builds(
    checkpoint,
    watermarks=st.dictionaries(st.sampled_from(["date=1", "date=5", "undated", ""]), st.sampled_from("lmn")),
    files=st.dictionaries(st.sampled_from(["date=5/m", "date=1/n", "m"]), st.just(FINISHED)),
    closed_through=st.sampled_from([None, "date=1"]),
    before_ledger_ts=st.sampled_from([None, NOW + OVERLAP, NOW + OVERLAP + 1, NOW + 9 * OVERLAP]),
)


@settings(max_examples=400)
@given(entries_anywhere, states_anywhere, st.sampled_from(OnOverwrite))
def test_a_batch_counts_each_entry_by_its_class(
    drawn: list[Entry], state: Checkpoint, on_overwrite: OnOverwrite
) -> None:
    by = rules(on_overwrite=on_overwrite)
    progress = SourceProgress.from_checkpoint(state, dated_folder)
    suspects: set[tuple[str, str]] = set()
    counted = dict.fromkeys(EntryClass, 0)
    for item in drawn:
        entry_class = classify(item, progress, by, in_batch=(item.path, item.etag) in suspects)
        counted[entry_class] += 1
        if entry_class is EntryClass.SUSPECT:
            suspects.add((item.path, item.etag))
    batch = plan(state, manifest_of(drawn), by)
    assert {(item.path, item.etag) for item in batch.suspects} == suspects
    assert (batch.settled, batch.duplicates) == (counted[EntryClass.SETTLED], counted[EntryClass.DUPLICATE])


@dataclass
class Table:
    """A table and the job that fills it. `records` has the record numbers of each file; a record is a byte."""

    rules: BatchRules
    state: Checkpoint = field(default_factory=checkpoint)
    records: dict[str, list[int]] = field(default_factory=dict)
    ingested: set[str] = field(default_factory=set)
    sizes: dict[str, int] = field(default_factory=dict)

    def ingest(self, manifest: Manifest) -> None:
        for _ in range(400):
            batch = plan(self.state, manifest, self.rules)
            late = [entry for entry in batch.suspects if entry.path not in self.ingested]
            batch = add_late_files(batch, late, self.rules)
            if batch.empty and batch.position == self.state.position:
                return
            settled_before = {
                path
                for path in self.state.in_progress
                if SourceProgress.from_checkpoint(self.state, dated_folder).is_settled(path)
            }
            self.state = next_checkpoint(batch, {file.path: self.read(file) for file in batch.files})
            self.check(settled_before.union(e.path for e in late))
        raise AssertionError("expected the manifest to be consumed after 400 batches")

    def read(self, file: PlannedFile) -> int:
        size = self.sizes.setdefault(file.path, file.size)
        end = size if file.slice_bytes is None else min(size, file.skip_records + file.slice_bytes)
        self.records.setdefault(file.path, []).extend(range(file.skip_records, end))
        self.ingested.add(file.path)
        return FINISHED if end == size else end

    def check(self, settled_before: set[str]) -> None:
        """Only files above their watermark are tracked, and no watermark passes a file in progress.

        `settled_before`: files in progress that were below their watermark already."""
        progress = SourceProgress.from_checkpoint(self.state, dated_folder)
        assert not [path for path, read in progress.files.items() if read == FINISHED and progress.is_settled(path)]
        assert not [path for path in self.state.in_progress if progress.is_settled(path) and path not in settled_before]


@given(segments, limits)
def test_each_file_is_ingested_once_whatever_the_order_and_the_marks(drawn: Drawn, by: BatchRules) -> None:
    table = Table(by)
    table.ingest(as_manifest(drawn))
    paths = {e.path for entries, _ in drawn for e in entries}
    assert set(table.records) == paths
    assert all(table.records[path] == list(range(table.sizes[path])) for path in paths)
    assert table.state.position.segment == len(drawn)
    assert not table.state.in_progress


@given(segments, limits)
def test_replaying_a_manifest_from_its_start_ingests_nothing(drawn: Drawn, by: BatchRules) -> None:
    table = Table(by)
    table.ingest(as_manifest(drawn))
    records = {path: list(read) for path, read in table.records.items()}
    table.state = replace(table.state, position=Position())
    table.ingest(as_manifest(drawn))
    assert table.records == records


@given(segments, limits, limits)
def test_the_same_files_are_ingested_whatever_the_batch_size(
    drawn: Drawn, small: BatchRules, large: BatchRules
) -> None:
    one, other = Table(small), Table(large)
    one.ingest(as_manifest(drawn))
    other.ingest(as_manifest(drawn))
    assert set(one.records) == set(other.records)
