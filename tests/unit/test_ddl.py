"""Schemas: what is read from them, and error texts. A test in tests/spark compares the parser with Spark's."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blizzard.config import ddl
from blizzard.config.ddl import Array, Atomic, Column, Decimal, Map, Struct
from blizzard.config.formats import FILE_FORMATS
from blizzard.config.schema_limits import NO_LIMITS, storage_problems

NDJSON = FILE_FORMATS["ndjson"].limits


def test_a_schema_is_read_into_columns() -> None:
    assert ddl.parse("id STRING NOT NULL COMMENT 'the key', value: DECIMAL(10,2), `odd name` BIGINT") == Struct(
        (
            Column("id", Atomic("string"), nullable=False, comment="the key"),
            Column("value", Decimal(10, 2)),
            Column("odd name", Atomic("bigint")),
        )
    )


def test_types_nest() -> None:
    schema = ddl.parse("a MAP<STRING, ARRAY<STRUCT<b: INT, c: TIMESTAMP NOT NULL>>>")
    inner = Struct((Column("b", Atomic("int")), Column("c", Atomic("timestamp"), nullable=False)))
    assert schema.columns[0].type == Map(Atomic("string"), Array(inner))


def test_nesting_depth_is_counted_for_each_column_separately() -> None:
    assert len(ddl.parse(", ".join(f"c{i} ARRAY<ARRAY<INT>>" for i in range(60))).columns) == 60


def test_a_type_is_printed_as_spark_prints_it() -> None:
    schema = ddl.parse("a STRUCT<b: LONG, c: ARRAY<DEC>, d: MAP<STRING, BYTE>>")
    assert str(schema.columns[0].type) == "struct<b:bigint,c:array<decimal(10,0)>,d:map<string,tinyint>>"


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("id STRNG", "found 'STRNG' at character 4, expected a type for column `id`; did you mean STRING?"),
        ("id", "found the end, expected a type for column `id`"),
        ("id INT value INT", "found 'value' at character 8, expected a comma and the next column, or the end"),
        ("id INT,", "found the end, expected a column's name"),
        ("", "found the end, expected a column's name"),
        ("struct<>", "the schema has no column; expected at least one, such as: id STRING"),
        ("a-b INT", "found '-' at character 2, which is not allowed there; quote names with other"),
        ("id INT COMMENT 'x", "the ' at character 16 is not closed"),
        ("`id INT", "the ` at character 1 is not closed"),
        ("id INT /* x", "the comment that begins at character 8 is not closed; expected */"),
        ("id INT COMMENT x", "expected the comment's text in quotes"),
        ("a ARRAY<INT", "found the end, expected `>` after the type of the array's elements"),
        ("a ARRAY", "expected `<` after ARRAY, as in ARRAY<STRING>"),
        ("a MAP<STRING>", "found '>' at character 13, expected `,` between the types of the map's keys and values"),
        ("a DECIMAL(39)", "found decimal(39,0) at character 3; expected at most 38 digits"),
        ("a DECIMAL(x)", "found 'x' at character 11, expected a number of digits"),
        ("a VARCHAR(5)", "found VARCHAR at character 3: Spark cannot read VARCHAR from JSON; use STRING"),
        ("a INTERVAL DAY", "Delta stores no intervals; use BIGINT or STRING"),
        ("a VARIANT", "use STRING, which keeps a JSON value as its text"),
        ("a STRING COLLATE UNICODE", "expected a STRING without COLLATE"),
        ("a INT COMMENT '\\Uffffffff'", "escapes a character that does not exist"),
        ("a " + "ARRAY<" * 51 + "INT" + ">" * 51, "nested deeper than 50"),
        ("a " + "ARRAY<" * 100_000, "nested deeper than 50"),
    ],
)
def test_an_error_in_a_schema_is_reported_with_its_position(text: str, what: str) -> None:
    with pytest.raises(ddl.DdlError) as error:
        ddl.parse(text, NDJSON.types)
    assert what in str(error.value)


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("a INT, b INT, A STRING", "column `A` occurs twice ('a' and 'A'; names are not case-sensitive); rename one"),
        ("a INT, a INT", "column `a` occurs twice"),
        ("a STRUCT<b: INT, B: INT>", "column `a.B` occurs twice"),
        ("a ARRAY<STRUCT<b: INT, B: INT>>", "column `a.element.B` occurs twice"),
        ("`a\n` STRUCT<>", "column `'a\\n'` is a struct without columns"),
        ("`` INT", "has no name; add one"),
        ("a STRUCT<>", "column `a` is a struct without columns"),
        ("a MAP<STRING, STRUCT<>>", "column `a.value` is a struct without columns"),
        ("a MAP<INT, INT>", "column `a` is a map with keys of type int; keys in JSON are text: use STRING"),
        ("a DECIMAL(0)", "column `a` is a decimal of 0 digits; give it 1 to 38"),
    ],
)
def test_a_column_that_delta_or_json_cannot_hold_is_reported(text: str, what: str) -> None:
    (problem,) = storage_problems(ddl.parse(text), NDJSON)
    assert what in problem


def test_all_problems_of_a_schema_are_reported_at_once() -> None:
    assert len(storage_problems(ddl.parse("a INT, A STRUCT<>, `b c` MAP<INT, DECIMAL(0)>"), NDJSON)) == 4


def test_names_may_have_any_characters() -> None:
    assert storage_problems(ddl.parse("`a b` INT, `a=;` INT, s STRUCT<`b,c`: INT>, `a\n` INT, `x.y` INT"), NDJSON) == []


@pytest.mark.parametrize("name", ["CHAR(5)", "CHARACTER(5)", "VARCHAR(5)", "VARIANT"])
def test_a_format_without_limits_of_its_own_refuses_a_type_in_general_terms(name: str) -> None:
    with pytest.raises(ddl.DdlError, match=r"is not supported; use STRING\Z"):
        ddl.parse(f"a {name}")


def test_the_keys_of_a_map_are_limited_by_the_format_alone() -> None:
    schema = ddl.parse("a MAP<INT, INT>, b ARRAY<STRUCT<c: MAP<STRUCT<d: INT>, MAP<DATE, INT>>>>")
    assert storage_problems(schema, NO_LIMITS) == []
    assert [problem.split("`")[1] for problem in storage_problems(schema, NDJSON)] == [
        "a",
        "b.element.c",
        "b.element.c.value",
    ]


def test_what_delta_cannot_store_is_reported_for_every_format() -> None:
    schema = ddl.parse("a MAP<STRUCT<>, DECIMAL(0)>, `` INT, B INT, b INT")
    for file_format in FILE_FORMATS.values():
        assert len(storage_problems(schema, file_format.limits)) >= 3
    assert [problem.split("`")[1] for problem in storage_problems(schema, NO_LIMITS)] == [
        "a.key",
        "a.value",
        "",
        "b",
    ]


def test_a_valid_schema_has_no_problems() -> None:
    assert (
        storage_problems(ddl.parse("a INT, b STRUCT<a: INT, b: MAP<STRING, ARRAY<DATE>>>, `c.d` INT, `é` INT"), NDJSON)
        == []
    )


@given(st.text(st.sampled_from("ab <>,():`'\"\\-/*\n!5 structintarraymapcommentnotnull"), max_size=40))
def test_any_text_is_either_parsed_or_refused_with_an_error(text: str) -> None:
    try:
        schema = ddl.parse(text)
    except ddl.DdlError:
        return
    assert schema.columns
