"""The backlog of the dispatcher and of `blizzard status` is what the job's own planning would take."""

from collections.abc import Iterator
from dataclasses import replace
from types import MappingProxyType

from hypothesis import given
from hypothesis import strategies as st

from blizzard.cli.source_status import SourceStatus, source_status
from blizzard.config.published import PublishedPipeline
from blizzard.dispatch.backlog import read_backlog
from blizzard.dispatch.topic_backlog import RunTimes
from blizzard.errors import BucketMissing
from blizzard.manifest.pending_manifest import Manifest
from blizzard.manifest.segments import Closing, Entry, FoundBy, Position, SettleMark, Sweep
from blizzard.paths.partition import TimeTemplate
from blizzard.state.batch import BatchRules, OnOverwrite, plan_batch
from blizzard.state.checkpoint import Checkpoint, encode
from blizzard.state.receipts import ReceiptLine, Receipts
from blizzard.state.watermark import no_folder
from blizzard.storage.base import ObjectInfo
from blizzard.storage.memory import MemoryStore
from tests.unit.dispatch_world import PIPELINE, published_source
from tests.unit.strategies import memory_store

TEMPLATE = "date=%Y-%m-%d"
NOW_TS = 1_000_000.0
NO_RUN = RunTimes(NOW_TS)

partitions = st.sampled_from(["", "date=2026-11-20", "date=2026-11-21", "other"])
names = st.sampled_from(list("abcd"))
paths = st.builds(lambda partition, name: f"{partition}/{name}" if partition else name, partitions, names)
entries = st.builds(
    Entry,
    path=paths,
    size=st.just(10),
    etag=st.sampled_from(["e1", "e2"]),
    event_ts=st.sampled_from([0.0, NOW_TS]),
    found_by=st.sampled_from(FoundBy),
)
sweeps = st.builds(
    Sweep,
    marks=st.lists(st.builds(SettleMark, partitions, st.none() | names, names), max_size=3).map(tuple),
    closing=st.none() | st.builds(Closing, st.none(), st.just("date=2026-11-20"), cold=st.booleans()),
    late_swept_ts=st.none() | st.just(NOW_TS),
    relies_on=st.integers(0, 2),
)
segments = st.lists(st.tuples(st.lists(entries, max_size=4), st.none() | sweeps), max_size=6)
checkpoints = st.builds(
    Checkpoint,
    pipeline=st.just(PIPELINE),
    source=st.just("landing"),
    sequence=st.just(3),
    partition_watermarks=st.dictionaries(partitions, names, max_size=3).map(MappingProxyType),
    closed_through=st.none() | st.just("date=2026-11-20"),
    late_swept_ts=st.none() | st.just(NOW_TS),
)
settled_files = st.dictionaries(paths, st.sampled_from(["e1", "e2"]), max_size=4)
begun = st.dictionaries(paths, st.just(7), max_size=1)


def stored(segments_given: list[tuple[list[Entry], Sweep | None]]) -> tuple[MemoryStore, Manifest]:
    store = memory_store()
    manifest = Manifest(store, f"_blizzard/{PIPELINE}_landing", f"{PIPELINE}:landing")
    for number, (given_entries, sweep) in enumerate(segments_given):
        manifest.append(given_entries, writer_id=f"w{number}", now_ts=NOW_TS + number, sweep=sweep)
    return store, manifest


def position_after(manifest: Manifest, count: int) -> Position:
    position = Position()
    for item in manifest.unconsumed(position):
        taken = min(count, len(item.segment.entries))
        position, count = item.position_at(taken), count - taken
        if count <= 0:
            break
    return position


def status_of(store: MemoryStore, rules: BatchRules) -> SourceStatus:
    return source_status(
        store,
        pipeline=PIPELINE,
        source="landing",
        state_prefix=f"_blizzard/{PIPELINE}_landing",
        table_uri=store.uri,
        now_ts=NOW_TS,
        rules=rules,
    )


def with_settled(store: MemoryStore, checkpoint: Checkpoint, settled: dict[str, str]) -> Checkpoint:
    """The checkpoint with a receipt of these files (path to etag)."""
    receipt = Receipts(store, f"_blizzard/{PIPELINE}_landing").put(
        sequence=checkpoint.sequence,
        attempt="a",
        previous=None,
        now_ts=NOW_TS,
        lines=[ReceiptLine(path, etag, 10, 1, 0, NOW_TS) for path, etag in settled.items()],
    )
    return replace(checkpoint, receipt=receipt.name)


