"""Creates a tool's environment at first use: `.cache/tools/NAME`, with exactly the packages of `NAME.lock`."""

import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

from blizzard.setup.file_lock import locked
from blizzard.setup.stamps import digest, is_stamped, put_stamp
from infra.setup.commands import run_command

LOCKS = Path(__file__).parent
PROGRAMS = {"sam": "sam", "checkov": "checkov", "pip-audit": "pip-audit", "awscli": "aws", "localstack": "python"}
"""Each tool's program in its environment; LocalStack is a module of its own Python."""
WITHOUT_WHEELS = {"localstack": ("airspeed-ext", "crontab", "jsonpath-rw", "tailer")}
"""Packages that PyPI has only as source. They are built with the setuptools of the lock."""
INSTALLER = "uv"
"""Itself installed by pip. Installs a hundred packages in two seconds, pip in a minute."""


@dataclass(frozen=True, slots=True)
class Tools:
    """The environments below a checkout's `.cache/tools`."""

    root: Path

    def program(self, name: str) -> Path:
        """The tool's program. Creates its environment if it is missing or its lock changed. Raises SetupError."""
        environment = self._folder / name
        with locked(self._folder / "lock"):
            if not self._is_current(name):
                installer = self._installer()
                self._begin(name)
                run_command(
                    f"Making {environment}", [str(installer), "venv", "--quiet", "-p", sys.executable, str(environment)]
                )
                self._install(name, installer, environment)
                put_stamp(environment / ".made", self._key(name))
        return environment / "bin" / PROGRAMS[name]

    @property
    def _folder(self) -> Path:
        return self.root / ".cache" / "tools"

    def _installer(self) -> Path:
        environment = self._folder / INSTALLER
        if not self._is_current(INSTALLER):
            self._begin(INSTALLER)
            run_command(f"Making {environment}", [sys.executable, "-m", "venv", str(environment)])
            pip = [str(environment / "bin" / "python"), "-m", "pip", "install", "--quiet", "--no-input", "--no-deps"]
            run_command(f"Installing {INSTALLER}", [*pip, "--require-hashes", "-r", str(LOCKS / f"{INSTALLER}.lock")])
            put_stamp(environment / ".made", self._key(INSTALLER))
        return environment / "bin" / INSTALLER

    def _install(self, name: str, installer: Path, environment: Path) -> None:
        lock = LOCKS / f"{name}.lock"
        # Wheels only: a source build would use unpinned build packages.
        install = [str(installer), "pip", "install", "--quiet", "-p", str(environment / "bin" / "python")]
        install += ["--only-binary", ":all:"]
        built = [word for package in WITHOUT_WHEELS.get(name, ()) for word in ("--no-binary", package)]
        if built:
            setuptools = ["--require-hashes", "--constraint", str(lock), _pinned("setuptools", lock)]
            run_command(f"Installing setuptools for {name}", [*install, *setuptools])
            built.append("--no-build-isolation")
        run_command(f"Installing {name}", [*install, *built, "--require-hashes", "--requirement", str(lock)])

    def _is_current(self, name: str) -> bool:
        return is_stamped(self._folder / name / ".made", self._key(name))

    def _key(self, name: str) -> str:
        # Scripts contain their folder's path, so a moved folder has to be made again.
        return (
            f"{digest(LOCKS / f'{name}.lock')} {self._folder / name} {sys.version_info.major}.{sys.version_info.minor}"
        )

    def _begin(self, name: str) -> None:
        shutil.rmtree(self._folder / name, ignore_errors=True)
        print(f"tools: {name} into {(self._folder / name).relative_to(self.root)} …", flush=True)


def _pinned(package: str, lock: Path) -> str:
    """As the lock has it, without its hashes."""
    return next(line.split()[0] for line in lock.read_text().splitlines() if line.startswith(f"{package}=="))
