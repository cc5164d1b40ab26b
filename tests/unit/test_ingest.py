"""The turns of the loop: what they ask for, in which order they write, what they retry and what they refuse."""

import json
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest
from pyspark.sql import SparkSession

from blizzard.config.load import parse_config
from blizzard.errors import AccessDenied, NeverAnswered, PermanentError, RetryableError, StorageUnavailable
from blizzard.log import silent
from blizzard.state.batch import OnOverwrite, PlannedFile
from blizzard.state.checkpoint import WatermarkState
from blizzard.state.delta_log import Commit
from blizzard.state.receipts import Receipts
from blizzard.storage.s3_connection import S3Settings
from spark_job.engines.spark.engine import SparkEngine
from spark_job.loop.ingest import Step
from spark_job.ports.reader import Outcome
from spark_job.wiring import source_job
from tests.unit.fakes import POISON, MemoryReader, MemoryRows, World, settings


def fail(error: Exception) -> Callable[[], None]:
    def action() -> None:
        raise error

    return action


def order_of(world: World, *wanted: str) -> list[str]:
    """The calls whose name starts with one of `wanted`, in their order."""
    return [name for name in world.calls.names if name.startswith(wanted)]


PUT_COPY = "put _blizzard/events_landing_checkpoint.json"
LETTER = "put _blizzard/events_landing/dead_letters/"
RECEIPT = "put _blizzard/events_landing/receipts/"


def test_a_run_that_finds_nothing_new_does_not_query_the_table() -> None:
    world = World()
    world.arrive("a.txt")
    world.drain()
    world.calls.names.clear()
    world.drain()
    assert order_of(world, "prepare", "txn", "holds", "last_rows_after", "etags", "read", "append", "put") == []


def test_dead_letters_and_receipt_are_written_before_the_commit_and_the_copy_after_it() -> None:
    world = World()
    world.deliver(world.put("a.txt", raw=POISON), world.put("b.txt", "!", "good"), world.put("c.txt", "x"))
    world.drain()
    kinds = {LETTER: "letter", RECEIPT: "receipt", "append": "append", PUT_COPY: "copy"}
    order = [kinds[start] for name in world.calls.names for start in kinds if name.startswith(start)]
    assert order == ["letter", "letter", "receipt", "append", "copy"]


def test_consumed_segments_are_deleted_only_after_the_commit() -> None:
    world = World()
    world.arrive("a.txt")
    world.arrive("b.txt")
    world.drain()
    names = order_of(world, "append", "delete", PUT_COPY)
    assert [name.split()[0] for name in names] == ["append", "put", "delete"]
    assert world.segments() == [1]


def test_the_checkpoint_says_what_was_committed() -> None:
    world = World()
    world.arrive("a.txt")
    world.drain()
    state = world.state_now()
    assert (state.sequence, state.delta_version, state.position.segment) == (0, 0, 1)
    assert (state.state, state.last_update_ts > 0) == (WatermarkState.INITIAL, True)
    assert world.state.get(world.identity.copy_key).decode() == world.delta.commits[-1].user_metadata


def test_the_state_of_the_watermark_is_active_with_new_files_and_idle_without() -> None:
    world = World()
    world.arrive("a.txt")
    world.settle()
    world.arrive("b.txt")
    world.drain()
    assert world.state_now().state is WatermarkState.ACTIVE
    for _ in range(9):
        world.deliver(world.source_event("b.txt"))
    world.drain()
    assert world.state_now().state is WatermarkState.IDLE


def test_receipts_name_every_file_and_the_receipt_before() -> None:
    world = World()
    event = world.arrive("a.txt", "1", "!", "3")
    world.drain()
    world.deliver(world.put("b.txt", raw=POISON), world.put("empty.txt"))
    world.drain()
    receipts, newest = Receipts(world.state, world.identity.state_prefix), world.state_now().receipt
    assert newest is not None
    last = receipts.get(newest)
    assert last.previous is not None
    first = receipts.get(last.previous)
    assert first.previous is None
    assert [(line.path, line.rows, line.dead_records) for line in first.lines] == [("a.txt", 2, 1)]
    assert (first.lines[0].etag, first.lines[0].event_ts) == (event.etag, event.event_ts)
    assert [(line.path, line.error) for line in last.lines] == [("b.txt", "not a gzip file"), ("empty.txt", None)]


