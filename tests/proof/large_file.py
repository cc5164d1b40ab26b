"""A file larger than a batch: each batch takes a part of it, and the state says how much of it is in the table."""

from collections.abc import Iterable, Mapping
from typing import Any

from tests.proof import places
from tests.proof.places import LoggedCommits

RECORDS = 600
ID_BYTES = 2_000
"""Incompressible, with twice as many in a record: a batch takes at least a MiB of the uncompressed file, so this file
takes three batches."""


def commits_of_a_part(place: str) -> str:
    """Name of the count."""
    return f"commits of a part of a file on {place}"


def parts_in(log: LoggedCommits) -> int:
    """The number of commits that leave some records of a file to the next ones."""
    return sum(any(map(_is_a_part, _files(places.state_of(actions)))) for _, actions in log)


def _files(state: Mapping[str, Any]) -> Iterable[object]:
    files: Mapping[str, object] = state.get("source_state", {}).get("files", {})
    return files.values()


def _is_a_part(read: object) -> bool:
    """Not a file that was read to its last record without its end being seen."""
    return isinstance(read, dict) and read["RecordsRead"] < RECORDS
