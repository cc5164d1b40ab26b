"""A release: what was published together. Stored next to the artifacts, so that `make rollback` can restore it."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass

from blizzard.errors import NotFound
from blizzard.storage.base import ObjectStore
from infra.package.contents import EMR_RELEASE
from infra.package.manifest import ARCHIVE, ENTRY, LOG_STORE, Artifact, BuildManifest
from infra.publish.errors import PublishError
from infra.publish.stack_config import Buckets

FOLDER = "releases"
HASH_CHARACTERS = 16


@dataclass(frozen=True, slots=True)
class Release:
    parameters: Mapping[str, str]
    """The template's parameters."""
    functions: tuple[Artifact, ...]

    def to_json(self) -> str:
        functions = [asdict(artifact) for artifact in self.functions]
        return json.dumps({"parameters": dict(self.parameters), "functions": functions}, indent=2) + "\n"

    @property
    def id(self) -> str:
        """The same for the same code, configuration and buckets."""
        return hashlib.sha256(self.to_json().encode()).hexdigest()[:HASH_CHARACTERS]

    @property
    def key(self) -> str:
        return f"{FOLDER}/{self.id}.json"


def make_release(build: BuildManifest, *, config_key: str, buckets: Buckets, location: tuple[str, str]) -> Release:
    """`location`: the artifacts' bucket, and the prefix of each key (empty or ending in `/`)."""
    bucket, prefix = location
    job = {name: prefix + build.artifacts[name].key for name in (ENTRY, ARCHIVE, LOG_STORE)}
    parameters = {
        **buckets.parameters(),
        "ArtifactsBucketName": bucket,
        "ConfigKey": prefix + config_key,
        "JobEntryKey": job[ENTRY],
        "JobArchiveKey": job[ARCHIVE],
        "LogStoreJarKey": job[LOG_STORE],
        "ReleaseLabel": EMR_RELEASE,
        "JobArchitecture": build.architecture,
    }
    functions = tuple(artifact for name, artifact in sorted(build.artifacts.items()) if name not in job)
    return Release(parameters, functions)


def read_release(store: ObjectStore, release_id: str) -> Release:
    """Raises PublishError when the release is missing or unreadable."""
    key = f"{FOLDER}/{release_id}.json"
    try:
        content = json.loads(store.get(key))
        return Release(content["parameters"], tuple(Artifact(**row) for row in content["functions"]))
    except NotFound as error:
        known = [info.key.removeprefix(f"{FOLDER}/").removesuffix(".json") for info in store.list(f"{FOLDER}/")]
        raise PublishError(
            f"{store.uri}{key}: found no such release; published are {', '.join(known) or 'none'}"
        ) from error
    except (ValueError, KeyError, TypeError) as error:
        raise PublishError(
            f"{store.uri}{key}: not a release in the format of this version; restore it with the version "
            "that published it, or publish again"
        ) from error
