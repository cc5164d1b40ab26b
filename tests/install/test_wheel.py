"""What users get: the wheel in an environment of its own, without the checkout."""

import json
import shutil
import subprocess
import zipfile
from pathlib import Path

import pytest
from deltalake import DeltaTable

from blizzard.cli import COMMANDS
from tests.install.installed import ROOT, Installation, build_wheel

CONFIG = """
pipelines:
  weather:
    table_uri: lake/weather
    sources:
      readings:
        uri: incoming
        pattern: "*.ndjson"
        schema: "id STRING NOT NULL, celsius DOUBLE"
        settle_delay_secs: 0
"""


def files_of(wheel: Path) -> list[str]:
    with zipfile.ZipFile(wheel) as archive:
        return archive.namelist()


def test_the_wheel_has_what_users_run_and_no_packages_with_general_names(wheel: Path) -> None:
    assert wheel.name == "blizzard-0.1.0-py3-none-any.whl"
    files = files_of(wheel)
    assert {file.partition("/")[0] for file in files} == {"blizzard", "spark_job", "blizzard-0.1.0.dist-info"}
    assert "blizzard/setup/blizzard-logstore.jar" in files


def test_the_wheel_has_every_tracked_file_of_its_packages(wheel: Path) -> None:
    tracked = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "blizzard", "spark_job"]
    listed = subprocess.run(tracked, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    missing = {file for file in listed if (ROOT / file).exists()} - {*files_of(wheel)}
    assert missing == set()


def test_the_same_sources_give_the_same_wheel(wheel: Path, tmp_path: Path) -> None:
    """In another folder, with other times, permissions and leftovers of Python."""
    copied = tmp_path / "elsewhere"
    for name in ("blizzard", "spark_job", "infra"):
        shutil.copytree(ROOT / name, copied / name, copy_function=shutil.copyfile)
    for name in ("pyproject.toml", ".gitignore", "jars/blizzard-logstore.jar"):
        (copied / name).parent.mkdir(exist_ok=True)
        shutil.copyfile(ROOT / name, copied / name)
    (copied / "blizzard" / "__init__.py").chmod(0o600)
    (copied / "blizzard" / "__pycache__").mkdir(exist_ok=True)
    (copied / "blizzard" / "__pycache__" / "left_over.pyc").write_bytes(b"\0")
    assert build_wheel(tmp_path / "dist", copied).read_bytes() == wheel.read_bytes()


def test_a_checkout_without_the_log_store_gives_no_wheel(tmp_path: Path) -> None:
    copied = tmp_path / "bare"
    (copied / "infra" / "package").mkdir(parents=True)
    for name in ("pyproject.toml", "infra/package/wheel_hook.py"):
        shutil.copyfile(ROOT / name, copied / name)
    with pytest.raises(subprocess.CalledProcessError) as error:
        build_wheel(tmp_path / "dist", copied)
    assert b"found no such file; use `make wheel`" in error.value.stderr


def test_the_checkout_cannot_be_imported_from_the_installation(installation: Installation) -> None:
    show = "import blizzard, spark_job; print(blizzard.__file__, spark_job.__file__)"
    done = installation.run("python", "-c", show)
    assert done.returncode == 0, done.stderr
    assert all(Path(file).is_relative_to(installation.folder) for file in done.stdout.split())
    assert installation.run("python", "-c", "import infra").returncode == 1
    assert installation.run("python", "-c", "import functions").returncode == 1


@pytest.fixture(scope="module")
def ingested(installation: Installation) -> str:
    """What the first run prints."""
    (installation.home / "incoming").mkdir()
    (installation.home / "pipelines.yaml").write_text(CONFIG)
    rows = "".join(json.dumps({"id": f"r{number}", "celsius": number / 2}) + "\n" for number in range(100))
    (installation.home / "incoming" / "first.ndjson").write_text(rows)
    done = installation.blizzard("run", "--once", "pipelines.yaml")
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_files_are_ingested_without_java(ingested: str, installation: Installation) -> None:
    assert ingested.splitlines()[-1] == "weather:readings: done, 1 files and 100 rows in 1 commits"
    rows = DeltaTable(str(installation.home / "lake" / "weather")).to_pyarrow_table(columns=["id", "celsius"])
    assert sorted(rows.to_pylist(), key=lambda row: row["celsius"]) == [
        {"id": f"r{number}", "celsius": number / 2} for number in range(100)
    ]
    again = installation.blizzard("run", "--once", "pipelines.yaml")
    assert (again.returncode, again.stdout) == (0, "weather:readings: nothing new\n")


@pytest.mark.usefixtures("ingested")
def test_the_commands_that_only_look_work(installation: Installation) -> None:
    status = installation.blizzard("status", "--json", "pipelines.yaml")
    assert (json.loads(status.stdout)[0]["sequence"], status.stderr) == (0, "")
    assert installation.blizzard("validate", "pipelines.yaml").stdout.startswith("weather:readings: ndjson from ")
    assert json.loads(installation.blizzard("schema").stdout)["title"]
    assert installation.blizzard("resume", "pipelines.yaml").stdout.startswith("weather: nothing to resume")


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_explains_itself(command: str, installation: Installation) -> None:
    done = installation.blizzard(command, "--help")
    assert done.returncode == 0, done.stderr
    assert f"blizzard {command}" in done.stdout
