"""Builds a Go program at first use: `.cache/tools/NAME/bin/NAME`, of one version and with the hash that is expected."""

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from blizzard.environment import variables
from blizzard.errors import SetupError
from blizzard.setup.file_lock import locked
from blizzard.setup.stamps import is_stamped, put_stamp
from infra.setup.commands import run_command


class GoUnavailable(SetupError):
    """Go is missing, or it could not build the program here, for example without a network."""


@dataclass(frozen=True, slots=True)
class GoProgram:
    """`sum` is the module's hash as the Go checksum database has it. The module's own go.sum pins all that it needs, so
    this one hash pins everything."""

    name: str
    module: str
    package: str
    version: str
    sum: str
    go: str
    """The oldest Go that builds it."""


VERSITYGW = GoProgram(
    name="versitygw",
    module="github.com/versity/versitygw",
    package="cmd/versitygw",
    version="v1.8.0",
    sum="h1:au+wI+aybno/STsQiSm35Uu6Q6iK5MWReQxgO6SEMFc=",
    go="1.25",
)
"""An S3 server over a folder, for tests; Apache License 2.0."""
GO_PROGRAMS = {VERSITYGW.name: VERSITYGW}


@dataclass(frozen=True, slots=True)
class GoTools:
    """The Go programs below a checkout's `.cache/tools`."""

    root: Path

    def program(self, wanted: GoProgram) -> Path:
        """The program. Builds it if it is missing or another version. Raises GoUnavailable, or SetupError if what was
        built is not what is pinned."""
        folder = self.root / ".cache" / "tools" / wanted.name
        file, stamp, key = folder / "bin" / wanted.name, folder / ".made", f"{wanted.version} {wanted.sum}"
        with locked(folder.with_name(f"{wanted.name}.lock")):
            if not (file.exists() and is_stamped(stamp, key)):
                go = _go(wanted)
                _remove(folder)
                print(f"tools: {wanted.name} into {folder.relative_to(self.root)} …", flush=True)
                try:
                    _build(go, wanted, folder)
                finally:
                    _remove(folder / "downloads")
                put_stamp(stamp, key)
        return file


def _go(wanted: GoProgram) -> str:
    found = shutil.which("go")
    if found is None:
        raise GoUnavailable(
            f"{wanted.name} {wanted.version} is built by Go, {wanted.go} or newer, and no `go` is on PATH. Install it: "
            "on Debian the package golang-go, if it is new enough"
        )
    return found


def _build(go: str, wanted: GoProgram, folder: Path) -> None:
    folder.mkdir(parents=True)
    downloads = folder / "downloads"
    environ = {
        **variables(),
        "GOBIN": str(folder / "bin"),
        # Half a gigabyte that only this build needs, so not in the user's own caches.
        "GOMODCACHE": str(downloads / "modules"),
        "GOCACHE": str(downloads / "built"),
        "GOFLAGS": "-modcacherw -trimpath -ldflags=-s",
        "CGO_ENABLED": "0",
    }
    # Other workers' tests run meanwhile, and some of them measure time.
    command = ["nice", go, "install", f"{wanted.module}/{wanted.package}@{wanted.version}"]
    try:
        run_command(f"Building {wanted.name} {wanted.version}", command, environ)
    except SetupError as error:
        raise GoUnavailable(
            f"{error}\nIt needs Go {wanted.go} or newer and a network: GOPROXY names another module proxy"
        ) from error
    _check(go, wanted, folder / "bin" / wanted.name)


def _check(go: str, wanted: GoProgram, file: Path) -> None:
    listed = subprocess.run([go, "version", "-m", str(file)], capture_output=True, text=True, check=False).stdout
    module = next((line.split()[1:] for line in listed.splitlines() if line.startswith("\tmod\t")), [])
    if module != [wanted.module, wanted.version, wanted.sum]:
        _remove(file)
        raise SetupError(
            f"{wanted.name}: expected {wanted.module} {wanted.version} {wanted.sum}, "
            f"found {' '.join(module) or 'none'}; the program was not kept. The module proxy serves another module: "
            "name another proxy in GOPROXY"
        )


def _remove(place: Path) -> None:
    if place.is_dir():
        shutil.rmtree(place)
    else:
        place.unlink(missing_ok=True)
