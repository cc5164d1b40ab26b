"""The composition root of the ingest job: from a configuration to sources that can run."""

import secrets
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from pyspark.sql.types import StringType, StructField, StructType

from blizzard.config.late_checks import check_late_schema
from blizzard.config.model import Pipeline, Source
from blizzard.errors import PermanentError
from blizzard.log import Log
from blizzard.state.dead_letters import DeadLetters
from blizzard.state.identity import SourceIdentity
from blizzard.state.schema_origin import First
from blizzard.storage.base import ObjectStore
from blizzard.storage.local import LocalStore
from blizzard.storage.open import open_store
from blizzard.storage.s3_connection import S3Settings
from blizzard.sweep.report import SweepReport
from blizzard.sweep.source_sweep import SourceSweep
from spark_job.formats.protocol import Limits
from spark_job.infer.first_records import FirstRecords
from spark_job.infer.late_schema import LateReader, LateSchema, WarmTable
from spark_job.loop.drain import POLL_SECS
from spark_job.loop.files.ingest_files import ingest_files
from spark_job.loop.files.settings import FileSettings
from spark_job.loop.files.sweeps import Sweeps
from spark_job.loop.ingest import Ingest
from spark_job.ports.offset_range import TopicSettings
from spark_job.ports.reader import Reader
from spark_job.ports.source import InputDiscovery
from spark_job.ports.stopwatch import Stopwatch
from spark_job.source_settings import file_settings
from spark_job.table.delta_table import DeltaSourceTable
from spark_job.table.effective_schema import FIXED, EvolutionRules, field_paths
from spark_job.table.safety_checks import HasFile
from spark_job.table.schema import columns_of
from spark_job.table.schema_ddl import schema_of, schema_problems
from spark_job.table.table_source import TableSource
from spark_job.tasks.deferred_reader import DeferredReader
from spark_job.tasks.engine import Engine
from spark_job.tasks.read_settings import ReadSettings

if TYPE_CHECKING:
    from spark_job.tasks.reader import BatchReader, BatchRows

LOCAL_POLL_SECS = 0.1
"""Listing a local folder costs next to nothing, a LIST of S3 money."""
PARALLEL_DEAD_LETTERS = 4
"""Dead-letter objects that are written in parallel: one for each file with refused records, each a request to S3."""


@dataclass(frozen=True, slots=True)
class SourceJob:
    """One source, ready to be ingested."""

    identity: SourceIdentity
    ingest: Ingest
    discovery: InputDiscovery
    linger_secs: float
    failed_pause_secs: float
    poll_secs: float
    warm_up: Callable[[], bool]
    """Runs the first part of Delta's checkpoint in advance. False: it skipped the table."""

    @property
    def source_id(self) -> str:
        return self.identity.source_id

    @property
    def pipeline(self) -> str:
        return self.identity.pipeline


@dataclass(frozen=True, slots=True)
class FileJob(SourceJob):
    """One source of files."""

    discovery: Sweeps

    def sweep(self, *, late: bool, record_if_empty: bool) -> SweepReport:
        return self.discovery.sweep(late=late, record_if_empty=record_if_empty)


