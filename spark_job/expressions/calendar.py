"""Days and times of any year, in UTC and the proleptic Gregorian calendar, as Spark has them."""

import re
from datetime import date
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

MICROS_A_SECOND = 1_000_000
MICROS_A_DAY = 86_400 * MICROS_A_SECOND
MICROS = pa.timestamp("us", tz="UTC")
_DAYS_OF_400_YEARS = 146_097
_LAST_LONG = (1 << 63) - 1
_EPOCH_DAY = date(1970, 1, 1).toordinal()
_BLANKS = "[\x00-\x20\x7f]*"
_DATE = re.compile(rf"{_BLANKS}([+-]?)([0-9]{{4,7}})(?:-([0-9]{{1,2}})(?:-([0-9]{{1,2}})(?:[ T].*)?)?)?", re.DOTALL)
_FIRST_DAY, _LAST_DAY = date(1, 1, 1).toordinal() - _EPOCH_DAY, date(9999, 12, 31).toordinal() - _EPOCH_DAY
"""Of which Python and Arrow have the year."""


def are_within(numbers: Any, first: int, last: int) -> bool:
    """Whether all of them are. Nulls are."""
    if isinstance(numbers, pa.Scalar):
        return not numbers.is_valid or bool(first <= numbers.as_py() <= last)
    found = pc.min_max(numbers).as_py()
    return found["min"] is None or bool(first <= found["min"] and found["max"] <= last)


def floor_divided(values: Any, by: int) -> Any:
    quotient = pc.divide(values, pa.scalar(by, pa.int64()))
    if are_within(values, 0, _LAST_LONG):
        return quotient
    rest = pc.subtract(values, pc.multiply(quotient, pa.scalar(by, pa.int64())))
    return pc.subtract(quotient, pc.cast(pc.less(rest, pa.scalar(0, pa.int64())), pa.int64()))


def floor_rest(values: Any, by: int) -> Any:
    """From 0 to `by` - 1."""
    rest = pc.subtract(values, pc.multiply(pc.divide(values, pa.scalar(by, pa.int64())), pa.scalar(by, pa.int64())))
    if are_within(values, 0, _LAST_LONG):
        return rest
    return pc.if_else(pc.less(rest, pa.scalar(0, pa.int64())), pc.add(rest, pa.scalar(by, pa.int64())), rest)


def micros_of(moments: Any) -> Any:
    """Since 1970, of timestamps with or without a zone."""
    return pc.cast(pc.cast(moments, pa.timestamp("us"), safe=False), pa.int64())


def moments_of(micros: Any) -> Any:
    return pc.cast(micros, MICROS)


def day_of(moments: Any) -> Any:
    return pc.cast(pc.cast(floor_divided(micros_of(moments), MICROS_A_DAY), pa.int32()), pa.date32())


def part_of_day(days: Any, part: str) -> Any:
    """Its `year`, `month` or `day`, as INT."""
    numbers = pc.cast(days, pa.int32())
    found = pc.cast(getattr(pc, part)(days), pa.int32())
    if are_within(numbers, _FIRST_DAY, _LAST_DAY):
        return found
    at = ("year", "month", "day").index(part)
    if isinstance(numbers, pa.Scalar):
        return pa.scalar(_parts(numbers.as_py())[at], pa.int32())
    exact = [None if number is None else _parts(number)[at] for number in numbers.to_pylist()]
    return pa.array(exact, pa.int32())


def day_texts(days: Any) -> Any:
    """`2024-01-28`; a year of more than four digits, or a negative one, has a sign."""
    numbers = pc.cast(days, pa.int32())
    if isinstance(numbers, pa.Scalar):
        return pa.scalar(_day_text(numbers.as_py()) if numbers.is_valid else None, pa.string())
    if are_within(numbers, _FIRST_DAY, _LAST_DAY):
        return pc.cast(days, pa.string())
    return pa.array([None if number is None else _day_text(number) for number in numbers.to_pylist()], pa.string())


def moment_texts(moments: Any) -> Any:
    """`2024-01-28 01:02:03.5`."""
    texts = pc.binary_join_element_wise(day_texts(day_of(moments)), _time_texts(moments), " ")
    return pc.replace_substring_regex(texts, r"\.?0+\z", "")


def _time_texts(moments: Any) -> Any:
    """With six digits after the point."""
    rest = floor_rest(micros_of(moments), MICROS_A_DAY)
    return pc.utf8_slice_codeunits(pc.cast(pc.cast(rest, pa.timestamp("us")), pa.string()), 11)


def day_from_text(text: str) -> int | None:
    """Days since 1970, as Spark's cast reads them; None where it fails."""
    found = _DATE.fullmatch(text.rstrip("".join(map(chr, [*range(33), 127]))))
    if found is None:
        return None
    sign, year, month, day = found.groups()
    cycles, rest = divmod(int(f"{sign}{year}") - 1, 400)
    try:
        days = date(rest + 1, int(month or 1), int(day or 1)).toordinal() - _EPOCH_DAY + cycles * _DAYS_OF_400_YEARS
    except ValueError:
        return None
    return days if -(1 << 31) <= days < 1 << 31 else None


def _parts(number: int) -> tuple[int, int, int]:
    cycles, day = divmod(number + _EPOCH_DAY - 1, _DAYS_OF_400_YEARS)
    found = date.fromordinal(day + 1)
    return found.year + 400 * cycles, found.month, found.day


def _day_text(number: int) -> str:
    year, month, day = _parts(number)
    sign = "-" if year < 0 else "+" if year > 9999 else ""
    return f"{sign}{abs(year):04d}-{month:02d}-{day:02d}"
