"""Builds every artifact, and the manifest of them."""

import hashlib
import shutil
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path

from blizzard.config.spark_settings import EMR_PYTHON
from infra.package.archives import make_tar_gz, make_zip
from infra.package.contents import (
    LAMBDA_PYTHON,
    NOT_ON_EMR,
    Contents,
    function_contents,
    function_names,
    job_contents,
)
from infra.package.errors import PackageError
from infra.package.lock import PinnedPackage, Target
from infra.package.manifest import ARCHIVE, ENTRY, LOG_STORE, NAME, Artifact, BuildManifest
from infra.package.wheels import WheelCache, contents

ROOT = Path(__file__).resolve().parents[2]
ARCHITECTURES = {"arm64": "ARM64", "aarch64": "ARM64", "x86_64": "X86_64", "amd64": "X86_64"}
"""The template's name of each architecture, by every name that machines report."""
MACHINES = {"ARM64": "aarch64", "X86_64": "x86_64"}
"""Linux's name of each architecture, by the template's."""
HASH_CHARACTERS = 16
SOURCES = ("blizzard", "functions", "spark_job")


def package(architecture: str, root: Path = ROOT) -> BuildManifest:
    """Write all artifacts into `root`/build. Raises PackageError; build/ is then unchanged or has no manifest."""
    lock = (root / "requirements.lock").read_text()
    made = {**_functions(root, lock), **_job(root, lock, MACHINES[architecture])}
    manifest = BuildManifest(
        architecture, sources_sha256(root), {name: artifact for name, (artifact, _) in made.items()}
    )
    _write(root / "build", manifest, made.values())
    return manifest


def sources_sha256(root: Path = ROOT) -> str:
    """Over all inputs of the artifacts and the packaging code itself; changes when build/ is out of date."""
    total = hashlib.sha256()
    files = [root / "requirements.lock", root / "jars" / "blizzard-logstore.jar"]
    files += [file for folder in SOURCES for file in sorted((root / folder).rglob("*.py"))]
    named = {str(file.relative_to(root)): file for file in files if file.exists()}
    named |= {file.name: file for file in Path(__file__).parent.glob("*.py")}
    for name, file in sorted(named.items()):
        total.update(f"{name} {hashlib.sha256(file.read_bytes()).hexdigest()}\n".encode())
    return total.hexdigest()


def _functions(root: Path, lock: str) -> dict[str, tuple[Artifact, bytes]]:
    found = {name: function_contents(name, lock) for name in function_names(root)}
    cache = WheelCache(root / ".cache" / "wheels", Target(LAMBDA_PYTHON, "aarch64"))
    return {name: _function(name, make_zip(_files(content, cache))) for name, content in found.items()}


def _function(name: str, content: bytes) -> tuple[Artifact, bytes]:
    return _artifact(name, f"functions/{name}.zip", f"{name}-{{}}.zip", content)


def _job(root: Path, lock: str, machine: str) -> dict[str, tuple[Artifact, bytes]]:
    log_store = _log_store(root)  # first, so that a missing one is reported before the archive is packed
    archive = make_tar_gz(job_files(root, lock, machine, without=NOT_ON_EMR.keys()))
    parts = {
        ARCHIVE: ("job-{}.tar.gz", archive),
        ENTRY: ("entry-{}.py", (root / "spark_job" / "submit.py").read_bytes()),
        LOG_STORE: ("logstore-{}.jar", log_store),
    }
    return {name: _artifact(name, f"job/{key}", key, content) for name, (key, content) in parts.items()}


def job_files(
    root: Path, lock: str, machine: str, python: str = EMR_PYTHON, *, without: Collection[str] = ()
) -> dict[str, bytes]:
    """The job's archive, by path: the project and its packages, compiled for this machine and Python."""
    cache = WheelCache(root / ".cache" / "wheels", Target(python, machine))
    return _files(job_contents(lock, machine, python, without=without), cache)


def _files(content: Contents, cache: WheelCache) -> dict[str, bytes]:
    return content.files(_unpacked(content.packages, cache))


def _unpacked(packages: Sequence[PinnedPackage], cache: WheelCache) -> Mapping[str, bytes]:
    return {path: data for wheel in cache.fetch(packages) for path, data in contents(wheel).items()}


def _log_store(root: Path) -> bytes:
    file = root / "jars" / "blizzard-logstore.jar"
    if not file.exists():
        raise PackageError(f"{file}: found no such file; run `make setup` first")
    return file.read_bytes()


def _artifact(name: str, file: str, key: str, content: bytes) -> tuple[Artifact, bytes]:
    """`file` and `key` may contain `{}`, which the hash replaces."""
    sha256 = hashlib.sha256(content).hexdigest()
    short = sha256[:HASH_CHARACTERS]
    return Artifact(name, file.format(short), key.format(short), sha256, len(content)), content


def _write(build: Path, manifest: BuildManifest, made: Iterable[tuple[Artifact, bytes]]) -> None:
    """Remove the manifest first and write it last: a manifest never names a missing artifact."""
    build.mkdir(exist_ok=True)
    (build / NAME).unlink(missing_ok=True)
    for folder in ("functions", "job"):
        shutil.rmtree(build / folder, ignore_errors=True)
        (build / folder).mkdir()
    for artifact, content in made:
        (build / artifact.file).write_bytes(content)
    partial = build / f"{NAME}.partial"
    partial.write_text(manifest.to_json())
    partial.replace(build / NAME)
