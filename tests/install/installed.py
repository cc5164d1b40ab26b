"""The wheel, built from this checkout, and an environment that has it and not the checkout."""

import subprocess
import sys
import sysconfig
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
LIMIT_SECS = 600


def build_wheel(folder: Path, checkout: Path = ROOT) -> Path:
    """As `make wheel` does, but into `folder`."""
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(command, cwd=checkout, check=True, capture_output=True, timeout=LIMIT_SECS)
    (wheel,) = folder.glob("*.whl")
    return wheel


@dataclass(frozen=True)
class Installation:
    """A virtual environment with the wheel. Its other packages are those of the environment that runs the tests:
    installing Spark takes minutes. A .pth file only adds their folder to the path, so what links to the checkout from
    there, which is a .pth file, too, has no effect."""

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
        (packages / "others.pth").write_text(sysconfig.get_path("purelib"))
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