def test_totals_and_log_agree() -> None:
    world = World()
    world.deliver(world.put("a.txt", "1", "!", "3"), world.put("b.txt", raw=POISON), world.source_event("a.txt"))
    totals = world.drain()
    assert (totals.commits, totals.files, totals.rows) == (1, 2, 2)
    assert (totals.dead_files, totals.dead_records, totals.duplicates) == (1, 1, 1)
    committed = world.events_logged("batch_committed")[0]
    assert (committed["files"], committed["rows"], committed["dead_files"]) == (2, 2, 1)


def test_a_turn_without_entries_is_idle_and_one_with_duplicates_moves_on() -> None:
    world = World()
    event = world.arrive("a.txt")
    job = world.job()
    assert job.step(draining=True) is Step.COMMITTED
    assert job.step(draining=True) is Step.IDLE
    world.deliver(event)
    assert job.step(draining=False) is Step.WAITING
    world.clock.advance(world.settings.interval_secs)
    assert [job.step(draining=False), job.step(draining=False)] == [Step.MOVED, Step.IDLE]


def test_a_run_can_be_stopped_between_two_batches() -> None:
    world = World(settings(interval_files=1))
    for name in ("a.txt", "b.txt", "c.txt"):
        world.arrive(name)
    world.job().drain(stopping=lambda: len(world.files()) == 2)
    assert sorted(world.files()) == ["a.txt", "b.txt"]
    world.drain()
    assert sorted(world.files()) == ["a.txt", "b.txt", "c.txt"]


def test_a_job_that_discards_its_state_starts_with_recovery() -> None:
    world = World()
    job = world.job()
    job.step(draining=True)
    job.step(draining=True)
    assert len(world.events_logged("recovered")) == 1
    job.forget()
    job.step(draining=True)
    assert len(world.events_logged("recovered")) == 2


def test_a_job_that_discards_its_state_reads_the_version_of_the_table_again() -> None:
    world = World()
    world.arrive("a.txt")
    job = world.job()
    job.step(draining=True)
    for version in (2, 3):
        world.delta.commits.append(Commit(version, {"blizzard:events:other": version}, "{}", None))
    for name, expected in (("b.txt", 1), ("c.txt", 4)):
        world.arrive(name)
        job.step(draining=True)
        assert world.state_now().delta_version == expected
    world.delta.commits.append(Commit(6, {"blizzard:events:other": 4}, "{}", None))
    job.forget()
    world.arrive("d.txt")
    job.step(draining=True)
    assert world.state_now().delta_version == 6


def test_an_unreadable_segment_is_skipped_and_logged_once_per_process() -> None:
    world = World()
    world.arrive("a.txt")
    world.corrupt_segment(0)
    world.arrive("b.txt")
    job = world.job()
    job.drain()
    job.drain()
    assert sorted(world.files()) == ["b.txt"]
    assert len(world.events_logged("segment_unreadable")) == 1
    world.settle()
    assert sorted(world.files()) == ["a.txt", "b.txt"]


def test_the_reader_knows_when_its_rows_replace_others() -> None:
    world = World(settings(on_overwrite=OnOverwrite.REPLACE))
    world.arrive("a.txt", "old")
    world.settle()
    world.arrive("a.txt", "new")
    world.drain()
    assert world.files() == {"a.txt": ["new"]}
    assert world.reader.replacing == [False, True]


def test_rows_are_released_whatever_happens() -> None:
    world = World()
    world.arrive("a.txt")
    world.reader.transient_failures = 1
    world.delta.faults = ["lost", "answer lost"]
    world.drain()
    assert [rows.released for rows in world.reader.batches] == [True, True, True]


def test_after_an_error_right_after_the_commit_the_table_is_checked_before_a_retry() -> None:
    world = World()
    world.arrive("a.txt")
    world.calls.before_named("append", lambda: world.calls.before_named("commit_at", fail(StorageUnavailable("503"))))
    totals = world.drain()
    assert world.doubled() == []
    assert (len(world.delta.commits), totals.commits) == (1 + 1, 0)
    assert sorted(world.files()) == ["a.txt"]


def test_a_turn_repeated_after_such_an_error_without_recovery_loses_its_race() -> None:
    world = World()
    world.arrive("a.txt")
    world.calls.before_named("append", lambda: world.calls.before_named("commit_at", fail(StorageUnavailable("503"))))
    job = world.job()
    with pytest.raises(StorageUnavailable):
        job.step(draining=True)
    assert [job.step(draining=True), job.step(draining=True)] == [Step.LOST, Step.IDLE]
    assert world.doubled() == []


def test_a_commit_that_did_not_arrive_is_a_retryable_error() -> None:
    world = World()
    world.arrive("a.txt")
    world.delta.faults = ["lost"]
    with pytest.raises(RetryableError, match="did not reach the table"):
        world.job().step(draining=True)


