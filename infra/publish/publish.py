"""Publishes a build, or restores a release that was published before."""

import hashlib
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from blizzard.config.publish import to_published
from blizzard.errors import ConfigError
from blizzard.storage.base import ObjectStore
from blizzard.storage.open import open_store
from blizzard.storage.s3_connection import S3Settings
from infra.package.build import HASH_CHARACTERS, sources_sha256
from infra.package.manifest import NAME, BuildManifest, read_manifest
from infra.publish.errors import PublishError
from infra.publish.release import Release, make_release, read_release
from infra.publish.samconfig import with_parameters
from infra.publish.stack_config import Buckets, read_stack_config_file
from infra.publish.upload import Uploaded, fetch, upload

SAMCONFIG = "samconfig.toml"


@dataclass(frozen=True, slots=True)
class ArtifactLocation:
    """The bucket and prefix of published artifacts."""

    bucket: str
    prefix: str
    """Empty, or ending in `/`."""

    @classmethod
    def parse(cls, uri: str) -> "ArtifactLocation":
        """Raises ConfigError."""
        match = re.fullmatch(
            r"s3://([a-z0-9][a-z0-9.-]{1,61}[a-z0-9])/?((?:[A-Za-z0-9!_.()=-]+/)*)", f"{uri.rstrip('/')}/"
        )
        if match is None:
            expected = "expected s3://bucket or s3://bucket/prefix with letters, digits and !_.()=- in the prefix"
            rule = (
                "a bucket name has 3 to 63 lower-case letters, digits, dots and hyphens, no dot or hyphen at its ends"
            )
            raise ConfigError([f"ARTIFACTS: {expected}; {rule}; found {repr(uri) if uri else 'nothing'}"])
        return cls(match[1], match[2])

    def store(self, environ: Mapping[str, str]) -> ObjectStore:
        return open_store(f"s3://{self.bucket}/{self.prefix}", S3Settings.from_environment(environ))


@dataclass(frozen=True, slots=True)
class Publication:
    release: Release
    uploads: tuple[Uploaded, ...]


def publish(
    root: Path, config: Path, artifacts: str, environ: Mapping[str, str], *, environment: str = "default"
) -> Publication:
    """Upload build/ and the configuration, then write samconfig.toml. `environment`: the table of samconfig.toml.

    Raises ConfigError, PackageError (nothing was built), PublishError, and what storage raises. samconfig.toml changes
    only when all else is done.
    """
    location = ArtifactLocation.parse(artifacts)
    stack_config = read_stack_config_file(config, environ)
    _check_different_buckets(location, stack_config.buckets)
    build = _read_build(root)
    text = to_published(stack_config.config).encode()
    config_key = f"config-{hashlib.sha256(text).hexdigest()[:HASH_CHARACTERS]}.json"
    release = make_release(
        build, config_key=config_key, buckets=stack_config.buckets, location=(location.bucket, location.prefix)
    )
    samconfig = _samconfig(root, release, environment)
    store = location.store(environ)
    uploads = [
        upload(store, artifact.key, (root / "build" / artifact.file).read_bytes())
        for artifact in build.artifacts.values()
    ]
    uploads.append(upload(store, config_key, text))
    uploads.append(upload(store, release.key, release.to_json().encode()))
    _replace(root / SAMCONFIG, samconfig)
    return Publication(release, tuple(uploads))


def restore_release(
    root: Path, release_id: str, artifacts: str, environ: Mapping[str, str], *, environment: str = "default"
) -> Release:
    """Put the functions of an earlier release into build/, its parameters into samconfig.toml. Raises PublishError."""
    store = ArtifactLocation.parse(artifacts).store(environ)
    release = read_release(store, release_id)
    contents = {artifact.file: fetch(store, artifact.key, artifact.sha256) for artifact in release.functions}
    samconfig = _samconfig(root, release, environment)
    build = root / "build"
    # build/ no longer matches the manifest.
    (build / NAME).unlink(missing_ok=True)
    shutil.rmtree(build / "functions", ignore_errors=True)
    for file, content in contents.items():
        (build / file).parent.mkdir(parents=True, exist_ok=True)
        (build / file).write_bytes(content)
    _replace(root / SAMCONFIG, samconfig)
    return release


def _check_different_buckets(location: ArtifactLocation, buckets: Buckets) -> None:
    for kind, bucket in (*(("a landing", it.bucket) for it in buckets.landings), ("the lake", buckets.lake)):
        if location.bucket == bucket:
            raise ConfigError(
                [f"ARTIFACTS: found {bucket}, which is {kind} bucket; expected a separate bucket for artifacts"]
            )


def _read_build(root: Path) -> BuildManifest:
    build = read_manifest(root / "build")
    if build.sources_sha256 != sources_sha256(root):
        raise PublishError("the code changed since it was packed; run `make package` again")
    for artifact in build.artifacts.values():
        file = root / "build" / artifact.file
        if not file.exists() or hashlib.sha256(file.read_bytes()).hexdigest() != artifact.sha256:
            raise PublishError(f"{file}: it changed since it was packed; run `make package` again")
    return build


def _samconfig(root: Path, release: Release, environment: str) -> str:
    file = root / SAMCONFIG
    return with_parameters(file.read_text() if file.exists() else "", release.parameters, environment)


def _replace(file: Path, text: str) -> None:
    partial = file.with_name(f"{file.name}.partial")
    partial.write_text(text)
    partial.replace(file)
