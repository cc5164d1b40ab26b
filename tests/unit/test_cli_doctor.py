"""`blizzard doctor` as a command: its exit codes, its text and its JSON."""

import json
from pathlib import Path

import pytest

from blizzard.cli import main
from tests.unit.doctor_world import DoctorWorld, ingested


@pytest.fixture(autouse=True)
def no_aws(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "BLIZZARD_SPARK_CONF"):
        monkeypatch.delenv(name, raising=False)


def test_all_is_well(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", str(ingested(tmp_path).config_file)]) == 0
    said = capsys.readouterr().out
    assert said.splitlines()[0] == "Configuration"
    assert said.splitlines()[-1].endswith("skipped: all is well")
    assert "  ok       table.txn-retention" in said


def test_warnings_are_no_failure(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    world = ingested(tmp_path)
    world.land("bad.ndjson.gz", None)
    world.run()
    assert main(["doctor", str(world.config_file)]) == 0
    said = capsys.readouterr().out
    assert "           do: docs/runbook.md#dead-letters" in said
    assert said.splitlines()[-1].endswith("it works, but somebody should look")


def test_a_problem_is_a_failure_and_says_what_to_do(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    world = ingested(tmp_path)
    world.set_properties(delta__setTransactionRetentionDuration="interval 1 day")
    assert main(["doctor", "--json", str(world.config_file)]) == 1
    report = json.loads(capsys.readouterr().out)
    assert (report["verdict"], report["counts"]["problem"], report["stack"]) == ("problem", 1, None)
    (found,) = (each for each in report["checks"] if each["verdict"] == "problem")
    assert (found["id"], found["area"]) == ("table.txn-retention", "table")
    assert "UNSET TBLPROPERTIES" in found["advice"]
    assert report["counts"] == {
        verdict: sum(each["verdict"] == verdict for each in report["checks"]) for verdict in report["counts"]
    }


def test_a_wrong_configuration_is_exit_code_2_and_what_can_be_checked_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "pipelines.yaml"
    file.write_text("pipelines: {p: {table_uri: lake, sources: {s: {}}}}")
    assert main(["doctor", str(file)]) == 2
    said = capsys.readouterr().out
    assert "  problem  configuration.valid" in said
    assert f"do: correct the file; `blizzard validate {file}` names every problem" in said
    assert "  ok       configuration.log-store" in said
    assert "storage." not in said


def test_a_missing_file_is_exit_code_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", str(tmp_path / "nowhere.yaml")]) == 2
    assert "cannot be read: No such file or directory" in capsys.readouterr().out


def test_it_changes_nothing(tmp_path: Path) -> None:
    world = ingested(tmp_path)
    file = world.config_file
    before = {str(each): each.stat().st_mtime_ns for each in tmp_path.rglob("*")}
    main(["doctor", str(file)])
    assert {str(each): each.stat().st_mtime_ns for each in tmp_path.rglob("*")} == before


def test_a_name_cannot_forge_a_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    world = DoctorWorld(tmp_path, settings={"pattern": "*.csv"})
    world.land("a\nproblem.gz", "a")
    assert main(["doctor", str(world.config_file)]) == 0
    assert "such as a\\nproblem.gz" in capsys.readouterr().out
