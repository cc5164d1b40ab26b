"""`blizzard --version`, and what the command imports before it knows what to do."""

import json
import os
import platform
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

from blizzard.cli import COMMANDS, main
from blizzard.cli.versions import PACKAGES
from tests.unit.shell_scripts import script

SLOW = ("boto3", "botocore", "deltalake", "obstore", "pyarrow", "pyspark", "ruamel.yaml")
"""Without pydantic, with which typer converts options."""


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """With Java 21, and jars."""
    script(tmp_path / "jdk" / "bin" / "java")
    (tmp_path / "jdk" / "release").write_text('JAVA_VERSION="21.0.4"')
    (tmp_path / "jars").mkdir()
    (tmp_path / "jars" / "delta.jar").touch()
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "jdk"))
    monkeypatch.setenv("BLIZZARD_JARS", str(tmp_path / "jars"))
    return tmp_path


def test_all_versions_are_told(machine: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    shown = dict(line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines())
    assert shown == {
        "blizzard": "0.1.0",
        "python": platform.python_version(),
        **{name: version(name) for name in PACKAGES},
        "java": f"21 in {machine}/jdk",
        "jars": f"{machine}/jars",
    }


def test_all_versions_as_json(machine: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version", "--json"]) == 0
    first = capsys.readouterr().out
    assert main(["--json", "--version"]) == 0
    assert capsys.readouterr().out == first
    assert json.loads(first) == {
        "blizzard": "0.1.0",
        "python": platform.python_version(),
        **{name: version(name) for name in PACKAGES},
        "java": {"version": 21, "home": f"{machine}/jdk", "problem": None},
        "jars": {"folder": f"{machine}/jars", "problem": None},
    }


def test_what_is_missing_is_told_with_what_to_do(
    machine: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("blizzard.cli.versions.PACKAGES", ("no-such-package",))
    (machine / "jdk" / "release").write_text('JAVA_VERSION="11.0.1"')
    monkeypatch.setattr("shutil.which", lambda _: None)
    monkeypatch.setattr("blizzard.setup.java.find_java.__defaults__", (machine / "no-jvms",))
    (machine / "jars" / "delta.jar").unlink()
    assert main(["--version"]) == 0
    shown = capsys.readouterr().out
    assert "no-such-package  not installed\n" in shown
    assert "found Java 11 without javac in" in shown
    assert f"jars         found no jar in {machine}/jars; run `make setup`\n" in shown


@pytest.mark.parametrize(
    ("arguments", "variables"),
    [
        (["--version"], {}),
        (["--help"], {}),
        ([], {"_BLIZZARD_COMPLETE": "complete_bash", "COMP_WORDS": "blizzard s", "COMP_CWORD": "1"}),
    ],
    ids=["version", "help", "completion"],
)
def test_no_large_package_is_imported(arguments: list[str], variables: dict[str, str]) -> None:
    code = f"import sys; from blizzard.cli import main; main({arguments}); print(*sys.modules, file=sys.stderr)"
    environment = {**os.environ, **variables}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout
    assert {*SLOW} & {*done.stderr.split()} == set()


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--json"], "--json: expected --version with it"),
        (["--json", "schema"], "--json: expected --version with it"),
        (["--"], "expected a command"),
        (["statsu"], "Did you mean 'status'?"),
    ],
    ids=str,
)
def test_a_wrong_call_ends_with_2(arguments: list[str], text: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 2
    assert text in capsys.readouterr().err


def test_the_help_lists_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    shown = capsys.readouterr().out
    assert all(name in shown for name in COMMANDS)
    assert "--install-completion" in shown
