"""jars.lock: the jars of Delta and S3A that Spark does not ship, with their hashes."""

from dataclasses import dataclass
from pathlib import Path

LOCK = Path(__file__).with_name("jars.lock")


@dataclass(frozen=True, slots=True)
class Jar:
    file: str
    sha256: str
    coordinate: str
    """group:artifact:version"""

    @property
    def path(self) -> str:
        """In a Maven repository."""
        group, artifact, version = self.coordinate.split(":")
        return f"{group.replace('.', '/')}/{artifact}/{version}/{artifact}-{version}.jar"


def read_lock(text: str) -> list[Jar]:
    rows = (line.split() for line in text.splitlines() if line and not line.startswith("#"))
    return [Jar(file, sha256, coordinate) for sha256, file, coordinate in rows]


def write_lock(jars: list[Jar]) -> str:
    rows = "".join(f"{jar.sha256}  {jar.file}  {jar.coordinate}\n" for jar in sorted(jars, key=lambda jar: jar.file))
    return f"# sha256, file in jars/, Maven coordinate. Written by: python -m infra.setup.jars --update\n{rows}"
