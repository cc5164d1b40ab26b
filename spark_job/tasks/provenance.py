"""Where records come from, as columns: `_source`, and the partition columns from the file's path."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.pandas.types import to_arrow_type

from spark_job.table.columns import source_column

SOURCE_TYPE = to_arrow_type(source_column(members=False).dataType)
SOURCE_TYPE_WITH_MEMBER = to_arrow_type(source_column(members=True).dataType)

_PARTITION_TYPES: Mapping[str, pa.DataType] = {
    "string": pa.string(),
    "date": pa.date32(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "smallint": pa.int16(),
    "tinyint": pa.int8(),
}


@dataclass(frozen=True, slots=True)
class RecordRange:
    """Consecutive records of one file: `count` of them from number `first_record` on. `partitions` are text. `member`:
    the member that holds them, if the file is a zip. `wanted`: the numbers of those that are wanted; None: all."""

    path: str
    etag: str
    modified_ts: float
    partitions: tuple[str | None, ...]
    first_record: int
    count: int
    member: str | None = None
    wanted: frozenset[int] | None = None

    @property
    def modified_micros(self) -> int:
        """Microseconds since 1970, as rows have them."""
        return round(self.modified_ts * 1_000_000)


@dataclass(frozen=True)
class Provenance:
    """What all rows of one commit of a source share. `partition_columns`: name to type. `members`: whether `_source`
    has the field `member`."""

    source_id: str
    sequence: int
    partition_columns: Mapping[str, str]
    members: bool = False

    @cached_property
    def fields(self) -> list[pa.Field]:
        """The fields of `columns`, in order."""
        partitions = [pa.field(name, _PARTITION_TYPES[kind]) for name, kind in self.partition_columns.items()]
        return [*partitions, pa.field("_source", self._source_type)]

    @property
    def _source_type(self) -> pa.DataType:
        return SOURCE_TYPE_WITH_MEMBER if self.members else SOURCE_TYPE

    def columns(self, ranges: Sequence[RecordRange], positions: Sequence[int] | None) -> list[pa.Array]:
        """The columns for all records of the ranges in order, or for those at `positions`.

        Values that are the same for a whole range are dictionary-encoded.
        """
        indexes = self._range_indexes(ranges)
        rows = self._row_numbers(ranges, indexes)
        if positions is not None:
            chosen = pa.array(positions, pa.int64())
            indexes, rows = indexes.take(chosen), rows.take(chosen)
        return self._assembled(ranges, indexes, rows)

    def _assembled(self, ranges: Sequence[RecordRange], indexes: pa.Array, rows: pa.Array) -> list[pa.Array]:
        nothing = pc.multiply(indexes, 0)
        source = [
            pa.DictionaryArray.from_arrays(nothing, pa.array([self.source_id])),
            _encoded([one.path for one in ranges], indexes),
            rows,
            _encoded([one.etag for one in ranges], indexes),
            _times(ranges).take(indexes),
            pa.repeat(pa.scalar(self.sequence, pa.int64()), len(rows)),
            *([_members(ranges, indexes)] if self.members else []),
        ]
        partitions = [
            pa.array([one.partitions[index] for one in ranges], pa.string()).cast(field.type).take(indexes)
            for index, field in enumerate(self.fields[:-1])
        ]
        return [*partitions, pa.StructArray.from_arrays(source, names=self._source_type.names)]

    def _range_indexes(self, ranges: Sequence[RecordRange]) -> pa.Array:
        """The index of each record's range."""
        if len(ranges) == 1:
            return pa.repeat(pa.scalar(0, pa.int32()), ranges[0].count)
        return _spread(ranges, pa.array(range(len(ranges)), pa.int32()))

    def _row_numbers(self, ranges: Sequence[RecordRange], indexes: pa.Array) -> pa.Array:
        if len(ranges) == 1:
            return pa.arange(ranges[0].first_record, ranges[0].first_record + ranges[0].count)
        starts = accumulate((one.count for one in ranges[:-1]), initial=0)
        shifts = pa.array([one.first_record - start for one, start in zip(ranges, starts, strict=True)], pa.int64())
        return pc.add(pa.arange(0, len(indexes)), shifts.take(indexes))


def _encoded(values: Sequence[str], indexes: pa.Array) -> pa.Array:
    """Each value is once in the dictionary. For one that is there twice Arrow's Parquet writer takes room in the file
    that it does not fill, so the file would hold bytes of the process's memory."""
    distinct = {value: at for at, value in enumerate(dict.fromkeys(values))}
    if len(distinct) < len(values):
        indexes = pa.array([distinct[value] for value in values], pa.int32()).take(indexes)
    return pa.DictionaryArray.from_arrays(indexes, pa.array([*distinct], pa.string()))


def _members(ranges: Sequence[RecordRange], indexes: pa.Array) -> pa.Array:
    return pa.array([one.member for one in ranges], pa.string()).dictionary_encode().take(indexes)


def _times(ranges: Sequence[RecordRange]) -> pa.Array:
    micros = pa.array([one.modified_micros for one in ranges], pa.int64())
    return micros.cast(SOURCE_TYPE.field("modified").type)


def _spread(ranges: Sequence[RecordRange], values: pa.Array) -> pa.Array:
    ends = pa.array(accumulate(one.count for one in ranges), pa.int32())
    return pc.run_end_decode(pa.RunEndEncodedArray.from_arrays(ends, values))
