"""From a configuration to running sources: the composition root of the ingest job."""

import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from blizzard.config.model import Pipeline, Source
from blizzard.log import Log
from blizzard.state.batch import BatchRules, OnOverwrite
from blizzard.state.dead_letters import DeadLetters
from blizzard.state.identity import Identity
from blizzard.storage.base import ObjectStore
from blizzard.storage.local import LocalStore
from blizzard.storage.open import open_store
from blizzard.storage.s3_connection import S3Settings
from blizzard.sweep.source_sweep import SourceSweep, sweep_rules
from blizzard.sweep.sweeper import SweepKind, SweepReport
from spark_job.formats.decode import Limits
from spark_job.loop.ingest import Ingest, Settings
from spark_job.ports.stopwatch import Stopwatch
from spark_job.tasks.task import ReadSettings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOCAL_OVERLAP_SECS = 5.0
"""A local file's change time cannot be older than its appearance, so a late sweep need not look back a day."""

SEGMENTS_AHEAD = 4
LETTERS_AT_ONCE = 4
"""Objects of dead letters: there is one for each file with refused records, and each is a request to S3."""


@dataclass(frozen=True, slots=True)
class SourceJob:
    """One source, ready to be swept and ingested."""

    source: Source
    ingest: Ingest
    sweeping: SourceSweep
    linger_secs: float
    warm_up: Callable[[], bool]
    """What a run does once while it waits: Delta's work, beforehand."""

    @property
    def source_id(self) -> str:
        return self.sweeping.identity.source_id

    @property
    def pipeline(self) -> str:
        return self.sweeping.identity.pipeline

    def late_sweep_is_due(self) -> bool:
        """Whether the last late sweep that the checkpoint knows of is older than the source's interval."""
        last_ts = self.sweeping.checkpoint().late_swept_ts
        return last_ts is None or time.time() - last_ts >= self.source.sweep.late_interval_secs

    def sweep(self, *, late: bool, announce: bool) -> SweepReport:
        """One sweep from the checkpoint's copy; what it finds is in the manifest afterwards."""
        return self.sweeping.sweep(SweepKind.LATE if late else SweepKind.WATERMARK, announce=announce)

    def sweep_all(self) -> None:
        """Both sweeps, the late one without a trace if it is not due and finds nothing."""
        late_due = self.late_sweep_is_due()
        self.sweep(late=False, announce=True)
        self.sweep(late=True, announce=late_due)


def new_id() -> str:
    return secrets.token_hex(8)


def source_job(
    pipeline: Pipeline,
    source: Source,
    *,
    spark: "Callable[[], SparkSession]",
    s3: S3Settings,
    log: Log,
) -> SourceJob:
    """Put one source's parts together. Nothing is opened or started yet."""
    identity = Identity(pipeline.name, source.name, source.state_prefix)
    s3 = replace(s3, max_attempts=source.retries.max_attempts, max_backoff_secs=source.retries.max_backoff_secs)
    state = open_store(pipeline.table_uri, s3, may_be_missing=True, log=log)
    files = open_store(source.uri, s3, log=log)
    settings = _settings(source, files, state)
    watch = Stopwatch(time.monotonic)
    table, reader = _engine(pipeline, source, identity, state, _has_file(files, settings), spark, s3, watch, log)
    ingest = Ingest(
        identity,
        settings,
        table=table,
        reader=reader,
        state=state,
        source=files,
        clock=time.time,
        watch=watch,
        new_id=new_id,
        sleep=time.sleep,
        log=log,
    )
    sweeping = SourceSweep(identity, files, state, settings.sweep_rules, time.time, new_id, log)
    return SourceJob(source, ingest, sweeping, pipeline.linger_secs, table.warm_up)


def _engine(
    pipeline: Pipeline,
    source: Source,
    identity: Identity,
    state: ObjectStore,
    has_file: Callable[[str, str], bool],
    spark: "Callable[[], SparkSession]",
    s3: S3Settings,
    watch: Stopwatch,
    log: Log,
) -> tuple[Any, Any]:
    """The Delta table and the Spark reader, which know nothing of configurations."""
    from spark_job.table.delta_table import DeltaSourceTable
    from spark_job.tasks.reader import SparkReader

    table = DeltaSourceTable(
        spark,
        uri=pipeline.table_uri,
        store=state,
        state_prefix=identity.state_prefix,
        app_id=identity.app_id,
        source_id=identity.source_id,
        schema=source.row_ddl,
        partition_columns=source.partition_columns,
        partition_by=pipeline.partition_by,
        target_file_bytes=pipeline.target_file_bytes,
        watch=watch,
        siblings=frozenset(f"{pipeline.name}:{name}" for name in pipeline.sources) - {identity.source_id},
        has_file=has_file,
    )
    limits = Limits(source.limits.max_record_bytes, source.limits.max_file_bytes)
    memory_bytes = source.limits.task_memory_bytes
    reader = SparkReader(
        spark,
        uri=source.uri,
        s3=s3,
        table_uri=pipeline.table_uri,
        settings=ReadSettings(source.format, source.compression, limits, memory_bytes),
        schema=source.row_ddl,
        partition_columns=source.partition_columns,
        source_id=identity.source_id,
        layout=table.layout,
        layout_reason=lambda: table.layout_reason,
        staging=table.staging,
        dead_letters=DeadLetters(state, identity.state_prefix, identity.source_id, at_once=LETTERS_AT_ONCE),
        clock=time.time,
        log=log,
    )
    return table, reader


def _has_file(files: ObjectStore, settings: Settings) -> Callable[[str, str], bool]:
    def found(path: str, etag: str) -> bool:
        info = files.head(path) if settings.sweep_rules.matches(path) else None
        return info is not None and info.etag == etag

    return found


def _settings(source: Source, files: ObjectStore, state: ObjectStore) -> Settings:
    dated = source.partition_filter
    overlap_secs = LOCAL_OVERLAP_SECS if isinstance(files, LocalStore) else source.sweep.late_overlap_secs
    rules = sweep_rules(
        pattern=source.pattern,
        prefix_template=dated.prefix_template if dated else None,
        lookback=dated.lookback if dated else 1,
        settle_delay_secs=source.settle_delay_secs,
        late_overlap_secs=overlap_secs,
    )
    return Settings(
        rules=BatchRules(
            folder_of=rules.folder_of,
            interval_files=source.checkpoint.interval_files,
            interval_bytes=source.checkpoint.interval_bytes,
            late_overlap_secs=overlap_secs,
            on_overwrite=OnOverwrite(source.on_overwrite),
        ),
        sweep_rules=rules,
        interval_secs=source.checkpoint.interval_secs,
        max_tracked_files=source.limits.max_tracked_files,
        max_attempts=source.retries.max_attempts,
        max_backoff_secs=source.retries.max_backoff_secs,
        systemic_from=2 if isinstance(files, LocalStore) else 1,
        segments_ahead=0 if isinstance(state, LocalStore) else SEGMENTS_AHEAD,
    )
