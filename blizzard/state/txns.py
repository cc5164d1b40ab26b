"""All Txns of a table, from the newest checkpoint of its log and the commits after it: deltalake tells one at a
time."""

import json
from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from blizzard.errors import LogDamaged, NoSuchBytes
from blizzard.state.delta_checkpoints import newest_checkpoint
from blizzard.state.delta_log import LOG_FOLDER, OF_FILES, commit_version, lacks_version
from blizzard.storage import json_fields
from blizzard.storage.base import ObjectInfo, ObjectStore
from blizzard.storage.ranged_file import RangedFile

FOOTER_BYTES = 64 << 10
"""Of a Delta checkpoint: what pyarrow reads first, to find the footer there."""
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
    infos = {info.key: info for info in store.list(LOG_FOLDER, recursive=False) if _is_within(info.key, through)}
    checkpoint, files = newest_checkpoint(infos)
    commits = {version: key for key in infos if (version := commit_version(key)) is not None and version > checkpoint}
    newest = max(commits, default=checkpoint)
    if missing := {*range(checkpoint + 1, newest)} - commits.keys():
        raise lacks_version(min(missing), newest)
    found: dict[str, Txn] = {}
    try:
        for key in (*files, *(commits[version] for version in sorted(commits) if version not in without)):
            for action in _txn_actions(store, infos[key]):
                txn = _txn(action)
                found[txn.app_id] = txn
    except (OSError, NoSuchBytes, *json_fields.MALFORMED) as error:
        raise LogDamaged(f"the log cannot be read: {error!s:.300}") from error
    return [*found.values()]


def _is_within(key: str, through: int | None) -> bool:
    """Whether it is a file of the log of this version or an older one."""
    version = key.removeprefix(LOG_FOLDER).partition(".")[0]
    return through is None or (version.isascii() and version.isdigit() and int(version) <= through)


def _txn_actions(store: ObjectStore, info: ObjectInfo) -> Iterator[Mapping[str, Any]]:
    if info.key.endswith(".json"):
        for line in filter(None, store.get(info.key).split(b"\n")):
            if not line.startswith(OF_FILES) and "txn" in (action := json_fields.mapping(json.loads(line))):
                yield action["txn"]
        return
    import pyarrow.parquet as pq

    tail = RangedFile(store, info.key, info.size, tail_bytes=FOOTER_BYTES)
    file = pq.ParquetFile(tail, pre_buffer=False)
    for group in range(file.num_row_groups):
        column = file.read_row_group(group, columns=["txn"], use_threads=False)["txn"]
        yield from filter(None, column.drop_null().to_pylist())


def _txn(fields: Mapping[str, Any]) -> Txn:
    millis = json_fields.optional_number(fields.get("lastUpdated"))
    version = json_fields.integer(fields["version"])
    return Txn(json_fields.text(fields["appId"]), version, None if millis is None else millis / 1000)
