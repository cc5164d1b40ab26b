"""What programs get from `--json` if a command ends by an error: an object, and the exit code."""

import json
from pathlib import Path

import pytest

from blizzard.cli import main
from tests.unit.operator_world import OperatorWorld


@pytest.fixture
def world(tmp_path: Path) -> OperatorWorld:
    made = OperatorWorld(tmp_path)
    made.land("a/1.ndjson.gz", "a", None)
    made.run()
    return made


WRONG = [
    (["audit", "--source", "nobody"], "--source nobody: expected one of orders:shop"),
    (["audit", "--partition", "/"], "--partition: expected a folder of the source, such as date=2026-11-21, found '/'"),
    (["replay", "--pipeline", "nobody"], "--pipeline nobody: expected one of orders"),
    (["replay", "--since", "yesterday"], "--since"),
    (["replay", "--records", "x", "--path", "y"], "--records names the records itself"),
    (["replay", "--records", "nowhere.ndjson"], "nowhere.ndjson"),
    (["replace"], "expected --path or --partition"),
    (["replace", "--partition", "../x"], "--partition: expected a folder of the source"),
    (["replace", "--path", "[a"], "--path [a"),
]


@pytest.mark.parametrize(("command", "text"), WRONG)
def test_wrong_input(world: OperatorWorld, command: list[str], text: str, capfd: pytest.CaptureFixture[str]) -> None:
    name, *options = command
    assert main([name, str(world.config_file), *options, "--json"]) == 2
    said = capfd.readouterr()
    answer = json.loads(said.out)
    assert [*answer] == ["error"]
    assert text in answer["error"]
    assert text in said.err


@pytest.mark.parametrize("command", ["audit", "replay", "replace"])
def test_a_configuration_that_is_not_there(
    world: OperatorWorld, command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([command, str(world.folder / "nowhere.yaml"), "--json"]) == 2
    assert "nowhere.yaml" in json.loads(capsys.readouterr().out)["error"]


def test_a_failure_is_an_object_too(world: OperatorWorld, capsys: pytest.CaptureFixture[str]) -> None:
    world.settings["uri"] = "nowhere"
    assert main(["audit", str(world.config_file), "--json"]) == 1
    assert "there is no such folder" in json.loads(capsys.readouterr().out)["error"]


def test_what_the_process_of_the_job_finds_wrong_is_a_text_and_no_line_of_a_log(
    world: OperatorWorld, capfd: pytest.CaptureFixture[str]
) -> None:
    records = world.folder / "records.ndjson"
    records.write_text("no JSON\n")
    assert main(["replay", str(world.config_file), "--records", str(records), "--json"]) == 2
    said = capfd.readouterr()
    assert "line 1" in json.loads(said.out)["error"]
    assert "problem=" not in said.out + said.err
    assert main(["replay", str(world.config_file), "--records", str(records)]) == 2
    said = capfd.readouterr()
    assert ("problem=" in said.out + said.err, "line 1" in said.err) == (False, True)


def test_without_json_nothing_but_the_text_is_printed(world: OperatorWorld, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["replace", str(world.config_file)]) == 2
    said = capfd.readouterr()
    assert (said.out, said.err) == ("", "blizzard: expected --path or --partition: which files are to be replaced?\n")
