"""What is deployed on the local AWS: packed for this machine, published as `make publish` does."""

import fcntl
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from blizzard.environment import adopted, variables
from infra.local.processes.checkout import CHECKOUT
from infra.local.processes.server_process import LocalAws
from infra.package.build import package, sources_sha256
from infra.package.errors import PackageError
from infra.package.manifest import read_manifest
from infra.publish.publish import go_back, publish
from infra.publish.release import Release

TEMPLATE = CHECKOUT / "template.yaml"
FOLDER = CHECKOUT / "build" / "local"
"""Beside build/, which is for the machines that one deploys to."""
ARCHITECTURE = {"x86_64": "X86_64", "amd64": "X86_64", "aarch64": "ARM64", "arm64": "ARM64"}
LINKED = (".cache", "blizzard", "functions", "jars", "requirements.lock", "spark_job")
ARTIFACTS = "artifacts"
CODE = "deployed-code"
"""Where `sam deploy` would upload the functions' zips."""


@dataclass(frozen=True, slots=True)
class LocalRelease:
    """`codes`: the s3:// URI of each function's zip by its logical id."""

    id: str
    parameters: Mapping[str, str]
    codes: Mapping[str, str]


def release(aws: LocalAws, config: Path, folder: Path, packed_root: Path) -> LocalRelease:
    """Publish what was packed with a configuration. The buckets ARTIFACTS and CODE have to be there.

    `folder`: for what publishing writes, which is nobody else's then. Raises BlizzardError.
    """
    root = _linked(folder / "release", packed_root, (*LINKED, "build"))
    with adopted(aws.environment("operator")):
        published = publish(root, config, f"s3://{ARTIFACTS}", variables()).release
    return _as_deployed(aws, published, root)


def earlier_release(aws: LocalAws, release_id: str, folder: Path) -> LocalRelease:
    """What `make rollback` brings back. `folder`: nobody else's. Raises BlizzardError."""
    with adopted(aws.environment("operator")):
        found = go_back(folder, release_id, f"s3://{ARTIFACTS}", variables())
    return _as_deployed(aws, found, folder)


def _as_deployed(aws: LocalAws, published: Release, root: Path) -> LocalRelease:
    """Upload what `sam deploy` would."""
    s3 = aws.client("s3", "operator")
    codes = {}
    for artifact in published.functions:
        s3.put_object(Bucket=CODE, Key=artifact.key, Body=(root / "build" / artifact.file).read_bytes())
        codes[f"{artifact.name.capitalize()}Function"] = f"s3://{CODE}/{artifact.key}"
    return LocalRelease(published.id, published.parameters, codes)


def packed(machine: str, root: Path = FOLDER) -> Path:
    """`root` with a build/ of the code as it is now, made only where it changed. Raises PackageError."""
    root.mkdir(parents=True, exist_ok=True)
    (CHECKOUT / ".cache").mkdir(exist_ok=True)
    with _alone(root):
        _linked(root, CHECKOUT, LINKED)
        if not _is_fresh(root, ARCHITECTURE[machine]):
            package(ARCHITECTURE[machine], root)
    return root


def _linked(folder: Path, source: Path, names: Iterable[str]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        link = folder / name
        if not link.is_symlink():
            link.symlink_to((source / name).resolve())
    return folder


def _is_fresh(root: Path, architecture: str) -> bool:
    try:
        manifest = read_manifest(root / "build")
    except PackageError:
        return False
    return manifest.architecture == architecture and manifest.sources_sha256 == sources_sha256(root)


@contextmanager
def _alone(root: Path) -> Iterator[None]:
    """Two tests at once must not pack into the same folder."""
    with (root / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
