"""Each column, mode and format: what a field that no column is for, and a value that does not fit, becomes in the
table, against expectations written by hand."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from spark_job.engines.needs_spark import NeedsSpark
from tests.spark.engine_lake import EngineLake
from tests.spark.lake import no_spark
from tests.unit.odd_lands import FORMATS, WIDE, Wide, Written
from tests.unit.table_lake import reasons

WHOLE_FILES = ("parquet", "avro")
"""Formats of which a column of another type makes the whole file a dead letter."""


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
    if wide.needs_spark:
        with pytest.raises(NeedsSpark, match="records that only its parser can judge"):
            land(lake, name, stored, schema)
        return
    land(lake, name, stored, schema)
    if name in WHOLE_FILES and wide.kind != "TINYINT":  # whole numbers are compared one by one
        assert not lake.table.joinpath("_delta_log").exists() or rows(lake) == []
        [letter] = lake.logged("file_dead_lettered")
        assert "v" in letter["error"]
        return
    assert rows(lake) == [{"id": 2, "v": None}]
    assert [*reasons(lake)] == [(f"a.{name}", 0)]


@pytest.mark.parametrize("misfits", ["rescue", "widen"])
@pytest.mark.parametrize(("name", "wide"), COLUMNS)
def test_a_value_that_does_not_fit_is_rescued(lake: EngineLake, name: str, wide: Wide, misfits: str) -> None:
    """Also with `widen`, which the local engine cannot, and says so."""
    land(lake, name, FORMATS[name].write({"v": wide.written}), f"id INT, v {wide.kind}", misfits=misfits)
    first, second = rows(lake)
    assert (first["v"], rescued(first)) == (None, {"v": wide.rescued})
    assert second == {"id": 2, "v": None, "_rescued": None}
    assert counted(lake, "misfits") == {"v": 1}
    refused = [field["path"] for event in lake.logged("schema_not_changed") for field in event["fields"]]
    assert refused == (["v"] if misfits == "widen" and wide.said else [])
