"""Which expressions the fast reader evaluates, which it leaves to Spark, and which no configuration may have. That its
values are those of Spark, `tests/spark/test_expressions_agree_with_spark.py` shows."""

import pytest

from blizzard.config import ddl
from blizzard.config.expressions.syntax import NotUnderstood
from blizzard.config.expressions.tokens import refusal_of
from blizzard.config.expressions.typed import Columns, understand

COLUMNS = Columns(
    {
        column.name: column.type
        for column in ddl.parse(
            "id STRING, n BIGINT, i INT, x DOUBLE, d DECIMAL(10, 2), t TIMESTAMP, day DATE, ok BOOLEAN, `a b` STRING, "
            "`x.y` STRING, s STRUCT<`in`: STRUCT<v: INT>>, tags ARRAY<STRING>, user STRING"
        ).columns
    }
)
BY_READER = {
    "date(timestamp_seconds(n))": "date",
    "to_date(id)": "date",
    "HOUR(t)": "int",
    "date_trunc('hour', t)": "timestamp",
    "year(day)": "int",
    "Cast ( id AS BIGINT )": "bigint",
    "substr(id, 1, 3)": "string",
    "id || '-' || n": "string",
    "concat(`a b`, `x.y`)": "string",
    "coalesce(i, n)": "bigint",
    "s.`in`.v": "int",
    "S.IN.V": "int",
    "'it'": "string",
    "1.50": "decimal(3,2)",
    "-5": "int",
    "3000000000": "bigint",
    "n BETWEEN 1 AND 5 AND NOT id LIKE 'a%'": "boolean",
    "d >= 0.5 OR x < 1 OR id IN ('a', 'b') OR day IS NOT NULL": "boolean",
    "user = 'me'": "boolean",
    "day > DATE'2024-02-29'": "boolean",
    "not ok": "boolean",
    "trim(lower(upper(id)))": "string",
}
BY_SPARK = {
    "n + 1": "the operator +",
    "n -1": "the operator -",
    "x / 2": "the operator /",
    "!ok": "'!' there",
    "regexp_extract(id, 'a', 0)": "the function regexp_extract",
    "CASE WHEN ok THEN 1 END": "'CASE' there",
    "'a\\n'": "a text with escapes or in parts",
    "'it''s'": "a text with escapes or in parts",
    "tags[0]": "'[0]'",
    "transform(tags, t -> t)": "the operator -",
    "n = x": "a comparison of bigint with double",
    "day = '2024-01-01'": "a comparison of date with string",
    "cast(x as string)": "a cast from double to string",
    "cast(id as timestamp)": "a cast from string to timestamp",
    "id -- the key": "'-- the key'",
    "substring(id, i)": "a substring of no text, or at no constant",
    "n = 1 = ok": "'=' there",
    "count(*)": "'*' there",
    "n in (1, i)": "in with something else than constants",
    "coalesce(id, n)": "coalesce of several types",
    "interval 1 day": "'1' there",
    "timestamp '2024-01-01'": "timestamp '2024-01-01'",
    "tags.a": "tags.a, in a value of type array<string>",
    "nothing": "the name nothing, which is no column of the row",
    "date '2024-02-30'": "the date '2024-02-30'",
    "(" * 60 + "n" + ")" * 60: "more than 50 levels",
}


@pytest.mark.parametrize("sql", BY_READER)
def test_the_reader_evaluates_the_usual_expressions(sql: str) -> None:
    assert str(understand(sql, COLUMNS).type) == BY_READER[sql]


@pytest.mark.parametrize("sql", BY_SPARK)
def test_others_are_left_to_spark_and_it_says_why(sql: str) -> None:
    with pytest.raises(NotUnderstood) as error:
        understand(sql, COLUMNS)
    assert str(error.value) == BY_SPARK[sql]


def test_two_columns_whose_names_differ_in_case_are_left_to_spark() -> None:
    with pytest.raises(NotUnderstood):
        understand("a", Columns({"a": ddl.Atomic("int"), "A": ddl.Atomic("int")}))


@pytest.mark.parametrize(
    ("sql", "named"),
    [
        ("rand()", "rand()"),
        ("n > RAND (5)", "rand()"),
        ("concat(id, uuid())", "uuid()"),
        ("current_timestamp", "current_timestamp"),
        ("date(now())", "now()"),
        ("unix_timestamp( )", "unix_timestamp()"),
        ("`now`()", "now()"),
        ("concat(id, `UUID` ())", "UUID()"),
        ("timestamp 'now'", "timestamp 'now'"),
        ('coalesce(day, DATE/**/"today")', "DATE 'today'"),
        ("timestamp_ntz ' Yesterday '", "timestamp_ntz 'Yesterday'"),
        ("base64(aes_encrypt(id, '0000111122223333'))", "aes_encrypt()"),
        ("(select max(n) from t)", "SELECT"),
        ("row_number() over (order by n)", "OVER"),
        ("  ", "is empty"),
    ],
)
def test_what_depends_on_more_than_the_row_is_refused(sql: str, named: str) -> None:
    assert named in str(refusal_of(sql))


@pytest.mark.parametrize(
    "sql",
    [
        "id = 'rand()'",
        "`now()`",
        "user",
        "unix_timestamp(t)",
        "nowhere(id)",
        "/* rand() */ n",
        "n -- uuid()",
        "date '2026-01-01'",
        "'`now`()'",
        "date(today)",
        "`now` + (n)",
    ],
)
def test_what_only_looks_like_it_is_not(sql: str) -> None:
    assert refusal_of(sql, {"user", "id", "n"}) is None
