"""What the next run would change in the tables of a configuration, found without Java: `blizzard validate
--against-table` starts this and reads its JSON."""

import argparse
import json
import sys
from collections.abc import Collection, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial

from deltalake import DeltaTable
from deltalake.exceptions import TableNotFoundError
from pyspark.sql.types import StructField

from blizzard.config.load import load_config
from blizzard.config.model import Pipeline, Source
from blizzard.environment import variables
from blizzard.errors import BlizzardError, ConfigError, PermanentError, RecoveryError, RetryableError
from blizzard.kafka.positions import about_missing, topics_missing
from blizzard.log import silent
from blizzard.state.identity import SourceIdentity
from blizzard.state.txns import txns_of
from blizzard.storage.open import open_store
from blizzard.storage.s3_connection import S3Settings
from spark_job.engines.local.engine import LocalEngine
from spark_job.engines.local.table_options import table_options
from spark_job.table.columns import SOURCE_COLUMN, added_fields, names_members, source_column
from spark_job.table.configured_changes import ConfiguredChanges, configured_changes
from spark_job.table.delta_description import describe
from spark_job.table.derived_columns import known_columns
from spark_job.table.evolution import RESERVED
from spark_job.table.file_layout import TableDescription, why_spark_must_write
from spark_job.table.preparation import path_columns, record_columns
from spark_job.table.row_rules import row_rules
from spark_job.table.safety_checks import check_txns_are_kept
from spark_job.table.schema import columns_of
from spark_job.table.table_source import TableSource
from spark_job.topic_wiring import brokers_of
from spark_job.wiring import file_table, late_schema_of, source_parts, table_source

EXIT_FITS, EXIT_REFUSED, EXIT_CONFIG = 0, 1, 2
FIRST_BATCH = "its columns are those that the first batch shows, and `derive` and `constraints` are checked then"
_APP_PREFIX = "blizzard:"


@dataclass(slots=True)
class Comparison:
    """Of one source with its table. `version`: of the table; None: there is none yet. `refused`: why the run would end
    before it reads anything."""

    source: str
    table_uri: str
    version: int | None
    changes: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="blizzard-against-table", description="Compare a configuration and tables.")
    parser.add_argument("--config", required=True, help="path of the configuration")
    options = parser.parse_args(arguments)
    environ = variables()
    try:
        config, s3 = load_config(options.config, environ), S3Settings.from_environment(environ)
        found = [_of_source(pipeline, source, s3) for pipeline, source in config.sources()]
    except ConfigError as error:
        print("\n".join(error.problems), file=sys.stderr)
        return EXIT_CONFIG
    except BlizzardError as error:
        print(error, file=sys.stderr)
        return EXIT_REFUSED
    print(json.dumps([asdict(one) for one in found]))
    return EXIT_REFUSED if any(one.refused for one in found) else EXIT_FITS


def _of_source(pipeline: Pipeline, source: Source, s3: S3Settings) -> Comparison:
    found = compared(pipeline, source, s3)
    if source.kafka is not None:
        try:
            missing = topics_missing(source.kafka, brokers_of(source, source.kafka).cluster().topics.keys())
        except (PermanentError, RetryableError) as error:
            found.refused.append(str(error))
        else:
            found.notes += [about_missing(source.kafka, missing)] if missing else []
    return found


def compared(pipeline: Pipeline, source: Source, s3: S3Settings) -> Comparison:
    """Without the brokers of topics."""
    identity = SourceIdentity(pipeline.name, source.name, source.state_prefix)
    table = _opened(pipeline.table_uri, s3)
    description = None if table is None else describe(table)
    schema = source.record_ddl
    if source.infers_schema and description is not None:
        schema = late_schema_of(source, description.schema)
    wanted = table_source(pipeline, source, identity, schema)
    if table is None or description is None:
        found = Comparison(identity.source_id, pipeline.table_uri, None, changes=["makes the table"])
        found.notes += [FIRST_BATCH] if source.infers_schema else _engine_notes(wanted)
        return found
    found = Comparison(identity.source_id, pipeline.table_uri, table.version())
    columns = _columns(wanted, description)
    changes = configured_changes(
        description,
        columns,
        partition_by=wanted.partition_by,
        constraints=wanted.constraints,
        others=wanted.other_columns | RESERVED,
    )
    found.changes += _changes(description, changes)
    found.refused += changes.refused
    try:
        check_txns_are_kept(description.properties, pipeline.table_uri)
    except PermanentError as error:
        found.refused.append(str(error))
    evolution = wanted.evolution
    if not (evolution.add or evolution.others_add):  # else files have brought columns
        found.notes += _left_out(changes)
    found.notes += [*_rules(description, columns, wanted), *_only_when_made(description, wanted)]
    txns = {txn.app_id for txn in txns_of(open_store(pipeline.table_uri, s3, may_be_missing=True))}
    if identity.app_id not in txns:
        _begin(found, pipeline, source, s3, schema)
        found.notes += _former_sources(pipeline, txns)
    return found


