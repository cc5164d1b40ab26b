"""What the next run would change in the table of one source, by the checks that the run itself makes."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial

from deltalake import DeltaTable
from deltalake.exceptions import TableNotFoundError
from pyspark.sql.types import NullType, StructField, StructType

from blizzard.config.engine_name import EngineName
from blizzard.config.model import Pipeline, Source
from blizzard.errors import PermanentError
from blizzard.kafka.brokers import Cluster
from blizzard.log import silent
from blizzard.state.identity import APP_ID_PREFIX, SourceIdentity
from blizzard.state.txns import txns_of
from blizzard.storage.base import ObjectStore
from blizzard.storage.open import open_store
from blizzard.storage.s3_connection import S3Settings
from spark_job.against_table.comparison import Comparison
from spark_job.against_table.derived import other_values
from spark_job.against_table.files import begin, compare_files, former_sources
from spark_job.against_table.left_out import checks_of_left_out
from spark_job.against_table.stays import stays
from spark_job.against_table.topics import begin_topics
from spark_job.engines.local.engine import LocalEngine
from spark_job.engines.local.open_table import OpenTables
from spark_job.engines.local.table_options import table_options
from spark_job.engines.needs_spark import NeedsSpark, writing_twice
from spark_job.expressions.rules import RowRules
from spark_job.table.columns import (
    MAPPING_PROPERTY,
    SOURCE_COLUMN,
    added_fields,
    gets_mapping,
    names_members,
    source_column,
)
from spark_job.table.configured_changes import ConfiguredChanges, configured_changes
from spark_job.table.delta_description import describe
from spark_job.table.derived_columns import known_columns
from spark_job.table.evolution import RESERVED
from spark_job.table.file_layout import NO_TABLE, TableDescription, why_spark_must_write
from spark_job.table.preparation import WAYS_OUT, TablePreparation, path_columns, record_columns
from spark_job.table.row_rules import row_rules
from spark_job.table.safety_checks import check_txns_are_kept, why_no_replacing
from spark_job.table.schema import NTZ, columns_of, gets_ntz
from spark_job.table.table_source import TableSource
from spark_job.topic_wiring import topic_parts, topic_table
from spark_job.wiring import late_schema_of, source_parts, table_source

READERS = "programs that read it have to know that"
FIRST_BATCH = "its columns are those that the first batch shows, and `derive` and `constraints` are checked then"


def compared(
    pipeline: Pipeline,
    source: Source,
    s3: S3Settings,
    cluster: Cluster | None = None,
    *,
    derived: Sequence[StructField] = (),
) -> Comparison:
    """`cluster`: of a source of topics, with its topics; None: the brokers do not answer. `derived`: columns that
    only Spark derives, as it says, if it was asked."""
    engine = LocalEngine(s3, partial(table_options, [pipeline.table_uri], s3), silent, cores=1)
    try:
        return _compared(pipeline, source, s3, engine, cluster, derived)
    finally:
        engine.close()


def _compared(
    pipeline: Pipeline,
    source: Source,
    s3: S3Settings,
    engine: LocalEngine,
    cluster: Cluster | None,
    derived: Sequence[StructField],
) -> Comparison:
    identity = SourceIdentity(pipeline.name, source.name, source.state_prefix)
    table = _opened(pipeline.table_uri, s3)
    if table is None:
        return _made(pipeline, source, table_source(pipeline, source, identity, source.record_ddl), engine)
    description, store = describe(table), open_store(pipeline.table_uri, s3, may_be_missing=True)
    schema = late_schema_of(source, description.schema) if source.infers_schema else source.record_ddl
    wanted = table_source(pipeline, source, identity, schema)
    found = Comparison(identity.source_id, pipeline.table_uri, table.version())
    columns = _columns(wanted, description, derived)
    changes = configured_changes(
        description,
        columns,
        partition_by=wanted.partition_by,
        constraints=wanted.constraints,
        others=wanted.other_columns | RESERVED,
    )
    unknown = _of_unknown_type(wanted, description, derived)
    found.changes += _changes(description, changes, unknown)
    _add_refusals(found, description, changes)
    _ask_local_engine(found, pipeline, wanted, changes, engine)
    evolution = wanted.evolution
    if not (evolution.add or evolution.others_add):  # else files have brought columns
        found.notes += _left_out(changes)
    found.notes += checks_of_left_out(description, columns)
    rules = _add_rules(found, pipeline, _after(description, [*changes.added, *unknown]), columns, wanted)
    found.notes += stays(store, description, columns, wanted)
    found.notes += [] if changes.refused else _changed_expressions(wanted, rules, store, s3)
    refusal = why_no_replacing(description.properties, found.table_uri)
    _add_rows_of_before(
        found, pipeline, source, schema, engine=engine, s3=s3, cluster=cluster, store=store, refusal=refusal
    )
    return found


def _changed_expressions(wanted: TableSource, rules: RowRules, store: ObjectStore, s3: S3Settings) -> Iterator[str]:
    opened = OpenTables(partial(table_options, [wanted.table_uri], s3)).at(wanted.table_uri, store)
    return other_values(opened, wanted.source_id, rules, wanted.derive)


def _add_rows_of_before(
    found: Comparison,
    pipeline: Pipeline,
    source: Source,
    schema: str,
    *,
    engine: LocalEngine,
    s3: S3Settings,
    cluster: Cluster | None,
    store: ObjectStore,
    refusal: str | None,
) -> None:
    """What the run makes of what the table has of the same files or topics. `store`: of the table; `refusal`: why it
    lets no rows be replaced."""
    txns = {txn.app_id for txn in txns_of(store)}
    is_new = f"{APP_ID_PREFIX}{source.id}" not in txns
    if source.kafka is not None:
        if is_new:
            parts = topic_parts(pipeline, source, engine=engine, s3=s3, log=silent)
            begin_topics(found, parts, source.kafka, topic_table(parts, schema), cluster)
    elif is_new:
        begin(found, source_parts(pipeline, source, engine=engine, s3=s3, log=silent), schema)
    else:
        compare_files(found, source_parts(pipeline, source, engine=engine, s3=s3, log=silent), schema, refusal)
    found.notes += former_sources(pipeline, txns) if is_new else ()


def _add_refusals(found: Comparison, table: TableDescription, changes: ConfiguredChanges) -> None:
    found.refused += changes.refused
    found.notes += [WAYS_OUT] if changes.refused else []
    try:
        check_txns_are_kept(table.properties, found.table_uri)
    except PermanentError as error:
        found.refused.append(str(error))


def _made(pipeline: Pipeline, source: Source, wanted: TableSource, engine: LocalEngine) -> Comparison:
    """Of a table that does not exist yet."""
    found = Comparison(wanted.source_id, pipeline.table_uri, None, changes=["makes the table"])
    columns = _columns(wanted, NO_TABLE, ())
    found.changes += _features(NO_TABLE, columns)
    try:
        TablePreparation(engine.table(wanted), wanted).start_transaction()
    except NeedsSpark as error:
        found.leaves_to_spark(error, pipeline.engine)
    except PermanentError as error:
        found.refused.append(str(error))
    found.notes += [FIRST_BATCH] if source.infers_schema else _engine_notes(wanted)
    return found


def _ask_local_engine(
    found: Comparison, pipeline: Pipeline, wanted: TableSource, changes: ConfiguredChanges, engine: LocalEngine
) -> None:
    """Whether it can make the changes, or needs Spark, or there is nothing to ask, since they are refused."""
    if changes.refused:
        return
    table = engine.table(wanted)
    try:
        table.why_no_transactions()
        table.check_changes(changes.added, changes.widened, changes.constraints)
        others = {name: sql for name, sql in wanted.derive.items() if name not in _known_columns(wanted)}
        if others:
            table.types_of(others, StructType())
    except NeedsSpark as error:
        found.leaves_to_spark(error, pipeline.engine)


def _opened(uri: str, s3: S3Settings) -> DeltaTable | None:
    try:
        return DeltaTable(uri, storage_options=dict(table_options([uri], s3)), without_files=True)
    except TableNotFoundError:
        return None


def _columns(wanted: TableSource, table: TableDescription, asked: Sequence[StructField]) -> list[StructField]:
    """Of a column that only Spark derives, and that it was not `asked` for, the type is taken for that of the table;
    without one it is left out."""
    known = {field.name: field for field in asked} | _known_columns(wanted)
    configured = columns_of(wanted.schema).fields
    record = record_columns(wanted, configured, table.schema)
    in_table = {one.name: one for one in table.schema}
    derived = [known.get(name) or in_table.get(name) for name in wanted.derive]
    return [
        *record,
        *path_columns(wanted),
        *(one for one in derived if one is not None),
        source_column(members=names_members(table)),
    ]


def _known_columns(wanted: TableSource) -> dict[str, StructField]:
    """Those that the fast reader derives, by name."""
    return known_columns(wanted.derive, [*columns_of(wanted.schema), *path_columns(wanted), SOURCE_COLUMN])


def _of_unknown_type(wanted: TableSource, table: TableDescription, asked: Sequence[StructField]) -> list[StructField]:
    """Columns that the table lacks, and that only Spark derives, if it was not `asked`: they have no type here."""
    names = {*_known_columns(wanted), *table.schema.names, *(field.name for field in asked)}
    return [StructField(name, NullType()) for name in wanted.derive if name not in names]


def _changes(table: TableDescription, changes: ConfiguredChanges, unknown: Sequence[StructField]) -> Iterator[str]:
    for path, added in added_fields(table.schema, changes.added):
        what = "column" if len(path) == 1 else "field"
        yield f"adds {what} {'.'.join(path)} {added.dataType.simpleString()}; rows that are there have null"
    for column in unknown:
        yield f"adds column {column.name}, of the type that Spark finds; rows that are there have null"
    for one in changes.widened:
        yield f"widens column {one.text}, by Spark; the table then needs Spark for every commit"
    for name, sql in changes.constraints.items():
        yield f"adds constraint {name} ({sql}), by Spark, if every row of the table satisfies it"
    kinds = [StructField(one.path[0], one.after) for one in changes.widened]
    yield from _features(table, [*changes.added, *unknown, *kinds])


def _features(table: TableDescription, columns: Sequence[StructField]) -> Iterator[str]:
    """What a table gets with these columns that its readers have to know."""
    if (mapped := gets_mapping(table.properties, columns)) is not None:
        yield f"the table gets column mapping ({MAPPING_PROPERTY} = name), for column {mapped}; {READERS}"
    if (timed := gets_ntz(table.writer_features, columns)) is not None:
        yield f"the table gets the table feature {NTZ}, for column {timed}; {READERS}"


def _left_out(changes: ConfiguredChanges) -> Iterator[str]:
    for name in changes.left_out:
        yield f"column {name} stays, with null in new rows: no source of the pipeline has it"


def _after(table: TableDescription, added: Sequence[StructField]) -> TableDescription:
    if gets_mapping(table.properties, added) is None:
        return table
    return replace(table, properties={**table.properties, MAPPING_PROPERTY: "name"})


def _add_rules(
    found: Comparison, pipeline: Pipeline, table: TableDescription, columns: Sequence[StructField], wanted: TableSource
) -> RowRules:
    present = {name: sql for name, sql in wanted.derive.items() if name in {column.name for column in columns}}
    rules = row_rules(table, columns, present)
    for check in rules.checks:
        found.notes.append(f"checks {check.label}: by {'Spark' if check.by_spark else 'the fast reader'}")
    reason = why_spark_must_write(table, columns)
    if reason is not None:
        found.notes.append(f"rows are written twice, the second time by Spark: {reason}")
    found.notes += _engine_notes(wanted)
    has_spark = EngineName(pipeline.engine).has_spark
    if not has_spark and reason is not None:
        found.refused.append(str(writing_twice(wanted.table_uri, reason)))
    if not has_spark and rules.need_spark:
        found.refused.append(str(NeedsSpark(f"evaluating {rules.first_for_spark}")))
    return rules


def _engine_notes(wanted: TableSource) -> Iterator[str]:
    known = _known_columns(wanted)
    for name, sql in wanted.derive.items():
        if name not in known:
            yield f"Spark evaluates column {name}: {sql}"
