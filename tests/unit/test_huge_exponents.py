"""Which lines Spark must not be asked about."""

import pytest
from pyspark.sql.types import (
    ArrayType,
    DecimalType,
    DoubleType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
)

from spark_job.formats.json.huge_exponents import contains_decimal, huge_exponent

MONEY = DecimalType(5, 2)
POINT = StructType([StructField("money", MONEY), StructField("size", DoubleType())])
SCHEMA = StructType(
    [
        StructField("money", MONEY),
        StructField("text", StringType()),
        StructField("size", DoubleType()),
        StructField("points", ArrayType(POINT)),
        StructField("by_name", MapType(StringType(), POINT)),
    ]
)


@pytest.mark.parametrize(
    ("line", "path"),
    [
        ('{"money": 1e-2147483}', "money"),
        ('{"money": 1E+00099999}', "money"),
        ('{"money": "1e-2147483"}', "money"),
        ('{"money": " -1.5e21474836 "}', "money"),
        ('{"money": 1e99999, "money": 2}', "money"),
        ('{"money": 1, "money": 2e99999}', "money"),
        ('{"points": [{"money": 1}, {"money": 1e-99999}]}', "points[].money"),
        ('{"by_name": {"a": {"money": 1e-99999}}}', "by_name{}.money"),
    ],
)
def test_a_decimal_with_a_huge_exponent_is_named(line: str, path: str) -> None:
    assert str(huge_exponent(line.encode(), SCHEMA)).startswith(f"{path}: an exponent of five digits")


@pytest.mark.parametrize(
    "line",
    [
        '{"money": 1e-9999, "text": "1e-2147483"}',
        '{"money": 1e-00000012}',
        '{"size": 1e-2147483}',
        '{"other": 1e-2147483, "points": [{"size": 1e99999, "money": null}], "money": [1e99999]}',
        '{"points": {"money": 1e-99999}, "by_name": [{"money": 1e-99999}]}',
    ],
)
def test_other_types_may_have_any_exponent(line: str) -> None:
    assert huge_exponent(line.encode(), SCHEMA) is None


@pytest.mark.parametrize(
    ("kind", "contains"),
    [
        (MONEY, True),
        (SCHEMA, True),
        (ArrayType(POINT), True),
        (MapType(StringType(), MONEY), True),
        (StructType([StructField("n", LongType())]), False),
    ],
)
def test_a_decimal_is_found_at_any_depth(kind: object, *, contains: bool) -> None:
    assert contains_decimal(kind) is contains  # type: ignore[arg-type]


def test_a_line_nested_too_deeply_to_check_is_refused() -> None:
    levels = 200_000
    line = f'{{"money": 1e99999, "other": {"[" * levels}{"]" * levels}}}'
    assert "levels" in str(huge_exponent(line.encode(), SCHEMA))
