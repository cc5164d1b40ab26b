"""A file larger than a batch: each batch takes a part of it, and the state says how much of it is in the table."""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from blizzard.errors import UnreadableState
from blizzard.state.checkpoint_codec import CheckpointCodec
from blizzard.state.identity import SourceIdentity
from blizzard.storage.base import ObjectStore
from tests.proof import places
from tests.proof.places import LoggedCommits

RECORDS = 600
ID_BYTES = 2_000
"""Incompressible, with twice as many in a record: a batch takes at least a MiB of the uncompressed file, so this file
takes three batches."""


def commits_of_a_part(place: str) -> str:
    """Name of the count."""
    return f"commits of a part of a file on {place}"


def parts_in(log: LoggedCommits, table: ObjectStore) -> int:
    """The number of commits that leave some records of a file to the next ones. `table`: with the bases that their
    states name; those of which a base is gone do not count."""
    return len(versions_of_parts(log, table))


def versions_of_parts(log: LoggedCommits, table: ObjectStore) -> set[int]:
    """The versions of the table that these commits made."""
    return {
        version
        for version, actions in log
        if any(read < RECORDS for read in _in_progress(places.state_of(actions), table))
    }


def _in_progress(state: Mapping[str, Any], table: ObjectStore) -> Iterable[int]:
    """The records read of each file of which the end was not seen."""
    if not {"pipeline", "source"} <= state.keys():  # somebody else's commit
        return ()
    pipeline, source = state["pipeline"], state["source"]
    identity = SourceIdentity(pipeline, source, places.prefix_of(f"{pipeline}:{source}"))
    try:
        return CheckpointCodec(table, identity).decode(json.dumps(state)).in_progress.values()
    except UnreadableState:
        return ()
