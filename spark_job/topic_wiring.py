"""The composition of a source that reads topics."""

import time
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from blizzard.config.kafka_options import LATEST, KafkaOptions
from blizzard.config.model import Pipeline, Source
from blizzard.errors import PermanentError, RetryableError
from blizzard.kafka.batch_limits import BatchLimits
from blizzard.kafka.brokers import Brokers
from blizzard.kafka.login import SECRET_CHANGED, Login
from blizzard.kafka.missing_client import missing_client
from blizzard.kafka.secret import UsedSecret
from blizzard.log import Log
from blizzard.state.identity import SourceIdentity
from blizzard.state.schema_origin import First
from blizzard.storage.open import open_store
from blizzard.storage.s3_connection import S3Settings
from spark_job.formats.messages.message_columns import MessageColumns
from spark_job.formats.messages.registry import open_message_format
from spark_job.infer.first_records import Inferred
from spark_job.infer.late_schema import LateRangesReader, LateSchema, WarmTable
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
from spark_job.tasks.read_settings import ReadSettings
from spark_job.tasks.reader import BatchReader, BatchRows
from spark_job.wiring import (
    SourceJob,
    TableParts,
    batch_reader,
    delta_table,
    first_records,
    names_columns,
    new_id,
    read_settings,
    table_columns,
)

if TYPE_CHECKING:
    from spark_job.infer.message_sample import PayloadTypes

POLL_SECS = 0.25
"""How often an idle source asks the brokers: a few requests, which cost nothing but the connection."""
SAMPLE_AHEAD_BYTES = 8 << 20
"""Of the first messages, by which a schema is inferred."""
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
    access = TopicAccess(options, brokers_of(source, options), TopicLogins(source, options))
    settings = read_settings(source)
    _check_messages(source, settings, source.record_ddl)
    parts = topic_parts(pipeline, source, engine=engine, s3=s3, log=log)
    table, [reader] = topic_table_and_readers(parts, access, TopicReading(settings))
    ingest = topic_ingest(parts, topic_settings(pipeline, source, options), access.brokers, table, reader)
    waits = pipeline.linger_secs, source.sweep.interval_secs, POLL_SECS
    return SourceJob(parts.identity, ingest, NothingToDiscover(), *waits, table.warm_up)


def brokers_of(source: Source, options: KafkaOptions) -> Brokers:
    """Raises PermanentError if Kafka's client is not installed."""
    try:
        from blizzard.kafka.client import KafkaBrokers
    except ImportError as error:
        raise PermanentError(missing_client(f"source {source.id} reads topics")) from error
    return KafkaBrokers(options)


class TopicAccess(NamedTuple):
    """To the topics of one source."""

    options: KafkaOptions
    brokers: Brokers
    logins: TopicLogins


class TopicReading(NamedTuple):
    """One way to read messages. `replacing`: as `TopicReader` has it."""

    settings: ReadSettings
    replacing: bool = False


def topic_table_and_readers(
    parts: TableParts, access: TopicAccess, *readings: TopicReading
) -> tuple[WarmTable[BatchRows], list[RangesReader[BatchRows]]]:
    """A reader for each way to read messages."""
    if parts.source.infers_schema:
        return _late_schema(parts, access, readings)
    table = topic_table(parts)
    return table, [topic_reader(parts, table, each, access.logins) for each in readings]


def topic_table(
    parts: TableParts, schema: str | None = None, *, new: bool = False, first: First | None = None
) -> DeltaSourceTable:
    """`schema`: of a record, in DDL; None: what the source says. `new` and `first`: as `delta_table` has them."""
    ddl = parts.source.record_ddl if schema is None else schema
    return delta_table(parts, ddl, new=new, first=first, has_file=None)


def topic_reader(parts: TableParts, table: DeltaSourceTable, reading: TopicReading, logins: TopicLogins) -> TopicReader:
    reader = batch_reader(parts, table, reading.settings, logins.task_settings)
    return TopicReader(reader, logins.are_changed, reading.replacing)


