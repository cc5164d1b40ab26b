"""Columns that hold maps, which Arrow's reader does not know: out of each line, as Python objects."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import MapType, StructField, StructType

from spark_job.formats.ndjson.convert import convert, reading_type
from spark_job.formats.ndjson.converted_column import ConvertedColumn
from spark_job.formats.ndjson.line_objects import Misfit, reader_of, without_doubles

_PLAIN_NAME = re.compile(r"[ !#-.0-\[\]-~]+")
"""Written in one way only, beside \\u: any `/` may be `\\/`, too."""
_ESCAPED_ASCII = r"\\u00[0-7]"
_MOST_ENDS = 64


class MapColumns:
    """How to read some columns of a record that hold maps."""

    def __init__(self, fields: Sequence[StructField]) -> None:
        self._fields = fields
        self._in_place = [_in_place(f) for f in fields]

    def read(
        self, lines: Sequence[bytes], there: Mapping[str, pa.Array], styles: Mapping[str, str]
    ) -> dict[str, ConvertedColumn]:
        """By name. `there`: for maps that are columns themselves, whether Arrow saw an object (struct) or null in each
        line. What Arrow would refuse, or Spark reads by rules of its own, is doubtful."""
        in_place = not pc.any(pc.match_substring_regex(pa.array(lines, pa.binary()), _ESCAPED_ASCII)).as_py()
        return {
            field.name: self._column(field, lines, there.get(field.name), styles, find if in_place else None)
            for field, find in zip(self._fields, self._in_place, strict=True)
        }

    def _column(
        self,
        field: StructField,
        lines: Sequence[bytes],
        there: pa.Array | None,
        styles: Mapping[str, str],
        find: "Callable[[bytes], Any] | None",
    ) -> ConvertedColumn:
        values: list[Any] = [None] * len(lines)
        doubtful = set[int]()
        read = reader_of(field.dataType, styles, field.name)
        for number in range(len(lines)) if there is None else pc.indices_nonzero(there.is_valid()).to_pylist():
            try:
                found = find(lines[number]) if find is not None else None
                if found is None:
                    found = without_doubles(lines[number]).get(field.name)
                values[number] = read(found)
            except (Misfit, orjson.JSONDecodeError):
                doubtful.add(number)
        column = pa.array(values, reading_type(field.dataType, styles, field.name))
        converted = convert(column, field.dataType)
        return ConvertedColumn(converted.values, converted.doubtful | doubtful, converted.zeros)


def stand_in(field: StructField) -> StructField | None:
    """What Arrow's reader is asked for in place of a column that holds maps; None if it shall ignore it."""
    return StructField(field.name, StructType([])) if isinstance(field.dataType, MapType) else None


def _in_place(field: StructField) -> "Callable[[bytes], Any] | None":
    """A way to the value of a column of a sound line without reading all of it: None for what needs the whole line.

    It is for columns that are known to be objects. If a line does not escape ASCII and has the key in quotes once, then
    that is the record's own, at whatever depth others might be.
    """
    if not isinstance(field.dataType, MapType) or not _PLAIN_NAME.fullmatch(field.name):
        return None
    quoted = f'"{field.name}"'.encode()
    key = quoted + b":"

    def find(line: bytes) -> Any:
        at = line.find(key)
        if at < 0 or line.find(quoted) < at or line.find(quoted, at + 1) >= 0:
            return None
        start = end = at + len(key)
        for _ in range(_MOST_ENDS):
            end = line.find(b"}", end) + 1
            if end == 0:
                return None
            try:
                # No object begins another one's text, so the first that can be read is the value.
                return without_doubles(line[start:end])
            except orjson.JSONDecodeError:
                continue
        return None

    return find
