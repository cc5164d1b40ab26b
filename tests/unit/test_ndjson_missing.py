"""Records without a value that is NOT NULL, which the fast parser refuses with Spark's reason."""

import pytest
from pyspark.sql.types import ArrayType, DateType, LongType, MapType, StringType, StructField, StructType

from spark_job.formats.refusals import is_missing
from tests.unit.ndjson_blocks import GOOD, A, accepted, parse


@pytest.mark.parametrize("line", ['{"n":1}', '{"id":null}', "{}", '{"id":null,"n":null,"z":[]}'])
def test_a_record_without_a_value_that_is_not_null_is_refused_alone(line: str) -> None:
    parsed = parse(GOOD, line, GOOD, GOOD)
    assert accepted(parsed) == dict.fromkeys((0, 2, 3), A)
    assert list(parsed.refused) == [(1, is_missing("id"))]


X_Y = StructType([StructField("x", LongType(), False), StructField("y", DateType(), False)])
NESTED = StructType(
    [
        StructField("s", StructType([StructField("inner", X_Y), StructField("all", ArrayType(ArrayType(X_Y)))])),
        StructField("m", MapType(StringType(), X_Y)),
        StructField("must", X_Y, False),
        StructField("id", LongType(), False),
    ]
)
NOTHING_MISSING = '"must":{"x":1,"y":"2024-01-28"},"id":1'


@pytest.mark.parametrize(
    ("line", "path"),
    [
        ('{"s":{"inner":{"x":1}},...}', "s.inner.y"),
        ('{"s":{"inner":{}},...}', "s.inner.x"),
        ('{"s":{"all":[[null],[{"x":1,"y":"2024-01-28"},{"x":1,"y":null}]]},...}', "s.all[][].y"),
        ('{"s":{"all":[[{"x":1}],[{"y":"2024-01-28"}]]},...}', "s.all[][].x"),
        ('{"m":{"a":null,"b":{"x":1}},...}', "m{}.y"),
        ('{"must":null,"id":1}', "must"),
        ('{"must":{},"id":1}', "must.x"),
        ('{"must":{"x":1,"y":"2024-01-28"}}', "id"),
        ('{"m":{"b":{"x":1}},"s":{"inner":{"x":1}}}', "s.inner.y"),
        ('{"m":{"b":{"x":1}}}', "m{}.y"),
    ],
)
def test_the_first_missing_value_in_the_order_of_the_schema_is_named(line: str, path: str) -> None:
    good = '{"s":{"inner":null,"all":[]},"m":{"a":null},...}'
    parsed = parse(*(text.replace("...", NOTHING_MISSING) for text in (good, line, good)), schema=NESTED)
    assert list(parsed.refused) == [(1, is_missing(path))]
    assert sorted(accepted(parsed)) == [0, 2]


def test_a_record_in_which_another_value_is_odd_is_left_to_spark_which_finds_that_one_first() -> None:
    parsed = parse('{"must":{"x":1,"y":"2024-02-30"}}', schema=NESTED)
    assert parsed.refused == [(0, None)]
