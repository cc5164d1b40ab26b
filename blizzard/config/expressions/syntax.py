"""Expressions over a row, as the fast reader evaluates them: each has one type, and every conversion is explicit."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from decimal import Decimal as DecimalValue

from blizzard.config.ddl import Type

Constant = bool | int | float | str | date | DecimalValue | None


class NotUnderstood(Exception):
    """Only Spark evaluates such an expression. The text completes "because it has …"."""


class UnknownName(NotUnderstood):
    """Of no column. Spark does not know it either."""


@dataclass(frozen=True, slots=True)
class Literal:
    """`value` is None for null."""

    value: Constant
    type: Type


@dataclass(frozen=True, slots=True)
class Field:
    """A column, or a field in structs of one: `path` from the column on, spelled as the row has it."""

    path: tuple[str, ...]
    type: Type


@dataclass(frozen=True, slots=True)
class Call:
    """A function or an operator by its own name, such as `cast` or `<=`. `type`: of its result."""

    function: str
    arguments: tuple["Expression", ...]
    type: Type


Expression = Literal | Field | Call


def fields_of(expression: Expression) -> Iterator[Field]:
    match expression:
        case Field():
            yield expression
        case Call():
            for argument in expression.arguments:
                yield from fields_of(argument)


def calls_of(expression: Expression) -> Iterator[Call]:
    if isinstance(expression, Call):
        yield expression
        for argument in expression.arguments:
            yield from calls_of(argument)
