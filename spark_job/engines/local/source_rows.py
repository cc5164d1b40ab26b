"""Questions about the rows of one source, answered from its data files. Files without the wanted rows are left out by
their statistics; of the others only fields of `_source` are fetched and decoded, one file at a time."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from heapq import nlargest
from itertools import takewhile
from operator import itemgetter
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable

from blizzard.ledger.entry import FileState, LedgerEntry
from blizzard.state.delta_protocol import ABSOLUTE
from blizzard.state.run_ref import SequenceRange
from blizzard.storage.base import ObjectStore
from blizzard.table.added_files import AddedFile, added_files
from blizzard.table.source_column import SourceColumn
from spark_job.engines.needs_spark import NeedsSpark
from spark_job.ports.table import FileVersion, SourceFile

MAX_FILES_READ = 1_000
"""Each takes one to three requests, one after the other: with 30 ms a request more than a minute. Spark starts in less,
and reads with all cores."""
MAX_ROWS_READ = 100_000_000
"""One core decodes `_source.source` of 14 million rows a second, and all of `_source` of 3 million."""
_LAST = 2**62
_NO_TIME = -(2**63)


class SourceRows:
    """Rows of version `table` of a table that has a `_source` column. A question for which too much would have to be
    read raises NeedsSpark."""

    def __init__(self, table: DeltaTable, store: ObjectStore, source_id: str) -> None:
        self._files = added_files(table)
        self._store = store
        self._source_id = source_id

    def exist(self) -> bool:
        files = [file for file in self._files if file.may_hold(self._source_id)]
        return self._any(
            files,
            lambda file: file.only_source == self._source_id,
            lambda sources: pc.equal(sources, self._source_id),
        )

    def of_nobody_exist(self) -> bool:
        files = [file for file in self._files if file.rows_of_nobody != 0]
        return self._any(files, lambda file: file.rows_of_nobody is not None, pc.is_null)

    def newest_sequence(self) -> int | None:
        newest = (pc.max(rows["sequence"]).as_py() for rows in self._own(SequenceRange(0, _LAST)))
        return max((sequence for sequence in newest if sequence is not None), default=None)

    def last_rows(self, *, after_sequence: int) -> Mapping[FileVersion, int]:
        last: dict[FileVersion, int] = {}
        for rows in self._own(SequenceRange(after_sequence + 1, _LAST), "file", "etag", "row"):
            grouped = rows.group_by(["file", "etag"]).aggregate([("row", "max")])
            columns = (grouped[name].to_pylist() for name in ("file", "etag", "row_max"))
            for file, etag, row in zip(*columns, strict=True):
                content = FileVersion(file, etag)
                last[content] = max(row, last.get(content, row))
        return last

    def present(self, wanted: Mapping[str, Collection[int]]) -> Mapping[FileVersion, frozenset[int]]:
        found: dict[FileVersion, set[int]] = {}
        paths = pa.array(sorted(wanted), pa.string())
        files = [file for file in self._files if file.may_hold(self._source_id) and file.may_have(wanted)]
        _check_amounts_in_log(files)
        for column in self._columns(files):
            for rows in column.batches("source", "file", "etag", "row"):
                is_ours = pc.and_(pc.equal(rows["source"], self._source_id), pc.is_in(rows["file"], paths))
                rows = rows.filter(pc.fill_null(is_ours, False))
                for path, etag, row in zip(*(rows[name].to_pylist() for name in ("file", "etag", "row")), strict=True):
                    numbers = found.setdefault(FileVersion(path, etag), set())
                    if row in wanted[path]:
                        numbers.add(row)
        return {content: frozenset(numbers) for content, numbers in found.items()}

    def files_of_commits(self, sequences: SequenceRange) -> Sequence[LedgerEntry]:
        found: dict[tuple[str, str, int], tuple[int, int]] = {}
        for rows in self._own(sequences, "file", "etag", "modified"):
            grouped = rows.group_by(["file", "etag", "sequence"]).aggregate([("modified", "max"), ([], "count_all")])
            modified = pc.cast(grouped["modified_max"], pa.timestamp("ms", "UTC"), safe=False).cast(pa.int64())
            columns = (grouped[name].to_pylist() for name in ("file", "etag", "sequence", "count_all"))
            for file, etag, sequence, count, modified_ms in zip(*columns, modified.to_pylist(), strict=True):
                rows_before, ms_before = found.get((file, etag, sequence), (0, 0))
                found[file, etag, sequence] = rows_before + count, max(ms_before, modified_ms or 0)
        return [
            LedgerEntry(file, sequence, etag, 0, modified_ms, rows, 0, FileState.DONE)
            for (file, etag, sequence), (rows, modified_ms) in found.items()
        ]

    def newest_files_of_others(self, known: frozenset[str], limit: int) -> Sequence[SourceFile]:
        """Stops when no data file that is left can have a newer file than those found."""
        newest: dict[SourceFile, int] = {}
        files = [file for file in self._files if file.may_hold_others(known)]
        by_time = sorted(files, key=lambda file: file.newest_us, reverse=True)
        left = takewhile(lambda file: len(newest) < limit or file.newest_us >= min(newest.values()), by_time)
        for column in self._columns(left):
            for files_of_batch in _files_of_others(column, known):
                for found, modified_us in files_of_batch:
                    newest[found] = max(modified_us, newest.get(found, modified_us))
                newest = dict(nlargest(limit, newest.items(), key=itemgetter(1)))
        return [*newest]

    def _any(
        self, files: Sequence[AddedFile], by_statistics: Callable[[AddedFile], bool], wanted: Callable[[Any], Any]
    ) -> bool:
        """Whether any row of these files has a wanted source. Begins with files that have one by their statistics, of
        which one should be enough."""
        files = sorted(files, key=by_statistics, reverse=True)
        if files and not by_statistics(files[0]):
            _check_amounts_in_log(files)
        return any(
            pc.any(wanted(rows["source"])).as_py()
            for column in self._columns(files)
            for rows in column.batches("source")
        )

    def _own(self, sequences: SequenceRange, *fields: str) -> Iterator[pa.Table]:
        """The rows of this source that these commits brought, with these fields of `_source` and `sequence`."""
        files = [file for file in self._files if file.may_hold(self._source_id) and file.may_be_of(sequences)]
        _check_amounts_in_log(files)
        for column in self._columns(files):
            for rows in column.batches("source", "sequence", *fields):
                of_commits = pc.and_(
                    pc.greater_equal(rows["sequence"], sequences.first), pc.less_equal(rows["sequence"], sequences.last)
                )
                yield rows.filter(pc.and_(pc.equal(rows["source"], self._source_id), of_commits))

    def _columns(self, files: Iterable[AddedFile]) -> Iterator[SourceColumn]:
        """Opens one after the other, as long as the amount is bounded."""
        rows = 0
        for number, file in enumerate(files, 1):
            if ABSOLUTE.match(file.path):
                raise NeedsSpark("reading rows from outside the table's folder, where those of a shallow clone are")
            _check_amounts(number, rows)
            column = SourceColumn(self._store, file)
            rows += column.num_rows
            _check_amounts(number, rows)
            yield column


def _files_of_others(column: SourceColumn, known: frozenset[str]) -> Iterator[Iterable[tuple[SourceFile, int]]]:
    """Files of other sources than these, each with its time in microseconds, as often as the file's batches have them.
    Row groups without rows of others cost only `_source.source`."""

    def of_others(rows: pa.Table) -> pa.Table:
        is_known = pc.is_in(rows["source"], pa.array([*known], pa.string()))
        return rows.filter(pc.and_(pc.is_valid(rows["source"]), pc.invert(is_known)))

    for group in column.groups:
        if not any(of_others(rows).num_rows for rows in column.of_group(group, "source")):
            continue
        for rows in column.of_group(group, "source", "file", "etag", "modified"):
            files = of_others(rows).group_by(["source", "file", "etag"]).aggregate([("modified", "max")])
            names = (files[name].to_pylist() for name in ("source", "file", "etag"))
            times = pc.fill_null(files["modified_max"].cast(pa.int64()), _NO_TIME).to_pylist()
            yield zip(map(SourceFile, *names), times, strict=True)


def _check_amounts_in_log(files: Sequence[AddedFile]) -> None:
    _check_amounts(len(files), sum(file.rows or 0 for file in files))


def _check_amounts(files: int, rows: int) -> None:
    if files > MAX_FILES_READ:
        raise NeedsSpark(f"looking for a source's rows in {files:,} data files, more than {MAX_FILES_READ:,}")
    if rows > MAX_ROWS_READ:
        raise NeedsSpark(f"looking for a source's rows among {rows:,} rows, more than {MAX_ROWS_READ:,}")