@given(segments, checkpoints, settled_files, st.integers(0, 8), st.sampled_from(OnOverwrite))
def test_the_backlog_is_what_the_next_batch_would_take(
    segments_given: list[tuple[list[Entry], Sweep | None]],
    checkpoint: Checkpoint,
    settled: dict[str, str],
    consumed: int,
    on_overwrite: OnOverwrite,
) -> None:
    store, manifest = stored(segments_given)
    checkpoint = replace(with_settled(store, checkpoint, settled), position=position_after(manifest, consumed))
    source = replace(published_source(on_overwrite=on_overwrite), prefix_template=TEMPLATE)
    store.put(f"{source.state_prefix}_checkpoint.json", encode(checkpoint).encode())
    rules = BatchRules(
        TimeTemplate(TEMPLATE).folder_of,
        interval_files=10**6,
        late_overlap_secs=source.late_overlap_secs,
        on_overwrite=on_overwrite,
    )
    plan = plan_batch(checkpoint, manifest.unconsumed(checkpoint.position), rules)
    late = {entry.path for entry in plan.suspects if entry.path not in settled}
    overwritten = {e.path for e in plan.suspects if e.etag != settled.get(e.path, e.etag)}
    taken = late if on_overwrite is OnOverwrite.IGNORE else late | overwritten

    pipeline = PublishedPipeline(PIPELINE, "memory://store/", 0.0, (source,))
    found = read_backlog(store, pipeline, {}, NO_RUN)
    assert (found.files, found.needs_run) == (len(taken), bool(taken))
    shown = status_of(store, rules)
    assert (shown.backlog_files, shown.backlog_bytes, shown.problem) == (len(taken), 10 * len(taken), None)

    seen = read_backlog(store, pipeline, found.positions, NO_RUN)
    assert seen.needs_run == bool(late)
    assert seen.stuck == (("landing",) if late else ())


@given(segments, checkpoints, begun, st.sampled_from(OnOverwrite))
def test_a_file_in_progress_is_backlog_for_the_dispatcher_and_in_status(
    segments_given: list[tuple[list[Entry], Sweep | None]],
    checkpoint: Checkpoint,
    in_progress: dict[str, int],
    on_overwrite: OnOverwrite,
) -> None:
    store, _ = stored(segments_given)
    checkpoint = replace(checkpoint, files=MappingProxyType({**checkpoint.files, **in_progress}))
    source = replace(published_source(on_overwrite=on_overwrite), prefix_template=TEMPLATE)
    store.put(f"{source.state_prefix}_checkpoint.json", encode(checkpoint).encode())
    rules = BatchRules(
        TimeTemplate(TEMPLATE).folder_of, late_overlap_secs=source.late_overlap_secs, on_overwrite=on_overwrite
    )
    found = read_backlog(store, PublishedPipeline(PIPELINE, "memory://store/", 0.0, (source,)), {}, NO_RUN)
    shown = status_of(store, rules)
    assert shown.backlog_files == found.files >= len(in_progress)
    assert shown.backlog_bytes == 10 * (found.files - len(in_progress))


def test_an_unreadable_segment_is_named_in_status_and_the_others_count() -> None:
    store, _ = stored([([Entry(name, 10, "e1", NOW_TS)], None) for name in "abcd"])
    keys = [info.key for info in store.list(f"_blizzard/{PIPELINE}_landing/pending/")]
    store.put(keys[1], b"{torn")
    shown = status_of(store, BatchRules(no_folder))
    assert shown.backlog_files == 3
    assert shown.problem is not None
    assert shown.problem.startswith(f"segment 1 of {PIPELINE}:landing cannot be read")
    assert shown.problem.endswith("The segment is skipped; the next sweep lists its files again.")
    store.put(keys[2], b"{torn")
    assert str(status_of(store, BatchRules(no_folder)).problem).endswith("The same holds for 1 more.")


class NoBucket(MemoryStore):
    """As S3 answers for a bucket that nobody has made."""

    def get(self, key: str) -> bytes:
        raise BucketMissing(f"get {self.uri}{key}: no such bucket")

    def list(self, prefix: str = "", *, start_after: str = "", recursive: bool = True) -> Iterator[ObjectInfo]:
        raise BucketMissing(f"list {self.uri}{prefix}: no such bucket")


def test_a_table_without_a_commit_has_no_backlog() -> None:
    backlog = read_backlog(
        NoBucket(lambda: NOW_TS), PublishedPipeline(PIPELINE, "s3://lake/t", 0.0, (published_source(),)), {}, NO_RUN
    )
    assert (backlog.needs_run, backlog.files, backlog.positions["landing"].sequence) == (False, 0, -1)
