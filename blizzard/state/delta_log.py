"""The newest commits of a Delta log, read from its JSON files as the Delta protocol defines them.

This is enough to find a Txn, a checkpoint and the table's version without Spark. Commits whose JSON files were cleaned
up are only in a snapshot.
"""

import json
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from blizzard.errors import LogDamaged, NotFound
from blizzard.storage import json_fields
from blizzard.storage.base import ObjectStore
from blizzard.storage.parallel_calls import ParallelCalls

LOG_FOLDER = "_delta_log/"
LAST_CHECKPOINT = f"{LOG_FOLDER}_last_checkpoint"
"""Names the newest Delta checkpoint."""
WHOLE_LOG = sys.maxsize
"""A limit of commits that no log reaches."""
OF_FILES = (b'{"add"', b'{"remove"')
"""How nearly all lines of a large commit begin. They tell nothing else."""
_FIRST_READS = 8
"""Commits that are read one by one: the newest few have nearly always what is looked for."""
_PARALLEL_READS = 16
_DIGITS = 20
_VERSIONED = re.compile(r"([0-9]{20})\.(?:(json)|checkpoint\..+)")


def commit_key(version: int) -> str:
    """Below the table."""
    return f"{LOG_FOLDER}{version:0{_DIGITS}d}.json"


def commit_version(key: str) -> int | None:
    """The version of a commit, by its key below the table; None for any other file of the log."""
    name = _VERSIONED.fullmatch(key.removeprefix(LOG_FOLDER))
    return None if name is None or name[2] is None else int(name[1])


def lacks_version(version: int, newest: int) -> LogDamaged:
    """`newest`: which the log has."""
    return LogDamaged(
        f"the log lacks version {version}, although it has version {newest}. Restore the file {commit_key(version)} "
        "from a copy, or the table to a version before it."
    )


def cannot_be_read(version: int, why: object) -> LogDamaged:
    return LogDamaged(
        f"commit {version} of the Delta log cannot be read ({why}). Restore the file from a copy, or the table to a "
        "version before it."
    )


@dataclass(frozen=True, slots=True)
class Commit:
    """One version of the table: its Txns (app id to version), its time (Unix seconds), its userMetadata.

    `properties` and `schema`: the table properties, and the columns as JSON, from this commit on; None: the commit does
    not change the table's metadata. `operation`: what its writer says that it did.
    """

    version: int
    txns: Mapping[str, int]
    user_metadata: str | None
    committed_ts: float | None
    properties: Mapping[str, str] | None = None
    schema: str | None = None
    operation: str | None = None
    parameters: Mapping[str, Any] = field(default_factory=dict)
    metrics: Mapping[str, Any] = field(default_factory=dict)


def parse_commit(version: int, data: bytes) -> Commit:
    """Raises LogDamaged if a line is not an action."""
    txns: dict[str, int] = {}
    user_metadata: str | None = None
    committed_ts: float | None = None
    properties: Mapping[str, str] | None = None
    schema, operation = None, None
    said: Mapping[str, Any] = {}
    try:
        for line in filter(None, data.split(b"\n")):
            if line.startswith(OF_FILES):
                continue
            action = json_fields.mapping(json.loads(line))
            if "txn" in action:
                txns[json_fields.text(action["txn"]["appId"])] = json_fields.integer(action["txn"]["version"])
            if "configuration" in action.get("metaData", ()):
                configuration = json_fields.mapping(action["metaData"]["configuration"])
                properties = {json_fields.text(name): json_fields.text(value) for name, value in configuration.items()}
            if "metaData" in action:
                schema = json_fields.optional_text(action["metaData"].get("schemaString"))
            if "commitInfo" in action:
                said = json_fields.mapping(action["commitInfo"])
                user_metadata = json_fields.optional_text(said.get("userMetadata"))
                millis = json_fields.optional_number(said.get("timestamp"))
                committed_ts = None if millis is None else millis / 1000
                operation = json_fields.optional_text(said.get("operation"))
    except json_fields.MALFORMED as error:
        raise cannot_be_read(version, error) from error
    how = [
        found if isinstance(found := said.get(f"operation{name}"), dict) else {} for name in ("Parameters", "Metrics")
    ]
    return Commit(version, txns, user_metadata, committed_ts, properties, schema, operation, *how)


class DeltaLogTail:
    """The newest commits of the table at the root of `store`."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store
        self._newest_known = -1

    def newest_version(self) -> int | None:
        """None if there is no table. After the first call it lists from the last known version on, without reading
        `_last_checkpoint`."""
        found = self._list_after(self._newest_known - 1) if self._newest_known >= 0 else []
        newest = max((version for version, _ in found or self._listed(-1, 1)), default=None)
        self._newest_known = -1 if newest is None else newest
        return newest

    def commits(self, limit: int, *, above: int = -1) -> Iterator[Commit]:
        """The newest commits, newest first, at most `limit` of them and only versions greater than `above`.

        Commits before a missing version are left out: an older state must not be taken for the newest.
        """
        versions = [version for version, is_commit in self._listed(above, limit) if is_commit]
        newest_first = versions[: -limit - 1 : -1]
        unbroken = [version for age, version in enumerate(newest_first) if version == versions[-1] - age]
        for window in _windows(unbroken):
            read: dict[int, Commit | LogDamaged | None] = {}
            with ParallelCalls(len(window), name="log") as calls:
                for version in window:
                    calls.submit(partial(self._read, version, read))
            for version in window:
                found = read[version]
                if isinstance(found, LogDamaged):
                    raise found
                if found is None:
                    return  # cleaned up meanwhile, with all older ones
                yield found

    def _read(self, version: int, read: dict[int, Commit | LogDamaged | None]) -> None:
        """An error counts only if the caller gets as far as this commit."""
        try:
            read[version] = self.commit_at(version)
        except LogDamaged as error:
            read[version] = error

    def commit_at(self, version: int) -> Commit | None:
        """One commit; None if its file does not exist (yet, or any more). One request."""
        try:
            return parse_commit(version, self._store.get(commit_key(version)))
        except NotFound:
            return None

    def _listed(self, above: int, limit: int) -> list[tuple[int, bool]]:
        """Versions above `above`, at least the newest `limit` of them, ascending, each with whether it is a commit
        (else a Delta checkpoint)."""
        checkpoint = self._last_checkpoint()
        if checkpoint - limit > above:
            found = self._list_after(checkpoint - limit)
            if found and found[-1][0] >= checkpoint:
                return found
        return self._list_after(above)  # also if the pointer names a version that does not exist

    def _list_after(self, version: int) -> list[tuple[int, bool]]:
        after = commit_key(version) if version >= 0 else LOG_FOLDER
        listed = self._store.list(LOG_FOLDER, start_after=after, recursive=False)
        names = (_VERSIONED.fullmatch(info.key.removeprefix(LOG_FOLDER)) for info in listed)
        return [(int(name[1]), name[2] is not None) for name in names if name]

    def _last_checkpoint(self) -> int:
        """Version of the last Delta checkpoint. -1 if there is none or the pointer is unreadable: all is listed
        then."""
        try:
            pointer = json.loads(self._store.get(LAST_CHECKPOINT))
            return json_fields.integer(pointer["version"])
        except (NotFound, *json_fields.MALFORMED):
            return -1


def _windows(versions: Sequence[int]) -> Iterator[Sequence[int]]:
    """The first ones alone, then as many as are read at a time."""
    yield from ([version] for version in versions[:_FIRST_READS])
    for start in range(_FIRST_READS, len(versions), _PARALLEL_READS):
        yield versions[start : start + _PARALLEL_READS]
