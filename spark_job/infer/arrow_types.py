"""Types of Arrow as the types of columns that take them."""

from collections.abc import Mapping

import pyarrow as pa

from blizzard.config.ddl import Array, Atomic, Column, Decimal, Map, Struct, Type
from blizzard.infer.types import BIGINT, BINARY, BOOLEAN, DATE, DOUBLE, FLOAT, STRING, TIMESTAMP, TIMESTAMP_NTZ, VOID

_INT, _SMALLINT, _TINYINT = Atomic("int"), Atomic("smallint"), Atomic("tinyint")
_SIMPLE: Mapping[pa.DataType, Type] = {
    pa.null(): VOID,
    pa.bool_(): BOOLEAN,
    pa.int8(): _TINYINT,
    pa.int16(): _SMALLINT,
    pa.int32(): _INT,
    pa.int64(): BIGINT,
    pa.uint8(): _SMALLINT,
    pa.uint16(): _INT,
    pa.uint32(): BIGINT,
    pa.uint64(): Decimal(20, 0),
    pa.float16(): FLOAT,
    pa.float32(): FLOAT,
    pa.float64(): DOUBLE,
    pa.string(): STRING,
    pa.large_string(): STRING,
    pa.string_view(): STRING,
    pa.binary(): BINARY,
    pa.large_binary(): BINARY,
    pa.binary_view(): BINARY,
    pa.date32(): DATE,
    pa.date64(): DATE,
}


def struct_of(schema: pa.Schema) -> tuple[Struct, dict[str, str]]:
    """The columns, and the types of those that no column can be for."""
    columns, without = list[Column](), dict[str, str]()
    for field in schema:
        kind = type_of_arrow(field.type)
        if kind is None:
            without[field.name] = str(field.type)
        else:
            columns.append(Column(field.name, kind, nullable=field.nullable))
    return Struct(tuple(columns)), without


def type_of_arrow(kind: pa.DataType) -> Type | None:
    """None for what no column takes, such as a time of day."""
    types = pa.types
    if kind in _SIMPLE:
        return _SIMPLE[kind]
    if types.is_decimal(kind):
        return Decimal(kind.precision, kind.scale) if kind.precision <= 38 and kind.scale >= 0 else None
    if types.is_timestamp(kind):
        return TIMESTAMP_NTZ if kind.tz is None else TIMESTAMP
    if types.is_fixed_size_binary(kind):
        return BINARY
    if types.is_dictionary(kind):
        return type_of_arrow(kind.value_type)
    return _nested(kind)


def _nested(kind: pa.DataType) -> Type | None:
    types = pa.types
    if types.is_map(kind):
        key, value = type_of_arrow(kind.key_type), type_of_arrow(kind.item_type)
        return None if key is None or value is None else Map(key, value)
    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        element = type_of_arrow(kind.value_type)
        return None if element is None else Array(element)
    if types.is_struct(kind):
        fields = [(field, type_of_arrow(field.type)) for field in kind]
        return Struct(tuple(Column(field.name, held) for field, held in fields if held is not None))
    return None
