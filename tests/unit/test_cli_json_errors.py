"""What programs get from `--json` if a command ends by an error: an object, and the exit code."""

import json
import shutil
from pathlib import Path

import pytest

from blizzard.cli import COMMANDS, load, main
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
    (["files", "[a"], "PATTERN [a"),
    (["files", "--since", "yesterday"], "--since"),
    (["plan", "--prices", "nowhere.json"], "--prices nowhere.json"),
    (["letters", "--source", "nobody"], "--source nobody: expected one of orders:shop"),
    (["rebuild", "--swap"], "--swap: expected --to TABLE with it"),
    (["schema-history", "--source", "nobody"], "--source nobody"),
]
WITH_JSON = [name for name in COMMANDS if any("--json" in option.opts for option in load(name).params)]
OF_PIPELINES = ["audit", "files", "letters", "plan", "rebuild", "replace", "replay", "run", "schema-history", "status"]
"""The others are about no configuration, or have what is wrong with one in their answers."""


@pytest.mark.parametrize(("command", "text"), WRONG)
def test_wrong_input(world: OperatorWorld, command: list[str], text: str, capfd: pytest.CaptureFixture[str]) -> None:
    name, *options = command
    assert main([name, str(world.config_file), *options, "--json"]) == 2
    said = capfd.readouterr()
    answer = json.loads(said.out)
    assert [*answer] == ["error"]
    assert text in answer["error"]
    assert text in said.err


def test_all_commands_with_json_are_meant() -> None:
    assert {*WITH_JSON} == {*OF_PIPELINES, "doctor", "init", "setup", "validate"}


@pytest.mark.parametrize("command", WITH_JSON)
def test_an_option_that_there_is_not(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([command, "--json", "--nonsense"]) == 2
    said = capsys.readouterr()
    answer = json.loads(said.out)
    assert ([*answer], answer["error"].startswith("No such option: --nonsense")) == (["error"], True)
    assert "--nonsense" in said.err


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["audit"], "Missing argument 'FILE'"),
        (["audit", "--sample", "-1", "p.yaml"], "Invalid value for '--sample'"),
        (["letters", "p.yaml", "--stage", "nowhere"], "Invalid value for '--stage'"),
        (["files", "p.yaml", "--limit"], "Option '--limit' requires an argument"),
        (["status", "p.yaml", "another"], "unexpected extra argument"),
        (["nonsense"], "No such command 'nonsense'"),
    ],
)
def test_what_is_no_command(words: list[str], text: str, capsys: pytest.CaptureFixture[str]) -> None:
    name, *rest = words
    assert main([name, "--json", *rest]) == 2
    said = capsys.readouterr()
    answer = json.loads(said.out)
    assert ([*answer], text in answer["error"], text.split(" '")[0] in said.err) == (["error"], True, True)
    assert main(words) == 2
    assert capsys.readouterr().out == ""


def test_a_file_may_have_the_name_of_an_option(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["status", "--", "--json"]) == 2
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("command", OF_PIPELINES)
def test_a_configuration_that_is_not_there(
    world: OperatorWorld, command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([command, str(world.folder / "nowhere.yaml"), "--json"]) == 2
    assert "nowhere.yaml" in json.loads(capsys.readouterr().out)["error"]


@pytest.mark.parametrize("command", ["letters", "status", "schema-history"])
def test_a_table_that_cannot_be_read(world: OperatorWorld, command: str, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.rmtree(world.lake)
    world.lake.write_text("a file where a folder should be")
    assert main([command, str(world.config_file), "--json"]) == 1
    answer = json.loads(capsys.readouterr().out)
    assert "lake" in str(answer["error"])


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
