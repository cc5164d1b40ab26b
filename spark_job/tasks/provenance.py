"""Where records come from, as columns: `_source`, and the partition columns from the file's path."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import Protocol

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.pandas.types import to_arrow_type

from spark_job.table.columns import source_column

SOURCE_TYPE = to_arrow_type(source_column(members=False).dataType)
SOURCE_TYPE_WITH_MEMBER = to_arrow_type(source_column(members=True).dataType)

LETTER = "_blizzard_letter"
_LETTER_TYPE = pa.struct([("about", pa.string()), ("line", pa.string()), ("undecodable", pa.binary())])

_PARTITION_TYPES: Mapping[str, pa.DataType] = {
    "string": pa.string(),
    "date": pa.date32(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "smallint": pa.int16(),
    "tinyint": pa.int8(),
}


class RecordPlaces(Protocol):
    """Where the records of one range are, one by one. Numbers ascend; both arrays are of int64."""

    @property
    def numbers(self) -> pa.Array: ...

    @property
    def modified_micros(self) -> pa.Array: ...

    def number_of(self, index: int) -> int: ...

    def modified_micros_of(self, number: int) -> int: ...

    def about(self, number: int) -> str | None: ...

    def text(self, number: int) -> bytes:
        """The record as it was read."""
        ...


@dataclass(frozen=True, slots=True)
class RecordRange:
    """Consecutive records of one file: `count` of them from number `first_record` on. `partitions` are text. `member`:
    the member that holds them, if the file is a zip. `wanted`: the numbers of those that are wanted; None: all.
    `each`: if they have numbers with gaps, and times of their own."""

    path: str
    etag: str
    modified_ts: float
    partitions: tuple[str | None, ...]
    first_record: int
    count: int
    member: str | None = None
    wanted: frozenset[int] | None = None
    each: RecordPlaces | None = None

    @property
    def modified_micros(self) -> int:
        """Microseconds since 1970, as rows have them."""
        return round(self.modified_ts * 1_000_000)

    def number_of(self, index: int) -> int:
        """Of the record at this place of the range, counted from 0."""
        return self.first_record + index if self.each is None else self.each.number_of(index)

    def modified_micros_of(self, number: int) -> int:
        return self.modified_micros if self.each is None else self.each.modified_micros_of(number)

    def about(self, number: int) -> str | None:
        """What its dead letter says of a record beside its text, as a JSON object."""
        return None if self.each is None else self.each.about(number)


@dataclass(frozen=True)
class Provenance:
    """What all rows of one commit of a source share. `partition_columns`: name to type. `members`: whether `_source`
    has the field `member`. `letters`: whether staged rows of messages have the column LETTER, what a dead letter would
    say of them: nobody can read a message again later, as a file."""

    source_id: str
    sequence: int
    partition_columns: Mapping[str, str]
    members: bool = False
    letters: bool = False

    @cached_property
    def fields(self) -> list[pa.Field]:
        """The fields of `columns`, in order."""
        letter = [pa.field(LETTER, _LETTER_TYPE)] if self.letters else []
        return [*self.partition_fields, *letter, pa.field("_source", self._source_type)]

    @property
    def partition_fields(self) -> list[pa.Field]:
        return [pa.field(name, _PARTITION_TYPES[kind]) for name, kind in self.partition_columns.items()]

    @property
    def _source_type(self) -> pa.DataType:
        return SOURCE_TYPE_WITH_MEMBER if self.members else SOURCE_TYPE

    def columns(self, ranges: Sequence[RecordRange], positions: Sequence[int] | None) -> list[pa.Array]:
        """The columns for all records of the ranges in order, or for those at `positions`.

        Values that are the same for a whole range are dictionary-encoded.
        """
        indexes = self._range_indexes(ranges)
        rows, times = self._row_numbers(ranges, indexes), _times(ranges, indexes)
        if positions is not None:
            chosen = pa.array(positions, pa.int64())
            indexes, rows, times = indexes.take(chosen), rows.take(chosen), times.take(chosen)
        *partitions, source = self._assembled(ranges, indexes, rows, times)
        letters = [_letters(ranges, positions)] if self.letters else []
        return [*partitions, *letters, source]

    def _assembled(
        self, ranges: Sequence[RecordRange], indexes: pa.Array, rows: pa.Array, times: pa.Array
    ) -> list[pa.Array]:
        nothing = pc.multiply(indexes, 0)
        source = [
            pa.DictionaryArray.from_arrays(nothing, pa.array([self.source_id])),
            _encoded([one.path for one in ranges], indexes),
            rows,
            _encoded([one.etag for one in ranges], indexes),
            times,
            pa.repeat(pa.scalar(self.sequence, pa.int64()), len(rows)),
            *([_members(ranges, indexes)] if self.members else []),
        ]
        partitions = [
            pa.array([one.partitions[index] for one in ranges], pa.string()).cast(field.type).take(indexes)
            for index, field in enumerate(self.partition_fields)
        ]
        return [*partitions, pa.StructArray.from_arrays(source, names=self._source_type.names)]

    def _range_indexes(self, ranges: Sequence[RecordRange]) -> pa.Array:
        """The index of each record's range."""
        if len(ranges) == 1:
            return pa.repeat(pa.scalar(0, pa.int32()), ranges[0].count)
        return _spread(ranges, pa.array(range(len(ranges)), pa.int32()))

    def _row_numbers(self, ranges: Sequence[RecordRange], indexes: pa.Array) -> pa.Array:
        if any(one.each is not None for one in ranges):
            return pa.concat_arrays([_numbers(one) for one in ranges])
        if len(ranges) == 1:
            return pa.arange(ranges[0].first_record, ranges[0].first_record + ranges[0].count)
        starts = accumulate((one.count for one in ranges[:-1]), initial=0)
        shifts = pa.array([one.first_record - start for one, start in zip(ranges, starts, strict=True)], pa.int64())
        return pc.add(pa.arange(0, len(indexes)), shifts.take(indexes))


