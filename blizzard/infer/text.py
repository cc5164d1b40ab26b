"""The type of a value that is text in its file, as fields of CSV and XML are.

Only what the readers of these formats take for a type counts as one, and only if the text can be had back from the
value: `007`, `+49301234` and `01067` are names that consist of digits, so they stay text.
"""

import math
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal as Number

from blizzard.config.ddl import Decimal, Type
from blizzard.infer.types import BIGINT, BOOLEAN, DATE, DOUBLE, MAX_DIGITS, STRING, TIMESTAMP, VOID
from blizzard.infer.values import type_of

_WHOLE = re.compile(r"-?(?:0|[1-9][0-9]*)")
_NUMBER = re.compile(r"-?(?:(?:0|[1-9][0-9]*)(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]{1,3})?")
_NOT_FINITE = {"NaN", "Inf", "+Inf", "-Inf", "Infinity", "+Infinity", "-Infinity"}
_BOOLEANS = {"true", "false"}
_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_TIME = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2})[T ]((?:[01][0-9]|2[0-3]):[0-5][0-9])(?:(:[0-5][0-9])(?:\.[0-9]{1,9})?)?"
    r" ?(Z|[+-](?:0[0-9]|1[0-7])(?::?[0-5][0-9])?)?"
)
_NAME_OF_CODES = re.compile(
    r"(?:^|_)(?:(?:zip|postal|post)(?:_?codes?)?|plz|(?:tele)?phones?|(?:tele)?phone_?(?:no|number)|tel|mobile|fax|ssn|iban"
    r"|(?:account|card|vat|tax)_?(?:no|number|id)|isbn|ean|gtin|upc|sku)(?:_|$)"
)
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|[\s.-]+")


@dataclass(frozen=True, slots=True)
class TextForms:
    """How numbers, dates and times are written. The formats are strptime's; None: ISO 8601."""

    decimal_point: str = "."
    date_format: str | None = None
    timestamp_format: str | None = None


ISO = TextForms()


def text_type(text: str | None, forms: TextForms = ISO) -> Type:
    """VOID for None, which stands for null."""
    if text is None:
        return VOID
    if text.lower() in _BOOLEANS:
        return BOOLEAN
    return _number_type(text, forms.decimal_point) or _time_type(text, forms) or STRING


def number_type(text: str, forms: TextForms = ISO) -> Type:
    """As `text_type`, but of a number the DECIMAL that has its digits, if one has as many."""
    plain = _with_point(text, forms.decimal_point)
    return type_of(Number(plain)) if _NUMBER.fullmatch(plain) is not None else text_type(text, forms)


def names_codes(column: str) -> bool:
    """Whether a column of this name holds codes that may consist of digits, such as phone numbers or zip codes. They
    are text even if no value of a sample begins with a zero."""
    return _NAME_OF_CODES.search(_CAMEL.sub("_", column).lower()) is not None


def _number_type(text: str, decimal_point: str) -> Type | None:
    if _WHOLE.fullmatch(text) is not None:
        return _whole_number_type(text)
    text = _with_point(text, decimal_point)
    if _NUMBER.fullmatch(text) is not None:
        return DOUBLE if math.isfinite(float(text)) else None
    return DOUBLE if text in _NOT_FINITE else None


def _with_point(text: str, decimal_point: str) -> str:
    """What has a point although another mark is configured becomes no number."""
    return text if decimal_point == "." else text.replace(".", "?").replace(decimal_point, ".")


def _whole_number_type(digits: str) -> Type | None:
    """None where no type holds each digit."""
    count = len(digits.lstrip("-"))
    if count > MAX_DIGITS:
        return None
    return BIGINT if -(1 << 63) <= int(digits) < 1 << 63 else Decimal(count, 0)


def _time_type(text: str, forms: TextForms) -> Type | None:
    is_day = _is_day(text) if forms.date_format is None else _fits(text, forms.date_format)
    if is_day:
        return DATE
    is_time = _is_time(text) if forms.timestamp_format is None else _fits(text, forms.timestamp_format)
    return TIMESTAMP if is_time else None


def _is_day(text: str) -> bool:
    return _DAY.fullmatch(text) is not None and _exists(f"{text}T00:00Z")


def _is_time(text: str) -> bool:
    found = _TIME.fullmatch(text)
    if found is None:
        return False
    day, minute, second, zone = found.groups()
    return _exists(f"{day}T{minute}{second or ''}{zone or 'Z'}")


def _exists(text: str) -> bool:
    try:
        datetime.fromisoformat(text).astimezone(UTC)
    except (ValueError, OverflowError):
        return False
    return True


def _fits(text: str, form: str) -> bool:
    try:
        datetime.strptime(text, form)  # noqa: DTZ007 - only whether it can be read
    except ValueError:
        return False
    return True
