"""What `tests/unit/test_odd_tables.py` leaves to Spark: columns that are widened, of each format, and values that only
its parser puts into a column."""

import json
from typing import Any

import pytest

from tests.spark.engine_lake import EngineLake
from tests.unit.odd_lands import FORMATS, OF_JSON_BY_SPARK
from tests.unit.odd_misfits import WIDE

pytestmark = pytest.mark.spark


def land(lake: EngineLake, name: str, stored: bytes, schema: str, **rules: Any) -> tuple[dict[str, str], list[Any]]:
    """Types and rows of the table."""
    lake.settings = {"format": name, "schema": schema, **FORMATS[name].settings, **rules}
    lake.put_bytes(f"a.{name}", stored)
    lake.run()
    found = lake.spark().read.format("delta").load(str(lake.table)).drop("_source").orderBy("id")
    types = {field.name: field.dataType.simpleString() for field in found.schema}
    return types, [row.asDict(recursive=True) for row in found.collect()]


@pytest.mark.parametrize("name", FORMATS)
def test_columns_are_widened_for_values_that_do_not_fit_and_other_values_are_rescued(
    auto_lake: EngineLake, name: str
) -> None:
    wide = {f"v{at}": one for at, one in enumerate(WIDE[name])}
    stored = FORMATS[name].write({column: one.written for column, one in wide.items()})
    schema = ", ".join(["id INT", *(f"{column} {one.kind}" for column, one in wide.items())])
    types, (first, second) = land(auto_lake, name, stored, schema, misfits="widen")
    kept = {column: one.widened or one.simple for column, one in wide.items()}
    assert types == {"id": "int", **kept, "_rescued": "string"}
    values = {column: None if one.widened is None else one.value for column, one in wide.items()}
    rescued = {column: one.rescued for column, one in wide.items() if one.widened is None}
    assert json.loads(first.pop("_rescued")) == rescued
    assert first == {"id": 1, **values}
    assert second == {"id": 2, "_rescued": None, **dict.fromkeys(wide)}


@pytest.mark.parametrize("name", ["ndjson", "json"])
def test_values_that_only_spark_reads_become_columns(auto_lake: EngineLake, name: str) -> None:
    stored = FORMATS[name].file(OF_JSON_BY_SPARK)
    types, (first, second) = land(auto_lake, name, stored, "id INT", new_fields="add")
    kinds = {"big": "decimal(19,0)", "mixed": "array<string>", "empty": "string"}
    assert types == {"id": "int", **kinds, "_rescued": "string"}
    nothing = {"_rescued": None, **dict.fromkeys(kinds)}
    assert first == {"id": 1, **nothing, **{field: one.value for field, one in OF_JSON_BY_SPARK.items()}}
    assert second == {"id": 2, **nothing}


def test_values_that_spark_finds_not_to_fit_are_counted(auto_lake: EngineLake) -> None:
    """A number in a STRING leaves the whole line to Spark."""
    lines = [
        {"id": 1, "v": "x", "a": {"b": 200}},
        {"id": 2, "text": 5, "v": "x", "a": {"b": 300}},
        {"id": 3, "text": 5, "v": 7},
        {"id": 4, "text": 5, "v": "y"},
        {"id": "5", "text": 5, "v": "z"},
    ]
    stored = "\n".join(map(json.dumps, lines)).encode()
    schema, fields = "id INT NOT NULL, text STRING, value INT, small TINYINT", {"value": "v", "small": "a.b"}
    _, rows = land(auto_lake, "ndjson", stored, schema, misfits="rescue", fields=fields)
    assert [
        (row["id"], row["text"], row["value"], row["_rescued"] and json.loads(row["_rescued"])) for row in rows
    ] == [
        (1, None, None, {"v": "x", "a.b": 200}),
        (2, "5", None, {"v": "x", "a.b": 300}),
        (3, "5", 7, None),
        (4, "5", None, {"v": "y"}),
    ]
    (told,) = auto_lake.logged("misfits")
    found = {one["name"]: (one["records"], one["file"]) for one in told["fields"]}
    assert found == {"value": (3, "a.ndjson"), "small": (2, "a.ndjson")}


def test_values_that_spark_finds_not_to_fit_widen_columns(auto_lake: EngineLake) -> None:
    stored = b'{"id": 1, "text": 5, "n": 5000000000, "s": {"x": 200}}\n{"id": 2, "text": 5, "n": "no"}\n'
    schema = "id INT, text STRING, n INT, s STRUCT<x: TINYINT>"
    types, (first, second) = land(auto_lake, "ndjson", stored, schema, misfits="widen")
    kinds = {"id": "int", "text": "string", "n": "bigint", "s": "struct<x:bigint>", "_rescued": "string"}
    assert types == kinds
    assert first == {"id": 1, "text": "5", "n": 5_000_000_000, "s": {"x": 200}, "_rescued": None}
    assert second == {"id": 2, "text": "5", "n": None, "s": None, "_rescued": '{"n":"no"}'}


@pytest.mark.parametrize("name", ["ndjson", "json"])
def test_values_of_which_only_spark_can_tell_are_refused(auto_lake: EngineLake, name: str) -> None:
    for at, one in enumerate(one for one in WIDE[name] if one.needs_spark or one.by_spark):
        _, rows = land(auto_lake, name, FORMATS[name].write({"v": one.written}), f"id INT, v {one.kind}")
        assert rows == [{"id": 2, "v": None}]
        auto_lake.table.rename(auto_lake.folder / f"done-{at}")
