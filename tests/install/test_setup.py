"""`blizzard setup` of an installed Blizzard, and Spark after it."""

import json
import os
import pty
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from deltalake import DeltaTable

from blizzard.setup.jar_lock import LOCK, read_lock
from blizzard.setup.java import find_java
from tests.install.installed import ROOT, Installation
from tests.unit.maven import Maven, maven

CONFIG = """
pipelines:
  orders:
    table_uri: lake/orders
    sources: {shop: {uri: orders, schema: id STRING, settle_delay_secs: 0}}
"""
JARS = read_lock(LOCK.read_text())


@pytest.fixture(scope="module")
def repository() -> Iterator[Maven]:
    """The real jars, from the checkout's folder."""
    with maven() as served:
        served.content.update({jar.path: (ROOT / "jars" / jar.file).read_bytes() for jar in JARS})
        yield served


@pytest.fixture
def with_java() -> dict[str, str]:
    """Variables of a machine with Java, and with the programs that Spark's start scripts call."""
    return {"PATH": "/usr/bin:/bin", "JAVA_HOME": str(find_java().home)}


def test_before_the_set_up_spark_is_refused_with_the_command_to_use(installation: Installation) -> None:
    (installation.home / "spark.yaml").write_text(CONFIG)
    done = installation.blizzard("run", "--once", "spark.yaml", "--engine", "spark")
    assert done.returncode == 2
    assert done.stderr.startswith(
        f"blizzard: --jars: expected a folder with Delta's jars, found no {installation.home}"
    )
    assert done.stderr.endswith("; run `blizzard setup`\n")


def test_spark_runs_after_the_set_up(
    installation: Installation, repository: Maven, with_java: dict[str, str], tmp_path: Path
) -> None:
    cache = {"XDG_CACHE_HOME": str(tmp_path / "cache")}
    done = installation.blizzard("setup", "--repository", f"{repository.url}/", "--json", **cache, **with_java)
    assert (done.returncode, done.stderr) == (0, "")
    said = json.loads(done.stdout)
    assert (said["jars"], said["downloaded"], said["repository"]) == (len(JARS), len(JARS), repository.url)
    assert Path(said["folder"]).is_relative_to(tmp_path / "cache" / "blizzard")
    assert said["java"]["version"] in (17, 21)

    again = installation.blizzard("setup", BLIZZARD_MAVEN_REPOSITORY=repository.url, **cache)
    assert again.stdout.splitlines()[0] == f"{len(JARS)} jars in {said['folder']}, all were there"

    (installation.home / "spark.yaml").write_text(CONFIG)
    (installation.home / "orders").mkdir(exist_ok=True)
    (installation.home / "orders" / "a.ndjson").write_text('{"id": "a"}\n{"id": "b"}\n')
    ran = installation.blizzard("run", "--once", "spark.yaml", "--engine", "spark", **cache, **with_java)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert ran.stdout.splitlines()[-1] == "orders:shop: done, 1 files and 2 rows in 1 commits"
    rows = DeltaTable(str(installation.home / "lake" / "orders")).to_pyarrow_table(columns=["id"])
    assert sorted(rows["id"].to_pylist()) == ["a", "b"]


def test_a_folder_can_be_named(installation: Installation, repository: Maven, tmp_path: Path) -> None:
    done = installation.blizzard("setup", "--folder", str(tmp_path / "jars"), "--repository", repository.url)
    assert done.stdout.startswith(
        f"{len(JARS)} jars in {tmp_path}/jars, {len(JARS)} downloaded from {repository.url}\n"
    )
    assert {jar.file for jar in JARS} < {file.name for file in (tmp_path / "jars").iterdir()}
    by_variable = installation.blizzard("setup", "--json", BLIZZARD_JARS=str(tmp_path / "jars"))
    assert json.loads(by_variable.stdout)["downloaded"] == 0
    (installation.home / "spark.yaml").write_text(CONFIG)
    found = installation.blizzard("run", "spark.yaml", "--engine", "spark", BLIZZARD_JARS=str(tmp_path / "none"))
    assert f"found no {tmp_path}/none" in found.stderr


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        (["--repository", "ftp://127.0.0.1"], 2, "expected a URL with http, https or file"),
        (["--repository", "file:///nowhere"], 1, "No such file or directory"),
        (["--repository", "file:///nowhere", "--folder", "/proc/jars"], 1, "choose another folder with --folder"),
    ],
)
def test_what_goes_wrong_is_one_sentence(
    installation: Installation, arguments: list[str], code: int, text: str, tmp_path: Path
) -> None:
    done = installation.blizzard("setup", *arguments, XDG_CACHE_HOME=str(tmp_path))
    assert (done.returncode, done.stdout) == (code, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith("blizzard: ")
    assert text in line


def test_a_jar_that_was_changed_on_the_way_is_refused(installation: Installation, tmp_path: Path) -> None:
    for jar in JARS:
        (tmp_path / "maven" / jar.path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "maven" / jar.path).symlink_to(ROOT / "jars" / jar.file)
    changed = tmp_path / "maven" / JARS[3].path
    changed.unlink()
    changed.write_bytes(b"changed")
    words = ["setup", "--repository", (tmp_path / "maven").as_uri(), "--folder", str(tmp_path / "jars")]
    done = installation.blizzard(*words)
    assert done.returncode == 1
    assert f"{JARS[3].path}: expected sha256 {JARS[3].sha256}, found " in done.stderr
    assert not (tmp_path / "jars" / JARS[3].file).exists()


def test_the_progress_is_shown_on_a_terminal(installation: Installation, repository: Maven, tmp_path: Path) -> None:
    terminal, theirs = pty.openpty()
    command = [installation.folder / "bin" / "blizzard", "setup", "--folder", str(tmp_path / "jars")]
    environment = {"HOME": str(installation.home), "TERM": "xterm", "BLIZZARD_MAVEN_REPOSITORY": repository.url}
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=theirs) as process:
        os.close(theirs)
        shown = b"".join(iter(lambda: _read(terminal), b""))
        assert process.wait(timeout=60) == 0
    os.close(terminal)
    assert b"jars of Delta and S3A" in shown
    assert f"{len(JARS)}/{len(JARS)}".encode() in shown


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 4096)
    except OSError:  # Linux reports the end of a terminal so
        return b""
