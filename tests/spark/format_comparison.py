"""One file read by a format of ours and by Spark's reader of that format: what becomes of each record."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from spark_job.formats.json.spark_parser import decided_by_spark
from spark_job.formats.protocol import FileFault
from spark_job.table.schema import columns_of
from tests.unit.format_reading import read_file

CORRUPT = "_corrupt"
"""The column in which Spark says that a record did not fit."""
TEXT_FORMATS = ("csv", "json", "xml")


@dataclass(frozen=True)
class Refused:
    """A record or a value that is not taken: by us, with the reason; by Spark, as null in a corrupt record."""

    reason: str = ""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Refused)

    def __hash__(self) -> int:
        return 0


REFUSED = Refused()
FILE_REFUSED = "the file is refused"


def same(left: Any, right: Any) -> bool:
    """Equal, and of the same kind: NaN is NaN, -0.0 is not 0.0."""
    if isinstance(left, float) and isinstance(right, float):
        both_nan = math.isnan(left) and math.isnan(right)
        return both_nan or (left == right and math.copysign(1, left) == math.copysign(1, right))
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(same(left[key], right[key]) for key in left)
    if isinstance(left, list | tuple) and isinstance(right, list | tuple):
        return len(left) == len(right) and all(map(same, left, right))
    return type(left) is type(right) and bool(left == right)


class Comparison:
    """Reads files below `folder`."""

    def __init__(self, spark: Callable[[], SparkSession], folder: Path) -> None:
        self._spark = spark
        self._folder = folder
        self._count = 0

    def ours(self, name: str, ddl: str, stored: bytes, **options: Any) -> list[Any] | str:
        """By record number: a row, or Refused; FILE_REFUSED for a FileFault. What is left to Spark is decided."""
        try:
            read = read_file(name, ddl, stored, **options)
        except FileFault:
            return FILE_REFUSED
        undecided = {number: read.texts[number] for number, why in read.reasons.items() if why is None}
        decided = self._decided(ddl, undecided)
        refused = {number: Refused(why) for number, why in read.reasons.items() if why is not None}
        found = {**read.rows, **refused, **decided}
        return [found[number] for number in range(len(found))]

    def _decided(self, ddl: str, undecided: Mapping[int, bytes]) -> dict[int, Any]:
        if not undecided:
            return {}
        lines = [(number, text.decode(), None) for number, text in undecided.items()]
        frame = self._spark().createDataFrame(lines, "n INT, line STRING, fault STRING")
        found = decided_by_spark(frame, columns_of(ddl)).select("n", "record", "fault").toArrow()
        records = found["record"].to_pylist(maps_as_pydicts="strict")
        return {
            number: record if fault is None else Refused(fault)
            for number, record, fault in zip(found["n"].to_pylist(), records, found["fault"].to_pylist(), strict=True)
        }

    def spark(self, name: str, ddl: str, stored: bytes, **options: Any) -> list[Any] | str:
        """The rows in the file's order; FILE_REFUSED if Spark fails. In a record that Spark calls corrupt, what is null
        is Refused."""
        self._count += 1
        file = self._folder / f"{self._count}.{name}"
        file.write_bytes(stored)
        may_be_corrupt = name in TEXT_FORMATS
        schema = f"{ddl}, {CORRUPT} STRING" if may_be_corrupt else ddl
        reader = self._spark().read.schema(schema).options(**options)
        if may_be_corrupt:
            reader = reader.option("columnNameOfCorruptRecord", CORRUPT)
        try:
            table = reader.format(name).load(str(file)).toArrow()
        except (PySparkException, Py4JError):
            return FILE_REFUSED
        return [_marked(row) for row in plain_rows(table)]


def _marked(row: dict[str, Any]) -> dict[str, Any]:
    if row.pop(CORRUPT, None) is None:
        return row
    return {name: REFUSED if value is None else value for name, value in row.items()}


def plain_rows(table: pa.Table) -> list[dict[str, Any]]:
    """A date or a time that Python has no object for is its number of days or microseconds."""
    columns = {name: _plain(table[name]) for name in table.schema.names}
    return [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]


def _plain(column: pa.ChunkedArray) -> list[Any]:
    if pa.types.is_date(column.type) or pa.types.is_timestamp(column.type):
        numbers = pa.int32() if pa.types.is_date(column.type) else pa.int64()
        raw = [number for chunk in column.chunks for number in chunk.view(numbers).to_pylist()]
        return [_moment(value, number) for value, number in zip(column, raw, strict=True)]
    found: list[Any] = column.to_pylist(maps_as_pydicts="strict")
    return found


def _moment(value: pa.Scalar, number: int | None) -> Any:
    try:
        return value.as_py()
    except (ValueError, OverflowError):
        return number


def differences(ours: Sequence[Any] | str, sparks: Sequence[Any] | str) -> list[str]:
    """Between the rows of one file."""
    if isinstance(ours, str) or isinstance(sparks, str):
        return [] if ours == sparks else [f"ours {ours!r:.200}, Spark's {sparks!r:.200}"]
    found = [f"ours {len(ours)} records, Spark's {len(sparks)}"] if len(ours) != len(sparks) else []
    for number, (our, spark) in enumerate(zip(ours, sparks, strict=False)):
        if not isinstance(our, dict):
            found.append(f"record {number}: ours {our}, Spark's {spark}")
            continue
        names = [name for name in our if not same(our[name], spark[name])]
        found += [f"record {number}, {name}: ours {our[name]!r}, Spark's {spark[name]!r}" for name in names]
    return found
