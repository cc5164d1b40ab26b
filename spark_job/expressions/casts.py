"""Conversions between types, as Spark's cast does them in ANSI mode: what does not fit fails."""

import re
from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from blizzard.config.ddl import Type
from blizzard.config.expressions.typed import BOOLEAN, DATE, DOUBLE, INTEGERS, NTZ, STRING, TIMESTAMP
from spark_job.expressions.calendar import (
    MICROS_A_DAY,
    MICROS_A_SECOND,
    day_from_text,
    day_of,
    day_texts,
    floor_divided,
    micros_of,
    moment_texts,
    moments_of,
)
from spark_job.expressions.evaluated import Evaluated, each_text, lost

_ARROW = dict(zip(INTEGERS, (pa.int8(), pa.int16(), pa.int32(), pa.int64()), strict=True))
_INTEGER = re.compile("[\x00-\x20\x7f]*([+-]?[0-9]+)[\x00-\x20\x7f]*")
_USUAL_INTEGER = r"\A-?[0-9]{1,18}\z"
_LAST_DAY = (1 << 63) // MICROS_A_DAY - 1
_MAX_DIGITS = 4_000


def cast(value: Evaluated, from_type: Type, to_type: Type) -> Evaluated:
    values = value.values
    made = Evaluated(None, value.failures)
    if to_type in INTEGERS:
        found, wrong = _INTEGERS[_kind(from_type)](values, int(_ARROW[to_type].bit_width))
        result = Evaluated(pc.cast(found, _ARROW[to_type], safe=False), made.failures)
        return result.failing_where(wrong, f"a {from_type} that does not fit {to_type}")
    if to_type == DATE and from_type == STRING:
        days = each_text(values, pa.int32(), day_from_text)
        return Evaluated(pc.cast(days, pa.date32()), made.failures).failing_where(
            lost(values, days), "a string that is no date"
        )
    if to_type == TIMESTAMP:
        numbers = pc.cast(pc.cast(values, pa.int32()), pa.int64())
        wrong = pc.greater(pc.abs(numbers), pa.scalar(_LAST_DAY, pa.int64()))
        fitting = pc.if_else(wrong, pa.scalar(0, pa.int64()), numbers)
        micros = pc.multiply(fitting, pa.scalar(MICROS_A_DAY, pa.int64()))
        return Evaluated(moments_of(micros), made.failures).failing_where(wrong, "a date that no timestamp holds")
    return Evaluated(_SAFE[_kind(from_type), to_type](values), made.failures)


def _kind(kind: Type) -> Type:
    return INTEGERS[-1] if kind in INTEGERS else kind


# -- to integers: the values as BIGINT, and where they do not fit


def _outside(values: Any, bits: int) -> Any:
    end = 1 << (bits - 1)
    return pc.or_(pc.less(values, pa.scalar(-end, pa.int64())), pc.greater(values, pa.scalar(end - 1, pa.int64())))


def _from_integers(values: Any, bits: int) -> tuple[Any, Any]:
    wide = pc.cast(values, pa.int64())
    return wide, _outside(wide, bits)


def _from_moments(values: Any, bits: int) -> tuple[Any, Any]:
    return _from_integers(floor_divided(micros_of(values), MICROS_A_SECOND), bits)


def _from_texts(values: Any, bits: int) -> tuple[Any, Any]:
    if not isinstance(values, pa.Scalar) and pc.all(pc.match_substring_regex(values, _USUAL_INTEGER)).as_py():
        return _from_integers(pc.cast(values, pa.int64()), bits)
    end = 1 << (bits - 1)

    def read(text: str) -> int | None:
        found = _INTEGER.fullmatch(text)
        if found is None or len(found[1]) > _MAX_DIGITS:
            return None
        number = int(found[1])
        return number if -end <= number < end else None

    numbers = each_text(values, pa.int64(), read)
    return numbers, lost(values, numbers)


def _from_doubles(values: Any, bits: int) -> tuple[Any, Any]:
    """A double that is 2^63 becomes the largest BIGINT, as in Java."""
    end = float(1 << (bits - 1))
    last = end if bits == 64 else end - 1
    fits = pc.and_(pc.less_equal(pc.floor(values), last), pc.greater_equal(pc.ceil(values), -end))
    inside = pc.if_else(pc.and_(fits, pc.less(values, float(1 << 63))), pc.trunc(values), pa.scalar(0.0))
    numbers = pc.cast(inside, pa.int64(), safe=False)
    largest = pc.and_(fits, pc.greater_equal(values, float(1 << 63)))
    return pc.if_else(largest, pa.scalar((1 << 63) - 1, pa.int64()), numbers), pc.invert(fits)


_INTEGERS: Mapping[Type, Callable[[Any, int], tuple[Any, Any]]] = {
    INTEGERS[-1]: _from_integers,
    TIMESTAMP: _from_moments,
    STRING: _from_texts,
    DOUBLE: _from_doubles,
}
_SAFE: Mapping[tuple[Type, Type], Callable[[Any], Any]] = {
    (INTEGERS[-1], DOUBLE): lambda values: pc.cast(values, pa.float64(), safe=False),
    (INTEGERS[-1], STRING): lambda values: pc.cast(values, pa.string()),
    (BOOLEAN, STRING): lambda values: pc.cast(values, pa.string()),
    (DATE, STRING): day_texts,
    (TIMESTAMP, STRING): moment_texts,
    (TIMESTAMP, DATE): day_of,
    (NTZ, DATE): day_of,
}
