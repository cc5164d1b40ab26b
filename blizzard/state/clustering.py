"""By which columns a table is clustered (liquid clustering), read from its log without an engine."""

import json
from collections.abc import Sequence

from blizzard.errors import LogDamaged
from blizzard.state.snapshot_actions import snapshot_actions
from blizzard.storage import json_fields
from blizzard.storage.base import ObjectStore

CLUSTERING = "delta.clustering"


def clustered_by(store: ObjectStore) -> list[tuple[str, ...]]:
    """The path of each column, by the names under which files have it. Raises LogDamaged."""
    found: list[tuple[str, ...]] = []
    try:
        for action in snapshot_actions(store, "domainMetadata", is_optional=True):
            if action["domain"] == CLUSTERING:
                found = [] if action.get("removed") else _columns(action["configuration"])
    except json_fields.MALFORMED as error:
        raise LogDamaged(f"the clustering of the table cannot be read: {error!s:.300}") from error
    return found


def _columns(configuration: str) -> list[tuple[str, ...]]:
    columns: Sequence[object] = json_fields.array(json.loads(configuration)["clusteringColumns"])
    return [tuple(map(json_fields.text, json_fields.array(column))) for column in columns]