@dataclass(frozen=True, slots=True, kw_only=True)
class TableParts:
    """What the table and the reader of one source share, of whatever kind it is."""

    pipeline: Pipeline
    source: Source
    identity: SourceIdentity
    state: ObjectStore
    engine: Engine
    s3: S3Settings
    watch: Stopwatch
    log: Log
    only_states: bool = False
    """Whether nothing but checkpoints is committed: the table's columns need not be those of the configuration then."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceParts(TableParts):
    """What the table, the reader and the loop of one source of files share."""

    settings: FileSettings
    files: ObjectStore


@dataclass(frozen=True, slots=True)
class OpenedSource:
    """The table of one source, and the loop over both."""

    table: "WarmTable[BatchRows]"
    ingest: Ingest


def new_id() -> str:
    return secrets.token_hex(8)


def source_job(
    pipeline: Pipeline,
    source: Source,
    *,
    engine: Engine,
    s3: S3Settings,
    log: Log,
) -> FileJob:
    """Nothing is opened or started yet."""
    parts = source_parts(pipeline, source, engine=engine, s3=s3, log=log)
    opened = opened_source(parts)
    identity, state = parts.identity, parts.state
    inventory = None if source.inventory is None else open_store(source.inventory, parts.s3, log=log)
    rules = parts.settings.sweep_rules
    source_sweep = SourceSweep(identity, parts.files, state, rules, time.time, new_id, log, inventory)
    sweeps = Sweeps(
        source_sweep,
        interval_secs=source.sweep.interval_secs,
        late_interval_secs=source.sweep.late_interval_secs,
        clock=time.time,
    )
    waits = pipeline.linger_secs, source.sweep.interval_secs, _poll_secs(state)
    return FileJob(identity, opened.ingest, sweeps, *waits, opened.table.warm_up)


def opened_source(parts: SourceParts) -> OpenedSource:
    table, [reader] = table_and_readers(parts, read_settings(parts.source))
    ingest = ingest_files(
        parts.identity,
        parts.settings,
        table=table,
        reader=reader,
        state=parts.state,
        files=parts.files,
        clock=time.time,
        watch=parts.watch,
        new_id=new_id,
        sleep=time.sleep,
        log=parts.log,
    )
    return OpenedSource(table, ingest)


def source_parts(pipeline: Pipeline, source: Source, *, engine: Engine, s3: S3Settings, log: Log) -> SourceParts:
    """Nothing is opened or started yet."""
    identity = SourceIdentity(pipeline.name, source.name, source.state_prefix)
    s3 = replace(s3, max_attempts=source.retries.max_attempts, max_backoff_secs=source.retries.max_backoff_secs)
    state = open_store(pipeline.table_uri, s3, may_be_missing=True, log=log)
    files = open_store(source.uri, s3, log=log)
    settings = file_settings(source, files, state)
    return SourceParts(
        pipeline=pipeline,
        source=source,
        identity=identity,
        state=state,
        engine=engine,
        s3=s3,
        watch=Stopwatch(time.monotonic),
        log=log,
        settings=settings,
        files=files,
    )


def _poll_secs(state: ObjectStore) -> float:
    return LOCAL_POLL_SECS if isinstance(state, LocalStore) else POLL_SECS


def table_and_readers(
    parts: SourceParts, *settings: ReadSettings
) -> "tuple[WarmTable[BatchRows], list[Reader[BatchRows]]]":
    """A reader for each way to read files."""
    if parts.source.infers_schema:
        return _late_schema(parts, settings)
    table = file_table(parts, parts.source.record_ddl)
    return table, [DeferredReader(partial(batch_reader, parts, table, each)) for each in settings]


def _late_schema(
    parts: SourceParts, settings: Sequence[ReadSettings]
) -> "tuple[WarmTable[BatchRows], list[Reader[BatchRows]]]":
    from spark_job.infer.first_batch import FirstBatch  # imports the packages of all formats
    from spark_job.infer.observe import Reading

    source = parts.source
    reading = Reading(source.format, source.format_options, source.file_compression)
    first_batch = FirstBatch(first_records(parts), parts.files, reading)
    make, columns = partial(file_table, parts), partial(table_columns, parts)
    late: LateSchema[BatchRows] = LateSchema(make, columns, needs_columns=names_columns(parts.pipeline, source))
    readers = [partial(batch_reader, parts, settings=each) for each in settings]
    return late, [LateReader(late, first_batch.schema, reader) for reader in readers]


def first_records(parts: TableParts) -> FirstRecords:
    return FirstRecords(
        parts.identity.source_id,
        parts.source.partition_columns,
        parts.source.schema_rules,
        lambda schema: check_late_schema(parts.pipeline, parts.source, schema, new=True),
        parts.log,
    )


def table_columns(parts: TableParts) -> str | None:
    """The schema of the source's table, as its records can have it. Raises PermanentError if they cannot."""
    table = parts.engine.table(table_source(parts.pipeline, parts.source, parts.identity, ""))
    with table.translating(f"reading the columns of table {parts.pipeline.table_uri}"):
        transaction = table.start()
        if transaction.version < 0:
            return None
        found = late_schema_of(parts.source, transaction.description().schema)
    if found and (problems := schema_problems(found, parts.source.formats)):
        raise PermanentError(
            f"source {parts.identity.source_id} has `schema: infer`, and cannot read all columns of table "
            f"{parts.pipeline.table_uri}: {'; '.join(problems)}. Write a `schema` without them."
        )
    if found:
        check_late_schema(parts.pipeline, parts.source, found, new=False)
    return found


def late_schema_of(source: Source, table: StructType) -> str:
    """The schema of records for a table with these columns, in DDL; empty if none of them comes from records."""
    return schema_of(table, without=(*source.partition_columns, *source.derive))


def names_columns(pipeline: Pipeline, source: Source) -> bool:
    """Whether a table cannot be made before its columns are known."""
    named = {*pipeline.partition_by, *pipeline.cluster_by} - {*source.partition_columns}
    return bool(named or pipeline.constraints)


