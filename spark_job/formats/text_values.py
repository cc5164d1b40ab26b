"""Values that are text in their file, in the types of a schema's columns: exactly, or the row does not fit.

Values follow Spark's CSV parser, `UnivocityParser` of Spark 4.1, without what it is lenient about: docs/formats.md.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import ROUND_HALF_UP, Decimal, InvalidOperation, localcontext
from functools import cache, cached_property
from itertools import pairwise
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import (
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    StringType,
    TimestampNTZType,
    TimestampType,
)

from spark_job.formats.convert_times import dates, timestamps, timestamps_ntz
from spark_job.formats.converted_column import ConvertedColumn, convert_one_by_one
from spark_job.formats.nested_columns import INTEGERS, column_type

_INTEGER = re.compile(r"[+-]?[0-9]+")
_MANTISSA = r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)"
_FLOAT = re.compile(rf"{_MANTISSA}(?:[eE][+-]?[0-9]+)?")
_NUMBER = re.compile(rf"{_MANTISSA}(?:[eE][+-]?0*[0-9]{{1,18}})?")
"""Of a decimal. As in Spark, an exponent of more digits is none, where a double becomes infinite, or 0."""
_NOT_FINITE: Mapping[str, float] = {
    "NaN": float("nan"),
    **dict.fromkeys(("Inf", "+Inf", "Infinity", "+Infinity"), float("inf")),
    **dict.fromkeys(("-Inf", "-Infinity"), float("-inf")),
}
_DATE = re.compile(r"(\d{4})(?:-(\d\d?)(?:-(\d\d?)(?:[T ].*)?)?)?", re.ASCII)
_OFFSET = r"Z|[+-](?:0\d|1[0-7])(?::?[0-5]\d)?|[+-]18(?::?00)?"  # 18 hours at most, as in Java
_TIME = re.compile(
    rf"(\d{{4}})(?:-(\d\d?)(?:-(\d\d?)(?:[T ](\d\d?):(\d\d?)(?::(\d\d?)(?:\.(\d+))?)? ?({_OFFSET})?)?)?)?",
    re.ASCII,
)
_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - of a time without a zone
_PRECISION = 400
_UNITS = timedelta(microseconds=1)


@dataclass(frozen=True)
class TextRules:
    """How text is read. The formats are strptime's; None: ISO 8601. `zone`: of times that name none."""

    decimal_point: str = "."
    date_format: str | None = None
    timestamp_format: str | None = None
    zone: str = "UTC"

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> "TextRules":
        """From the options of a format, of which it may have some."""
        return cls(
            options.get("decimal_point", "."),
            options.get("date_format"),
            options.get("timestamp_format"),
            options.get("timezone", "UTC"),
        )

    @cached_property
    def zone_info(self) -> ZoneInfo:
        return ZoneInfo(self.zone)

    def convert(self, values: pa.Array, data_type: DataType) -> ConvertedColumn:
        """Strings in the `column_type`, which is neither a struct, an array nor a map."""
        if type(data_type) in INTEGERS:
            return _integers(values, INTEGERS[type(data_type)])
        return _CONVERT[type(data_type)](self, values, data_type)

    def number_text(self, values: pa.Array) -> pa.Array:
        """With a point; what already has one where another mark is configured becomes no number."""
        if self.decimal_point == ".":
            return values
        return pc.replace_substring(pc.replace_substring(values, ".", "?"), self.decimal_point, ".")


def _integers(values: pa.Array, wanted: pa.DataType) -> ConvertedColumn:
    if _made_of(values, b"0123456789-"):
        try:
            return ConvertedColumn(values.cast(wanted))
        except pa.ArrowInvalid:
            pass
    half = 1 << (wanted.bit_width - 1)

    def read(text: str) -> int | None:
        if _INTEGER.fullmatch(text) is None or len(text) > 40:
            return None
        number = int(text)
        return number if -half <= number < half else None

    return convert_one_by_one(values, wanted, read)


def _floats(rules: TextRules, values: pa.Array, data_type: DataType) -> ConvertedColumn:
    wanted, values = column_type(data_type), rules.number_text(values)
    if _made_of(values, b"0123456789-.eE"):
        try:
            return ConvertedColumn(values.cast(wanted))
        except pa.ArrowInvalid:
            pass
    return convert_one_by_one(values, wanted, _float)


def _float(text: str) -> float | None:
    if _FLOAT.fullmatch(text) is not None:
        return float(text)
    return _NOT_FINITE.get(text)


