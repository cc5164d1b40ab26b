"""The rows of one source in a data file, as runs: neighbouring rows of the same file, content and commit."""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from blizzard.table.source_column import SourceColumn

_FIELDS = ("source", "file", "etag", "sequence", "row")
_NO_ROW = -1


class RowRun(NamedTuple):
    """`rows`: how many. `first` and `last`: its lowest and highest row number, inclusive. `ascending`: each row number
    is higher than the one before, so none is there twice."""

    path: str
    etag: str
    sequence: int
    rows: int
    first: int
    last: int
    ascending: bool


def runs_of(column: SourceColumn, source_id: str, deleted: Sequence[int] = ()) -> Iterator[RowRun]:
    """The rows of the source, without those whose number in the data file is `deleted`."""
    for rows in rows_of(column, source_id, _FIELDS, deleted):
        yield from _runs(rows)


def rows_of(
    column: SourceColumn, source_id: str, fields: Sequence[str], deleted: Sequence[int] = ()
) -> Iterator[pa.Table]:
    """These fields of the rows of the source, as `runs_of` takes them. `source` is one of the fields."""
    at = 0
    for rows in column.batches(*fields):
        wanted = pc.fill_null(pc.equal(rows["source"], source_id), False)
        if deleted:
            numbers = pa.array(range(at, at + rows.num_rows))
            wanted = pc.and_(wanted, pc.invert(pc.is_in(numbers, pa.array(deleted, pa.int64()))))
        at += rows.num_rows
        yield rows.filter(wanted)


def _runs(rows: pa.Table) -> Iterator[RowRun]:
    if not rows.num_rows:
        return
    paths, etags = (pc.fill_null(_whole(rows, name), "") for name in ("file", "etag"))
    numbers, sequences = (pc.fill_null(_whole(rows, name), _NO_ROW) for name in ("row", "sequence"))
    ends = sorted({end for values in (paths, etags, sequences) for end in _run_ends(values)})
    firsts = pa.array([0, *ends[:-1]], pa.int64())
    lasts = pa.array([end - 1 for end in ends], pa.int64())
    unordered = _unordered_runs(numbers, ends)
    columns = (
        paths.take(firsts),
        etags.take(firsts),
        sequences.take(firsts),
        numbers.take(firsts),
        numbers.take(lasts),
    )
    begin = 0
    for at, (end, *values) in enumerate(zip(ends, *(column.to_pylist() for column in columns), strict=True)):
        path, etag, sequence, first, last = values
        if at in unordered:
            bounds = pc.min_max(numbers.slice(begin, end - begin))
            first, last = bounds["min"].as_py(), bounds["max"].as_py()
        yield RowRun(path, etag, sequence, end - begin, first, last, at not in unordered)
        begin = end


def _whole(rows: pa.Table, name: str) -> pa.Array:
    return rows[name].combine_chunks() if isinstance(rows[name], pa.ChunkedArray) else rows[name]


def _run_ends(values: pa.Array) -> list[int]:
    ends: list[int] = pc.run_end_encode(values).run_ends.to_pylist()
    return ends


def _unordered_runs(numbers: pa.Array, ends: Sequence[int]) -> frozenset[int]:
    """Which runs, by their place, have a row number that is not above the one before."""
    falls = pc.indices_nonzero(pc.fill_null(pc.less_equal(pc.pairwise_diff(numbers), 0), False)).to_pylist()
    starts = {0, *ends}
    unordered = {bisect_right(ends, at) for at in falls if at not in starts}
    unordered |= {bisect_right(ends, at) for at in pc.indices_nonzero(pc.less(numbers, 0)).to_pylist()}
    return frozenset(unordered)
