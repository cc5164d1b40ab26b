"""All Txns of a table, from the newest checkpoint of its log and the commits after it: deltalake tells one at a
time."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from io import BytesIO
from typing import Any

import pyarrow.parquet as pq

from blizzard.errors import UnreadableState
from blizzard.state.delta_checkpoints import newest_checkpoint
from blizzard.state.delta_log import LOG_FOLDER, OF_FILES, commit_version
from blizzard.storage import json_fields
from blizzard.storage.base import ObjectStore


@dataclass(frozen=True, slots=True)
class Txn:
    """A Txn action of the table: its app id and version, and when it was committed (Unix seconds; None: unknown)."""

    app_id: str
    version: int
    updated_ts: float | None


def txns_of(store: ObjectStore) -> list[Txn]:
    """The newest Txn of each app id. Raises UnreadableState if the log lacks a part, or a line is not an
    action."""
    keys = [info.key for info in store.list(LOG_FOLDER, recursive=False)]
    checkpoint, files = newest_checkpoint(keys)
    commits = {version: key for key in keys if (version := commit_version(key)) is not None and version > checkpoint}
    if sorted(commits) != [*range(checkpoint + 1, checkpoint + 1 + len(commits))]:
        raise UnreadableState(f"the log lacks commits after version {checkpoint}: found {len(commits)} later ones")
    found: dict[str, Txn] = {}
    try:
        for key in (*files, *(commits[version] for version in sorted(commits))):
            for action in _txn_actions(key, store.get(key)):
                txn = _txn(action)
                found[txn.app_id] = txn
    except (OSError, *json_fields.MALFORMED) as error:
        raise UnreadableState(f"the log cannot be read: {error!s:.300}") from error
    return [*found.values()]


def _txn_actions(key: str, data: bytes) -> Iterator[Mapping[str, Any]]:
    if key.endswith(".json"):
        for line in filter(None, data.split(b"\n")):
            if not line.startswith(OF_FILES) and "txn" in (action := json_fields.mapping(json.loads(line))):
                yield action["txn"]
        return
    file = pq.ParquetFile(BytesIO(data))
    for group in range(file.num_row_groups):
        column = file.read_row_group(group, columns=["txn"])["txn"]
        yield from filter(None, column.drop_null().to_pylist())


def _txn(fields: Mapping[str, Any]) -> Txn:
    millis = json_fields.optional_number(fields.get("lastUpdated"))
    version = json_fields.integer(fields["version"])
    return Txn(json_fields.text(fields["appId"]), version, None if millis is None else millis / 1000)
