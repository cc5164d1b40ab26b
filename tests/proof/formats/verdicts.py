"""What an independent reading of a damaged file says of each record, without code of the product."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import ROUND_HALF_UP, Decimal, InvalidOperation, localcontext
from typing import Any

from pyspark.sql.types import (
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    LongType,
    StringType,
    StructType,
    TimestampType,
)

from tests.proof.bad_input.records import Fate
from tests.proof.bad_input.values import Expected

_WHOLE = re.compile(r"[+-]?[0-9]{1,38}")
_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,4})?")
_LONG_EXPONENT = re.compile(r"([eE][+-]?[0-9])[0-9]+$")
_NOT_FINITE = {
    "NaN": "nan",
    **dict.fromkeys(("Inf", "+Inf", "Infinity", "+Infinity"), "inf"),
    **dict.fromkeys(("-Inf", "-Infinity"), "-inf"),
}
_DAY = re.compile(r"([0-9]{4})(?:-([0-9]{1,2})(?:-([0-9]{1,2}))?)?")
_MOMENT = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z")
NEVER = Expected(False, lambda found: False)
ANYTHING = Expected(None, lambda found: True)


@dataclass(frozen=True, slots=True)
class Wanted:
    """Of one record. `differs`: what is wrong with a row of it; empty: nothing."""

    fate: Fate
    differs: Callable[[Mapping[str, Any]], str]


@dataclass(frozen=True, slots=True)
class Reading:
    """`records`: of the file, in order; None: it has to be dead as a whole, because of `why`. `is_certain`: False if
    the independent reader cannot tell, so that only the rules for any file count. `may_be_dead`: the file may be dead
    although the independent reader reads it."""

    records: Sequence[Wanted] | None
    why: str = ""
    is_certain: bool = True
    may_be_dead: bool = False


UNKNOWN = Reading(None, "", is_certain=False)
DEAD = Wanted(Fate.DEAD, lambda row: "it is a row, and an independent reader refuses the record")


def wanted(schema: StructType, each: Mapping[str, Expected]) -> Wanted:
    """`each`: by column. What may not be null and is not there does not fit."""
    fits = [each[field.name].fits for field in schema]
    fate = Fate.DEAD if False in fits else Fate.EITHER if None in fits else Fate.ROW

    def differs(row: Mapping[str, Any]) -> str:
        for name, value in each.items():
            if value.fits is False:
                return f"{name} does not fit, and is {row[name]!a:.100} in a row"
            if not value.holds(row[name]):
                return f"{name} became {row[name]!a:.100}, which an independent reader does not find"
        return ""

    return Wanted(fate, differs)


def null(*, nullable: bool) -> Expected:
    return Expected(nullable, lambda found: found is None)


def exactly(value: Any, fits: bool | None = True) -> Expected:
    return Expected(fits, lambda found: type(found) is type(value) and bool(found == value))


def of_text(text: str, data_type: DataType) -> Expected:
    """The value of a column that is text in its file, by docs/format-csv.md. `text`: not empty."""
    return _OF_TEXT[type(data_type)](text, data_type)


def _whole(text: str, _: DataType) -> Expected:
    if _WHOLE.fullmatch(text) is None:
        return NEVER if not re.fullmatch(r"[+-]?[0-9]+", text) else ANYTHING
    return exactly(int(text)) if -(2**63) <= int(text) < 2**63 else NEVER


def _double(text: str, _: DataType) -> Expected:
    """Infinity, if it is too large for one."""
    if _NUMBER.fullmatch(_LONG_EXPONENT.sub(r"\1", text)) is None and text not in _NOT_FINITE:
        return NEVER
    number = float(_NOT_FINITE.get(text, text))
    return Expected(True, lambda found: isinstance(found, float) and (found == number or number != number))


def _decimal(text: str, data_type: DataType) -> Expected:
    assert isinstance(data_type, DecimalType)
    if _NUMBER.fullmatch(text) is None:
        return NEVER
    with localcontext() as context:
        context.prec = 400
        try:
            number = Decimal(text).quantize(Decimal(1).scaleb(-data_type.scale), ROUND_HALF_UP)
        except InvalidOperation:
            return NEVER
    return exactly(number) if abs(number) < Decimal(10) ** (data_type.precision - data_type.scale) else NEVER


def _boolean(text: str, _: DataType) -> Expected:
    return exactly(text.lower() == "true") if text.lower() in ("true", "false") else NEVER


def _date(text: str, _: DataType) -> Expected:
    found = _DAY.fullmatch(text)
    if found is None:
        return NEVER if not re.match(r"[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}[T ]", text) else ANYTHING
    try:
        return exactly(date(*(int(part or 1) for part in found.groups())))
    except ValueError:
        return NEVER


def _timestamp(text: str, _: DataType) -> Expected:
    """Only the usual form; the product's own tests have the others."""
    if not text[:4].isdecimal():
        return NEVER
    if _MOMENT.fullmatch(text) is None:
        return ANYTHING
    try:
        return exactly(datetime.fromisoformat(text))
    except ValueError:
        return Expected(None, lambda found: found is not None)


_OF_TEXT: Mapping[type[DataType], Callable[[str, DataType], Expected]] = {
    StringType: lambda text, _: exactly(text),
    LongType: _whole,
    DoubleType: _double,
    DecimalType: _decimal,
    BooleanType: _boolean,
    DateType: _date,
    TimestampType: _timestamp,
}
