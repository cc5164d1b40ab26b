"""Packs the code for this machine and publishes it, as `make package` and `make publish` do."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from blizzard.environment import temporary_variables, variables
from blizzard.setup.file_lock import locked
from infra.local.processes.checkout import CHECKOUT
from infra.local.processes.server_process import LocalAws
from infra.package.build import ARCHITECTURES, package, sources_sha256
from infra.package.errors import PackageError
from infra.package.manifest import read_manifest
from infra.publish.publish import publish, restore_release
from infra.publish.release import Release

TEMPLATE = CHECKOUT / "template.yaml"
FOLDER = CHECKOUT / "build" / "local"
"""Not build/ itself, which is for the machines of AWS."""
LINKED = (".cache", "blizzard", "functions", "jars", "requirements.lock", "spark_job")
ARTIFACTS = "artifacts"
CODE = "deployed-code"
"""The bucket to which `sam deploy` would upload the functions' zips."""


@dataclass(frozen=True, slots=True)
class LocalRelease:
    """`function_zip_uris`: the s3:// URI of each function's zip by its logical id."""

    id: str
    parameters: Mapping[str, str]
    function_zip_uris: Mapping[str, str]


def release(aws: LocalAws, config: Path, folder: Path, packed_root: Path) -> LocalRelease:
    """Publish the packed code with a configuration. The buckets ARTIFACTS and CODE must exist.

    `folder`: for the files that publishing writes, not shared with another stack. Raises BlizzardError.
    """
    root = _linked(folder / "release", packed_root, (*LINKED, "build"))
    with temporary_variables(aws.environment("operator")):
        published = publish(root, config, f"s3://{ARTIFACTS}", variables()).release
    return _as_deployed(aws, published, root)


def earlier_release(aws: LocalAws, release_id: str, folder: Path) -> LocalRelease:
    """The release that `make rollback` restores. `folder`: not shared with another stack. Raises BlizzardError."""
    with temporary_variables(aws.environment("operator")):
        found = restore_release(folder, release_id, f"s3://{ARTIFACTS}", variables())
    return _as_deployed(aws, found, folder)


def _as_deployed(aws: LocalAws, published: Release, root: Path) -> LocalRelease:
    """Upload the functions' zips, as `sam deploy` would."""
    s3 = aws.client("s3", "operator")
    function_zip_uris = {}
    for artifact in published.functions:
        s3.put_object(Bucket=CODE, Key=artifact.key, Body=(root / "build" / artifact.file).read_bytes())
        function_zip_uris[f"{artifact.name.capitalize()}Function"] = f"s3://{CODE}/{artifact.key}"
    return LocalRelease(published.id, published.parameters, function_zip_uris)


def pack(machine: str, root: Path = FOLDER) -> Path:
    """Pack into `root`/build, unless the code is unchanged since the last time. Raises PackageError."""
    (CHECKOUT / ".cache").mkdir(exist_ok=True)
    # Concurrent tests must not pack into the same folder.
    with locked(root / ".lock"):
        _linked(root, CHECKOUT, LINKED)
        if not _is_fresh(root, ARCHITECTURES[machine]):
            package(ARCHITECTURES[machine], root)
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