@pytest.mark.parametrize("error", [StorageUnavailable("503"), AccessDenied("403")])
def test_a_copy_that_cannot_be_written_does_no_harm_and_is_written_by_the_next_job(error: Exception) -> None:
    world = World()
    world.arrive("a.txt")
    world.calls.before_named(PUT_COPY, fail(error))
    assert world.drain().commits == 1
    assert len(world.events_logged("publish_failed")) == 1
    world.drain()
    assert world.state.get(world.identity.copy_key).decode() == world.delta.commits[-1].user_metadata


def test_a_permanent_error_ends_the_run_at_once() -> None:
    world = World()
    world.arrive("a.txt")
    world.calls.before_named("prepare", fail(PermanentError("column id: expected bigint, found string")))
    with pytest.raises(PermanentError, match="expected bigint"):
        world.drain()
    assert world.slept_secs == []


def test_a_denied_file_alone_in_its_batch_stops_the_run() -> None:
    world = World()
    world.arrive("a.txt")
    world.reader.denied = {"a.txt"}
    with pytest.raises(PermanentError, match=r"1 of 1 files .*\(a.txt\) with: 403 forbidden.*Correct the permissions"):
        world.drain()


def test_pauses_grow_up_to_the_limit_of_the_source_and_are_jittered() -> None:
    world = World(settings(max_attempts=40, max_backoff_secs=5.0))
    world.arrive("a.txt")
    world.reader.transient_failures = 39
    world.drain()
    ceilings = [1.0, 2.0, 4.0, *[5.0] * 36]
    assert all(most / 2 <= wait <= most for wait, most in zip(world.slept_secs, ceilings, strict=True))
    last = world.slept_secs[3:]
    assert min(last) < 3.0 < 4.5 < max(last)
    assert [fields["wait_secs"] for fields in world.events_logged("retrying")] == world.slept_secs


def test_the_configuration_sets_the_number_of_attempts_and_the_longest_pause() -> None:
    source = {"uri": "/landing", "schema": "id STRING", "retries": {"max_attempts": 30, "max_backoff_secs": 0.25}}
    document = {"pipelines": {"p": {"table_uri": "/lake", "sources": {"a": source}}}}
    [(pipeline, found)] = parse_config(json.dumps(document), {}).sources()
    job = source_job(pipeline, found, engine=SparkEngine(no_engine), s3=S3Settings(), log=silent)
    for draining in (True, False):
        assert job.ingest.retry_after_secs(StorageUnavailable("503"), 29, draining=draining) <= 0.25
        with pytest.raises(StorageUnavailable):
            job.ingest.retry_after_secs(StorageUnavailable("503"), 30, draining=draining)


@pytest.mark.parametrize(("attempts", "drained"), [(1, 1), (2, 1), (7, 4), (8, 4)])
def test_what_has_never_answered_is_tried_half_as_often_by_a_run_that_ends(attempts: int, drained: int) -> None:
    world = World(settings(max_attempts=attempts))
    ingest, error = world.job(), NeverAnswered("nobody there")
    for last, draining in ((drained, True), (attempts, False)):
        for failures in range(1, last):
            ingest.retry_after_secs(error, failures, draining=draining)
        with pytest.raises(NeverAnswered):
            ingest.retry_after_secs(error, last, draining=draining)


def no_engine() -> SparkSession:
    raise AssertionError("nothing here needs the engine")


class Forgetful(MemoryReader):
    """Reports an outcome for all files but one."""

    def read(self, files: Sequence[PlannedFile], *, sequence: int, replacing: bool = False) -> MemoryRows:
        rows = super().read(files, sequence=sequence, replacing=replacing)
        return replace(rows, outcomes=rows.outcomes[1:])


class Stuck(MemoryReader):
    """Reports a slice that is not the last and has read nothing."""

    def read(self, files: Sequence[PlannedFile], *, sequence: int, replacing: bool = False) -> MemoryRows:
        rows = super().read(files, sequence=sequence, replacing=replacing)
        return replace(rows, outcomes=[Outcome(file.path, "e", 1, finished=False) for file in files], rows=[])


@pytest.mark.parametrize("reader", [Forgetful, Stuck])
def test_a_reader_that_omits_a_file_or_makes_no_progress_stops_the_run(reader: type[MemoryReader]) -> None:
    world = World()
    world.arrive("a.txt")
    world.reader = reader(world.source, world.dead_letters, world.identity.source_id, world.clock, world.calls)
    with pytest.raises(PermanentError, match=r"the reader reported for a\.txt: .*Nothing was committed"):
        world.drain()
    assert world.files() == {}
