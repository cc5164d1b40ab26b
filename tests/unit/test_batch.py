"""Planning: limits hold, nothing is lost or doubled, and the same inputs give the same batch."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from blizzard.manifest.pending_manifest import Manifest
from blizzard.manifest.segment_codec import encode_segment
from blizzard.manifest.segments import Entry, FoundBy, Position, Segment, SettleMark, Sweep
from blizzard.state.batch import (
    BatchPlan,
    Fate,
    OnOverwrite,
    PlannedFile,
    Rules,
    admit,
    classify,
    conclude,
    judge,
    plan_batch,
    planned,
)
from blizzard.state.checkpoint import FINISHED, Checkpoint, WatermarkState
from blizzard.state.watermark import Settling
from tests.unit import strategies
from tests.unit.strategies import dated_folder, manifest_on, memory_store

NOW = 1_000_000.0
OVERLAP = 100.0


def rules(files: int = 100, size: int = 1000, on_overwrite: OnOverwrite = OnOverwrite.IGNORE) -> Rules:
    return Rules(dated_folder, files, size, OVERLAP, on_overwrite)


def entry(path: str, size: int = 10, etag: str = "e1", event_ts: float = NOW) -> Entry:
    return Entry(path, size, etag, event_ts)


def checkpoint(
    watermarks: dict[str, str] | None = None,
    files: dict[str, int] | None = None,
    closed_through: str | None = None,
    late_swept_ts: float | None = None,
) -> Checkpoint:
    return Checkpoint(
        "events",
        "landing",
        partition_watermarks=MappingProxyType(watermarks or {}),
        files=MappingProxyType(files or {}),
        closed_through=closed_through,
        late_swept_ts=late_swept_ts,
        last_update_ts=NOW,
    )


Said = Entry | Sweep


def manifest_of(*segments: Sequence[Said]) -> Manifest:
    """A segment for each sequence: its entries, and the marks of the sweep in it."""
    manifest = manifest_on(memory_store())
    for number, said in enumerate(segments):
        entries = [item for item in said if isinstance(item, Entry)]
        sweep = next((item for item in said if isinstance(item, Sweep)), None)
        manifest.append(entries, writer_id=str(number), now_ts=NOW, sweep=sweep)
    return manifest


def plan(state: Checkpoint, manifest: Manifest, by: Rules | None = None) -> BatchPlan:
    return plan_batch(state, manifest.unconsumed(state.position), by or rules())


def taken(batch: BatchPlan) -> list[str]:
    return [file.path for file in batch.files]


def settled(partition: str, through: str, relies_on: int = 0) -> Sweep:
    return Sweep((SettleMark(partition, None, through),), relies_on=relies_on)


# Each entry's fate

OPEN, CLOSED = "date=5/m", "date=1/m"
LATE, OLD = NOW + 150, NOW + 101


@pytest.mark.parametrize(
    ("path", "state", "on_overwrite", "fate"),
    [
        (OPEN, checkpoint(), "ignore", Fate.INGEST),
        (OPEN, checkpoint({"date=5": "l"}), "ignore", Fate.INGEST),
        (OPEN, checkpoint({"date=4": "z"}), "ignore", Fate.INGEST),
        (OPEN, checkpoint({"date=5": "m"}), "ignore", Fate.SUSPECT),
        (OPEN, checkpoint({"date=5": "n"}), "ignore", Fate.SUSPECT),
        (OPEN, checkpoint({"date=5": "n"}, late_swept_ts=NOW + OVERLAP), "ignore", Fate.SUSPECT),
        (OPEN, checkpoint({"date=5": "n"}, late_swept_ts=NOW + OVERLAP + 1), "ignore", Fate.SETTLED),
        (OPEN, checkpoint({"date=5": "n"}, late_swept_ts=NOW + OVERLAP + 1), "replace", Fate.SETTLED),
        (OPEN, checkpoint({"date=5": "l"}, late_swept_ts=NOW + OVERLAP + 1), "ignore", Fate.INGEST),
        (OPEN, checkpoint(files={OPEN: FINISHED}), "ignore", Fate.DUPLICATE),
        (OPEN, checkpoint(files={OPEN: FINISHED}), "dead_letter", Fate.SUSPECT),
        (OPEN, checkpoint(files={OPEN: FINISHED}), "replace", Fate.SUSPECT),
        (OPEN, checkpoint(files={OPEN: 0}), "ignore", Fate.DUPLICATE),
        (OPEN, checkpoint(files={OPEN: 5}), "dead_letter", Fate.DUPLICATE),
        (OPEN, checkpoint(files={OPEN: 5}), "replace", Fate.DUPLICATE),
        (CLOSED, checkpoint(closed_through="date=1"), "ignore", Fate.SUSPECT),
        (CLOSED, checkpoint(closed_through="date=1", late_swept_ts=NOW + 9 * OVERLAP), "ignore", Fate.SUSPECT),
        (CLOSED, checkpoint(closed_through="date=1", files={CLOSED: FINISHED}), "ignore", Fate.SUSPECT),
        (CLOSED, checkpoint(closed_through="date=0"), "ignore", Fate.INGEST),
        ("date=1/hour=2/m", checkpoint(closed_through="date=1"), "ignore", Fate.SUSPECT),
        ("undated/m", checkpoint(closed_through="date=1"), "ignore", Fate.SUSPECT),
        ("undated/m", checkpoint({"undated": "l"}, closed_through="date=1"), "ignore", Fate.INGEST),
        ("m", checkpoint({"": "m"}), "ignore", Fate.SUSPECT),
        ("m", checkpoint({"": "l"}), "ignore", Fate.INGEST),
    ],
)
def test_the_fate_of_an_entry_follows_from_the_state(
    path: str, state: Checkpoint, on_overwrite: str, fate: Fate
) -> None:
    by = rules(on_overwrite=OnOverwrite(on_overwrite))
    settling = Settling.of(state, dated_folder)
    assert classify(entry(path), settling, by, in_batch=False) is fate
    assert classify(entry(path), settling, by, in_batch=True) is Fate.DUPLICATE


def test_a_late_sweep_s_entry_of_a_tracked_file_is_asked_about_since_its_etag_is_new() -> None:
    settling = Settling.of(checkpoint(files={OPEN: FINISHED}), dated_folder)
    late = replace(entry(OPEN), found_by=FoundBy.LATE)
    assert classify(late, settling, rules(), in_batch=False) is Fate.SUSPECT


def test_a_file_that_a_mark_of_the_same_plan_has_passed_is_asked_about() -> None:
    settling = Settling.of(checkpoint({"": "m"}, files={"m": FINISHED}), dated_folder)
    assert classify(entry("m"), settling, rules(), in_batch=False) is Fate.SUSPECT


# One batch


def test_a_batch_takes_what_is_new_and_counts_the_rest() -> None:
    state = checkpoint({"p": "c"}, {"p/x": FINISHED}, late_swept_ts=NOW)
    old = entry("p/a", event_ts=NOW - OVERLAP - 1)
    batch = plan(state, manifest_of([entry("p/d"), entry("p/d"), entry("p/x"), entry("p/b"), old]))
    assert taken(batch) == ["p/d"]
    assert [e.path for e in batch.suspects] == ["p/b"]
    assert (batch.duplicates, batch.settled, batch.segments) == (2, 1, 1)
    assert batch.position.segment == 1


def test_a_file_announced_twice_with_different_content_is_read_once() -> None:
    batch = plan(checkpoint(), manifest_of([entry("p/a", etag="e1")], [entry("p/a", etag="e2")]))
    assert (taken(batch), batch.duplicates) == (["p/a"], 1)


def test_a_batch_ends_at_the_file_limit_in_mid_segment() -> None:
    batch = plan(checkpoint(), manifest_of([entry(f"p/{n}") for n in "abc"], [entry("p/d")]), rules(files=2))
    assert (taken(batch), batch.full, batch.segments) == (["p/a", "p/b"], True, 0)
    assert (batch.position.segment, batch.position.entry) == (0, 2)


def test_a_batch_ends_at_the_byte_limit_before_the_file_that_would_pass_it() -> None:
    batch = plan(checkpoint(), manifest_of([entry("p/a", 600), entry("p/b", 400), entry("p/c", 1)]), rules(size=1000))
    assert (taken(batch), batch.bytes, batch.full) == (["p/a", "p/b"], 1000, True)


def test_a_batch_that_ends_between_two_segments_leaves_the_chain_whole() -> None:
    manifest = manifest_of([entry("p/a")], [entry("p/b"), settled("p", "b", relies_on=0)])
    first = conclude(plan(checkpoint(), manifest, rules(size=15)), {})
    assert (first.position.segment, first.position.entry, first.position.etag) == (1, 0, manifest.refs()[0].etag)
    assert conclude(plan(first, manifest, rules(size=15)), {}).partition_watermarks == {"p": "b"}


def test_a_batch_that_ends_before_a_segment_of_another_chain_goes_on_with_it() -> None:
    store = memory_store()
    manifest = manifest_on(store)
    for number, (path, previous) in enumerate([("p/a", None), ("p/b", "of a segment that is gone")]):
        segment = Segment(number, (entry(path),), None, previous, "w", NOW)
        store.put(f"{strategies.PENDING}{number:020d}.json", encode_segment(segment, strategies.SOURCE_ID))
    state = checkpoint({"p": "z"})
    for expected in ("p/a", "p/b"):
        batch = plan(state, manifest, rules(size=15))
        assert [e.path for e in batch.suspects] == [expected]
        state = conclude(admit(batch, (), rules()), {})


def test_suspects_count_against_the_limits() -> None:
    state = checkpoint({"p": "b"})
    batch = plan(state, manifest_of([entry("p/a"), entry("p/b"), entry("p/c")]), rules(files=2))
    assert ([e.path for e in batch.suspects], taken(batch)) == (["p/a", "p/b"], [])
    assert batch.position.entry == 2


def test_duplicates_behind_a_full_batch_are_still_consumed() -> None:
    batch = plan(checkpoint(), manifest_of([entry("p/a"), entry("p/a")], [entry("p/a")]), rules(files=1))
    assert (batch.full, batch.duplicates, batch.position.segment) == (True, 1, 1)


def test_nothing_unconsumed_is_an_empty_plan_at_the_same_position() -> None:
    state = replace(checkpoint(), position=Position(4, 0, "e", 1))
    batch = plan_batch(state, (), rules())
    assert batch.empty
    assert not batch.full
    assert conclude(batch, {}) == replace(state, state=WatermarkState.INITIAL)


def test_the_marks_of_a_segment_count_once_it_is_consumed_to_its_end() -> None:
    manifest = manifest_of([entry("p/a"), entry("p/b"), settled("p", "b")])
    first = conclude(plan(checkpoint(), manifest, rules(files=1)), {})
    assert (dict(first.partition_watermarks), dict(first.files)) == ({}, {"p/a": FINISHED})
    second = conclude(plan(first, manifest, rules(files=1)), {})
    assert (dict(second.partition_watermarks), dict(second.files)) == ({"p": "b"}, {})


def test_a_folder_without_a_date_keeps_its_watermark() -> None:
    folders = [f"p{n}" for n in range(300)]
    state = checkpoint()
    for folder in folders:
        manifest = manifest_of([entry(f"{folder}/a"), settled(folder, "a")])
        state = replace(conclude(plan(state, manifest), {}), position=Position())
    assert dict(state.partition_watermarks) == dict.fromkeys(folders, "a")


def test_marks_that_rest_on_a_lost_segment_settle_nothing() -> None:
    manifest = manifest_of([entry("p/b"), settled("p", "b", relies_on=0)])
    state = replace(checkpoint(), position=Position(3, 0, "what was wiped", 2))
    items = [replace(item, unbroken_since=1) for item in manifest.unconsumed(state.position)]
    after = conclude(plan_batch(state, items, rules()), {})
    assert (dict(after.partition_watermarks), dict(after.files)) == ({}, {"p/b": FINISHED})


def test_an_entry_behind_a_mark_is_judged_by_the_new_watermark() -> None:
    batch = plan(checkpoint(), manifest_of([settled("p", "c")], [entry("p/b"), entry("p/d")]))
    assert ([e.path for e in batch.suspects], taken(batch)) == (["p/b"], ["p/d"])


# Files larger than a batch


def test_a_file_larger_than_a_batch_is_alone_and_read_in_slices() -> None:
    batch = plan(checkpoint(), manifest_of([entry("p/a", 1001), entry("p/b", 0)]), rules(size=1000))
    assert batch.files == (PlannedFile("p/a", 1001, NOW, FoundBy.EVENT, slice_bytes=1000),)
    assert (batch.full, batch.position.entry) == (True, 1)


def test_a_file_as_large_as_a_batch_is_read_whole() -> None:
    batch = plan(checkpoint(), manifest_of([entry("p/a", 1000)]), rules(size=1000))
    assert batch.files[0].slice_bytes is None


def test_a_large_file_waits_until_the_batch_is_empty() -> None:
    batch = plan(checkpoint(), manifest_of([entry("p/a", 1), entry("p/b", 1001)]), rules(size=1000))
    assert (taken(batch), batch.position.entry) == (["p/a"], 1)


def test_no_mark_of_its_own_segment_passes_a_file_in_slices() -> None:
    manifest = manifest_of([entry("p/b", 5000), Sweep((SettleMark("p", None, "a"), SettleMark("p", "a", "c")))])
    after = conclude(plan(checkpoint(), manifest), {"p/b": 40})
    assert dict(after.partition_watermarks) == {"p": "a"}
    assert after.in_progress == {"p/b": 40}


def test_a_file_in_progress_comes_first_and_alone_and_nothing_is_consumed() -> None:
    state = checkpoint(files={"p/b": 40, "p/c": FINISHED})
    batch = plan(state, manifest_of([entry("p/b"), entry("p/c")], [entry("p/a")]), rules(size=1000))
    assert batch.files == (PlannedFile("p/b", 1000, NOW, FoundBy.EVENT, skip_records=40, slice_bytes=1000),)
    assert (batch.position, batch.full) == (state.position, True)


def test_of_two_files_in_progress_one_comes_at_a_time() -> None:
    batch = plan(checkpoint(files={"p/c": 7, "p/b": 40}), manifest_of())
    assert taken(batch) == ["p/b"]
    after = conclude(batch, {"p/b": FINISHED})
    assert dict(after.files) == {"p/b": FINISHED, "p/c": 7}


# Suspects


def test_the_table_knows_a_suspect_misses_it_or_has_it_with_other_content() -> None:
    suspects = [entry("p/known", etag="e2"), entry("p/late"), entry("p/changed", etag="e3"), entry("p/rowless")]
    held = {"p/known": frozenset({"e1", "e2"}), "p/changed": frozenset({"e1", "e2"}), "p/rowless": frozenset[str]()}
    verdict = judge(suspects, held)
    assert [e.path for e in verdict.late] == ["p/late", "p/rowless"]
    assert (verdict.known, [e.path for e in verdict.overwritten]) == (1, ["p/changed"])


def test_late_files_join_the_batch_and_the_other_suspects_leave_it() -> None:
    state = checkpoint({"p": "b"})
    batch = plan(state, manifest_of([entry("p/a"), entry("p/b"), entry("p/c")]))
    decided = admit(batch, [entry("p/b")], rules())
    assert (taken(decided), decided.suspects) == (["p/c", "p/b"], ())
    assert decided.position == batch.position


@pytest.mark.parametrize("around", [[], [entry("p/c")], [entry("p/x", 0)]], ids=["alone", "suspect", "new"])
def test_a_late_file_larger_than_a_batch_is_alone_in_it_and_stays_in_progress(around: list[Entry]) -> None:
    state = checkpoint({"p": "m"})
    batch = plan(state, manifest_of([entry("p/b", 5000), *around]))
    decided = admit(batch, batch.suspects, rules())
    assert (taken(decided), decided.files[0].slice_bytes, decided.position.segment) == (["p/b"], 1000, not around)
    after = conclude(decided, {"p/b": 40})
    assert (after.in_progress, dict(after.partition_watermarks)) == ({"p/b": 40}, {"p": "m"})


def test_a_late_file_larger_than_a_batch_waits_until_the_batch_is_empty() -> None:
    batch = plan(checkpoint({"p": "m"}), manifest_of([entry("p/x"), entry("p/b", 5000)]))
    assert (taken(batch), batch.suspects, batch.position.entry) == (["p/x"], (), 1)


@given(st.lists(strategies.entries), st.dictionaries(strategies.any_path, st.frozensets(strategies.any_text)))
def test_every_suspect_gets_one_verdict(suspects: list[Entry], held: dict[str, frozenset[str]]) -> None:
    verdict = judge(suspects, held)
    assert len(verdict.late) + verdict.known + len(verdict.overwritten) == len(suspects)
    assert not [e for e in verdict.late if held.get(e.path)]


# Whole manifests

drawn_entries = st.builds(
    Entry,
    path=strategies.crowded_paths(),
    size=st.integers(0, 12),
    etag=st.sampled_from(["e1", "e2"]),
    event_ts=st.just(NOW),
    found_by=st.sampled_from(FoundBy),
)
lies = st.builds(
    Sweep,
    marks=st.lists(
        st.builds(SettleMark, strategies.partitions, st.none() | strategies.names, strategies.names), max_size=3
    ).map(tuple),
)
segments = st.lists(st.tuples(st.lists(drawn_entries, max_size=5), st.none() | lies), max_size=5)
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
    segments: list[list[Said]] = [[*entries, *([sweep] if sweep else [])] for entries, sweep in drawn]
    return manifest_of(*segments)


@given(segments, states, limits)
def test_no_batch_passes_its_limits_save_for_one_single_file(drawn: Drawn, state: Checkpoint, by: Rules) -> None:
    batch = plan(state, as_manifest(drawn), by)
    sizes = [file.size for file in batch.files] + [e.size for e in batch.suspects]
    assert len(sizes) <= by.interval_files
    assert sum(sizes) <= by.interval_bytes or len(sizes) == 1
    assert batch.full or batch.position.segment == len(drawn)
    assert admit(batch, batch.suspects, by).bytes == sum(sizes)


@given(segments, states, limits)
def test_every_entry_is_taken_counted_or_behind_the_position(drawn: Drawn, state: Checkpoint, by: Rules) -> None:
    batch = plan(state, as_manifest(drawn), by)
    segment, index = batch.position.segment, batch.position.entry
    before = [e for entries, _ in drawn[:segment] for e in entries]
    before += drawn[segment][0][:index] if segment < len(drawn) else []
    assert len(batch.files) + len(batch.suspects) + batch.duplicates + batch.settled == len(before)
    assert {*taken(batch), *(e.path for e in batch.suspects)} <= {e.path for e in before}
    assert len({*taken(batch), *(e.path for e in batch.suspects)}) == len(batch.files) + len(batch.suspects)


@given(segments, states, limits)
def test_the_same_inputs_give_the_same_batch(drawn: Drawn, state: Checkpoint, by: Rules) -> None:
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
    late_swept_ts=st.sampled_from([None, NOW + OVERLAP, NOW + OVERLAP + 1, NOW + 9 * OVERLAP]),
)


@settings(max_examples=400)
@given(entries_anywhere, states_anywhere, st.sampled_from(OnOverwrite))
def test_a_batch_counts_each_entry_by_its_fate(
    drawn: list[Entry], state: Checkpoint, on_overwrite: OnOverwrite
) -> None:
    by = rules(on_overwrite=on_overwrite)
    settling = Settling.of(state, dated_folder)
    files: set[str] = set()
    suspects: set[tuple[str, str]] = set()
    counted = dict.fromkeys(Fate, 0)
    for item in drawn:
        in_batch = item.path in files or (item.path, item.etag) in suspects
        fate = classify(item, settling, by, in_batch=in_batch)
        counted[fate] += 1
        if fate is Fate.INGEST:
            files.add(item.path)
        if fate is Fate.SUSPECT:
            suspects.add((item.path, item.etag))
    batch = plan(state, manifest_of(drawn), by)
    assert set(taken(batch)) == files
    assert {(item.path, item.etag) for item in batch.suspects} == suspects
    assert (batch.settled, batch.duplicates) == (counted[Fate.SETTLED], counted[Fate.DUPLICATE])


@dataclass
class Table:
    """A table and the job that fills it: which records of which files it holds, a byte each."""

    rules: Rules
    state: Checkpoint = field(default_factory=checkpoint)
    records: dict[str, list[int]] = field(default_factory=dict)
    etags: dict[str, frozenset[str]] = field(default_factory=dict)
    sizes: dict[str, int] = field(default_factory=dict)

    def ingest(self, manifest: Manifest) -> None:
        for _ in range(400):
            batch = plan(self.state, manifest, self.rules)
            late = judge(batch.suspects, self.etags).late
            batch = admit(batch, late, self.rules)
            if batch.empty and batch.position == self.state.position:
                return
            behind = {path for path in self.state.in_progress if Settling.of(self.state, dated_folder).covers(path)}
            self.state = conclude(batch, {file.path: self.read(file) for file in batch.files})
            self.check(behind.union(e.path for e in late))
        raise AssertionError("the manifest never ends")

    def read(self, file: PlannedFile) -> int:
        size = self.sizes.setdefault(file.path, file.size)
        end = size if file.slice_bytes is None else min(size, file.skip_records + file.slice_bytes)
        self.records.setdefault(file.path, []).extend(range(file.skip_records, end))
        self.etags[file.path] = frozenset({"e1"})
        return FINISHED if end == size else end

    def check(self, behind: set[str]) -> None:
        """Only files above their watermark are tracked, and it passes none in progress, save for those it was above."""
        settling = Settling.of(self.state, dated_folder)
        assert not [path for path, read in settling.files.items() if read == FINISHED and settling.covers(path)]
        assert not [path for path in self.state.in_progress if settling.covers(path) and path not in behind]


@given(segments, limits)
def test_batch_by_batch_each_file_is_ingested_once_whatever_the_order_and_the_marks(drawn: Drawn, by: Rules) -> None:
    table = Table(by)
    table.ingest(as_manifest(drawn))
    paths = {e.path for entries, _ in drawn for e in entries}
    assert set(table.records) == paths
    assert all(table.records[path] == list(range(table.sizes[path])) for path in paths)
    assert table.state.position.segment == len(drawn)
    assert not table.state.in_progress


@given(segments, limits)
def test_a_manifest_that_is_replayed_from_its_start_brings_nothing(drawn: Drawn, by: Rules) -> None:
    table = Table(by)
    table.ingest(as_manifest(drawn))
    records = {path: list(read) for path, read in table.records.items()}
    table.state = replace(table.state, position=Position())
    table.ingest(as_manifest(drawn))
    assert table.records == records


@given(segments, limits, limits)
def test_the_size_of_the_batches_does_not_matter_for_what_is_ingested(drawn: Drawn, small: Rules, large: Rules) -> None:
    one, other = Table(small), Table(large)
    one.ingest(as_manifest(drawn))
    other.ingest(as_manifest(drawn))
    assert set(one.records) == set(other.records)


def test_the_plan_of_an_entry_says_what_the_reader_needs() -> None:
    file = planned(Entry("p/a", 10, "e1", NOW, FoundBy.LATE), rules(size=10))
    assert file == PlannedFile("p/a", 10, NOW, FoundBy.LATE)
