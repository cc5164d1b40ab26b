"""From a configuration to running sources: the composition root of the ingest job."""

import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from blizzard.batch import OnOverwrite, Rules
from blizzard.checkpoint import Checkpoint
from blizzard.config import Pipeline, Source
from blizzard.dead_letters import DeadLetters
from blizzard.log import Log
from blizzard.manifest import Manifest
from blizzard.partition import TimeTemplate
from blizzard.pattern import Pattern
from blizzard.receipts import Receipts
from blizzard.storage.base import ObjectStore
from blizzard.storage.local import LocalStore
from blizzard.storage.open import open_store
from blizzard.storage.s3_connection import S3Settings
from blizzard.sweep import Sweeper, SweepReport, SweepRules
from blizzard.watermark import no_folder
from spark_job.decode import Limits
from spark_job.ingest import Ingest, Settings
from spark_job.recovery import Identity, read_copy
from spark_job.task import ReadSettings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOCAL_OVERLAP_SECS = 5.0
"""A local file's change time cannot be older than its appearance, so a late sweep need not look back a day."""


@dataclass(frozen=True, slots=True)
class SourceJob:
    """One source, ready to be swept and ingested."""

    source: Source
    identity: Identity
    ingest: Ingest
    files: ObjectStore
    state: ObjectStore
    rules: SweepRules
    log: Log

    def late_sweep_is_due(self) -> bool:
        """Whether the last late sweep that the checkpoint knows of is older than the source's interval."""
        checkpoint = read_copy(self.state, self.identity)
        last_ts = checkpoint.late_swept_ts if checkpoint else None
        return last_ts is None or time.time() - last_ts >= self.source.sweep.late_interval_secs

    def sweep(self, *, late: bool, announce: bool) -> SweepReport:
        """One sweep from the checkpoint's copy; what it finds is in the manifest afterwards."""
        checkpoint = read_copy(self.state, self.identity) or self._unknown()
        manifest = Manifest(self.state, self.identity.state_prefix, self.identity.source_id)
        sweeper = Sweeper(self.files, manifest, checkpoint, self.rules, clock=time.time, writer_id=new_id())
        if late:
            receipts = Receipts(self.state, self.identity.state_prefix)
            report = sweeper.late_sweep(
                lambda since_ts: receipts.ingested_since(checkpoint.receipt, since_ts).items(), announce=announce
            )
        else:
            report = sweeper.watermark_sweep()
        self.state.put(f"{self.identity.state_prefix}_sweep.json", report.to_json().encode())
        self.log(
            "swept",
            source=self.identity.source_id,
            kind=report.kind,
            listed=report.listed,
            missed=report.missed,
            missed_bytes=report.missed_bytes,
        )
        return report

    def _unknown(self) -> Checkpoint:
        """What a sweep begins from when there is no copy: it lists too much, and the job drops what it knows."""
        return Checkpoint(pipeline=self.identity.pipeline, source=self.identity.source)


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
    settings = _settings(source, files)
    table, reader = _engine(pipeline, source, identity, state, spark, s3)
    ingest = Ingest(
        identity,
        settings,
        table=table,
        reader=reader,
        state=state,
        source=files,
        clock=time.time,
        new_id=new_id,
        sleep=time.sleep,
        log=log,
    )
    return SourceJob(source, identity, ingest, files, state, settings.sweep_rules, log)


def _engine(
    pipeline: Pipeline,
    source: Source,
    identity: Identity,
    state: ObjectStore,
    spark: "Callable[[], SparkSession]",
    s3: S3Settings,
) -> tuple[Any, Any]:
    """The Delta table and the Spark reader, which know nothing of configurations."""
    from spark_job.reader import SparkReader
    from spark_job.table import DeltaSourceTable

    table = DeltaSourceTable(
        spark,
        uri=pipeline.table_uri,
        store=state,
        app_id=identity.app_id,
        source_id=identity.source_id,
        schema=source.row_ddl,
        partition_columns=source.partition_columns,
        partition_by=pipeline.partition_by,
    )
    limits = Limits(source.limits.max_record_bytes, source.limits.max_file_bytes)
    reader = SparkReader(
        spark,
        uri=source.uri,
        s3=s3,
        settings=ReadSettings(source.format, source.compression, limits),
        schema=source.row_ddl,
        partition_columns=source.partition_columns,
        source_id=identity.source_id,
        dead_letters=DeadLetters(state, identity.state_prefix, identity.source_id),
        clock=time.time,
    )
    return table, reader


def _settings(source: Source, files: ObjectStore) -> Settings:
    window = TimeTemplate(source.partition_filter.prefix_template) if source.partition_filter else None
    overlap_secs = LOCAL_OVERLAP_SECS if isinstance(files, LocalStore) else source.sweep.late_overlap_secs
    return Settings(
        rules=Rules(
            folder_of=window.folder_of if window else no_folder,
            interval_files=source.checkpoint.interval_files,
            interval_bytes=source.checkpoint.interval_bytes,
            late_overlap_secs=overlap_secs,
            on_overwrite=OnOverwrite(source.on_overwrite),
        ),
        sweep_rules=SweepRules(
            matches=Pattern(source.pattern).matches,
            window=window,
            lookback=source.partition_filter.lookback if source.partition_filter else 1,
            settle_delay_secs=source.settle_delay_secs,
            late_overlap_secs=overlap_secs,
        ),
        interval_secs=source.checkpoint.interval_secs,
        max_tracked_files=source.limits.max_tracked_files,
        max_attempts=source.retries.max_attempts,
        everybodys_from=2 if isinstance(files, LocalStore) else 1,
    )
