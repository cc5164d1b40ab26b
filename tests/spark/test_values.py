"""Each kind of JSON value for each type of the schema: right in the table, or dead-lettered."""

import math
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from spark_job.engines.needs_spark import NeedsSpark
from tests.spark.engine_lake import ON_BOTH, ON_SPARK, EngineLake, lake_of
from tests.spark.lake import SMALL_QUERIES, Lake, as_in_production

SCHEMA = """
    id STRING NOT NULL,
    yes BOOLEAN,
    i8 TINYINT, i16 SMALLINT, i32 INT, i64 BIGINT,
    f32 FLOAT, f64 DOUBLE, money DECIMAL(5,2),
    day DATE, at TIMESTAMP, wall TIMESTAMP_NTZ,
    bytes BINARY, text STRING,
    point STRUCT<x: INT NOT NULL, y: STRING>,
    list ARRAY<INT>,
    dict MAP<STRING, INT>,
    points ARRAY<STRUCT<x: INT NOT NULL>>,
    named MAP<STRING, STRUCT<x: INT NOT NULL>>,
    deep STRUCT<inner: STRUCT<points: ARRAY<STRUCT<x: INT NOT NULL>>>>
"""

GOOD: list[tuple[str, str, Any]] = [
    ("yes", "true", True),
    ("yes", "null", None),
    ("i8", "-128", -128),
    ("i8", "127", 127),
    ("i16", "-32768", -32768),
    ("i32", "2147483647", 2147483647),
    ("i64", "9223372036854775807", 9223372036854775807),
    ("i64", "-9223372036854775808", -9223372036854775808),
    ("f32", "1.5", 1.5),
    ("f64", "0.1", 0.1),
    ("f64", "17", 17.0),
    ("f64", "1e3", 1000.0),
    ("f64", "Infinity", math.inf),
    ("f64", '"+INF"', math.inf),
    ("f64", '"-INF"', -math.inf),
    ("f64", '"+Infinity"', math.inf),
    ("money", "123.45", Decimal("123.45")),
    ("money", "7", Decimal("7.00")),
    ("money", '"123.45"', Decimal("123.45")),
    ("day", '"2024-01-28"', date(2024, 1, 28)),
    ("at", '"2024-01-28T12:00:00Z"', datetime(2024, 1, 28, 12, tzinfo=UTC)),
    ("at", '"2024-01-28T12:00:00.123456+02:00"', datetime(2024, 1, 28, 10, 0, 0, 123456, UTC)),
    ("at", '"2024-01-28 12:00:00"', datetime(2024, 1, 28, 12, tzinfo=UTC)),
    ("at", "1706443200", datetime(2024, 1, 28, 12, tzinfo=UTC)),
    ("wall", '"2024-01-28T12:00:00"', datetime(2024, 1, 28, 12)),  # noqa: DTZ001 - it has no zone
    ("bytes", '"AP8="', b"\x00\xff"),
    ("text", '"\\u00e9 \\ud83d\\ude00 \\u0000"', "\u00e9 \U0001f600 \x00"),
    ("text", '""', ""),
    ("text", '{"a": [1, 2.5]}', '{"a":[1,2.5]}'),
    ("point", '{"x": 1, "z": 2}', {"x": 1, "y": None}),
    ("point", "null", None),
    ("list", "[1, null]", [1, None]),
    ("list", "[]", []),
    ("dict", '{"a": 1, "b": null}', [("a", 1), ("b", None)]),
    ("points", '[{"x": 1}, null]', [{"x": 1}, None]),
    ("named", '{"a": {"x": 1}, "b": null}', [("a", {"x": 1}), ("b", None)]),
    ("deep", '{"inner": null}', {"inner": None}),
    ("_blizzard_corrupt", '"a key as long as it likes"', None),
]

