"""The data files of a table, with what the log's statistics say about the sources of their rows."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable

from blizzard.state.run_ref import SequenceRange

MAX_TIME = 2**63 - 1
LOG_UNIT_US = 1000
"""Times in statistics have milliseconds, also the bounds of times with microseconds."""


@dataclass(frozen=True, slots=True)
class AddedFile:
    """Bounds are inclusive, as texts they may be wider than the values; None: unknown."""

    path: str
    """As in a URL."""
    size: int
    modified_ms: int
    rows: int | None
    rows_of_nobody: int | None
    """Those whose `_source.source` is null."""
    sources: tuple[str | None, str | None]
    sequences: tuple[int | None, int | None]
    files: tuple[str | None, str | None]
    newest_us: int
    """No row has a newer `_source.modified`, in microseconds."""

    def may_hold(self, source_id: str) -> bool:
        low, high = self.sources
        return self._may_name_sources and (low is None or low <= source_id) and (high is None or source_id <= high)

    def may_hold_others(self, known: Collection[str]) -> bool:
        return self._may_name_sources and self.only_source not in known

    def may_hold_nobodys(self) -> bool:
        """Rows that name no source."""
        return self.rows_of_nobody != 0

    @property
    def is_nobodys(self) -> bool:
        """Whether no row of it names a source."""
        return not self._may_name_sources

    def may_be_of(self, sequences: SequenceRange) -> bool:
        low, high = self.sequences
        return (low is None or low <= sequences.last) and (high is None or high >= sequences.first)

    def may_have(self, paths: Iterable[str]) -> bool:
        """Rows of one of these files."""
        low, high = self.files
        return any((low is None or low <= path) and (high is None or path <= high) for path in paths)

    @property
    def only_source(self) -> str | None:
        """The source of all rows that name one; None: unknown."""
        low, high = self.sources
        return low if low == high else None

    @property
    def _may_name_sources(self) -> bool:
        return self.rows is None or self.rows != self.rows_of_nobody


def added_files(table: DeltaTable) -> Sequence[AddedFile]:
    """Newest first. Of a table without the column `_source` all rows are nobody's."""
    actions = pa.table(table.get_add_actions())
    has_sources = any(field.name == "_source" for field in table.schema().fields)
    rows = actions["num_records"].to_pylist()
    columns = (
        actions["path"].to_pylist(),
        actions["size_bytes"].to_pylist(),
        actions["modification_time"].to_pylist(),
        rows,
        _statistic(actions, "null_count", "source").to_pylist() if has_sources else rows,
        _bounds(actions, "source"),
        _bounds(actions, "sequence"),
        _bounds(actions, "file"),
        _newest_us(actions),
    )
    return sorted(map(AddedFile, *columns), key=lambda file: file.modified_ms, reverse=True)


def _bounds(actions: pa.Table, field: str) -> Iterator[tuple[Any, Any]]:
    lows, highs = (_statistic(actions, kind, field).to_pylist() for kind in ("min", "max"))
    return zip(lows, highs, strict=True)


def _newest_us(actions: pa.Table) -> Iterator[int]:
    for value in _statistic(actions, "max", "modified").cast(pa.timestamp("us", "UTC")).cast(pa.int64()).to_pylist():
        yield MAX_TIME if value is None else value + LOG_UNIT_US


def _statistic(actions: pa.Table, kind: str, field: str) -> Any:
    """Nulls for a table that keeps none of this field."""
    found = actions[kind] if kind in actions.column_names else None
    for name in ("_source", field):
        if found is None or name not in [child.name for child in found.type]:
            return pa.nulls(actions.num_rows)
        found = pc.struct_field(found, name)
    return found
