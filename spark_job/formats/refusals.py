"""Why a record is refused, in the words of its dead letter: the same for every format."""

from pyspark.sql.types import DataType


def does_not_fit(path: str, data_type: DataType) -> str:
    return f"{path}: the value does not fit {data_type.simpleString()}"


def is_missing(path: str) -> str:
    return f"{path}: NOT NULL, but it is missing or null"
