"""build/manifest.json: the artifacts that `make package` built."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from infra.package.errors import PackageError

NAME = "manifest.json"
ENTRY, ARCHIVE, LOG_STORE = "job_entry", "job_archive", "log_store"
"""The names of the job's artifacts. A function's artifact has the function's name."""


@dataclass(frozen=True, slots=True)
class Artifact:
    name: str
    file: str
    """Path relative to the manifest's folder."""
    key: str
    """Relative to the published location; contains the content's hash."""
    sha256: str
    size_bytes: int


@dataclass(frozen=True, slots=True)
class BuildManifest:
    architecture: str
    """Of the job's archive: ARM64 or X86_64."""
    sources_sha256: str
    """Of all inputs; see `sources_sha256` in `build.py`."""
    artifacts: Mapping[str, Artifact]

    def to_json(self) -> str:
        artifacts = [asdict(self.artifacts[name]) for name in sorted(self.artifacts)]
        content = {"architecture": self.architecture, "sources_sha256": self.sources_sha256, "artifacts": artifacts}
        return json.dumps(content, indent=2) + "\n"

    @classmethod
    def from_json(cls, text: str) -> "BuildManifest":
        content = json.loads(text)
        artifacts = {row["name"]: Artifact(**row) for row in content["artifacts"]}
        return cls(content["architecture"], content["sources_sha256"], artifacts)


def read_manifest(build: Path) -> BuildManifest:
    """Raises PackageError when the manifest is missing or from another version."""
    try:
        return BuildManifest.from_json((build / NAME).read_text())
    except FileNotFoundError as error:
        raise PackageError(f"{build / NAME}: found no such file; run `make package` first") from error
    except (ValueError, KeyError, TypeError) as error:
        raise PackageError(f"{build / NAME}: not in this version's format; run `make package` again") from error
