"""Actions that hold until a later one of the same kind replaces them, such as Txns: from the newest checkpoint of a
Delta log, and the commits after it."""

import json
from collections.abc import Container, Iterator, Mapping
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


def snapshot_actions(
    store: ObjectStore,
    kind: str,
    *,
    through: int | None = None,
    without: Container[int] = _NONE,
    is_optional: bool = False,
) -> Iterator[Mapping[str, Any]]:
    """The fields of all actions of one kind, in the order of the log, as of version `through` of the table; None: the
    newest. `without`: commits that are left out. `is_optional`: whether a checkpoint may have no place for this kind.
    Raises LogDamaged if the log lacks a part, or a line is not an action."""
    infos = {info.key: info for info in store.list(LOG_FOLDER, recursive=False) if _is_within(info.key, through)}
    checkpoint, files = newest_checkpoint(infos)
    commits = {version: key for key in infos if (version := commit_version(key)) is not None and version > checkpoint}
    newest = max(commits, default=checkpoint)
    if missing := {*range(checkpoint + 1, newest)} - commits.keys():
        raise lacks_version(min(missing), newest)
    try:
        for key in (*files, *(commits[version] for version in sorted(commits) if version not in without)):
            yield from _actions(store, infos[key], kind, is_optional=is_optional)
    except (OSError, NoSuchBytes, *json_fields.MALFORMED) as error:
        raise LogDamaged(f"the log cannot be read: {error!s:.300}") from error


def _is_within(key: str, through: int | None) -> bool:
    """Whether it is a file of the log of this version or an older one."""
    version = key.removeprefix(LOG_FOLDER).partition(".")[0]
    return through is None or (version.isascii() and version.isdigit() and int(version) <= through)


def _actions(store: ObjectStore, info: ObjectInfo, kind: str, *, is_optional: bool) -> Iterator[Mapping[str, Any]]:
    if info.key.endswith(".json"):
        for line in filter(None, store.get(info.key).split(b"\n")):
            if not line.startswith(OF_FILES) and kind in (action := json_fields.mapping(json.loads(line))):
                yield action[kind]
        return
    import pyarrow.parquet as pq

    tail = RangedFile(store, info.key, info.size, tail_bytes=FOOTER_BYTES)
    file = pq.ParquetFile(tail, pre_buffer=False)
    if is_optional and kind not in file.schema_arrow.names:
        return
    for group in range(file.num_row_groups):
        column = file.read_row_group(group, columns=[kind], use_threads=False)[kind]
        yield from filter(None, column.drop_null().to_pylist())
