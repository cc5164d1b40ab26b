"""The composition of a source that reads topics."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from blizzard.config.kafka_options import KafkaOptions
from blizzard.config.model import Pipeline, Source
from blizzard.errors import PermanentError, RetryableError
from blizzard.kafka.batch_limits import BatchLimits
from blizzard.kafka.brokers import Brokers
from blizzard.kafka.login import SECRET_CHANGED, Login
from blizzard.kafka.missing_client import missing_client
from blizzard.kafka.secret import UsedSecret
from blizzard.log import Log
from blizzard.state.identity import SourceIdentity
from blizzard.storage.open import open_store
from blizzard.storage.s3_connection import S3Settings
from spark_job.formats.messages.registry import open_message_format
from spark_job.loop.ingest import Ingest
from spark_job.loop.topics.plan_ranges import tasks_of
from spark_job.loop.topics.settings import TopicLoopSettings
from spark_job.loop.topics.source import NothingToDiscover, TopicSource
from spark_job.ports.offset_range import OffsetRange, TopicSettings
from spark_job.ports.reader import FailureKind, RangesReader
from spark_job.ports.stopwatch import Stopwatch
from spark_job.table.delta_table import DeltaSourceTable
from spark_job.table.schema import columns_of
from spark_job.tasks.engine import Engine
from spark_job.tasks.reader import BatchReader, BatchRows
from spark_job.tasks.task_reader import ReadSettings
from spark_job.wiring import SourceJob, TableParts, batch_reader, delta_table, new_id, read_settings

POLL_SECS = 0.25
"""How often an idle source asks the brokers: a few requests, which cost nothing but the connection."""
_WITHOUT_REFUSAL = (None, FailureKind.TRANSIENT)


class TopicLogins:
    """With which tasks reach the brokers of a source, and its schema registry. Raises ConfigError if the brokers'
    login needs a region and has none."""

    def __init__(self, source: Source, options: KafkaOptions) -> None:
        registry = None if source.avro_options is None else source.avro_options.registry
        self._brokers = Login(options)
        self._brokers.region()
        self._registry = UsedSecret(None if registry is None else registry.secret)
        self._isolation = options.isolation
        self._options = source.format_options

    def task_settings(self) -> TopicSettings:
        """Errors as of `Login.settings`."""
        login = self._registry.login()
        if login is None:
            return TopicSettings(self._brokers.settings(), self._isolation)
        registry = {**self._options["registry"], "username": login.username, "password": login.password}
        return TopicSettings(self._brokers.settings(), self._isolation, {"registry": registry})

    def are_changed(self) -> bool:
        """Asked after tasks were refused. Errors as of `UsedSecret`."""
        return self._brokers.is_changed() or self._registry.is_changed()


@dataclass(frozen=True, slots=True)
class TopicReader:
    """Implements `RangesReader`. `replacing`: the rows take the place of those that the table has of the partitions."""

    reader: BatchReader
    are_logins_changed: Callable[[], bool]
    """Asked after tasks were refused: whether the next batch has other ones, and is to be tried."""
    replacing: bool = False

    def read_ranges(self, ranges: Sequence[OffsetRange], *, sequence: int) -> BatchRows:
        action = f"reading messages of {len(ranges)} partitions"
        parts = partial(tasks_of, ranges)
        rows = self.reader.read_parts(parts, action, sequence=sequence, replacing=self.replacing)
        refusal = next((one.error for one in rows.outcomes if one.failure_kind not in _WITHOUT_REFUSAL), None)
        whole = False
        try:
            whole = refusal is None or not self.are_logins_changed()
        finally:
            if not whole:
                rows.discard()
                rows.release()
        if not whole:
            raise RetryableError(f"{refusal} {SECRET_CHANGED}")
        return rows


def topic_job(
    pipeline: Pipeline, source: Source, options: KafkaOptions, *, engine: Engine, s3: S3Settings, log: Log
) -> SourceJob:
    """`options`: those of the source. Nothing is opened or started yet. Raises PermanentError if Kafka's client is not
    installed, or no message could be read as the source says; ConfigError if the login needs a region and has none."""
    brokers = brokers_of(source, options)
    logins = TopicLogins(source, options)
    settings = read_settings(source)
    _check_messages(source, settings)
    parts = topic_parts(pipeline, source, engine=engine, s3=s3, log=log)
    table = topic_table(parts)
    reader = topic_reader(parts, table, settings, logins)
    ingest = topic_ingest(parts, topic_settings(source, options), brokers, table, reader)
    waits = pipeline.linger_secs, source.sweep.interval_secs, POLL_SECS
    return SourceJob(parts.identity, ingest, NothingToDiscover(), *waits, table.warm_up)


def brokers_of(source: Source, options: KafkaOptions) -> Brokers:
    """Raises PermanentError if Kafka's client is not installed."""
    try:
        from blizzard.kafka.client import KafkaBrokers
    except ImportError as error:
        raise PermanentError(missing_client(f"source {source.id} reads topics")) from error
    return KafkaBrokers(options)


def topic_table(parts: TableParts) -> DeltaSourceTable:
    return delta_table(parts, parts.source.record_ddl, has_file=lambda path, topic_id: False)


def topic_reader(
    parts: TableParts, table: DeltaSourceTable, settings: ReadSettings, logins: TopicLogins
) -> TopicReader:
    return TopicReader(batch_reader(parts, table, settings, logins.task_settings), logins.are_changed)


def _check_messages(source: Source, settings: ReadSettings) -> None:
    """Raises PermanentError."""
    try:
        options = settings.limits, settings.options, settings.rules
        open_message_format(settings.format, columns_of(source.record_ddl), *options)
    except PermanentError as error:
        raise PermanentError(f"{source.id}: {error}") from error


def topic_parts(pipeline: Pipeline, source: Source, *, engine: Engine, s3: S3Settings, log: Log) -> TableParts:
    s3 = replace(s3, max_attempts=source.retries.max_attempts, max_backoff_secs=source.retries.max_backoff_secs)
    return TableParts(
        pipeline=pipeline,
        source=source,
        identity=SourceIdentity(pipeline.name, source.name, source.state_prefix),
        state=open_store(pipeline.table_uri, s3, may_be_missing=True, log=log),
        engine=engine,
        s3=s3,
        watch=Stopwatch(time.monotonic),
        log=log,
    )


def topic_settings(source: Source, options: KafkaOptions) -> TopicLoopSettings:
    return TopicLoopSettings(
        options=options,
        limits=BatchLimits(source.checkpoint.interval_records, source.checkpoint.interval_bytes),
        interval_secs=source.checkpoint.interval_secs,
        max_attempts=source.retries.max_attempts,
        max_backoff_secs=source.retries.max_backoff_secs,
    )


def topic_ingest(
    parts: TableParts,
    settings: TopicLoopSettings,
    brokers: Brokers,
    table: DeltaSourceTable,
    reader: RangesReader[BatchRows],
    kind: type[TopicSource] = TopicSource,
) -> Ingest:
    source = kind(
        parts.identity,
        settings,
        brokers=brokers,
        table=table,
        reader=reader,
        state=parts.state,
        clock=time.time,
        watch=parts.watch,
        new_id=new_id,
        log=parts.log,
    )
    return Ingest(
        parts.identity,
        settings,
        source=source,
        table=table,
        clock=time.time,
        watch=parts.watch,
        new_id=new_id,
        sleep=time.sleep,
        log=parts.log,
    )
