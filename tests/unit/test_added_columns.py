"""Columns that the local engine adds to a table, and what the table's protocol names then: no more than they need, so
that the next process goes on without Spark."""

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from blizzard.errors import RetryableError
from blizzard.log import silent
from blizzard.state.delta_log import commit_key
from blizzard.storage.local import LocalStore
from spark_job.engines.local.open_table import OpenTables
from spark_job.engines.local.table import LocalTable
from spark_job.table.delta_table import DeltaSourceTable
from spark_job.table.table_source import TableSource
from tests.spark.engine_lake import EngineLake
from tests.unit.table_lake import change_metadata, lake, newest

__all__ = ["lake"]
NAMED = {"minReaderVersion": 3, "minWriterVersion": 7}
TIMED = {**NAMED, "readerFeatures": ["timestampNtz"]}


def grow(lake: EngineLake, *more: str) -> None:
    """A run for each of these columns, which are added to those of before, and one that finds them there."""
    columns = ["id STRING", "s STRUCT<a: INT>"]
    for number, column in enumerate([*more, None]):
        columns += [] if column is None else [column]
        lake.settings = {"schema": ", ".join(columns)}
        lake.put(f"{number}.ndjson", {"id": f"{number}", "s": {"a": number}})
        lake.run()


def begin(lake: EngineLake, protocol: dict[str, Any] | None = None) -> None:
    lake.settings = {"schema": "id STRING, s STRUCT<a: INT>"}
    lake.put("first.ndjson", {"id": "first", "s": {"a": 7}})
    lake.run()
    if protocol is not None:
        change_metadata(lake, protocol=protocol)


def in_order(protocol: dict[str, Any]) -> dict[str, Any]:
    return {name: sorted(value) if isinstance(value, list) else value for name, value in protocol.items()}


def protocols(lake: EngineLake) -> list[dict[str, Any]]:
    """Those of the log, the oldest first."""
    actions = [action for version in range(len(lake.versions())) for action in lake.actions(version)]
    return [in_order(action["protocol"]) for action in actions if "protocol" in action]


OLD_PROTOCOLS: dict[str, tuple[dict[str, Any] | None, list[str]]] = {
    "as it was made": (None, ["appendOnly", "invariants"]),
    "with checks": ({"minReaderVersion": 1, "minWriterVersion": 3}, ["appendOnly", "checkConstraints", "invariants"]),
    "that names few features": ({"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": []}, []),
    "that names its features": (
        {**NAMED, "readerFeatures": [], "writerFeatures": ["changeDataFeed", "invariants"]},
        ["changeDataFeed", "invariants"],
    ),
}


@pytest.mark.parametrize("case", OLD_PROTOCOLS)
@pytest.mark.parametrize("column", ["t TIMESTAMP_NTZ", "t STRUCT<u: ARRAY<TIMESTAMP_NTZ>>"], ids=["flat", "nested"])
def test_the_first_column_without_a_zone_gives_the_table_one_feature(lake: EngineLake, case: str, column: str) -> None:
    protocol, features = OLD_PROTOCOLS[case]
    begin(lake, protocol)
    before = protocols(lake)
    grow(lake, column, "u TIMESTAMP_NTZ", "n INT")
    assert protocols(lake) == [*before, {**TIMED, "writerFeatures": sorted([*features, "timestampNtz"])}]
    assert lake.ids() == ["0", "1", "2", "3", "first"]
    assert lake.logged("spark_needed") == []


def test_other_columns_leave_the_protocol_as_it_is(lake: EngineLake) -> None:
    begin(lake)
    before = protocols(lake)
    grow(lake, "n INT COMMENT 'a number'", "t TIMESTAMP")
    assert protocols(lake) == before
    fields = json.loads(DeltaTable(str(lake.table)).schema().to_json())["fields"]
    assert [field["name"] for field in fields] == ["id", "s", "_source", "n", "t"]
    assert fields[3] == {"name": "n", "type": "integer", "nullable": True, "metadata": {"comment": "a number"}}


def test_a_table_that_was_made_with_such_a_column_gets_more_of_them(lake: EngineLake) -> None:
    lake.settings = {"schema": "id STRING, t TIMESTAMP_NTZ"}
    lake.put("0.ndjson", {"id": "0"})
    lake.run()
    for number, more in enumerate(["u TIMESTAMP_NTZ", "u TIMESTAMP_NTZ, n INT"], 1):
        lake.settings = {"schema": f"id STRING, t TIMESTAMP_NTZ, {more}"}
        lake.put(f"{number}.ndjson", {"id": f"{number}", "u": "2026-11-21T10:00:00"})
        lake.run()
    assert [row["id"] for row in lake.rows()] == ["0", "1", "2"]
    assert len(protocols(lake)) == 1


def test_a_change_keeps_what_else_the_table_says_of_itself(lake: EngineLake) -> None:
    begin(lake)
    metadata = {**newest(lake, "metaData"), "name": "events", "description": "of all", "configuration": {"owner": "me"}}
    commit = lake.log_folder / f"{lake.versions()[-1] + 1:020d}.json"
    commit.write_text(json.dumps({"metaData": metadata}))
    grow(lake, "t TIMESTAMP_NTZ")
    after = newest(lake, "metaData")
    assert {**after, "schemaString": ""} == {**metadata, "schemaString": ""}
    assert "timestamp_ntz" in after["schemaString"]


class Overtaken(LocalStore):
    """Another commit comes right before the next one."""

    by: Callable[[], object] | None = None

    def create(self, key: str, body: bytes) -> Any:
        by, self.by = self.by, None
        if by is not None:
            by()
        return super().create(key, body)


def table(store: LocalStore, schema: str) -> DeltaSourceTable:
    source = TableSource(store.uri.removeprefix("file://"), "p:a", "blizzard:p:a", schema, {}, ())
    opened = OpenTables(dict).at(source.table_uri, store)
    return DeltaSourceTable(LocalTable(source, store, opened, clock=time.time, log=silent), source, store=store)


def test_an_error_after_columns_were_added_says_that_they_are_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = LocalStore(tmp_path, may_be_missing=True)
    table(store, "id STRING").append(None, sequence=0, user_metadata="")
    wider = table(store, "id STRING, n INT")

    def fails(table: DeltaTable) -> None:
        raise DeltaError("no answer")

    with monkeypatch.context() as patch:
        patch.setattr(DeltaTable, "update_incremental", fails)
        with pytest.raises(RetryableError, match=r"has its new columns, by version 1, and then .* no answer") as error:
            wider.prepare()
    assert "nothing was committed" not in str(error.value)
    wider.prepare()
    found = DeltaTable(str(tmp_path))
    assert ([field.name for field in found.schema().fields], found.version()) == (["id", "_source", "n"], 1)


def test_a_change_that_comes_second_is_made_by_the_next_attempt(tmp_path: Path) -> None:
    store = Overtaken(tmp_path, may_be_missing=True)
    table(store, "id STRING").append(None, sequence=0, user_metadata="")
    wider = table(store, "id STRING, n INT, t TIMESTAMP_NTZ")
    store.by = lambda: DeltaTable(str(tmp_path)).alter.set_table_properties({"delta.appendOnly": "true"})
    with pytest.raises(
        RetryableError, match=r"another commit has made its version 1 meanwhile\. Nothing was committed"
    ):
        wider.prepare()
    wider.prepare()
    found = DeltaTable(str(tmp_path))
    assert [field.name for field in found.schema().fields] == ["id", "_source", "n", "t"]
    assert found.metadata().configuration["delta.appendOnly"] == "true"
    assert (tmp_path / commit_key(found.version())).exists()
