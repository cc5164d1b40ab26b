"""The wheel, built from this checkout, and an environment that has it and not the checkout."""

import platform
import subprocess
import sys
from dataclasses import dataclass
from importlib.metadata import distribution, distributions
from pathlib import Path

from infra.package.lock import Target, required_names, with_dependencies

ROOT = Path(__file__).parents[2]
LIMIT_SECS = 600


def build_wheel(folder: Path, checkout: Path = ROOT) -> Path:
    """As `make wheel` does, but into `folder`."""
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(command, cwd=checkout, check=True, capture_output=True, timeout=LIMIT_SECS)
    (wheel,) = folder.glob("*.whl")
    return wheel


def required(name: str, *, of: Path) -> set[str]:
    """The names of all distributions that one in the folder `of` requires, and those that these require."""
    here = Target(f"{sys.version_info.major}.{sys.version_info.minor}", platform.machine())
    (wheel,) = distributions(name=name, path=[str(of)])
    return with_dependencies(required_names(wheel.requires or (), here), here)


def _link(name: str, folder: Path) -> None:
    """What a distribution has in site-packages, except scripts and compiled files."""
    known = distribution(name)
    for top in {file.parts[0] for file in known.files or ()} - {"..", "__pycache__"}:
        if not (folder / top).exists():
            (folder / top).symlink_to(Path(str(known.locate_file(top))))


@dataclass(frozen=True)
class Installation:
    """A virtual environment with the wheel, and links to what the wheel requires in the environment that runs the
    tests: installing Spark takes minutes. Whatever else is there, such as the checkout and tools of its developers, is
    not in this one."""

    folder: Path
    home: Path

    @classmethod
    def of(cls, wheel: Path, folder: Path) -> "Installation":
        environment = folder / "venv"
        (folder / "home").mkdir(parents=True)
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(environment)], check=True)
        pip = [sys.executable, "-m", "pip", "--python", str(environment / "bin" / "python"), "install"]
        subprocess.run([*pip, "--quiet", "--no-index", "--no-deps", str(wheel)], check=True, timeout=LIMIT_SECS)
        (packages,) = environment.glob("lib/python*/site-packages")
        for name in required("blizzard", of=packages):
            _link(name, packages)
        return cls(environment, folder / "home")

    def run(self, program: str, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        """In the home folder, with nothing of this process's environment; PATH has only the installation's programs
        unless `variables` say otherwise."""
        return subprocess.run(
            [self.folder / "bin" / program, *arguments],
            cwd=self.home,
            env={"HOME": str(self.home), "PATH": str(self.folder / "bin"), **variables},
            capture_output=True,
            text=True,
            check=False,
            timeout=LIMIT_SECS,
        )

    def blizzard(self, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        return self.run("blizzard", *arguments, **variables)
