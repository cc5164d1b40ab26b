"""Questions about the rows of one source, answered from its data files. Files without rows of the wanted commits are
left out by their statistics; of the others only `_source` is decoded, one file at a time."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from io import BytesIO
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake import DeltaTable

from blizzard.ledger.entry import FileState, LedgerEntry
from blizzard.state.run_ref import SequenceRange
from blizzard.storage.base import ObjectStore
from spark_job.engines.needs_spark import NeedsSpark
from spark_job.ports.table import FileVersion
from spark_job.table.safety_checks import SourceFile

_COLUMNS = ("source", "file", "row", "etag", "modified", "sequence")
_TYPES = (pa.string(), pa.string(), pa.int64(), pa.string(), pa.timestamp("us", "UTC"), pa.int64())
_ALL = SequenceRange(0, 2**62)
_ABSOLUTE = re.compile(r"/|[a-z][a-z0-9+.-]*:", re.IGNORECASE)
"""The path of a data file that is not below the table. A relative one has its colons encoded."""


class SourceRows:
    """Rows of version `table` of a table that has a `_source` column."""

    def __init__(self, table: DeltaTable, store: ObjectStore, source_id: str) -> None:
        self._table = table
        self._store = store
        self._source_id = source_id

    def exist(self) -> bool:
        return any(rows.num_rows for rows in self._own(_ALL))

    def of_nobody_exist(self) -> bool:
        return any(rows["source"].null_count for rows in self._sources(self._files(_ALL)))

    def last_rows(self, *, after_sequence: int) -> Mapping[FileVersion, int]:
        last: dict[FileVersion, int] = {}
        for rows in self._own(SequenceRange(after_sequence + 1, _ALL.last)):
            grouped = rows.group_by(["file", "etag"]).aggregate([("row", "max")])
            columns = (grouped[name].to_pylist() for name in ("file", "etag", "row_max"))
            for file, etag, row in zip(*columns, strict=True):
                content = FileVersion(file, etag)
                last[content] = max(row, last.get(content, row))
        return last

    def files_of_commits(self, sequences: SequenceRange) -> Sequence[LedgerEntry]:
        found: dict[tuple[str, str, int], tuple[int, int]] = {}
        for rows in self._own(sequences):
            grouped = rows.group_by(["file", "etag", "sequence"]).aggregate([("modified", "max"), ("row", "count")])
            modified = pc.cast(grouped["modified_max"], pa.timestamp("ms", "UTC"), safe=False).cast(pa.int64())
            columns = (grouped[name].to_pylist() for name in ("file", "etag", "sequence", "row_count"))
            for file, etag, sequence, count, modified_ms in zip(*columns, modified.to_pylist(), strict=True):
                rows_before, ms_before = found.get((file, etag, sequence), (0, 0))
                found[file, etag, sequence] = rows_before + count, max(ms_before, modified_ms or 0)
        return [
            LedgerEntry(file, sequence, etag, 0, modified_ms, rows, 0, FileState.DONE)
            for (file, etag, sequence), (rows, modified_ms) in found.items()
        ]

    def newest_files_of_others(self, known: frozenset[str], limit: int) -> Sequence[SourceFile]:
        newest: dict[SourceFile, object] = {}
        for rows in self._rows(_ALL):
            others = rows.filter(pc.invert(pc.is_in(rows["source"], pa.array([*known], pa.string()))))
            grouped = others.group_by(["source", "file", "etag"]).aggregate([("modified", "max")])
            for row in grouped.to_pylist():
                file, modified = SourceFile(row["source"], row["file"], row["etag"]), row["modified_max"]
                newest[file] = max(filter(None, (modified, newest.get(file))), default=None)
            ranked = sorted(newest, key=lambda file: str(newest[file] or ""), reverse=True)
            newest = {file: newest[file] for file in ranked[:limit]}
        return [*newest]

    def _own(self, sequences: SequenceRange) -> Iterator[pa.Table]:
        for rows in self._rows(sequences):
            yield rows.filter(pc.equal(rows["source"], self._source_id))

    def _rows(self, sequences: SequenceRange) -> Iterator[pa.Table]:
        """The `_source` of the rows of these commits, with its fields as columns."""
        for rows in self._sources(self._files(sequences)):
            wanted = pc.and_(
                pc.greater_equal(rows["sequence"], sequences.first), pc.less_equal(rows["sequence"], sequences.last)
            )
            yield rows.filter(wanted)

    def _sources(self, paths: Iterable[str]) -> Iterator[pa.Table]:
        """The `_source` of all rows of each data file, with its fields as columns; null in a file from before the
        table had it."""
        for path in paths:
            if _ABSOLUTE.match(path):
                raise NeedsSpark("reading rows from outside the table's folder, where those of a shallow clone are")
            file = pq.ParquetFile(BytesIO(self._store.get(unquote(path))), coerce_int96_timestamp_unit="us")
            if "_source" in file.schema_arrow.names:
                whole = file.read(columns=["_source"])["_source"]
                # Other writers may store texts as views, for which Arrow has no filter.
                columns = [pc.struct_field(whole, name).cast(kind) for name, kind in zip(_COLUMNS, _TYPES, strict=True)]
            else:
                columns = [pa.nulls(file.metadata.num_rows, kind) for kind in _TYPES]
            yield pa.Table.from_arrays(columns, names=_COLUMNS)

    def _files(self, sequences: SequenceRange) -> Iterator[str]:
        """Paths of the data files that may have rows of these commits, as in a URL."""
        actions = pa.table(self._table.get_add_actions(flatten=True))
        lows, highs = (
            actions[f"{side}._source.sequence"].to_pylist()
            if f"{side}._source.sequence" in actions.column_names
            else [None] * actions.num_rows
            for side in ("min", "max")
        )
        for path, low, high in zip(actions["path"].to_pylist(), lows, highs, strict=True):
            if (low is None or low <= sequences.last) and (high is None or high >= sequences.first):
                yield path
