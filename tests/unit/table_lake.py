"""A lake that the local engine ingests, without Java."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from blizzard.cli import main
from tests.spark.engine_lake import EngineLake
from tests.spark.lake import no_spark


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[EngineLake]:
    made = EngineLake(tmp_path, no_spark)
    yield made
    made.close()


def reasons(lake: EngineLake) -> dict[tuple[str, int], str]:
    """Of the dead letters, by file and record."""
    return {(letter["path"], letter["row"]): letter["error"] for letter in lake.letters()}


def change_metadata(lake: EngineLake, *, protocol: dict[str, Any] | None = None, **columns: dict[str, Any]) -> None:
    """A commit of another program that changes fields of the table's columns, and the protocol."""
    metadata = newest(lake, "metaData")
    schema = json.loads(metadata["schemaString"])
    for field in schema["fields"]:
        field.update(columns.get(field["name"], {}))
    commit(lake, {"metaData": {**metadata, "schemaString": json.dumps(schema)}}, protocol)


def set_properties(lake: EngineLake, protocol: dict[str, Any] | None = None, **properties: str) -> None:
    metadata = newest(lake, "metaData")
    named = {name.replace("__", "."): value for name, value in properties.items()}
    commit(lake, {"metaData": {**metadata, "configuration": {**metadata["configuration"], **named}}}, protocol)


def newest(lake: EngineLake, kind: str) -> Any:
    found = [action[kind] for version in lake.versions() for action in lake.actions(version) if kind in action]
    return found[-1]


def commit(lake: EngineLake, action: dict[str, Any], protocol: dict[str, Any] | None) -> None:
    actions = [{"commitInfo": {"timestamp": 0, "operation": "other"}}, action]
    actions += [{"protocol": protocol}] if protocol else []
    file = lake.log_folder / f"{lake.versions()[-1] + 1:020d}.json"
    file.write_text("\n".join(map(json.dumps, actions)))


def told(lake: EngineLake, capsys: pytest.CaptureFixture[str]) -> tuple[int, Any]:
    """By `validate --against-table` of a lake with one source: the exit code, and its table."""
    file = str(lake.write_config())
    code = main(["validate", file, "--against-table", "--json"])
    [table] = json.loads(capsys.readouterr().out)["tables"]
    assert main(["validate", file, "--against-table"]) == code
    text = capsys.readouterr().out
    assert "The next run, with its first new file or message:" in text
    assert all(line in text for line in (*table["changes"], *table["notes"], *table["refused"]))
    return code, table