def _opened(uri: str, s3: S3Settings) -> DeltaTable | None:
    try:
        return DeltaTable(uri, storage_options=dict(table_options([uri], s3)), without_files=True)
    except TableNotFoundError:
        return None


def _columns(wanted: TableSource, table: TableDescription) -> list[StructField]:
    """Of a column that only Spark derives, the type is taken for that of the table."""
    known = _known_columns(wanted)
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


def _changes(table: TableDescription, changes: ConfiguredChanges) -> Iterator[str]:
    for path, added in added_fields(table.schema, changes.added):
        what = "column" if len(path) == 1 else "field"
        yield f"adds {what} {'.'.join(path)} {added.dataType.simpleString()}; rows that are there have null"
    for one in changes.widened:
        yield f"widens column {one.text}, by Spark; the table then needs Spark for every commit"
    for name, sql in changes.constraints.items():
        yield f"adds constraint {name} ({sql}), by Spark, if every row of the table satisfies it"


def _left_out(changes: ConfiguredChanges) -> Iterator[str]:
    for name in changes.left_out:
        yield f"column {name} stays, with null in new rows: no source of the pipeline has it"


def _rules(table: TableDescription, columns: Sequence[StructField], wanted: TableSource) -> Iterator[str]:
    present = {name: sql for name, sql in wanted.derive.items() if name in {column.name for column in columns}}
    rules = row_rules(table, columns, present)
    for check in rules.checks:
        yield f"checks {check.label}: by {'Spark' if check.by_spark else 'the fast reader'}"
    reason = why_spark_must_write(table, columns)
    if reason is not None:
        yield f"rows are written twice, the second time by Spark: {reason}"
    yield from _engine_notes(wanted)


def _engine_notes(wanted: TableSource) -> Iterator[str]:
    known = _known_columns(wanted)
    for name, sql in wanted.derive.items():
        if name not in known:
            yield f"Spark evaluates column {name}: {sql}"


def _only_when_made(table: TableDescription, wanted: TableSource) -> Iterator[str]:
    for name, value in wanted.table_properties.items():
        found = table.properties.get(name)
        if found != value:
            yield f"table_properties: the table has {name} = {found}, not {value}: it is set only when a table is made"
    if wanted.cluster_by and "clustering" not in table.writer_features:
        yield "cluster_by: the table is not clustered: that happens only when a table is made"


def _begin(found: Comparison, pipeline: Pipeline, source: Source, s3: S3Settings, schema: str) -> None:
    """Of a source of which the table has no Txn: what its first run would ask. Messages tell no former name."""
    if source.kafka is None:
        engine = LocalEngine(s3, partial(table_options, [pipeline.table_uri], s3), silent, cores=1)
        try:
            has_rows = file_table(source_parts(pipeline, source, engine=engine, s3=s3, log=silent), schema).holds_rows()
        except RecoveryError as error:
            found.refused.append(str(error))
            return
        except BlizzardError as error:
            found.notes.append(f"whether the source was renamed, so that the run is refused, cannot be told: {error}")
            return
        finally:
            engine.close()
        if has_rows:
            found.notes.append("the table has rows of this source, but no Txn that tells which files they are from")
            return
    found.notes.append("the table has no rows of this source yet: it begins with all that it has")


def _former_sources(pipeline: Pipeline, txns: Collection[str]) -> Iterator[str]:
    known = {f"{_APP_PREFIX}{pipeline.name}:{name}" for name in pipeline.sources}
    for app_id in sorted({*txns} - known):
        if app_id.startswith(f"{_APP_PREFIX}{pipeline.name}:"):
            other = app_id.removeprefix(_APP_PREFIX)
            yield f"source {other} wrote to the table and is not in the configuration"


if __name__ == "__main__":
    sys.exit(main())
