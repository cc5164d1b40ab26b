"""All Txns of a table, from the newest checkpoint of its log and the commits after it: deltalake tells one at a
time."""

from collections.abc import Container, Mapping
from dataclasses import dataclass
from typing import Any

from blizzard.errors import LogDamaged
from blizzard.state.snapshot_actions import snapshot_actions
from blizzard.storage import json_fields
from blizzard.storage.base import ObjectStore

_NONE: Container[int] = ()


@dataclass(frozen=True, slots=True)
class Txn:
    """A Txn action of the table: its app id and version, and when it was committed (Unix seconds; None: unknown)."""

    app_id: str
    version: int
    updated_ts: float | None


def txns_of(store: ObjectStore, *, through: int | None = None, without: Container[int] = _NONE) -> list[Txn]:
    """The newest Txn of each app id, as of version `through` of the table; None: the newest. `without`: commits that
    are left out, since their Txns are known. Raises LogDamaged if the log lacks a part, or a line is not an
    action."""
    found: dict[str, Txn] = {}
    try:
        for action in snapshot_actions(store, "txn", through=through, without=without):
            txn = _txn(action)
            found[txn.app_id] = txn
    except json_fields.MALFORMED as error:
        raise LogDamaged(f"the log cannot be read: {error!s:.300}") from error
    return [*found.values()]


def _txn(fields: Mapping[str, Any]) -> Txn:
    millis = json_fields.optional_number(fields.get("lastUpdated"))
    version = json_fields.integer(fields["version"])
    return Txn(json_fields.text(fields["appId"]), version, None if millis is None else millis / 1000)
