"""Where records come from, as columns: `_source`, and the partition columns that a file's folders spell."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.pandas.types import to_arrow_type

from spark_job.table.columns import SOURCE_COLUMN

SOURCE_TYPE = to_arrow_type(SOURCE_COLUMN.dataType)

_PARTITION_TYPES: Mapping[str, pa.DataType] = {
    "string": pa.string(),
    "date": pa.date32(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "smallint": pa.int16(),
    "tinyint": pa.int8(),
}


@dataclass(frozen=True, slots=True)
class Run:
    """Consecutive records of one file: `count` of them from number `first_row` on. `partitions` are text."""

    path: str
    etag: str
    modified_ts: float
    partitions: tuple[str | None, ...]
    first_row: int
    count: int


@dataclass(frozen=True)
class Provenance:
    """What the rows of one commit of one source have in common. `partition_columns`: name to type."""

    source_id: str
    sequence: int
    partition_columns: Mapping[str, str]

    @cached_property
    def fields(self) -> list[pa.Field]:
        """The columns that `columns` gives, in order."""
        types = self.partition_columns.items()
        return [*(pa.field(name, _PARTITION_TYPES[kind]) for name, kind in types), pa.field("_source", SOURCE_TYPE)]

    def columns(self, runs: Sequence[Run], lines: Sequence[int] | None) -> list[pa.Array]:
        """For the records of the runs, one behind the other, or those of them that `lines` names.

        What is the same for a whole run comes dictionary-encoded.
        """
        which = self._which(runs)
        rows = self._row_numbers(runs, which)
        if lines is not None:
            chosen = pa.array(lines, pa.int64())
            which, rows = which.take(chosen), rows.take(chosen)
        return self._assembled(runs, which, rows)

    def _assembled(self, runs: Sequence[Run], which: pa.Array, rows: pa.Array) -> list[pa.Array]:
        nothing = pc.multiply(which, 0)
        source = [
            pa.DictionaryArray.from_arrays(nothing, pa.array([self.source_id])),
            pa.DictionaryArray.from_arrays(which, pa.array([run.path for run in runs])),
            rows,
            pa.DictionaryArray.from_arrays(which, pa.array([run.etag for run in runs])),
            _times(runs).take(which),
            pa.repeat(pa.scalar(self.sequence, pa.int64()), len(rows)),
        ]
        partitions = [
            pa.array([run.partitions[index] for run in runs], pa.string()).cast(field.type).take(which)
            for index, field in enumerate(self.fields[:-1])
        ]
        return [*partitions, pa.StructArray.from_arrays(source, names=SOURCE_TYPE.names)]

    def _which(self, runs: Sequence[Run]) -> pa.Array:
        """The number of each record's run."""
        if len(runs) == 1:
            return pa.repeat(pa.scalar(0, pa.int32()), runs[0].count)
        return _spread(runs, pa.array(range(len(runs)), pa.int32()))

    def _row_numbers(self, runs: Sequence[Run], which: pa.Array) -> pa.Array:
        if len(runs) == 1:
            return pa.arange(runs[0].first_row, runs[0].first_row + runs[0].count)
        starts = accumulate((run.count for run in runs[:-1]), initial=0)
        shifts = pa.array([run.first_row - start for run, start in zip(runs, starts, strict=True)], pa.int64())
        return pc.add(pa.arange(0, len(which)), shifts.take(which))


def _times(runs: Sequence[Run]) -> pa.Array:
    micros = pa.array([round(run.modified_ts * 1_000_000) for run in runs], pa.int64())
    return micros.cast(SOURCE_TYPE.field("modified").type)


def _spread(runs: Sequence[Run], values: pa.Array) -> pa.Array:
    ends = pa.array(accumulate(run.count for run in runs), pa.int32())
    return pc.run_end_decode(pa.RunEndEncodedArray.from_arrays(ends, values))
