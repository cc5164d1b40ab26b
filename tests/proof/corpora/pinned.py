"""Which files of others docs/proof.md compares: those of a format in a folder of a repository, at one commit."""

import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Corpus:
    """`folder`: all below it; empty: the whole repository."""

    format: str
    repository: str
    commit: str
    folder: str = ""

    def files(self, clone: Path) -> Iterator[tuple[str, bytes | None]]:
        """Path and content, None if the clone does not have it. `clone`: a clone of the repository, which has the
        commit; what is checked out does not matter. Raises LookupError."""
        listed = _git(clone, "ls-tree", "-r", "-z", self.commit, *([self.folder] if self.folder else []))
        if listed is None:
            raise LookupError(f"{clone} has no commit {self.commit}; expected a clone of {self.repository}")
        for entry in sorted(filter(None, listed.decode().split("\0")), key=lambda entry: entry.partition("\t")[2]):
            about, _, path = entry.partition("\t")
            mode, kind, name = about.split()
            if kind == "blob" and mode != "120000" and path.endswith(f".{self.format}"):
                yield path, _git(clone, "cat-file", "blob", name)


CORPORA: dict[str, Corpus] = {
    "parquet-testing": Corpus(
        "parquet", "https://github.com/apache/parquet-testing", "1a2a75127be06fc0123f03ebd36c966f7beda27d"
    ),
    "orc-examples": Corpus(
        "orc", "https://github.com/apache/orc", "3738b82366ba64cacae450e7e0e1702c66148afe", "examples/"
    ),
    "avro": Corpus("avro", "https://github.com/apache/avro", "87212a6d47247a30dff247d16386d722c56d4390"),
    "csv-spectrum": Corpus(
        "csv", "https://github.com/max-mapper/csv-spectrum", "d30e80f8b99d2eecb3778f1d7b9ed1cb425502ec", "csvs/"
    ),
    "json-test-suite": Corpus(
        "json", "https://github.com/nst/JSONTestSuite", "1ef36fa01286573e846ac449e8683f8833c5b26a", "test_parsing/"
    ),
    "vega-csv": Corpus(
        "csv", "https://github.com/vega/vega-datasets", "cad85578e232704bb0453544742440038038c6a2", "data/"
    ),
    "vega-json": Corpus(
        "json", "https://github.com/vega/vega-datasets", "cad85578e232704bb0453544742440038038c6a2", "data/"
    ),
    "spark-xml": Corpus(
        "xml",
        "https://github.com/databricks/spark-xml",
        "ddd1ef573a5318748763fafc974e4f7d8876fd6f",
        "src/test/resources/",
    ),
}
"""By name."""


def _git(clone: Path, *words: str) -> bytes | None:
    """What the command prints; None if it fails."""
    done = subprocess.run(["git", "-C", str(clone), *words], capture_output=True, check=False)
    return done.stdout if done.returncode == 0 else None
