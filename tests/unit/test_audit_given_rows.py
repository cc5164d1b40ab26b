"""Files of which an operator has repaired records: what `blizzard audit --sample` and `blizzard files` say of them."""

import json
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from deltalake import write_deltalake

from blizzard.cli import main
from tests.unit.operator_world import OperatorWorld

PATH = "a/1.ndjson.gz"


@pytest.fixture
def world(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> OperatorWorld:
    """Of two refused records one is given by an operator."""
    made = OperatorWorld(tmp_path)
    made.land(PATH, "a", None, "c", None)
    made.run()
    give(made, row=1, id="b", amount=5)
    capsys.readouterr()
    return made


def give(world: OperatorWorld, row: int, **record: object) -> None:
    file = world.folder / "repaired.ndjson"
    file.write_text(json.dumps({"path": PATH, "row": row, "record": record}))
    assert main(["replay", str(world.config_file), "--records", str(file)]) == 0


def sampled(world: OperatorWorld, capsys: pytest.CaptureFixture[str], *, code: int = 0) -> dict[str, Any]:
    assert main(["audit", str(world.config_file), "--json", "--sample", "5"]) == code
    (report,) = json.loads(capsys.readouterr().out)
    return dict(report["sample"])


def test_a_given_record_is_no_difference(world: OperatorWorld, capsys: pytest.CaptureFixture[str]) -> None:
    sample = sampled(world, capsys)
    assert (sample["rows"], sample["given"], sample["differ"]) == (2, 1, [])
    assert main(["audit", str(world.config_file), "--sample", "5"]) == 0
    assert "0 files differ, 1 rows were given by an operator" in capsys.readouterr().out


def test_a_given_record_is_none_either_if_its_original_could_be_read_today(
    world: OperatorWorld, capsys: pytest.CaptureFixture[str]
) -> None:
    world.settings["schema"] = "id STRING, amount BIGINT"
    sample = sampled(world, capsys)
    assert sample["given"] == 1
    (file,) = sample["differ"]  # record 3, which is still refused
    assert (file["rows_missing"], file["rows_added"], file["values_different"]) == (1, 0, 0)


def test_without_receipts_the_settled_letters_tell(world: OperatorWorld, capsys: pytest.CaptureFixture[str]) -> None:
    for receipt in (world.state / "receipts").iterdir():
        receipt.unlink()
    assert sampled(world, capsys)["given"] == 1
    shutil.rmtree(world.state / "settled_letters")
    sample = sampled(world, capsys, code=1)
    assert (sample["given"], sample["differ"][0]["rows_added"]) == (0, 1)


def test_a_value_that_somebody_else_has_changed_is_still_found(
    world: OperatorWorld, capsys: pytest.CaptureFixture[str]
) -> None:
    world.table().update(updates={"amount": "7"}, predicate="id = 'c'")
    sample = sampled(world, capsys, code=1)
    (file,) = sample["differ"]
    assert sample["given"] == 1
    assert file["values"] == [{"row": 2, "column": "amount", "file": "2", "table": "7"}]


def test_a_record_that_was_read_once_more_is_compared(world: OperatorWorld, capsys: pytest.CaptureFixture[str]) -> None:
    world.settings["schema"] = "id STRING, amount BIGINT"
    assert main(["replay", str(world.config_file)]) == 0
    capsys.readouterr()
    assert (sampled(world, capsys)["given"], sampled(world, capsys)["differ"]) == (1, [])
    world.table().update(updates={"amount": "7"}, predicate="_source.row = 3")
    (file,) = sampled(world, capsys, code=1)["differ"]
    assert file["values"] == [{"row": 3, "column": "amount", "file": "3", "table": "7"}]


@pytest.mark.parametrize("of_commit", ["that of the file", "that of the repair"])
def test_a_row_of_another_program_is_not_taken_for_a_given_one(
    world: OperatorWorld, of_commit: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """It has the number of a refused record, and says that it is of one of the commits."""
    rows = world.table().to_pyarrow_table()
    source = pc.field("_source", "row") == (0 if of_commit == "that of the file" else 1)
    (copied,) = rows.filter(source).to_pylist()
    copied["_source"]["row"] = 3
    write_deltalake(world.table(), pa.Table.from_pylist([copied], rows.schema), mode="append")
    sample = sampled(world, capsys, code=1)
    assert sample["differ"][0]["rows_added"] == (1 if of_commit == "that of the file" else 2)


# -- the life of a file


def life_of(world: OperatorWorld, capsys: pytest.CaptureFixture[str], path: str = PATH) -> dict[str, Any]:
    capsys.readouterr()
    assert main(["files", str(world.config_file), "--json", path]) == 0
    (life,) = json.loads(capsys.readouterr().out)
    return dict(life)


def test_a_life_has_the_commits_before_a_repair(world: OperatorWorld, capsys: pytest.CaptureFixture[str]) -> None:
    give(world, row=3, id="d", amount=6)
    life = life_of(world, capsys)
    assert (life["sequence"], life["announced_by"], life["rows"], life["rejected"]) == (2, "repair", 4, 0)
    first_repair, original = life["earlier"]
    assert (first_repair["sequence"], first_repair["announced_by"], first_repair["rows"]) == (1, "repair", 1)
    assert (first_repair["table_version"], first_repair["latency_secs"]) == (1, None)
    assert (original["sequence"], original["announced_by"]) == (0, "sweep")
    assert (original["rows"], original["rejected"], original["table_version"]) == (2, 2, 0)
    assert original["committed_ts"] == pytest.approx(original["announced_ts"] + original["latency_secs"])
    assert original["committed_ts"] < first_repair["committed_ts"] < life["committed_ts"]
    assert main(["files", str(world.config_file), PATH]) == 0
    said = capsys.readouterr().out
    assert " before that    commit 1 (table version 1), " in said
    assert "; announced by a sweep; 2 rows, and 2 records refused; " in said


def test_a_life_has_the_refusal_before_a_repair(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also of a file that was replaced since."""
    world = OperatorWorld(tmp_path, {"limits": {"max_file_bytes": 1024}})
    world.land(PATH, *map(str, range(99)))
    world.run()
    assert life_of(world, capsys)["earlier"] == []
    del world.settings["limits"]
    assert main(["replay", str(world.config_file)]) == 0
    assert main(["files", str(world.config_file), PATH]) == 0
    assert "; refused: limit max_file_bytes" in capsys.readouterr().out
    assert main(["replace", str(world.config_file), "--path", PATH, "--dry-run"]) == 0
    (original,) = life_of(world, capsys)["earlier"]
    assert (original["sequence"], original["rows"], "max_file_bytes" in original["error"]) == (0, 0, True)


def test_a_life_without_receipts_names_only_the_newest_commit(
    world: OperatorWorld, capsys: pytest.CaptureFixture[str]
) -> None:
    newest = max((world.state / "receipts").iterdir(), key=lambda file: file.name)
    newest.unlink()
    assert life_of(world, capsys)["earlier"] == []