def _late_schema(
    parts: TableParts, access: TopicAccess, readings: Sequence[TopicReading]
) -> tuple[WarmTable[BatchRows], list[RangesReader[BatchRows]]]:
    from spark_job.infer.first_messages import FirstMessages  # imports the packages of all formats
    from spark_job.infer.message_sample import payload_types

    settings = read_settings(parts.source)
    payload_types(settings.format, settings.limits, settings.options)  # raises what is wrong with a given schema

    def types() -> "PayloadTypes":
        options = {**settings.options, **access.logins.task_settings().options}
        return payload_types(settings.format, settings.limits, options)

    first = FirstMessages(first_records(parts), settings.format, partial(_first_messages, access), types)
    late: LateSchema[BatchRows] = LateSchema(
        partial(topic_table, parts),
        partial(_known_columns, parts, access.options, settings),
        needs_columns=parts.source.begins_with_rows or names_columns(parts.pipeline, parts.source),
    )
    readers = [partial(topic_reader, parts, reading=each, logins=access.logins) for each in readings]
    return late, [LateRangesReader(late, partial(_inferred, access.logins, first.schema), make) for make in readers]


def _inferred(
    logins: TopicLogins, infer: Callable[[Sequence[OffsetRange]], Inferred | None], ranges: Sequence[OffsetRange]
) -> Inferred | None:
    """As tasks that are refused, with another login if there is one by now."""
    try:
        return infer(ranges)
    except PermanentError as error:
        if logins.are_changed():
            raise RetryableError(f"{error} {SECRET_CHANGED}") from error
        raise


def _first_messages(
    access: TopicAccess, ranges: Sequence[OffsetRange]
) -> Generator[tuple[OffsetRange, MessageColumns]]:
    """Of each partition from the beginning of its range to its end of now. Errors as of `Brokers`, and as of
    `RangeConsumer.messages`."""
    from spark_job.tasks.topics.consume import messages_of  # librdkafka, which few jobs need

    ends = access.brokers.end_offsets([(one.topic, one.partition) for one in ranges])
    whole = [replace(one, end=max(one.end, ends[one.topic, one.partition])) for one in ranges]
    yield from messages_of(whole, access.logins.task_settings(), SAMPLE_AHEAD_BYTES)


def _known_columns(parts: TableParts, options: KafkaOptions, settings: ReadSettings) -> str | None:
    """As `table_columns`. Raises PermanentError as well if no message can be read into them, or for a source whose
    beginning needs a table that cannot be made yet."""
    found = table_columns(parts)
    if found:
        _check_messages(parts.source, settings, found)
    if found is None and options.start == LATEST and names_columns(parts.pipeline, parts.source):
        raise PermanentError(
            f"source {parts.source.id} has `schema: infer` and `start: latest`, and table {parts.pipeline.table_uri} "
            "does not exist. Where the source begins is committed before any message comes, and `partition_by`, "
            "`cluster_by` or `constraints` name columns that only messages show. Nothing was committed. Write the "
            "`schema`, let `start` be earliest or a time, or make the table first."
        )
    return found


def _check_messages(source: Source, settings: ReadSettings, schema: str) -> None:
    """`schema`: of a record, in DDL; empty: not known yet. Raises PermanentError."""
    if not schema:
        return
    try:
        options = settings.limits, settings.options, settings.rules
        open_message_format(settings.format, columns_of(schema), *options)
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


def topic_settings(pipeline: Pipeline, source: Source, options: KafkaOptions) -> TopicLoopSettings:
    return TopicLoopSettings(
        options=options,
        configured=pipeline.source_ids,
        limits=BatchLimits(source.checkpoint.interval_records, source.checkpoint.interval_bytes),
        interval_secs=source.checkpoint.interval_secs,
        max_attempts=source.retries.max_attempts,
        max_backoff_secs=source.retries.max_backoff_secs,
        begins_with_rows=source.begins_with_rows,
    )


def topic_ingest(
    parts: TableParts,
    settings: TopicLoopSettings,
    brokers: Brokers,
    table: WarmTable[BatchRows],
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
