"""The virtual environment: exactly the packages of requirements.lock, and this project as an editable install."""

import re
import shutil
import sys
from pathlib import Path

from blizzard.errors import SetupError
from blizzard.setup.stamps import digest, is_stamped, put_stamp
from infra.setup.commands import run_command

# Builds pyspark, which is published as source only. Its version and hash are in the lock too; by default pip would use
# the newest one.
BUILD_PACKAGE = "setuptools"


class Venv:
    def __init__(self, root: Path) -> None:
        self._root = root
        self.folder = root / ".venv"
        self.python = self.folder / "bin" / "python"
        self._began, self._packages, self._project = (
            self.folder / f".{name}" for name in ("began", "packages", "project")
        )

    @property
    def pyspark_home(self) -> Path:
        return next(self.folder.glob("lib/python3.*/site-packages/pyspark"))

    @property
    def _lock(self) -> Path:
        return self._root / "requirements.lock"

    def needs_packages(self, *, this_python: bool = False) -> bool:
        """`this_python`: also true when .venv has another minor version than the running Python."""
        if not self.python.exists() or not is_stamped(self._packages, self.packages_key()):
            return True
        return this_python and not (self.folder / "lib" / f"python3.{sys.version_info.minor}").exists()

    def packages_key(self) -> str:
        # Scripts in bin/ contain the folder's path, so a moved folder has to be made again.
        return f"{digest(self._lock)} {self.folder}"

    def install_packages(self) -> None:
        """Into an empty environment, so that it contains only packages of the lock. Raises SetupError."""
        self._clear()
        run_command("Making .venv", [sys.executable, "-m", "venv", str(self.folder)])
        build = self.folder / "build-requirements.txt"
        build.write_text(lock_entry(self._lock.read_text(), BUILD_PACKAGE))
        self._pip("--require-hashes", "-r", str(build))
        self._pip("--require-hashes", "--no-build-isolation", "-r", str(self._lock))
        put_stamp(self._packages, self.packages_key())

    def _clear(self) -> None:
        self.refuse_link()
        if self.folder.exists() and not self._began.exists():
            raise SetupError(f"{self.folder} exists and was not made by this set-up: move or delete it, and run again")
        if self.folder.exists():
            # All but the marker, so that after a kill the next set-up still recognizes the folder as its own.
            for item in self.folder.iterdir():
                if item != self._began:
                    shutil.rmtree(item) if item.is_dir() and not item.is_symlink() else item.unlink()
        self.folder.mkdir(exist_ok=True)
        self._began.touch()

    def refuse_link(self) -> None:
        """What is behind a link may be the environment of another checkout. Raises SetupError."""
        if self.folder.is_symlink():
            raise SetupError(
                f"{self.folder} is a symbolic link to {self.folder.readlink()}, and the set-up would change what is "
                "there: remove the link, and run again"
            )

    def needs_project(self) -> bool:
        return not is_stamped(self._project, digest(self._root / "pyproject.toml"))

    def install_project(self) -> None:
        self._pip("--no-deps", "--no-build-isolation", "-e", str(self._root))
        put_stamp(self._project, digest(self._root / "pyproject.toml"))

    def _pip(self, *arguments: str) -> None:
        pip = [
            str(self.python),
            "-m",
            "pip",
            "--disable-pip-version-check",
            "--no-input",
            "install",
            "--progress-bar=off",
        ]
        run_command("Installing packages", [*pip, *arguments])


def lock_entry(lock: str, package: str) -> str:
    """The lines of one package with its hashes. Raises SetupError when there is none."""
    found = re.search(rf"^{re.escape(package)}==(?:.*\\\n)*.*\n?", lock, re.MULTILINE)
    if not found:
        raise SetupError(f"requirements.lock has no entry for {package}: update it with `make lock`")
    return found[0]
