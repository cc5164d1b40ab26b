"""The environments of the tools that `make check-stack` and `make advisories` run."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from grimp import build_graph
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from blizzard.errors import SetupError
from blizzard.setup.stamps import put_stamp
from infra.tools import environments
from infra.tools.environments import INSTALLER, LOCKS, PROGRAMS, WITHOUT_WHEELS, Tools

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("name", [*PROGRAMS, INSTALLER])
def test_a_lock_pins_its_requirements_with_hashes(name: str) -> None:
    lock = (LOCKS / f"{name}.lock").read_text()
    versions = dict(re.findall(r"^([\w.-]+)==(\S+)", lock, re.MULTILINE))
    for line in (LOCKS / f"{name}.in").read_text().splitlines():
        wanted = Requirement(line)
        assert wanted.specifier.contains(versions[canonicalize_name(wanted.name)]), line
    pinned = re.findall(r"^[\w.-]+(?:\[[\w,-]+\])?==", lock, re.MULTILINE)
    assert len(pinned) == len(re.findall(r"^\S", lock, re.MULTILINE))
    assert all("--hash=sha256:" in entry for entry in re.split(r"^(?=\S)", lock, flags=re.MULTILINE)[1:])


def made(root: Path, name: str) -> Path:
    """An environment that Tools takes for complete."""
    folder = root / ".cache" / "tools" / name
    (folder / "bin").mkdir(parents=True)
    put_stamp(folder / ".made", Tools(root)._key(name))
    return folder


def test_an_existing_environment_is_reused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = made(tmp_path, "sam")
    assert Tools(tmp_path).program("sam") == folder / "bin" / "sam"
    assert capsys.readouterr().out == ""


@pytest.fixture
def locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Locks of packages that do not exist."""
    folder = tmp_path / "locks"
    folder.mkdir()
    for name in (*PROGRAMS, INSTALLER):
        (folder / f"{name}.lock").write_text(f"{name}==0.0.0.dev0 --hash=sha256:{'0' * 64}\n")
    monkeypatch.setattr(environments, "LOCKS", folder)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("UV_NO_INDEX", "1")
    return folder


def test_an_environment_is_recreated_when_its_lock_changed(tmp_path: Path, locks: Path) -> None:
    folder = made(tmp_path, "sam")
    made(tmp_path, INSTALLER)
    (locks / "sam.lock").write_text("sam==1\n")
    with pytest.raises((SetupError, FileNotFoundError)):  # the installer is none
        Tools(tmp_path).program("sam")
    assert not (folder / ".made").exists()


def test_a_failed_installation_is_reported_and_not_taken_for_complete(tmp_path: Path, locks: Path) -> None:
    with pytest.raises(SetupError, match=r"Installing uv failed with status 1; its last lines:\n.*uv==0\.0\.0"):
        Tools(tmp_path).program("sam")
    assert not list((tmp_path / ".cache").rglob(".made"))


def test_packages_without_wheels_are_built_with_the_setuptools_of_the_lock() -> None:
    for name, packages in WITHOUT_WHEELS.items():
        pinned = re.findall(r"^([\w.-]+)==", (LOCKS / f"{name}.lock").read_text(), re.MULTILINE)
        assert {*packages, "setuptools"} <= set(pinned)


def test_make_lock_writes_the_lock_of_each_tool() -> None:
    loop = re.search(r"for tool in ([\w -]+);", (ROOT / "Makefile").read_text())
    assert loop is not None
    assert set(loop[1].split()) == {*PROGRAMS, INSTALLER}


def test_only_the_known_tools_are_run() -> None:
    message = "tools: expected one of sam, checkov, pip-audit, awscli, localstack, versitygw and its arguments\n"
    done = subprocess.run(
        [sys.executable, "-m", "infra.tools", "terraform"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (2, message)


def test_make_checks_the_template_again_when_what_it_depends_on_changed() -> None:
    rule = (ROOT / "Makefile").read_text().partition(".cache/stack-checked: ")[2].partition("| setup")[0]
    inputs = {path for pattern in re.findall(r"[\w./*]+", rule) for path in ROOT.glob(pattern)}
    needed = [ROOT / "template.yaml", ROOT / "docs" / "runbook.md", ROOT / "requirements.lock"]
    needed += [file for folder in ("functions", "spark_job") for file in (ROOT / folder).rglob("*.py")]
    graph = build_graph("infra", "blizzard", cache_dir=None)
    modules = {"infra.template.__main__", *graph.find_upstream_modules("infra.template.__main__")}
    needed += [ROOT / f"{module.replace('.', '/')}.py" for module in modules]
    assert [file for file in needed if file.exists() and file.name != "__init__.py" and file not in inputs] == []