WRONG_TYPE: list[tuple[str, str]] = [
    ("yes", '"true"'),
    ("yes", "1"),
    ("yes", '""'),
    ("i8", "128"),
    ("i8", "200"),
    ("i8", "-129"),
    ("i8", "1.0"),
    ("i16", "40000"),
    ("i32", "2147483648"),
    ("i32", '"1"'),
    ("i64", '"1"'),
    ("i64", "1.0"),
    ("i64", "1e3"),
    ("i64", "9223372036854775808"),
    ("i64", "NaN"),
    ("i64", "true"),
    ("i64", '""'),
    ("i64", "{}"),
    ("i64", "[1]"),
    ("f64", '"1.5"'),
    ("f64", '""'),
    ("f64", "true"),
    ("money", "1234.5"),
    ("money", '"a lot"'),
    ("money", '""'),
    ("money", "true"),
    ("day", '"2024-02-30"'),
    ("day", '"28.01.2024"'),
    ("day", '"20240128"'),
    ("day", '"197"'),
    ("day", '"19750"'),
    ("day", "19750"),
    ("day", '""'),
    ("at", '"noon"'),
    ("at", '"2024-01-28T25:00:00Z"'),
    ("at", '""'),
    ("at", "1.5"),
    ("at", "true"),
    ("at", "1706443200000000000"),
    ("at", "18446744073710"),
    ("at", '"12:30"'),
    ("at", '"T12:30:45Z"'),
    ("wall", '"noon"'),
    ("wall", "1706443200"),
    ("bytes", '"no base64!"'),
    ("bytes", "1"),
    ("point", "[1]"),
    ("point", '"{}"'),
    ("point", '""'),
    ("point", '{"x": "1"}'),
    ("list", "1"),
    ("list", "{}"),
    ("list", '[1, "2"]'),
    ("list", '""'),
    ("dict", "[1]"),
    ("dict", '{"a": "1"}'),
    ("points", '[{"x": 1}, {"x": true}]'),
    ("named", '{"a": {"x": "1"}}'),
    ("deep", '{"inner": {"points": [{"x": 1.5}]}}'),
]

MISSING: list[tuple[str, str, str]] = [
    ("point", '{"y": "a"}', "point.x"),
    ("point", '{"x": null}', "point.x"),
    ("points", '[{"x": 1}, {}]', "points[].x"),
    ("named", '{"a": {"x": null}}', "named{}.x"),
    ("deep", '{"inner": {"points": [{"x": null}]}}', "deep.inner.points[].x"),
]


LEFT_TO_SPARK = {
    ("f64", "Infinity"),
    ("f64", '"+INF"'),
    ("f64", '"-INF"'),
    ("f64", '"+Infinity"'),
    ("text", '{"a": [1, 2.5]}'),
    ("i8", "128"),
    ("i8", "200"),
    ("i8", "-129"),
    ("i64", "NaN"),
    ("i64", "{}"),
    ("i64", "[1]"),
    ("money", "1234.5"),
    ("money", '""'),
    ("day", '"2024-02-30"'),
    ("day", '"28.01.2024"'),
    ("day", '"20240128"'),
    ("day", '"197"'),
    ("day", '"19750"'),
    ("day", "19750"),
    ("day", '""'),
    ("at", '"2024-01-28T25:00:00Z"'),
    ("at", '""'),
    ("at", "1.5"),
    ("wall", "1706443200"),
    ("bytes", '"no base64!"'),
    ("bytes", "1"),
    ("point", "[1]"),
    ("point", '""'),
    ("list", "{}"),
    ("list", '""'),
    ("dict", "[1]"),
    ("money", "123.45"),
    ("money", "7"),
    ("at", "1706443200"),
}
"""By the local engine; the last three only beside strings for the same columns."""
STRINGS = [("money", '"1.00"'), ("at", '"2024-01-28T12:00:00Z"')]


def record(column: str, value: str) -> str:
    return f'{{"id": "x", "{column}": {value}}}'


