"""Numbers whose exponent, like that of 1e-2147483, costs Spark minutes when the column is a DECIMAL."""

import re

from pyspark.sql.types import DataType, DecimalType, StructType

from spark_job.formats.json.schema_values import contains_type, schema_leaves

_HUGE = re.compile(r"[eE][-+]?0*[1-9][0-9]{4}")
_MAYBE = re.compile(_HUGE.pattern.encode())


def contains_decimal(data_type: DataType) -> bool:
    """Whether the type contains a DECIMAL, also inside structs, arrays and maps."""
    return contains_type(data_type, DecimalType)


def huge_exponent(line: bytes, schema: StructType) -> str | None:
    """Why this line, a JSON object, must not go to Spark; None if it may."""
    if _MAYBE.search(line) is None:
        return None
    try:
        for path, value, data_type in schema_leaves(line, schema):
            if isinstance(data_type, DecimalType) and isinstance(value, str) and _HUGE.search(value):
                return f"{path}: an exponent of five digits or more cannot be read as DECIMAL in bounded time"
    except RecursionError:
        return "nested in too many levels to check the exponents of its DECIMAL columns"
    return None
