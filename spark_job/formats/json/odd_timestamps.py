"""Values that Spark silently reads as another TIMESTAMP: seconds whose microseconds overflow, and a time of day, to
which it adds today's date."""

import re
from typing import Any

from pyspark.sql.types import DataType, StructType, TimestampType

from spark_job.formats.json.schema_values import NumberText, contains_type, schema_leaves

_FIRST_SECOND, _LAST_SECOND = -62_135_596_800, 253_402_300_799
_INTEGER = re.compile(r"-?[0-9]+")
_NO_DAY = re.compile(r"[\x00-\x20\x7f]*(T|[0-9]{1,2}:)")
_MAYBE = re.compile(rb'[0-9]{12}|\\u00|"([ \x7f]|\\[bfnrt])*(T[0-9]|[0-9]{1,2}:)')


def contains_timestamp(data_type: DataType) -> bool:
    """Whether the type contains a TIMESTAMP, also inside structs, arrays and maps."""
    return contains_type(data_type, TimestampType)


def odd_timestamp(line: bytes, schema: StructType) -> str | None:
    """Why this line, a JSON object, must not go to Spark; None if it may."""
    if _MAYBE.search(line) is None:
        return None
    try:
        for path, value, data_type in schema_leaves(line, schema):
            why = _odd_reason(value) if isinstance(data_type, TimestampType) else None
            if why is not None:
                return f"{path}: {why} does not fit timestamp"
    except RecursionError:
        return "nested in too many levels to check its TIMESTAMP columns"
    return None


def _odd_reason(value: Any) -> str | None:
    if isinstance(value, NumberText):
        beyond = (
            len(value) > 20 or not _FIRST_SECOND <= int(value) <= _LAST_SECOND if _INTEGER.fullmatch(value) else False
        )
        return "a number of seconds beyond the years 1 to 9999" if beyond else None
    return "a time without its day" if isinstance(value, str) and _NO_DAY.match(value) else None
