"""Each column, mode and format: what a field that no column is for, and a value that does not fit, becomes in the
table, against expectations written by hand."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from blizzard.errors import ConfigError
from spark_job.engines.needs_spark import NeedsSpark
from tests.spark.engine_lake import EngineLake
from tests.spark.lake import no_spark
from tests.unit.odd_lands import FORMATS, Written
from tests.unit.odd_misfits import ALL_FIT, NO_COLUMNS, TYPES, WIDE, Wide
from tests.unit.table_lake import reasons


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[EngineLake]:
    made = EngineLake(tmp_path, no_spark)
    yield made
    made.close()


def land(lake: EngineLake, name: str, stored: bytes, schema: str, **rules: str) -> None:
    lake.settings = {"format": name, "schema": schema, **FORMATS[name].settings, **rules}
    lake.put_bytes(f"a.{name}", stored)
    lake.run()


def types(lake: EngineLake) -> dict[str, Any]:
    fields = json.loads(DeltaTable(str(lake.table)).schema().to_json())["fields"]
    return {field["name"]: field["type"] for field in fields if field["name"] != "_source"}


def rows(lake: EngineLake) -> list[dict[str, Any]]:
    found = [{name: value for name, value in row.items() if name != "_source"} for row in lake.rows()]
    return sorted(found, key=lambda row: row["id"])


def rescued(row: dict[str, Any]) -> Any:
    return row["_rescued"] and json.loads(row["_rescued"])


def letters(lake: EngineLake) -> list[tuple[str, int | None, str]]:
    """File, record (None: the whole file) and reason of each."""
    return [(one["path"], one.get("row"), one["error"]) for one in lake.letters()]


def counted(lake: EngineLake, event: str) -> dict[str, int]:
    return {one["name"]: one["records"] for one in lake.logged(event)[-1]["fields"]} if lake.logged(event) else {}


# -- fields that no column is for


@pytest.fixture(params=FORMATS)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def written(name: str) -> Written:
    return FORMATS[name]


def test_counted(lake: EngineLake, name: str, written: Written) -> None:
    land(lake, name, written.file(written.all), "id INT")
    assert types(lake) == {"id": "integer"}
    assert rows(lake) == [{"id": 1}, {"id": 2}]
    assert counted(lake, "unknown_fields") == dict.fromkeys(written.all, 2 if written.has_schema else 1)


def test_rescued(lake: EngineLake, name: str, written: Written) -> None:
    land(lake, name, written.file(written.all), "id INT", new_fields="rescue")
    assert types(lake) == {"id": "integer", "_rescued": "string"}
    first, second = rows(lake)
    assert rescued(first) == {field: one.rescued for field, one in written.all.items()}
    assert (first["id"], second) == (1, {"id": 2, "_rescued": None})
    assert counted(lake, "unknown_fields") == dict.fromkeys(written.all, 1)


def test_refused(lake: EngineLake, name: str, written: Written) -> None:
    land(lake, name, written.file(written.all), "id INT", new_fields="dead_letter")
    assert rows(lake) == [{"id": 2}]
    why = f"no column is for {', '.join(written.all)}; `new_fields: dead_letter` refuses such records"
    assert reasons(lake) == {(f"a.{name}", 0): why}


def test_added(lake: EngineLake, name: str, written: Written) -> None:
    rules = {"misfits": "rescue"} if name == "xml" else {}
    land(lake, name, written.file(written.new), "id INT", new_fields="add", **rules)
    kinds = {field: one.kind for field, one in written.new.items()}
    assert types(lake) == {"id": "integer", "_rescued": "string", **kinds}
    nothing = {"_rescued": None, **dict.fromkeys(written.new)}
    values = {field: one.value for field, one in written.new.items()}
    assert rows(lake) == [{"id": 1, **nothing, **values}, {"id": 2, **nothing}]
    assert lake.logged("schema_not_changed") == []


# -- values that do not fit

COLUMNS = [pytest.param(name, one, id=f"{name}-{one.kind}-{at}") for name in WIDE for at, one in enumerate(WIDE[name])]


@pytest.mark.parametrize(("name", "wide"), COLUMNS)
def test_a_value_that_does_not_fit_is_refused(lake: EngineLake, name: str, wide: Wide) -> None:
    stored, schema = FORMATS[name].write({"v": wide.written}), f"id INT, v {wide.kind}"
    if wide.needs_spark or wide.by_spark:
        with pytest.raises(NeedsSpark, match="records that only its parser can judge"):
            land(lake, name, stored, schema)
        return
    land(lake, name, stored, schema)
    assert lake.versions() == [0]
    if wide.whole_file:
        assert rows(lake) == []
        assert letters(lake) == [(f"a.{name}", None, f"{wide.whole_file}, which does not widen to it")]
        return
    assert rows(lake) == [{"id": 2, "v": None}]
    assert letters(lake) == [(f"a.{name}", 0, f"v: the value does not fit {wide.simple}")]


@pytest.mark.parametrize("misfits", ["rescue", "widen"])
@pytest.mark.parametrize(("name", "wide"), COLUMNS)
def test_a_value_that_does_not_fit_is_rescued(lake: EngineLake, name: str, wide: Wide, misfits: str) -> None:
    """Also with `widen`, which the local engine cannot, and says so."""
    stored, schema = FORMATS[name].write({"v": wide.written}), f"id INT, v {wide.kind}"
    if wide.by_spark:
        with pytest.raises(NeedsSpark, match="records that only its parser can judge"):
            land(lake, name, stored, schema, misfits=misfits)
        return
    land(lake, name, stored, schema, misfits=misfits)
    first, second = rows(lake)
    assert (first["v"], rescued(first)) == (wide.left, {f"v{wide.place}": wide.rescued})
    assert second == {"id": 2, "v": None, "_rescued": None}
    assert counted(lake, "misfits") == {f"v{wide.place}": 1}
    refused = [field["path"] for event in lake.logged("schema_not_changed") for field in event["fields"]]
    assert refused == ([f"v{wide.place}"] if misfits == "widen" and wide.said else [])


@pytest.mark.parametrize("name", WIDE)
def test_each_type_has_a_value_that_does_not_fit_unless_there_is_none(lake: EngineLake, name: str) -> None:
    without = NO_COLUMNS.get(name, frozenset())
    assert {wide.family for wide in WIDE[name]} == {*TYPES} - ALL_FIT[name] - without
    examples = {"ARRAY": "ARRAY<INT>", "STRUCT": "STRUCT<x: INT>", "MAP": "MAP<STRING, INT>"}
    for kind in without:
        lake.settings = {"format": name, **FORMATS[name].settings, "schema": f"id INT, v {examples.get(kind, kind)}"}
        with pytest.raises(ConfigError):
            lake.config()