def _decimals(rules: TextRules, values: pa.Array, data_type: DataType) -> ConvertedColumn:
    assert isinstance(data_type, DecimalType)
    wanted, values = column_type(data_type), rules.number_text(values)
    end, unit = Decimal(10) ** (data_type.precision - data_type.scale), Decimal(1).scaleb(-data_type.scale)

    def read(text: str) -> Decimal | None:
        if _NUMBER.fullmatch(text) is None:
            return None
        with localcontext() as context:
            context.prec = _PRECISION
            try:
                number = Decimal(text).quantize(unit, ROUND_HALF_UP)
            except InvalidOperation:  # more digits than any column has
                return None
            return number if abs(number) < end else None

    if _made_of(values, b"0123456789-."):
        try:
            return ConvertedColumn(values.cast(wanted))
        except pa.ArrowInvalid:
            pass
    return convert_one_by_one(values, wanted, read)


def _booleans(rules: TextRules, values: pa.Array, data_type: DataType) -> ConvertedColumn:
    lower = pc.ascii_lower(values)
    is_true = pc.equal(lower, "true")
    made = pc.if_else(pc.or_(is_true, pc.equal(lower, "false")), is_true, pa.scalar(None, pa.bool_()))
    return ConvertedColumn(made, _lost(values, made))


def _dates(rules: TextRules, values: pa.Array, data_type: DataType) -> ConvertedColumn:
    iso = _as_iso(values, rules.date_format)
    found = None if iso is None else dates(iso)
    if found is not None and not found.doubtful:
        return found
    if rules.date_format is not None:
        return _by_format(values, rules.date_format, pa.date32(), lambda moment: moment.date())
    return convert_one_by_one(values, pa.date32(), _date)


def _date(text: str) -> date | None:
    found = _DATE.fullmatch(text)
    if found is None:
        return None
    try:
        return date(int(found[1]), int(found[2] or 1), int(found[3] or 1))
    except ValueError:
        return None


def _timestamps(rules: TextRules, values: pa.Array, data_type: DataType) -> ConvertedColumn:
    wanted, zone = column_type(data_type), rules.zone_info
    iso = _as_iso(values, rules.timestamp_format)
    if iso is not None and (rules.zone == "UTC" or _have_zones(iso)):
        found = timestamps(iso)
        if not found.doubtful:
            return found
    if rules.timestamp_format is not None:
        return _by_format(values, rules.timestamp_format, wanted, lambda moment: _micros(moment, zone))
    return convert_one_by_one(values, wanted, lambda text: _moment(text, zone))


def _timestamps_ntz(rules: TextRules, values: pa.Array, data_type: DataType) -> ConvertedColumn:
    wanted = column_type(data_type)
    iso = _as_iso(values, rules.timestamp_format)
    found = None if iso is None else timestamps_ntz(iso)
    if found is not None and not found.doubtful:
        return found
    if rules.timestamp_format is not None:
        return _by_format(values, rules.timestamp_format, wanted, lambda moment: _micros(moment, None))
    return convert_one_by_one(values, wanted, lambda text: _moment(text, None))


def _have_zones(values: pa.Array) -> bool:
    return bool(pc.all(pc.match_substring_regex(values, r"(Z|[+-][0-9:]{2,6})\z")).as_py())


def _moment(text: str, zone: ZoneInfo | None) -> int | None:
    """Microseconds since 1970. `zone`: of a time without one; None: no time may have one."""
    found = _TIME.fullmatch(text)
    if found is None:
        return None
    year, month, day, hour, minute, second, fraction, offset = found.groups()
    micros = int((fraction or "")[:6].ljust(6, "0"))
    try:
        moment = datetime(  # noqa: DTZ001 - its zone follows
            int(year), int(month or 1), int(day or 1), int(hour or 0), int(minute or 0), int(second or 0), micros
        )
        if offset is None:
            return _micros(moment, zone)
        return _micros(moment.replace(tzinfo=datetime.fromisoformat(f"2000-01-01T00{offset}").tzinfo), zone)
    except (ValueError, OverflowError):
        return None


def _micros(moment: datetime, zone: ZoneInfo | None) -> int | None:
    if moment.tzinfo is None and zone is not None:
        moment = moment.replace(tzinfo=zone)
    if moment.tzinfo is not None:
        if zone is None:
            return None
        try:
            moment = moment.astimezone(UTC).replace(tzinfo=None)
        except OverflowError:
            return None
    return (moment - _EPOCH) // _UNITS