def table_source(
    pipeline: Pipeline,
    source: Source,
    identity: SourceIdentity,
    schema: str,
    *,
    new: bool = False,
    only_states: bool = False,
    first: First | None = None,
) -> TableSource:
    """`schema`: of a record; empty if it is not known yet, and neither is what depends on it. `new`: that the next
    commit has to create the table. `only_states` and `first`: as there."""
    return TableSource(
        pipeline.table_uri,
        identity.source_id,
        identity.app_id,
        source.with_rescued(schema),
        source.partition_columns,
        tuple(pipeline.partition_by),
        source.derive if schema else {},
        pipeline.constraints if schema else {},
        tuple(pipeline.cluster_by),
        pipeline.table_properties,
        _other_columns(pipeline, source),
        pipeline.target_file_bytes,
        _evolution(pipeline, source),
        creates_table=new,
        only_states=only_states,
        first=first,
    )


def file_table(parts: SourceParts, schema: str, *, new: bool = False, first: First | None = None) -> DeltaSourceTable:
    return delta_table(parts, schema, new=new, first=first, has_file=_has_file(parts.files, parts.settings))


def delta_table(
    parts: TableParts, schema: str, *, has_file: HasFile | None, new: bool = False, first: First | None = None
) -> DeltaSourceTable:
    """`new`: that its next commit has to create it. `first`: of an inferred schema. `has_file`: as of
    `SourceRows`."""
    pipeline, identity = parts.pipeline, parts.identity
    how: dict[str, Any] = {"new": new, "only_states": parts.only_states, "first": first}
    writes_to = table_source(pipeline, parts.source, identity, schema, **how)
    return DeltaSourceTable(
        parts.engine.table(writes_to),
        writes_to,
        store=parts.state,
        state_prefix=identity.state_prefix,
        watch=parts.watch,
        siblings=pipeline.source_ids - {identity.source_id},
        has_file=has_file,
        log=parts.log,
    )


def _evolution(pipeline: Pipeline, source: Source) -> EvolutionRules:
    sources, rules = pipeline.sources.values(), source.schema_rules
    others_add = any(one.schema_rules.tells_field_kinds for one in sources)
    others_widen = any(one.schema_rules.tells_misfit_kinds for one in sources)
    if not (others_add or others_widen):
        return FIXED
    columns = [columns_of(one.row_ddl) for one in sources if one.row_ddl]
    columns += [
        StructType([StructField(name, StringType()) for name in (*one.partition_columns, *one.derive)])
        for one in sources
    ]
    configured = frozenset(path for one in columns for path in field_paths(one))
    return EvolutionRules(
        add=rules.tells_field_kinds,
        widen=rules.tells_misfit_kinds,
        others_add=others_add,
        others_widen=others_widen,
        max_new_columns=source.max_new_columns,
        configured=configured,
        ignore_case=rules.ignores_case,
        derive=tuple(dict.fromkeys(pair for one in sources for pair in one.derive.items())),
        formats=source.formats,
    )


def _other_columns(pipeline: Pipeline, source: Source) -> frozenset[str]:
    """Of the pipeline's other sources, in lower case."""
    others = [other for other in pipeline.sources.values() if other.name != source.name]
    names = [name for other in others if other.row_ddl for name in columns_of(other.row_ddl).names]
    names += [name for other in others for name in (*other.partition_columns, *other.derive)]
    return frozenset(name.lower() for name in names)


def read_settings(source: Source) -> ReadSettings:
    return ReadSettings(
        source.format,
        source.file_compression,
        Limits(source.limits.max_record_bytes, source.limits.max_file_bytes),
        source.limits.task_memory_bytes,
        source.format_options,
        source.schema_rules,
    )


def batch_reader(
    parts: TableParts,
    table: DeltaSourceTable,
    settings: ReadSettings,
    topics: Callable[[], TopicSettings] | None = None,
) -> "BatchReader":
    from spark_job.tasks.reader import BatchReader

    source, identity = parts.source, parts.identity
    dead_letters = DeadLetters(
        parts.state, identity.state_prefix, identity.source_id, max_concurrency=PARALLEL_DEAD_LETTERS
    )
    return BatchReader(
        parts.engine,
        uri=source.uri,
        s3=parts.s3,
        table_uri=parts.pipeline.table_uri,
        settings=settings,
        record_type=lambda: table.record_type,
        partition_columns=source.partition_columns,
        source_id=identity.source_id,
        layout=table.layout,
        layout_reason=lambda: table.layout_reason,
        staging=table.staging,
        dead_letters=dead_letters,
        clock=time.time,
        log=parts.log,
        topics=topics,
    )


def _has_file(files: ObjectStore, settings: FileSettings) -> HasFile:
    """Whether the source has this path with this etag."""

    def found(path: str, etag: str) -> bool:
        info = files.head(path) if settings.sweep_rules.matches(path) else None
        return info is not None and info.etag == etag

    return found
