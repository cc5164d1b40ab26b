"""Dates and timestamps in the usual ISO forms, converted column by column. Spark accepts more forms."""

import re
from datetime import UTC, date, datetime

import pyarrow as pa
import pyarrow.compute as pc

from spark_job.formats.converted_column import ConvertedColumn, convert_one_by_one, rows_outside

_DAY = re.compile(r"\d{4}-\d\d-\d\d")
_TIME = re.compile(r"(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(Z|[+-](?:0\d|1[0-7]):[0-5]\d)?")
# Spark refuses offsets above 18 hours, Arrow accepts them.
_ZONED_FORM = r"\A.{19}(\.[0-9]{1,6})?(Z|[+-](0[0-9]|1[0-7]):[0-5][0-9])\z"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST_SECOND, _LAST_SECOND = -62_135_596_800, 253_402_300_799
_NAIVE, _ZONED = pa.timestamp("us"), pa.timestamp("us", tz="UTC")


def dates(values: pa.Array) -> ConvertedColumn:
    try:
        # Arrow accepts yyyy-MM-dd only.
        days = values.cast(pa.date32())
    except pa.ArrowInvalid:
        return convert_one_by_one(values, pa.date32(), _day)
    return ConvertedColumn(days, rows_outside(days, pa.scalar(date.min), pa.scalar(date.max)))


def _day(text: str) -> date | None:
    if _DAY.fullmatch(text) is None or not text.isascii():
        return None
    try:
        return date.fromisoformat(text)
    except ValueError:
        return None


def timestamps(values: pa.Array) -> ConvertedColumn:
    """Timestamps from strings, or from seconds since 1970."""
    if pa.types.is_integer(values.type):
        return _of_seconds(values)
    shortest, longest = _lengths(values)
    found = None
    # In each of these forms, the length ensures that there are seconds, and no more digits than microseconds.
    if shortest >= 20 and longest <= 27 and _all(pc.ends_with(values, "Z")):
        found = _cast(values, _ZONED)
    elif shortest >= 28 and longest <= 30 and _all(pc.match_substring_regex(values, r"\.[0-9]{7,9}Z\z")):
        found = _cast(pc.utf8_slice_codeunits(values, 0, 26), _NAIVE)
    elif shortest >= 20 and longest <= 32 and _all(pc.match_substring_regex(values, _ZONED_FORM)):
        found = _cast(values, _ZONED)
    elif shortest >= 19 and longest <= 26:
        found = _cast(values, _NAIVE)
    if found is None:
        return convert_one_by_one(values, _ZONED, lambda text: _moment(text, zoned=True))
    return _in_range(found.view(_ZONED))


def timestamps_ntz(values: pa.Array) -> ConvertedColumn:
    """Timestamps from strings without a time zone."""
    shortest, longest = _lengths(values)
    found = _cast(values, _NAIVE) if shortest >= 19 and longest <= 26 else None
    if found is None:
        return convert_one_by_one(values, _NAIVE, lambda text: _moment(text, zoned=False))
    return _in_range(found)


def _cast(values: pa.Array, wanted: pa.DataType) -> pa.Array | None:
    """None if one of them is not valid."""
    try:
        return values.cast(wanted)
    except pa.ArrowInvalid:
        return None


def _of_seconds(values: pa.Array) -> ConvertedColumn:
    first, last = pa.scalar(_FIRST_SECOND), pa.scalar(_LAST_SECOND)
    doubtful = rows_outside(values, first, last)
    if doubtful:
        values = pc.if_else(pc.and_(pc.greater_equal(values, first), pc.less_equal(values, last)), values, None)
    return ConvertedColumn(pc.multiply(values, pa.scalar(1_000_000)).view(_ZONED), doubtful)


def _lengths(values: pa.Array) -> tuple[int, int]:
    found = pc.min_max(pc.binary_length(values)).as_py()
    return found["min"] or 0, found["max"] or 0


def _all(mask: pa.Array) -> bool:
    return bool(pc.all(mask).as_py())


def _in_range(moments: pa.Array) -> ConvertedColumn:
    micros = moments.view(pa.int64())
    first, last = _FIRST_SECOND * 1_000_000, _LAST_SECOND * 1_000_000 + 999_999
    return ConvertedColumn(moments, rows_outside(micros, pa.scalar(first), pa.scalar(last)))


def _moment(text: str, *, zoned: bool) -> int | None:
    """Microseconds since 1970; None for a string that Spark may read differently or refuse."""
    found = _TIME.fullmatch(text)
    if found is None or not text.isascii():
        return None
    day, time, fraction, zone = found.groups()
    if zone is not None and not zoned:
        return None
    try:
        moment = datetime.fromisoformat(f"{day}T{time}{zone or 'Z'}")
        elapsed = moment - _EPOCH
    except (ValueError, OverflowError):
        return None
    seconds = elapsed.days * 86_400 + elapsed.seconds
    if not _FIRST_SECOND <= seconds <= _LAST_SECOND:
        return None
    return seconds * 1_000_000 + int((fraction or "")[:6].ljust(6, "0"))