def _by_format(values: pa.Array, form: str, wanted: pa.DataType, made: Callable[[datetime], Any]) -> ConvertedColumn:
    """Each different text is read once."""
    known: dict[str, Any] = {}

    def read(text: str) -> Any:
        if text not in known:
            known[text] = _by_strptime(text, form, made)
        return known[text]

    return convert_one_by_one(values, wanted, read)


def _by_strptime(text: str, form: str, made: Callable[[datetime], Any]) -> Any:
    whole = _whole_numbers(form)
    if whole is not None and whole.fullmatch(text) is None:
        return None
    try:
        return made(datetime.strptime(text, form))  # noqa: DTZ007 - `made` adds the zone
    except ValueError:
        return None


_DIGITS = {"Y": "{4}", **dict.fromkeys("ymdHIMS", "{2}"), "j": "{3}", "f": "{1,6}"}


@cache
def _whole_numbers(form: str) -> re.Pattern[str] | None:
    """Of a format in which numbers follow each other, such as %Y%m%d: strptime also takes fewer digits, and guesses
    which number lacks one: the pattern of text in which none does. None: the format is another one."""
    parts: list[tuple[str, str]] = re.findall(r"%(.)|([^%]+)", form, re.DOTALL)
    numbers = [directive in _DIGITS for directive, _ in parts]
    beside = [one and next_one for one, next_one in pairwise(numbers)]
    if not any(beside):
        return None
    pattern = ""
    for (directive, literal), before, after in zip(parts, [False, *beside], [*beside, False], strict=True):
        if literal:
            pattern += re.sub(r"(\\?\s)+", r"\\s*", re.escape(literal))
        else:
            pattern += f"[0-9]{_DIGITS[directive]}" if before or after else ".+?"
    return re.compile(pattern, re.IGNORECASE | re.DOTALL)


_DIRECTIVES = {"Y": "[0-9]{4}", **dict.fromkeys("mdHMS", "[0-9]{2}"), "f": "[0-9]{1,6}"}


@cache
def _iso_form(form: str) -> tuple[str, str] | None:
    """The pattern of text in this format, and how ISO 8601 would have it; None if the format is another kind."""
    places: dict[str, int] = {}
    pattern = ""
    for literal, directive in re.findall(r"([^%]+)|%(.)", form, re.DOTALL):
        if literal:
            pattern += re.escape(literal)
        elif directive in _DIRECTIVES and directive not in places:
            places[directive] = len(places) + 1
            pattern += f"({_DIRECTIVES[directive]})"
        else:
            return None
    if not {*"Ymd"} <= places.keys():
        return None
    iso = rf"\{places['Y']}-\{places['m']}-\{places['d']}"
    if places.keys() & {*"HMSf"}:
        hour, minute, second = (f"\\{places[name]}" if name in places else "00" for name in "HMS")
        iso += f"T{hour}:{minute}:{second}" + (rf".\{places['f']}" if "f" in places else "")
    return rf"\A{pattern}\z", iso


def _as_iso(values: pa.Array, form: str | None) -> pa.Array | None:
    """The text as ISO 8601 has it; None if not every value has the exact form."""
    if form is None:
        return values
    known = _iso_form(form)
    if known is None or not pc.all(pc.match_substring_regex(values, known[0])).as_py():
        return None
    return pc.replace_substring_regex(values, known[0], known[1])


def _strings(rules: TextRules, values: pa.Array, data_type: DataType) -> ConvertedColumn:
    return ConvertedColumn(values)


def _made_of(values: pa.Array, allowed: bytes) -> bool:
    """Whether the text of all values together has no other bytes. Arrow's casts also take forms such as 0x1F and
    numbers between blanks; with these bytes alone they take what Spark takes."""
    _, offsets, data = values.buffers()
    if data is None or not len(values):
        return True
    at = pa.Array.from_buffers(pa.int32(), len(values) + 1, [None, offsets], offset=values.offset)
    return not data.to_pybytes()[at[0].as_py() : at[-1].as_py()].translate(None, allowed)


def _lost(values: pa.Array, made: pa.Array) -> frozenset[int]:
    """Rows whose value has become null."""
    if made.null_count == values.null_count:
        return frozenset()
    return frozenset(pc.indices_nonzero(pc.and_(made.is_null(), values.is_valid())).to_pylist())


_CONVERT: Mapping[type[DataType], Callable[[TextRules, pa.Array, DataType], ConvertedColumn]] = {
    StringType: _strings,
    BooleanType: _booleans,
    FloatType: _floats,
    DoubleType: _floats,
    DecimalType: _decimals,
    DateType: _dates,
    TimestampType: _timestamps,
    TimestampNTZType: _timestamps_ntz,
}