def here(lake: EngineLake, cases: Sequence[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Those that the lake's engine decides."""
    return [case for case in cases if lake.chosen == "spark" or case[:2] not in LEFT_TO_SPARK]


@pytest.fixture(params=ON_BOTH)
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[EngineLake]:
    with lake_of(request, tmp_path) as made, in_production(made):
        yield made


def in_production(lake: EngineLake) -> AbstractContextManager[None]:
    return as_in_production(lake.spark()) if lake.chosen == "spark" else nullcontext()


@pytest.fixture(scope="module", params=ON_BOTH)
def read(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[EngineLake]:
    """All values above in one file, good and bad ones alternating."""
    with lake_of(request, tmp_path_factory.mktemp("values"), {"schema": SCHEMA}) as lake:
        put_values(lake)
        with in_production(lake):
            lake.run()
        yield lake


def put_values(lake: EngineLake) -> None:
    lake.put("good.ndjson", *(record(column, value) for column, value, _ in here(lake, GOOD)))
    wrong = (record(column, value) for column, value in here(lake, WRONG_TYPE))
    lake.put("wrong.ndjson", *wrong, '{"id": "the last"}')
    incomplete = (record(column, value) for column, value, _ in here(lake, MISSING))
    lake.put("missing.ndjson", *incomplete, '{"text": "no id"}', '{"id": null}', '{"id": "the last"}')


def rows_of(lake: Lake, file: str) -> dict[int, dict[str, Any]]:
    return {row["_source"]["row"]: row for row in lake.rows() if row["_source"]["file"] == file}


def letters_of(lake: Lake, file: str) -> dict[int, dict[str, Any]]:
    return {letter["row"]: letter for letter in lake.letters() if letter["path"] == file}


def test_every_value_that_fits_its_type_is_unchanged_in_the_table(read: EngineLake) -> None:
    rows = rows_of(read, "good.ndjson")
    good = here(read, GOOD)
    found = [rows[n].get(column) if n in rows else "nothing" for n, (column, _, _) in enumerate(good)]
    assert found == [expected for _, _, expected in good]


def test_a_value_of_the_wrong_type_is_dead_lettered_and_the_reason_names_its_column(read: EngineLake) -> None:
    letters = letters_of(read, "wrong.ndjson")
    wrong = here(read, WRONG_TYPE)
    reasons = [letters.get(n, {}).get("error", "silent").partition(":")[0] for n in range(len(wrong))]
    assert list(zip(wrong, reasons, strict=True)) == [(case, case[0]) for case in wrong]


def test_nothing_of_a_record_with_a_wrong_value_is_in_the_table(read: EngineLake) -> None:
    assert [row["id"] for row in rows_of(read, "wrong.ndjson").values()] == ["the last"]


def test_a_refused_record_is_kept_unchanged_with_its_file_and_number(read: EngineLake) -> None:
    wrong = here(read, WRONG_TYPE)
    number = wrong.index(("i64", '"1"'))
    letter = letters_of(read, "wrong.ndjson")[number]
    assert (letter["path"], letter["row"], letter["stage"]) == ("wrong.ndjson", number, "parse")
    assert letter["raw"] == '{"id": "x", "i64": "1"}'
    assert letter["etag"] == rows_of(read, "wrong.ndjson")[len(wrong)]["_source"]["etag"]


def test_a_null_in_a_not_null_field_is_dead_lettered_at_any_depth(read: EngineLake) -> None:
    letters = letters_of(read, "missing.ndjson")
    missing = here(read, MISSING)
    reasons = [letters.get(n, {}).get("error", "silent") for n in range(len(missing) + 2)]
    paths = [*(path for _, _, path in missing), "id", "id"]
    assert reasons == [f"{path}: NOT NULL, but it is missing or null" for path in paths]
    assert [row["id"] for row in rows_of(read, "missing.ndjson").values()] == ["the last"]


@pytest.mark.parametrize("value", ["1e-2147483", '"1e-2147483"', "1.5E+99999", '" 17e-214748364"'])
def test_a_number_that_would_take_spark_hours_is_refused(value: str, lake: Lake) -> None:
    lake.settings["schema"] = "id STRING, of ARRAY<STRUCT<money: DECIMAL(5,2)>>"
    lake.put(
        "a.ndjson", {"id": "before"}, f'{{"id": "x", "of": [{{"money": {value}}}]}}', {"id": "after", "e": "1e-12"}
    )
    lake.run()
    assert lake.ids() == ["before", "after"]
    assert [letter["row"] for letter in lake.letters()] == [1]
    assert "exponent" in lake.letters()[0]["error"]


@pytest.mark.parametrize("lake", ON_SPARK, indirect=True)
def test_spark_compiles_and_plans_here_as_in_production_and_after_an_error_as_before(lake: EngineLake) -> None:
    def found() -> dict[str, Any]:
        return {name: lake.spark().conf.get(name).lower() for name in SMALL_QUERIES}

    defaults = dict(zip(SMALL_QUERIES, ("true", "fallback", "true"), strict=True))
    assert found() == defaults
    with pytest.raises(ValueError, match="of a test"), in_production(lake):
        raise ValueError("of a test")
    assert found() == {name: value.lower() for name, value in SMALL_QUERIES.items()}


@pytest.mark.parametrize("lake", ["local"], indirect=True)
@pytest.mark.parametrize(("column", "value"), sorted(LEFT_TO_SPARK))
def test_the_local_engine_leaves_a_value_to_spark(lake: EngineLake, column: str, value: str) -> None:
    lake.settings["schema"] = SCHEMA
    lake.put("a.ndjson", *(record(*case) for case in [(column, value), *STRINGS]))
    with pytest.raises(NeedsSpark, match=r"records that only its parser can judge, such as record 0 of a\.ndjson"):
        lake.run()
    assert not lake.log_folder.exists()
