"""The columns of one version of a table, and the values of its partitions, read by deltalake."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import pyarrow as pa

from blizzard.storage.s3_connection import S3Settings
from blizzard.table.active_files import is_on_s3, opened
from blizzard.table.own_process import in_own_process

if TYPE_CHECKING:
    from deltalake import DeltaTable

FILLED_METADATA = frozenset({"delta.identity.start", "CURRENT_DEFAULT"})
"""Keys of the metadata of a column that has values which only Spark's writer knows."""


@dataclass(frozen=True, slots=True)
class TableColumns:
    """`partitions`: the values of each data file, by its path below the table. `filled`: the columns that Spark's
    writer fills where a record has nothing."""

    schema: pa.Schema
    partitions: Mapping[str, Mapping[str, Any]]
    filled: frozenset[str]


def table_columns(uri: str, version: int, settings: S3Settings) -> TableColumns:
    """Of a table whose `active_files` have no problem."""
    asked = uri, version, settings
    return in_own_process(_read, *asked) if is_on_s3(uri) else _read(*asked)


def _read(uri: str, version: int, settings: S3Settings) -> TableColumns:
    return columns_of(opened(uri, version, settings))


def columns_of(table: "DeltaTable") -> TableColumns:
    """Errors of deltalake."""
    partitions = {}
    if table.metadata().partition_columns:
        actions = pa.table(table.get_add_actions())
        paths = (unquote(path) for path in actions["path"].to_pylist())
        partitions = dict(zip(paths, actions["partition"].to_pylist(), strict=True))
    return TableColumns(pa.schema(table.schema().to_arrow()), partitions, filled_columns(table))


def filled_columns(table: "DeltaTable") -> frozenset[str]:
    """As in TableColumns."""
    return frozenset(field.name for field in table.schema().fields if FILLED_METADATA & {*field.metadata})
