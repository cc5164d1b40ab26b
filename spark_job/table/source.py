"""What the table's modules need to know of the source that they work for."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TableSource:
    """One source, and the table that it feeds."""

    table_uri: str
    source_id: str
    """`pipeline:source`, as in `_source.source`."""
    app_id: str
    """Of its Txns."""
    schema: str
    """DDL of the records' columns."""
    partition_columns: Mapping[str, str]
    """Columns that come from folder names, with their SQL types."""
    partition_by: tuple[str, ...]
