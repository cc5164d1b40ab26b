"""Types and columns as text in Spark's DDL, which `blizzard.config.ddl` reads back."""

import re
from collections.abc import Iterable

from blizzard.config.ddl import Array, Atomic, Column, Decimal, Map, Struct, Type

_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def ddl_of(columns: Iterable[Column], *, with_not_null: bool = True) -> str:
    """The columns of a schema. `with_not_null`: False leaves every column nullable, as inference proposes them."""
    return ", ".join(column_ddl(column, with_not_null=with_not_null) for column in columns)


def column_ddl(column: Column, *, with_not_null: bool = True) -> str:
    return _column(column, " ", with_not_null)


def type_ddl(kind: Type, *, with_not_null: bool = True) -> str:
    """`STRUCT<a: BIGINT, b: ARRAY<STRING>>`."""
    match kind:
        case Atomic(name):
            return name.upper()
        case Decimal():
            return str(kind).upper()
        case Array(element):
            return f"ARRAY<{type_ddl(element, with_not_null=with_not_null)}>"
        case Map(key, value):
            held = type_ddl(value, with_not_null=with_not_null)
            return f"MAP<{type_ddl(key, with_not_null=with_not_null)}, {held}>"
        case Struct(columns):
            return f"STRUCT<{', '.join(_column(column, ': ', with_not_null) for column in columns)}>"


def quoted(name: str) -> str:
    """In backquotes, if it needs them."""
    return name if _PLAIN_NAME.fullmatch(name) else f"`{name.replace('`', '``')}`"


def _column(column: Column, between: str, with_not_null: bool) -> str:
    not_null = " NOT NULL" if with_not_null and not column.nullable else ""
    comment = "" if column.comment is None else f" COMMENT {_literal(column.comment)}"
    kind = type_ddl(column.type, with_not_null=with_not_null)
    return f"{quoted(column.name)}{between}{kind}{not_null}{comment}"


def _literal(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
