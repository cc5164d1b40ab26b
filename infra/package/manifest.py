"""build/manifest.json: what `make package` made, for whoever deploys it."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from infra.package.errors import PackageError

NAME = "manifest.json"
ENTRY, ARCHIVE, LOG_STORE = "job_entry", "job_archive", "log_store"
"""Names of the job's artifacts; a function's artifact has the function's name."""


@dataclass(frozen=True, slots=True)
class Artifact:
    name: str
    file: str
    """Relative to the folder of the manifest."""
    key: str
    """Relative to where artifacts are published; names the content."""
    sha256: str
    size_bytes: int


@dataclass(frozen=True, slots=True)
class BuildManifest:
    architecture: str
    """ARM64 or X86_64, for which the job's archive was made."""
    sources_sha256: str
    """Of everything it was made from."""
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
    """Raises PackageError when there is none."""
    try:
        return BuildManifest.from_json((build / NAME).read_text())
    except FileNotFoundError as error:
        raise PackageError(f"{build / NAME}: there is no such file; run `make package` first") from error
    except (ValueError, KeyError, TypeError) as error:
        raise PackageError(f"{build / NAME}: it is not what this version writes; run `make package` again") from error
