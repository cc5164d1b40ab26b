"""What is sure to be refused, and with which reason; everything else is left to Spark."""

import pytest
from pyspark.sql.types import (
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    StructField,
    StructType,
)

from spark_job.formats.json.type_mismatch import type_mismatch

WHOLE = [ByteType(), ShortType(), IntegerType(), LongType()]


def of(data_type: DataType, value: str, *before: StructField, more: str = "") -> str | None:
    schema = StructType([*before, StructField("a", data_type)])
    return type_mismatch(f'{{{more}"a":{value}}}'.encode(), schema)


@pytest.mark.parametrize("data_type", WHOLE)
@pytest.mark.parametrize("value", ['"x"', '"5"', '""', "true", "1.0", "1e3", "99999999999999999999"])
def test_a_value_that_is_not_an_integer_is_refused(data_type: DataType, value: str) -> None:
    assert of(data_type, value) == f"a: the value does not fit {data_type.simpleString()}"


@pytest.mark.parametrize("data_type", WHOLE)
@pytest.mark.parametrize("value", ["1", "-0", "null", "{}", "[1]", "NaN"])
def test_a_value_that_may_be_an_integer_is_left_to_spark(data_type: DataType, value: str) -> None:
    assert of(data_type, value) is None


def test_the_range_of_a_tinyint_is_checked_after_all_other_columns() -> None:
    assert of(ByteType(), "200") is None
    assert of(ByteType(), "40000") == "a: the value does not fit tinyint"
    before = StructField("t", ByteType())
    assert of(LongType(), '"x"', before, more='"t":200,') is None
    assert of(LongType(), '"x"', before, more='"t":100,') == "a: the value does not fit bigint"


@pytest.mark.parametrize("data_type", [DoubleType(), FloatType()])
@pytest.mark.parametrize(
    ("value", "refused"),
    [
        *(('"1.5"', True), ('"x"', True), ("true", True), ("1.5", False), ("7", False), ('"NaN"', False)),
        *(('"-Infinity"', False), ("1e300", False), ("1e999", False), ("null", False), ("{}", False)),
    ],
)
def test_values_for_number_columns(data_type: DataType, value: str, refused: bool) -> None:
    assert (of(data_type, value) is not None) == refused


@pytest.mark.parametrize(
    ("value", "refused"),
    [('"true"', True), ("1", True), ("0.5", True), ("true", False), ("null", False), ("{}", False)],
)
def test_values_for_boolean_columns(value: str, refused: bool) -> None:
    assert (of(BooleanType(), value) is not None) == refused


@pytest.mark.parametrize("before", ["5", "{}", "[]", "true"])
def test_a_string_column_with_another_value_decides_nothing(before: str) -> None:
    assert of(LongType(), '"x"', StructField("s", StringType()), more=f'"s":{before},') is None
    assert of(LongType(), '"x"', StructField("s", StringType()), more='"s":"5",') is not None


@pytest.mark.parametrize("kind", [DateType(), FloatType()])
def test_nothing_is_certain_after_a_column_that_may_not_fit(kind: DataType) -> None:
    value = '"2024-02-30"' if kind == DateType() else "1e300"
    assert of(LongType(), '"x"', StructField("d", kind), more=f'"d":{value},') is None


def test_a_duplicate_key_is_left_to_spark() -> None:
    assert of(LongType(), '1,"a":"x"') is None
    assert of(LongType(), '"x","a":1') is None


def test_unknown_keys_and_missing_columns_do_not_matter() -> None:
    assert of(LongType(), '"x"', StructField("id", StringType(), nullable=False), more='"z":[1,{}],') is not None
