"""Columns that contain maps, which Arrow's reader does not support: read from each line as Python objects."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import MapType, StructField, StructType

from spark_job.formats.converted_column import ConvertedColumn
from spark_job.formats.json.convert import convert, reading_type
from spark_job.formats.json.line_objects import TypeMismatch, parse_unique_keys, value_reader

_PLAIN_NAME = re.compile(r"[ !#-.0-\[\]-~]+")
"""Names that JSON can write in one way only, apart from \\u escapes. A `/` may also be `\\/`."""
_ESCAPED_ASCII = r"\\u00[0-7]"
_MAX_ENDS = 64


class MapColumns:
    """Reads the columns of a record that contain maps."""

    def __init__(self, fields: Sequence[StructField]) -> None:
        self._fields = fields
        self._in_place = [_in_place(f) for f in fields]

    def read(
        self, lines: Sequence[bytes], placeholders: Mapping[str, pa.Array], styles: Mapping[str, str]
    ) -> dict[str, ConvertedColumn]:
        """The columns by name. `placeholders`: what Arrow read for each `placeholder_column`, a struct where the line
        has an object and null elsewhere. A value that Arrow would refuse, or that Spark reads by special rules, is
        doubtful."""
        in_place = not pc.any(pc.match_substring_regex(pa.array(lines, pa.binary()), _ESCAPED_ASCII)).as_py()
        return {
            field.name: self._column(field, lines, placeholders.get(field.name), styles, find if in_place else None)
            for field, find in zip(self._fields, self._in_place, strict=True)
        }

    def _column(
        self,
        field: StructField,
        lines: Sequence[bytes],
        placeholder: pa.Array | None,
        styles: Mapping[str, str],
        find: "Callable[[bytes], Any] | None",
    ) -> ConvertedColumn:
        values: list[Any] = [None] * len(lines)
        doubtful = set[int]()
        read = value_reader(field.dataType, styles, field.name)
        for number in (
            range(len(lines)) if placeholder is None else pc.indices_nonzero(placeholder.is_valid()).to_pylist()
        ):
            try:
                found = find(lines[number]) if find is not None else None
                if found is None:
                    found = parse_unique_keys(lines[number]).get(field.name)
                values[number] = read(found)
            except (TypeMismatch, orjson.JSONDecodeError):
                doubtful.add(number)
        column = pa.array(values, reading_type(field.dataType, styles, field.name))
        converted = convert(column, field.dataType)
        return replace(converted, doubtful=converted.doubtful | doubtful)


def placeholder_column(field: StructField) -> StructField | None:
    """What Arrow's reader reads in place of a column that contains maps: a struct without columns, which tells objects
    from null. None: Arrow ignores the column."""
    return StructField(field.name, StructType([])) if isinstance(field.dataType, MapType) else None


def _in_place(field: StructField) -> "Callable[[bytes], Any] | None":
    """A function that finds a column's value without parsing the whole line; None for a column that needs all of it.

    It is for lines that are valid, and in which Arrow found an object in the column. If such a line has no escaped
    ASCII and the quoted key occurs once, that key belongs to the record itself and not to an object inside it.
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
        for _ in range(_MAX_ENDS):
            end = line.find(b"}", end) + 1
            if end == 0:
                return None
            try:
                # No object's text is the beginning of another one's, so the first that parses is the value.
                return parse_unique_keys(line[start:end])
            except orjson.JSONDecodeError:
                continue
        return None

    return find
