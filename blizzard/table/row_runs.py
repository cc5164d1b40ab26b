"""The rows of one source in a data file, as runs: neighbouring rows of the same file, content and commit."""

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from blizzard.table.row_checksums import between, mixed, running
from blizzard.table.source_column import SourceColumn

_FIELDS = ("source", "file", "etag", "sequence", "row")
NO_ROW = -1
"""Stands for the number of a row that has none."""


class RowRun(NamedTuple):
    """`rows`: how many. `first` and `last`: its lowest and highest row number, inclusive. `ascending`: each row number
    is higher than the one before, so none is there twice. `checksum`: of the row numbers; None: it has each number from
    `first` to `last`, once."""

    path: str
    etag: str
    sequence: int
    rows: int
    first: int
    last: int
    ascending: bool
    checksum: int | None


def runs_of(
    column: SourceColumn,
    source_id: str,
    deleted: Sequence[int] = (),
    *,
    salt: int = 0,
    others: Counter[str | None] | None = None,
) -> Iterator[RowRun]:
    """The rows of the source, without those whose number in the data file is `deleted`. `salt`: of the checksums.
    `others`: gets the numbers of rows of other sources; None: those that name no source."""
    for rows in rows_of(column, source_id, _FIELDS, deleted, others):
        yield from _runs(rows, salt)


def rows_of(
    column: SourceColumn,
    source_id: str,
    fields: Sequence[str],
    deleted: Sequence[int] = (),
    others: Counter[str | None] | None = None,
) -> Iterator[pa.Table]:
    """These fields of the rows of the source, as `runs_of` takes them. `source` is one of the fields."""
    at = 0
    for rows in column.batches(*fields):
        if deleted:
            numbers = pa.array(range(at, at + rows.num_rows))
            at += rows.num_rows
            rows = rows.filter(pc.invert(pc.is_in(numbers, pa.array(deleted, pa.int64()))))
        wanted = pc.fill_null(pc.equal(rows["source"], source_id), False)
        if others is not None and pc.any(pc.invert(wanted)).as_py():
            for found in pc.value_counts(rows["source"].filter(pc.invert(wanted))).to_pylist():
                others[found["values"]] += found["counts"]
        yield rows.filter(wanted)


def _runs(rows: pa.Table, salt: int) -> Iterator[RowRun]:
    if not rows.num_rows:
        return
    paths, etags = (pc.fill_null(_whole(rows, name), "") for name in ("file", "etag"))
    numbers, sequences = (pc.fill_null(_whole(rows, name), NO_ROW) for name in ("row", "sequence"))
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
    begin, sums = 0, list[int]()
    for at, (end, *values) in enumerate(zip(ends, *(column.to_pylist() for column in columns), strict=True)):
        path, etag, sequence, first, last = values
        if at in unordered:
            bounds = pc.min_max(numbers.slice(begin, end - begin))
            first, last = bounds["min"].as_py(), bounds["max"].as_py()
        checksum = None
        if at in unordered or last - first != end - begin - 1:
            sums = sums or [0, *running(mixed(numbers, salt)).take(lasts).to_pylist()]
            checksum = between(sums[at], sums[at + 1])
        yield RowRun(path, etag, sequence, end - begin, first, last, at not in unordered, checksum)
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
