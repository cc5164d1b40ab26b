"""Single lines as Python objects: for maps, which Arrow's reader does not support, and to find bad values."""

import math
import struct
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NoReturn

import orjson
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    DecimalType,
    DoubleType,
    FloatType,
    MapType,
    StructType,
    TimestampType,
)

from spark_job.formats.json.convert import DIGITS, NUMBER, TEXT
from spark_job.formats.nested_columns import INTEGERS

_INTEGER_TYPES = tuple(INTEGERS)
_FIRST_LONG, _LAST_LONG = -(1 << 63), (1 << 63) - 1
_SMALLEST_FLOAT = 2.0**-126


class TypeMismatch(Exception):
    """A value that Arrow's reader would refuse, or that Spark reads by special rules."""


def contains_map(data_type: DataType) -> bool:
    if isinstance(data_type, StructType):
        return any(contains_map(field.dataType) for field in data_type)
    if isinstance(data_type, ArrayType):
        return contains_map(data_type.elementType)
    return isinstance(data_type, MapType)


def written_styles(value: Any, data_type: DataType, path: str) -> Iterator[tuple[str, str]]:
    """Path and style of each decimal and timestamp: whether the line writes it as a number or as text."""
    if isinstance(data_type, StructType):
        for field in data_type if isinstance(value, dict) else ():
            yield from written_styles(value.get(field.name), field.dataType, f"{path}.{field.name}")
    elif isinstance(data_type, ArrayType):
        for element in value if isinstance(value, list) else ():
            yield from written_styles(element, data_type.elementType, f"{path}[]")
    elif isinstance(data_type, MapType):
        for item in value.values() if isinstance(value, dict) else ():
            yield from written_styles(item, data_type.valueType, f"{path}{{}}")
    elif isinstance(data_type, DecimalType | TimestampType) and value is not None:
        yield path, TEXT if isinstance(value, str) else NUMBER


def style_paths(data_type: DataType, path: str) -> Iterator[str]:
    """The paths of decimals and timestamps, which may be written as a number or as text."""
    if isinstance(data_type, StructType):
        for field in data_type:
            yield from style_paths(field.dataType, f"{path}.{field.name}")
    elif isinstance(data_type, ArrayType):
        yield from style_paths(data_type.elementType, f"{path}[]")
    elif isinstance(data_type, MapType):
        yield from style_paths(data_type.valueType, f"{path}{{}}")
    elif isinstance(data_type, DecimalType | TimestampType):
        yield path


def parse_unique_keys(line: bytes) -> Any:
    """A line as Python objects. Raises TypeMismatch if an object may have a duplicate key, and JSONDecodeError."""
    value = orjson.loads(line)
    try:
        again = orjson.dumps(value)
    except orjson.JSONEncodeError as error:  # more levels than orjson writes
        raise TypeMismatch from error
    # Each key has one colon, and only one of two equal keys is written again. A colon inside a string stays as it is,
    # unless the line escapes it.
    if line.count(b":") != again.count(b":") or b"\\u003" in line:
        raise TypeMismatch
    return value


def value_reader(data_type: DataType, styles: Mapping[str, str], path: str) -> Callable[[Any], Any]:
    """A function that turns a value into what pyarrow accepts for the `reading_type`; maps become lists of pairs. It
    raises TypeMismatch."""
    if isinstance(data_type, StructType):
        fields = [(f.name, value_reader(f.dataType, styles, f"{path}.{f.name}")) for f in data_type]
        return _of(dict, lambda value: {name: read(value.get(name)) for name, read in fields})
    if isinstance(data_type, ArrayType):
        read_element = value_reader(data_type.elementType, styles, f"{path}[]")
        return _of(list, lambda value: [read_element(element) for element in value])
    if isinstance(data_type, MapType):
        read_item = value_reader(data_type.valueType, styles, f"{path}{{}}")
        return _of(dict, lambda value: [(key, read_item(item)) for key, item in value.items()])
    if isinstance(data_type, BooleanType):
        return _of(bool, lambda value: value)
    style = styles.get(path)
    if isinstance(data_type, _INTEGER_TYPES) or (isinstance(data_type, TimestampType) and style == NUMBER):
        return _of(int, _long)
    if isinstance(data_type, FloatType):
        return _number(lambda number: number if _rounds_to_one_float(number) else _mismatch())
    if isinstance(data_type, DoubleType) or (isinstance(data_type, DecimalType) and style != TEXT):
        return _number(lambda number: number)
    return _of(str, lambda value: value)


def _of(kind: type, read: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def read_value(value: Any) -> Any:
        if type(value) is kind:
            return read(value)
        return None if value is None else _mismatch()

    return read_value


def _number(read: Callable[[float], float]) -> Callable[[Any], Any]:
    def read_value(value: Any) -> Any:
        if type(value) is float or type(value) is int:
            return read(float(value))
        return None if value is None else _mismatch()

    return read_value


def _long(value: int) -> int:
    return value if _FIRST_LONG <= value <= _LAST_LONG else _mismatch()


def _mismatch() -> NoReturn:
    raise TypeMismatch


def arrow_accepts(schema: StructType, styles: Mapping[str, str]) -> Callable[[Any], bool]:
    """A function that tells whether the types of a value are those that Arrow's reader accepts for a record."""
    accepts = _type_check(schema, styles, "")
    return lambda record: isinstance(record, dict) and accepts(record)


def _type_check(data_type: DataType, styles: Mapping[str, str], path: str) -> Callable[[Any], bool]:
    if isinstance(data_type, StructType):
        dotted = f"{path}." if path else ""
        fields = [(f.name, _type_check(f.dataType, styles, f"{dotted}{f.name}")) for f in data_type]
        return lambda value: (
            value is None or (type(value) is dict and all(accepts(value.get(name)) for name, accepts in fields))
        )
    if isinstance(data_type, ArrayType):
        accepts = _type_check(data_type.elementType, styles, f"{path}[]")
        return lambda value: value is None or (type(value) is list and all(map(accepts, value)))
    if isinstance(data_type, BooleanType):
        return lambda value: value is None or type(value) is bool
    style = styles.get(path)
    if isinstance(data_type, _INTEGER_TYPES) or (isinstance(data_type, TimestampType) and style == NUMBER):
        return lambda value: value is None or (type(value) is int and _FIRST_LONG <= value <= _LAST_LONG)
    if isinstance(data_type, DecimalType) and style == DIGITS:
        return lambda value: value is None or type(value) in (int, float, str)
    if isinstance(data_type, FloatType | DoubleType) or (isinstance(data_type, DecimalType) and style != TEXT):
        return lambda value: value is None or type(value) is float or type(value) is int
    return lambda value: value is None or type(value) is str


def _rounds_to_one_float(number: float) -> bool:
    """Whether every number that reads as this double reads as the same float. Not if it is halfway between two."""
    if not math.isfinite(number) or 0 < abs(number) < _SMALLEST_FLOAT:
        return False
    (bits,) = struct.unpack("<q", struct.pack("<d", number))
    return bool(bits & 0x1FFFFFFF != 0x10000000)
