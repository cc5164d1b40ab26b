"""The types of values that no column takes, for a source whose table may get such a column."""

import re
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.types import ArrayType, DataType, DecimalType, MapType

from blizzard.config.ddl import Array, Atomic, Column, Decimal, Map, Struct, Type
from blizzard.infer.ddl_text import type_ddl
from blizzard.infer.storable import storable
from blizzard.infer.text import TextForms, number_type, text_type
from blizzard.infer.types import STRING, VOID, merge, merge_all
from blizzard.infer.values import type_of
from spark_job.formats.odd_data import NumberText, OddValue

_DECIMAL = re.compile(r"decimal\((\d+),(-?\d+)\)")
_NAMES = {
    pa.bool_(): "boolean",
    pa.int8(): "tinyint",
    pa.int16(): "smallint",
    pa.uint8(): "smallint",
    pa.int32(): "int",
    pa.uint16(): "int",
    pa.int64(): "bigint",
    pa.uint32(): "bigint",
    pa.float16(): "float",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.date32(): "date",
    pa.date64(): "date",
    pa.string(): "string",
    pa.binary(): "binary",
    pa.null(): VOID.name,
}
_WIDER = frozenset(map(Atomic, ("tinyint", "smallint", "int", "bigint", "float", "double", "timestamp_ntz")))


def joined_kind(one: Type | None, other: Type | None) -> Type | None:
    """The narrowest type that holds the values of both. None: of no values."""
    if one is None or other is None:
        return one or other
    return merge(one, other)


def widening_kind(kind: Type | None) -> Type | None:
    """None for what no column is widened to, so that one such value does not keep a column from being widened for the
    others."""
    match kind:
        case Array(element):
            inner = widening_kind(element)
            return None if inner is None else Array(inner)
        case Map(key, value):
            inner = widening_kind(value)
            return None if inner is None else Map(key, inner)
    return kind if isinstance(kind, Decimal) or kind in _WIDER else None


def kind_of(value: Any) -> Type:
    """The narrowest type that holds a value of a JSON object."""
    return type_of(_with_numbers(value))


def kind_of_text(text: str, forms: TextForms, wanted: DataType | None = None) -> Type:
    """`wanted`: of the column that does not take it. A number beside a DECIMAL is one with more digits, no DOUBLE."""
    return number_type(text, forms) if isinstance(wanted, DecimalType) else text_type(text, forms)


def kind_beside(value: Any, wanted: DataType, kind: Callable[[Any, DataType], Type]) -> Type:
    """The type of a value that a column of this type does not take: beside a MAP an object is one. `kind`: of what is
    beside neither an ARRAY nor a MAP."""
    match wanted:
        case ArrayType() if isinstance(value, list):
            return Array(merge_all(kind_beside(one, wanted.elementType, kind) for one in value))
        case MapType() if isinstance(value, dict):
            return Map(STRING, merge_all(kind_beside(one, wanted.valueType, kind) for one in value.values()))
    return kind(value, wanted)


def kinds_by_name(values: Sequence[OddValue], *, tell: bool) -> dict[str, Type | None]:
    """The type of all values of a record that have the name; None without `tell`."""
    found: dict[str, Type | None] = {}
    for one in values:
        kind = (one.kind or kind_of(one.value)) if tell else None
        found[one.name] = joined_kind(found.get(one.name), kind)
    return found


def _with_numbers(value: Any) -> Any:
    if isinstance(value, NumberText):
        return _number(value)
    if isinstance(value, dict):
        return {key: _with_numbers(inner) for key, inner in value.items()}
    return [_with_numbers(inner) for inner in value] if isinstance(value, list) else value


def _number(text: str) -> int | float:
    if text.lstrip("-").isdigit() and len(text) < 400:
        return int(text)
    return float(text)


def kind_of_column(found: pa.DataType) -> Type:
    """The type of a column of a file; `found` is a `plain_type`. STRING for what no column can hold."""
    types = pa.types
    if types.is_struct(found):
        return Struct(tuple(Column(field.name, kind_of_column(field.type)) for field in found))
    if types.is_map(found):
        return Map(kind_of_column(found.key_type), kind_of_column(found.item_type))
    if types.is_list(found):
        return Array(kind_of_column(found.value_type))
    if types.is_decimal(found) and 0 <= found.scale <= found.precision <= 38:
        return Decimal(found.precision, found.scale)
    if types.is_timestamp(found):
        return Atomic("timestamp_ntz" if found.tz is None else "timestamp")
    return Decimal(20, 0) if found == pa.uint64() else Atomic(_NAMES.get(found, "string"))


def kind_ddl(kind: Type) -> str:
    """As a column of a table can have it: without names that no table can store, and STRING where no value was."""
    [column] = storable(Struct((Column("c", kind),))).schema.columns
    return type_ddl(column.type, with_not_null=False)


def kind_document(kind: Type | None) -> Any:
    """As JSON, with what DDL cannot say: that there was no value but null."""
    match kind:
        case Struct(columns):
            return {"struct": [[column.name, kind_document(column.type)] for column in columns]}
        case Array(element):
            return {"array": kind_document(element)}
        case Map(key, value):
            return {"map": [kind_document(key), kind_document(value)]}
    return None if kind is None else str(kind)


def kind_from(document: Any) -> Type | None:
    return None if document is None else _kind_from(document)


def _kind_from(document: Any) -> Type:
    match document:
        case {"struct": columns}:
            return Struct(tuple(Column(name, _kind_from(inner)) for name, inner in columns))
        case {"array": element}:
            return Array(_kind_from(element))
        case {"map": [key, value]}:
            return Map(_kind_from(key), _kind_from(value))
    found = _DECIMAL.fullmatch(document)
    return Atomic(document) if found is None else Decimal(int(found[1]), int(found[2]))