def letter_column(about: pa.Array, line: pa.Array, undecodable: pa.Array) -> pa.Array:
    """`line`: the record as text, or else `undecodable` has its bytes."""
    return pa.StructArray.from_arrays([about, line, undecodable], fields=[*_LETTER_TYPE])


def _letters(ranges: Sequence[RecordRange], positions: Sequence[int] | None) -> pa.Array:
    places = [(one.each, number) for one in ranges if one.each is not None for number in one.each.numbers.to_pylist()]
    chosen = places if positions is None else [places[at] for at in positions]
    texts = [_decoded(each.text(number)) for each, number in chosen]
    about = pa.array([each.about(number) for each, number in chosen], pa.string())
    lines, others = ([text if isinstance(text, kind) else None for text in texts] for kind in (str, bytes))
    return letter_column(about, pa.array(lines, pa.string()), pa.array(others, pa.binary()))


def _decoded(text: bytes) -> str | bytes:
    try:
        return text.decode()
    except UnicodeDecodeError:
        return text


def _encoded(values: Sequence[str], indexes: pa.Array) -> pa.Array:
    """Each value is once in the dictionary. For one that is there twice Arrow's Parquet writer takes room in the file
    that it does not fill, so the file would hold bytes of the process's memory."""
    distinct = {value: at for at, value in enumerate(dict.fromkeys(values))}
    if len(distinct) < len(values):
        indexes = pa.array([distinct[value] for value in values], pa.int32()).take(indexes)
    return pa.DictionaryArray.from_arrays(indexes, pa.array([*distinct], pa.string()))


def _members(ranges: Sequence[RecordRange], indexes: pa.Array) -> pa.Array:
    return pa.array([one.member for one in ranges], pa.string()).dictionary_encode().take(indexes)


def _numbers(one: RecordRange) -> pa.Array:
    if one.each is not None:
        return one.each.numbers
    return pa.arange(one.first_record, one.first_record + one.count)


def _times(ranges: Sequence[RecordRange], indexes: pa.Array) -> pa.Array:
    """Of each record."""
    kind = SOURCE_TYPE.field("modified").type
    if all(one.each is not None for one in ranges):
        return pa.concat_arrays([one.each.modified_micros for one in ranges if one.each]).cast(kind)
    return pa.array([one.modified_micros for one in ranges], pa.int64()).cast(kind).take(indexes)


def _spread(ranges: Sequence[RecordRange], values: pa.Array) -> pa.Array:
    ends = pa.array(accumulate(one.count for one in ranges), pa.int32())
    return pc.run_end_decode(pa.RunEndEncodedArray.from_arrays(ends, values))
