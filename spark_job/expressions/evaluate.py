"""Expressions evaluated on Arrow arrays, with exactly the values of Spark in ANSI mode and in UTC."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.pandas.types import to_arrow_type

from blizzard.config.ddl import Atomic, Type
from blizzard.config.expressions.parse import COMPARISONS
from blizzard.config.expressions.syntax import Call, Expression, Field, Literal
from spark_job.expressions.calendar import (
    MICROS_A_DAY,
    MICROS_A_SECOND,
    are_within,
    day_of,
    floor_rest,
    micros_of,
    moments_of,
    part_of_day,
)
from spark_job.expressions.casts import cast
from spark_job.expressions.common_parts import KnownParts
from spark_job.expressions.compare import compare
from spark_job.expressions.evaluated import Evaluated, Failure, each_text, failures_of
from spark_job.expressions.letters import lower, upper
from spark_job.expressions.spark_types import spark_type

ColumnOf = Callable[[str], Any]
"""The values of a column, by its name; null for all rows if the rows do not have it."""


def evaluate(expression: Expression, column: ColumnOf, known: KnownParts | None = None) -> Evaluated:
    """`known`: parts of the expression that others of the same rows may have, too."""
    if known is None or not isinstance(expression, Call):
        return _evaluate(expression, column, known)
    return known.of(expression, lambda: _evaluate(expression, column, known))


def _evaluate(expression: Expression, column: ColumnOf, known: KnownParts | None) -> Evaluated:
    match expression:
        case Literal(value, kind):
            return Evaluated(pa.scalar(value, arrow_type(kind)))
        case Field(path):
            return Evaluated(_field(column(path[0]), path[1:]))
        case Call("and" | "or" as operator, (left, right)):
            return _and_or(operator, evaluate(left, column, known), evaluate(right, column, known))
        case Call("coalesce", arguments):
            return _coalesce([evaluate(argument, column, known) for argument in arguments])
        case Call("cast", (operand,), kind):
            return cast(evaluate(operand, column, known), operand.type, kind)
    found = [evaluate(argument, column, known) for argument in expression.arguments]
    failures, values = failures_of(found), [one.values for one in found]
    if expression.function in COMPARISONS.values():
        return Evaluated(compare(expression.function, *values), failures)
    made = _FUNCTIONS[expression.function](*values)
    return made if not failures else Evaluated(made.values, (*failures, *made.failures))


def arrow_type(kind: Type) -> pa.DataType:
    return pa.null() if kind == Atomic("void") else to_arrow_type(spark_type(kind))


def _field(values: Any, path: Sequence[str]) -> Any:
    for name in path:
        values = pc.struct_field(values, name)
        if pa.types.is_dictionary(values.type):
            values = pc.cast(values, values.type.value_type)
    return values


def _and_or(operator: str, left: Evaluated, right: Evaluated) -> Evaluated:
    """Spark does not evaluate the right side where the left one decides."""
    decides = pc.equal(left.values, operator == "or")
    right = right.only_where(pc.invert(pc.fill_null(decides, False)))
    function = pc.and_kleene if operator == "and" else pc.or_kleene
    return Evaluated(function(left.values, right.values), failures_of([left, right]))


def _coalesce(parts: Sequence[Evaluated]) -> Evaluated:
    first, *others = parts
    values, failures = first.values, list[Failure](first.failures)
    for other in others:
        failures += other.only_where(pc.is_null(values)).failures
        values = pc.coalesce(values, other.values)
    return Evaluated(values, tuple(failures))


# -- functions of times


def _moment_of(unit_micros: int) -> Callable[[Any], Evaluated]:
    last = (1 << 63) // unit_micros if unit_micros > 1 else None

    def made(numbers: Any) -> Evaluated:
        wide = pc.cast(numbers, pa.int64())
        if last is None:
            return Evaluated(moments_of(wide))
        if are_within(wide, -last, last):
            return Evaluated(moments_of(pc.multiply(wide, pa.scalar(unit_micros, pa.int64()))))
        wrong = pc.or_(pc.less(wide, pa.scalar(-last, pa.int64())), pc.greater(wide, pa.scalar(last, pa.int64())))
        fitting = pc.if_else(wrong, pa.scalar(0, pa.int64()), wide)
        micros = pc.multiply(fitting, pa.scalar(unit_micros, pa.int64()))
        return Evaluated(moments_of(micros)).failing_where(wrong, "a number that is too large for a timestamp")

    return made


def _clock(unit_micros: int, count: int) -> Callable[[Any], Evaluated]:
    """The hour, minute or second: how many of these units have passed, of `count`."""

    def made(moments: Any) -> Evaluated:
        rest = floor_rest(micros_of(moments), unit_micros * count)
        return Evaluated(pc.cast(pc.divide(rest, pa.scalar(unit_micros, pa.int64())), pa.int32()))

    return made


def _calendar(part: str) -> Callable[[Any], Evaluated]:
    def made(values: Any) -> Evaluated:
        days = values if pa.types.is_date(values.type) else day_of(values)
        return Evaluated(part_of_day(days, part))

    return made


def _truncated(unit_micros: int) -> Callable[[Any], Evaluated]:
    def made(moments: Any) -> Evaluated:
        micros = micros_of(moments)
        return Evaluated(moments_of(pc.subtract(micros, floor_rest(micros, unit_micros))))

    return made


# -- functions of texts


def _letters(ascii_only: Callable[[Any], Any], by_python: Callable[[str], str]) -> Callable[[Any], Evaluated]:
    def made(texts: Any) -> Evaluated:
        if not isinstance(texts, pa.Scalar) and pc.all(pc.string_is_ascii(texts)).as_py():
            return Evaluated(ascii_only(texts))
        return Evaluated(each_text(texts, pa.string(), by_python))

    return made


def _substring(texts: Any, position: pa.Scalar, length: pa.Scalar | None = None) -> Evaluated:
    """Positions count from 1, negative ones from the end; both may lie outside of the text."""
    at: int = position.as_py()
    start, end = max(at - 1, 0) if at >= 0 else at, None
    if length is not None:
        count: int = length.as_py()
        if count <= 0:
            return Evaluated(pc.if_else(pc.is_valid(texts), pa.scalar(""), texts))
        end = None if start < 0 <= start + count else start + count
    return Evaluated(pc.utf8_slice_codeunits(texts, start, end))


def _concat(*texts: Any) -> Evaluated:
    return Evaluated(pc.binary_join_element_wise(*texts, "", null_handling="emit_null"))


def _like(texts: Any, pattern: pa.Scalar) -> Evaluated:
    wanted = "".join({"%": ".*", "_": "."}.get(char, re.escape(char)) for char in pattern.as_py())
    return Evaluated(pc.match_substring_regex(texts, rf"(?s)\A{wanted}\z"))


def _simple(function: Callable[[Any], Any]) -> Callable[[Any], Evaluated]:
    return lambda values: Evaluated(function(values))


_FUNCTIONS: Mapping[str, Callable[..., Evaluated]] = {
    "timestamp_seconds": _moment_of(MICROS_A_SECOND),
    "timestamp_millis": _moment_of(1_000),
    "timestamp_micros": _moment_of(1),
    "hour": _clock(3_600 * MICROS_A_SECOND, 24),
    "minute": _clock(60 * MICROS_A_SECOND, 60),
    "second": _clock(MICROS_A_SECOND, 60),
    "year": _calendar("year"),
    "month": _calendar("month"),
    "day": _calendar("day"),
    "date_trunc_minute": _truncated(60 * MICROS_A_SECOND),
    "date_trunc_hour": _truncated(3_600 * MICROS_A_SECOND),
    "date_trunc_day": _truncated(MICROS_A_DAY),
    "lower": _letters(pc.ascii_lower, lower),
    "upper": _letters(pc.ascii_upper, upper),
    "trim": _simple(lambda texts: pc.utf8_trim(texts, " ")),
    "length": _simple(lambda texts: pc.cast(pc.utf8_length(texts), pa.int32())),
    "substring": _substring,
    "concat": _concat,
    "like": _like,
    "not": _simple(pc.invert),
    "isnull": _simple(pc.is_null),
    "isnotnull": _simple(pc.is_valid),
}
