"""A source that cannot be looked at has a problem in the answer, and the answers about others are there as ever."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from blizzard.cli import main
from tests.unit.operator_world import OperatorWorld

GONE = "there is no such folder"


@pytest.fixture
def world(tmp_path: Path) -> OperatorWorld:
    """Two sources into one table. The folder of the first is away."""
    beside = {"uri": "incoming2", "pattern": "**", "schema": "id STRING", "settle_delay_secs": 0}
    made = OperatorWorld(tmp_path, beside={"other": beside})
    made.land("a/1.ndjson.gz", "x")
    (tmp_path / "incoming2" / "b").mkdir(parents=True)
    (tmp_path / "incoming2" / "b" / "2.ndjson").write_text('{"id": "y"}\n')
    made.run()
    shutil.move(tmp_path / "incoming", tmp_path / "away")
    return made


def answer(
    world: OperatorWorld, capsys: pytest.CaptureFixture[str], command: str, *options: str, code: int = 1
) -> list[dict[str, Any]]:
    assert main([command, str(world.config_file), "--json", *options]) == code
    return list(json.loads(capsys.readouterr().out))


def said(world: OperatorWorld, capsys: pytest.CaptureFixture[str], command: str) -> str:
    assert main([command, str(world.config_file)]) == 1
    return capsys.readouterr().out


def test_of_audit(world: OperatorWorld, capsys: pytest.CaptureFixture[str]) -> None:
    failed, other = answer(world, capsys, "audit")
    assert (failed["source"], failed["verdict"], GONE in failed["problem"]) == ("orders:shop", "bad", True)
    assert (other["source"], other["verdict"], other["problem"], other["committed"]) == (
        "orders:other",
        "good",
        None,
        1,
    )
    assert [*failed] == [*other]
    assert {failed[name] for name in other.keys() - {"source", "table_uri", "verdict", "problem"}} == {None}
    text = said(world, capsys, "audit")
    assert text.startswith("orders:shop\n problem        the source was not audited: list file://")
    assert text.count(" verdict        bad\n") == text.count(" verdict        good\n") == 1
    assert answer(world, capsys, "audit", "--source", "other", code=0) == [
        {**other, "listed_at": pytest.approx(other["listed_at"], abs=600)}
    ]
    assert [each["verdict"] for each in answer(world, capsys, "audit", "--source", "shop", "--sample", "1")] == ["bad"]


def test_of_files(world: OperatorWorld, capsys: pytest.CaptureFixture[str]) -> None:
    failed, other = answer(world, capsys, "files")
    assert (failed["source"], failed["path"], failed["state"]) == ("orders:shop", "", "unknown")
    assert GONE in failed["problem"]
    assert [*failed] == [*other]
    assert (other["path"], other["state"], other["problem"]) == ("b/2.ndjson", "committed", None)
    text = said(world, capsys, "files")
    assert text.startswith("orders:shop: was not looked at\n state          unknown\n problem        list file://")
    assert "orders:other: b/2.ndjson\n state          committed\n" in text


def test_what_only_a_failed_source_may_have_is_not_nowhere(
    world: OperatorWorld, capsys: pytest.CaptureFixture[str]
) -> None:
    found = {each["path"]: each for each in answer(world, capsys, "files", "a/1.ndjson.gz", "b/2.ndjson", "h[x.gz")}
    assert {path: each["state"] for path, each in found.items()} == {
        "": "unknown",
        "a/1.ndjson.gz": "unknown",
        "b/2.ndjson": "committed",
    }
    assert found["a/1.ndjson.gz"]["reason"] == "no other source has it; orders:shop was not looked at"


def test_of_plan(world: OperatorWorld, capsys: pytest.CaptureFixture[str]) -> None:
    (world.folder / "incoming2" / "b" / "3.ndjson").write_text('{"id": "z"}\n')
    (plan,) = answer(world, capsys, "plan")
    failed, other = plan["sources"]
    assert (failed["kind"], failed["source"], GONE in failed["problem"]) == ("files", "orders:shop", True)
    assert [*failed] == [*other]
    assert {failed[name] for name in other.keys() - {"kind", "source", "problem"}} == {None}
    assert (other["source"], other["files"], other["problem"], plan["runs"]) == ("orders:other", 1, None, 1)
    text = said(world, capsys, "plan")
    assert text.startswith("orders\n orders:shop\n  problem     list file://")
    assert " orders:other\n  reads       1 files" in text


def test_a_table_that_cannot_be_read(world: OperatorWorld, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.rmtree(world.lake)
    world.lake.write_text("a file where a folder should be")
    (plan,) = answer(world, capsys, "plan")
    assert ["lake" in each["problem"] for each in (plan, *plan["sources"])] == [True, True, True]
    assert ["lake" in each["problem"] for each in answer(world, capsys, "files")] == [True, True]
    assert [each["verdict"] for each in answer(world, capsys, "audit")] == ["bad", "bad"]
