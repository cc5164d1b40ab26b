"""The set-up's Python and packages, on machines that lack something or are already set up."""

import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from blizzard.errors import SetupError
from infra.setup.venv import Venv, lock_entry
from tests.unit.shell_scripts import script

ROOT = Path(__file__).parents[2]


# --- Python -----------------------------------------------------------------------------------------------------------


class Machine:
    """A PATH with only the programs that a test adds."""

    def __init__(self, folder: Path) -> None:
        self._bin = folder / "bin"
        self._bin.mkdir()
        (self._bin / "dirname").symlink_to("/usr/bin/dirname")

    def has(self, name: str, answer: str) -> None:
        """Add a Python that prints `answer` to the set-up's probe, and its own name when the set-up runs in it."""
        script(self._bin / name, f'[ "$1" = -c ] && echo "{answer}" || echo "{name} $*"')

    def has_shim_without_version(self, name: str) -> None:
        script(self._bin / name, "exit 127")

    def set_up(self, **environ: str) -> "subprocess.CompletedProcess[str]":
        command = ["/bin/sh", str(ROOT / "infra" / "setup" / "run"), "--help"]
        path = {"PATH": str(self._bin)}
        return subprocess.run(command, env=path | environ, capture_output=True, text=True, check=False)


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def refusal(done: "subprocess.CompletedProcess[str]") -> str:
    assert done.returncode == 2
    assert done.stdout == ""
    (sentence,) = done.stderr.splitlines()
    return sentence


def test_a_machine_without_python_is_told_what_to_install(machine: Machine) -> None:
    assert "sudo apt install python3 python3-venv" in refusal(machine.set_up())


def test_a_machine_with_an_old_python_is_told_what_it_has_and_needs(machine: Machine) -> None:
    machine.has("python3", "unfit 3.10")
    sentence = refusal(machine.set_up())
    assert "needs Python 3.11, 3.12 or 3.13, and python3 is 3.10" in sentence
    assert "sudo apt install" in sentence


def test_a_python_without_its_venv_module_is_told_the_package(machine: Machine) -> None:
    machine.has("python3", "bare 3.11")
    assert "sudo apt install python3.11-venv" in refusal(machine.set_up())


def test_a_supported_python_is_found_next_to_an_older_default(machine: Machine) -> None:
    machine.has("python3", "unfit 3.10")
    machine.has("python3.12", "whole 3.12")
    machine.has_shim_without_version("python3.13")
    assert machine.set_up().stdout.startswith("python3.12 -m infra.setup")


def test_a_python_with_the_venv_module_is_preferred(machine: Machine) -> None:
    machine.has("python3.13", "bare 3.13")
    machine.has("python3.11", "whole 3.11")
    assert machine.set_up().stdout.startswith("python3.11 -m infra.setup")


def test_only_the_named_python_is_used(machine: Machine) -> None:
    machine.has("python3.13", "whole 3.13")
    machine.has("python3.12", "whole 3.12")
    assert machine.set_up(PYTHON="python3.12").stdout.startswith("python3.12 -m infra.setup")
    assert "python3.9 does not run" in refusal(machine.set_up(PYTHON="python3.9"))


def test_this_python_is_supported(machine: Machine) -> None:
    done = machine.set_up(PYTHON=sys.executable)
    assert done.stdout.startswith("usage: infra/setup/run")


# --- Packages ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    (tmp_path / "requirements.lock").write_text(
        "a==1 \\\n    --hash=sha256:00\nsetuptools==2 \\\n    --hash=sha256:11\n"
    )
    return tmp_path


def installed(checkout: Path) -> Venv:
    """As after a completed set-up."""
    venv = Venv(checkout)
    script(venv.python)
    (venv.folder / ".began").touch()
    (venv.folder / ".packages").write_text(venv.packages_key())
    return venv


def test_a_complete_environment_is_reused(checkout: Path) -> None:
    assert Venv(checkout).needs_packages()
    assert not installed(checkout).needs_packages()


def test_an_environment_is_recreated_for_another_lock(checkout: Path) -> None:
    venv = installed(checkout)
    (checkout / "requirements.lock").write_text("a==2 \\\n    --hash=sha256:00\n")
    assert venv.needs_packages()


def test_a_moved_environment_is_recreated(checkout: Path) -> None:
    installed(checkout)
    moved = checkout.rename(checkout.with_name("elsewhere"))
    assert Venv(moved).needs_packages()


def test_an_environment_without_its_python_is_recreated(checkout: Path) -> None:
    venv = installed(checkout)
    venv.python.unlink()
    venv.python.symlink_to("/nowhere/python3.12")
    assert venv.needs_packages()


def test_an_environment_not_made_by_the_set_up_is_not_touched(checkout: Path) -> None:
    precious = checkout / ".venv" / "precious"
    precious.parent.mkdir()
    precious.touch()
    with pytest.raises(SetupError, match="was not made by this set-up: move or delete it"):
        Venv(checkout).install_packages()
    assert precious.exists()


@pytest.fixture
def linked(checkout: Path) -> Path:
    """The environment of another checkout, to which `.venv` is a link."""
    other = checkout / "other"
    other.mkdir()
    shutil.copy(checkout / "requirements.lock", other)
    folder = installed(other).folder
    (checkout / ".venv").symlink_to(folder)
    return folder


def test_a_link_is_refused_and_what_is_behind_it_stays(checkout: Path, linked: Path) -> None:
    command = [sys.executable, "-m", "infra.setup", "--root", str(checkout), "--without-java"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert refusal(done) == (
        f"set-up: {checkout / '.venv'} is a symbolic link to {linked}, and the set-up would change what is there: "
        "remove the link, and run again"
    )
    assert sorted(item.name for item in linked.iterdir()) == [".began", ".packages", "bin"]


def test_packages_are_not_installed_through_a_link(checkout: Path, linked: Path) -> None:
    with pytest.raises(SetupError, match="is a symbolic link to"):
        Venv(checkout).install_packages()
    assert (linked / "bin" / "python").exists()


def test_a_lock_entry_has_the_hashes_of_one_package_only(checkout: Path) -> None:
    lock = (checkout / "requirements.lock").read_text()
    assert lock_entry(lock, "a") == "a==1 \\\n    --hash=sha256:00\n"
    with pytest.raises(SetupError, match="no entry for b"):
        lock_entry(lock, "b")


def test_the_lock_has_nothing_but_names_versions_and_hashes() -> None:
    name = re.compile(r"[a-z0-9-]+==[\w.]+( ; [^/]+)? \\")
    hashed = re.compile(r"    --hash=sha256:[0-9a-f]{64}( \\)?")
    lines = (ROOT / "requirements.lock").read_text().splitlines()
    assert [line for line in lines if not (name.fullmatch(line) or hashed.fullmatch(line))] == []


def test_the_lock_satisfies_the_projects_requirements() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    pinned = dict(re.findall(r"^([a-z0-9-]+)==(\S+)", (ROOT / "requirements.lock").read_text(), re.MULTILINE))
    wanted = [Requirement(text) for text in project["dependencies"] + project["optional-dependencies"]["dev"]]
    unmet = [str(w) for w in wanted if not w.specifier.contains(pinned.get(w.name.replace(".", "-").lower(), "0"))]
    assert unmet == []
