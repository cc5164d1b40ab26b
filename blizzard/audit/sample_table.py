"""The table into which a sample is read: an empty one with the columns of the audited table, so that files are read
against them, as by the next run."""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from blizzard.audit.stored_rows import refuse_unreadable
from blizzard.config.formats import FORMATS
from blizzard.config.model import Config, Pipeline, Source
from blizzard.config.publish import document_of, text_of
from blizzard.errors import DataFileDamaged, NotFound, PermanentError
from blizzard.log import first_line
from blizzard.state.delta_log import commit_key
from blizzard.state.identity import SourceIdentity
from blizzard.storage.local import LocalStore
from blizzard.storage.s3_connection import S3Settings
from blizzard.table.active_files import opened
from blizzard.table.table_columns import filled_columns

TABLE, OTHERS = "table", "others"
"""Folders beside the configuration: the table, and the files of another source, which has none."""
CONSTRAINT_PROPERTY = "delta.constraints."
CHECKED_METADATA = frozenset({"delta.generationExpression", "delta.invariants"})
"""Keys of the metadata of a column by which rows get values, or are refused."""
PROTOCOL: Mapping[str, Any] = {
    "minReaderVersion": 3,
    "minWriterVersion": 7,
    "readerFeatures": ["timestampNtz"],
    "writerFeatures": ["appendOnly", "invariants", "timestampNtz", "checkConstraints", "generatedColumns"],
}
"""Whatever a table may need that the local engine commits to."""


@dataclass(frozen=True, slots=True)
class Columns:
    """What decides how a record becomes a row of one version of a table. `schema`: as in the log. `filled`: the columns
    that Spark's writer fills where a record has nothing."""

    schema: Mapping[str, Any]
    partition_by: Sequence[str]
    constraints: Mapping[str, str]
    filled: frozenset[str]


@contextmanager
def reading(what: str) -> Iterator[None]:
    """Errors of deltalake and Arrow cannot be passed to another process. Raises PermanentError instead of them, and of
    those of a data file that is lost."""
    from deltalake.exceptions import DeltaError
    from pyarrow import ArrowException

    try:
        yield
    except (DeltaError, ArrowException, OSError, ValueError, NotFound, DataFileDamaged) as error:
        raise PermanentError(f"{what} cannot be read: {first_line(str(error)):.300}") from error


def columns_of(uri: str, version: int, s3: S3Settings) -> Columns:
    """Of this version of a table whose rows can be read. Raises PermanentError. Called in a process of its own."""
    with reading("the table"):
        table = opened(uri, version, s3)
        refuse_unreadable(table)
        schema, metadata = json.loads(table.schema().to_json()), table.metadata()
    properties = metadata.configuration
    constraints = {name: value for name, value in properties.items() if name.startswith(CONSTRAINT_PROPERTY)}
    return Columns(_as_read(schema), metadata.partition_columns, constraints, filled_columns(table))


def _as_read(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """Without what only tells how to write or to show a column."""
    fields = [
        {**_plain(field), "metadata": {key: text for key, text in field["metadata"].items() if key in CHECKED_METADATA}}
        for field in schema["fields"]
    ]
    return {"type": "struct", "fields": fields}


def _plain(kind: Any) -> Any:
    """The type without metadata of the fields in it."""
    if isinstance(kind, dict):
        return {key: {} if key == "metadata" else _plain(value) for key, value in kind.items()}
    return [*map(_plain, kind)] if isinstance(kind, list) else kind


def make_table(store: LocalStore, columns: Columns, table_id: str) -> None:
    """In an empty folder."""
    metadata = {
        "id": table_id,
        "format": {"provider": "parquet", "options": {}},
        "schemaString": json.dumps(columns.schema),
        "partitionColumns": [*columns.partition_by],
        "configuration": dict(columns.constraints),
        "createdTime": 0,
    }
    actions = ({"commitInfo": {"timestamp": 0, "operation": "CREATE TABLE"}}, {"protocol": PROTOCOL})
    store.create(commit_key(0), "\n".join(map(json.dumps, (*actions, {"metaData": metadata}))).encode())


def configuration(config: Config, identity: SourceIdentity, folder: Path) -> str:
    """Of the one source, into the table below `folder`, whose columns stay as they are: what they do not have was not
    added when the files were read."""
    pipeline = document_of(config)["pipelines"][identity.pipeline]
    source = config.pipelines[identity.pipeline].sources[identity.source]
    own = pipeline["sources"][identity.source] | {"inventory": None}
    sources = {identity.source: _adds_none(own)}
    if changes := _changes_of_others(config.pipelines[identity.pipeline], source):
        (folder / OTHERS).mkdir()
        beside = own | {"uri": f"file://{folder}/{OTHERS}/", **changes}
        sources[f"beside-{identity.source[:50]}"] = _adds_none(beside)
    pipeline |= {"table_uri": f"file://{folder}/{TABLE}", "sources": sources, "linger_secs": 0}
    pipeline |= {"constraints": {}, "cluster_by": [], "table_properties": {}}  # the table has its own
    return text_of({"pipelines": {identity.pipeline: pipeline}})


def _adds_none(options: Mapping[str, Any]) -> Mapping[str, Any]:
    """No column, whatever `new_fields` says."""
    return {**options, "max_new_columns": 0} if options["new_fields"] == "add" else options


def _changes_of_others(pipeline: Pipeline, source: Source) -> Mapping[str, str]:
    """Options by which a source that has no files says what the others of the pipeline say: that they may change
    columns which this one reads, too. Empty if they do not."""
    own, rules = source.schema_rules, [one.schema_rules for one in pipeline.sources.values()]
    add, widen = any(one.tells_field_kinds for one in rules), any(one.tells_misfit_kinds for one in rules)
    says_so = (own.tells_field_kinds, own.tells_misfit_kinds) == (add, widen)
    if says_so or any(FORMATS[name].fixed_schema for name in source.formats):
        return {}
    return {"new_fields": "add" if add else "count", "misfits": "widen" if widen else "rescue"}
