"""Downloads wheels of requirements.lock for another platform with pip, into .cache/wheels."""

import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from blizzard.setup.stamps import file_sha256
from infra.package.errors import PackageError
from infra.package.lock import PinnedPackage, Target

# Both Lambda and EMR run Amazon Linux 2023 with glibc 2.34, which supports all of these.
MANYLINUX = (*(f"manylinux_2_{minor}" for minor in range(34, 16, -1)), "manylinux2014")
LAST_LINES = 15


class WheelCache:
    """For one target. `folder` may be deleted at any time."""

    def __init__(self, folder: Path, target: Target) -> None:
        self._folder = folder / f"{target.machine}-{target.python}"
        self._target = target

    def fetch(self, packages: Sequence[PinnedPackage]) -> list[Path]:
        """One wheel per package, in order, with a hash of the lock. Raises PackageError with pip's output."""
        self._folder.mkdir(parents=True, exist_ok=True)
        missing = [package for package in packages if self._find(package) is None]
        if missing:
            self._download(missing)
        found = [self._find(package) for package in packages]
        if missing_names := [package.name for package, wheel in zip(packages, found, strict=True) if wheel is None]:
            raise PackageError(
                f"pip downloaded no wheel of {', '.join(missing_names)} with a hash of requirements.lock; "
                "update it with `make lock`"
            )
        return [wheel for wheel in found if wheel is not None]

    def _find(self, package: PinnedPackage) -> Path | None:
        name = package.name.replace("-", "_")
        wheels = sorted(self._folder.glob(f"{name}-{package.version}-*.whl"))
        return next((wheel for wheel in wheels if file_sha256(wheel) in package.sha256s), None)

    def _download(self, packages: Sequence[PinnedPackage]) -> None:
        with tempfile.TemporaryDirectory(dir=self._folder) as scratch:
            wanted = Path(scratch) / "requirements.txt"
            wanted.write_text("".join(f"{package}\n" for package in packages))
            _run_pip(["--dest", scratch, *self._platform(), "--requirement", str(wanted)])
            for wheel in Path(scratch).glob("*.whl"):
                # `_find` expects normalized names; old wheels have others.
                name, rest = wheel.name.split("-", 1)
                shutil.move(wheel, self._folder / f"{re.sub(r'[-_.]+', '_', name).lower()}-{rest}")

    def _platform(self) -> list[str]:
        platforms = [f"--platform={name}_{self._target.machine}" for name in MANYLINUX]
        python = [f"--python-version={self._target.python}", "--implementation=cp"]
        return [*platforms, *python, "--only-binary=:all:", "--no-deps", "--require-hashes"]


def contents(wheel: Path) -> Mapping[str, bytes]:
    """The files that pip would install into site-packages, by path."""
    with zipfile.ZipFile(wheel) as archive:
        names = [name for name in archive.namelist() if not name.endswith("/")]
        installed = {name: _install_path(name) for name in names}
        return {path: archive.read(name) for name, path in installed.items() if path is not None}


def _install_path(name: str) -> str | None:
    """None for scripts, headers and other data, which bundles do not contain."""
    folder, _, rest = name.partition("/")
    if not folder.endswith(".data"):
        return name
    kind, _, path = rest.partition("/")
    return path if kind in ("purelib", "platlib") else None


def _run_pip(arguments: Sequence[str]) -> None:
    command = [
        sys.executable,
        "-m",
        "pip",
        "--disable-pip-version-check",
        "--no-input",
        "download",
        "--progress-bar=off",
    ]
    done = subprocess.run(
        [*command, *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    if done.returncode:
        tail = "\n".join(done.stdout.splitlines()[-LAST_LINES:])
        raise PackageError(
            "pip could not download the wheels of requirements.lock; check that the package index is reachable and has "
            f"wheels with these hashes. Its last lines:\n{tail}"
        )
