"""What the log of a Delta table says about the table: from its newest Delta checkpoint and the commits after it."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from io import BytesIO
from typing import Any

from blizzard.errors import LogDamaged
from blizzard.state.delta_checkpoints import newest_checkpoint
from blizzard.state.delta_log import LOG_FOLDER, cannot_be_read, commit_key, commit_version, lacks_version
from blizzard.storage import json_fields
from blizzard.storage.base import ObjectStore
from blizzard.storage.parallel_calls import ParallelCalls

NEWEST_COMMITS = 100
"""So many are read in any case, to see who writes to the table."""
NAMED_FILES = 1_000
"""So many data files, or somewhat more, are named of each part of a Delta checkpoint."""
PARALLEL_READS = 16
SIDECARS = f"{LOG_FOLDER}_sidecars/"
_KINDS = ("protocol", "metaData", "sidecar", "txn")


@dataclass(frozen=True, slots=True)
class LoggedCommit:
    """One version. `changes_data`: it adds or removes rows, instead of rewriting them or changing metadata. `engine`:
    what its writer calls itself."""

    version: int
    operation: str
    engine: str
    committed_ts: float | None
    app_ids: frozenset[str]
    changes_data: bool


@dataclass(slots=True)
class TableLog:
    """`entries`: how many commits the log still has as files. `checkpoint`: the version of its newest Delta checkpoint,
    -1 if there is none. `newest`: the newest commits, the newest first. `paths`: of some data files, as in URLs, spread
    over all of them. `txns`: the app ids that have one."""

    version: int = -1
    entries: int = 0
    checkpoint: int = -1
    protocol: Mapping[str, Any] = field(default_factory=dict)
    metadata: Mapping[str, Any] = field(default_factory=dict)
    files: int = 0
    bytes: int = 0
    newest: Sequence[LoggedCommit] = ()
    paths: dict[str, None] = field(default_factory=dict)
    txns: set[str] = field(default_factory=set)

    @property
    def properties(self) -> Mapping[str, str]:
        found: Mapping[str, str] = self.metadata.get("configuration") or {}
        return found

    @property
    def reader_features(self) -> list[str]:
        return [*(self.protocol.get("readerFeatures") or ())]

    @property
    def writer_features(self) -> list[str]:
        return [*(self.protocol.get("writerFeatures") or ())]

    @property
    def versions(self) -> tuple[int, int]:
        """Of the protocol, for readers and for writers."""
        reader, writer = self.protocol["minReaderVersion"], self.protocol["minWriterVersion"]
        return json_fields.natural(reader), json_fields.natural(writer)

    @property
    def partition_by(self) -> list[str]:
        return [*self.metadata.get("partitionColumns", ())]

    @property
    def columns(self) -> list[str]:
        """Those at the top."""
        return [column["name"] for column in json.loads(self.metadata["schemaString"])["fields"]]

    def add(self, action: Mapping[str, Any]) -> None:
        if "add" in action:
            self.files += 1
            self.paths[json_fields.text(action["add"]["path"])] = None
            self.bytes += json_fields.natural(action["add"]["size"])
        elif "remove" in action:
            self.files -= 1
            self.paths.pop(json_fields.text(action["remove"]["path"]), None)
            self.bytes -= action["remove"].get("size") or 0
        elif "protocol" in action:
            self.protocol = json_fields.mapping(action["protocol"])
        elif "metaData" in action:
            self.metadata = json_fields.mapping(action["metaData"])
        elif "txn" in action:
            self.txns.add(json_fields.text(action["txn"]["appId"]))


def read_table_log(store: ObjectStore) -> TableLog | None:
    """None if there is no table. Raises LogDamaged if a part of the log is missing or damaged."""
    keys = [info.key for info in store.list(LOG_FOLDER, recursive=False)]
    commits = sorted(version for key in keys if (version := commit_version(key)) is not None)
    checkpoint, files = newest_checkpoint(keys)
    if not commits and checkpoint < 0:
        return None
    log = TableLog(max(*commits, checkpoint, -1), len(commits), checkpoint)
    after = [version for version in commits if version > checkpoint]
    if after != [*range(checkpoint + 1, log.version + 1)]:
        missing = sorted({*range(checkpoint + 1, log.version + 1)} - {*after})
        raise lacks_version(missing[0], log.version)
    actions = _read_commits(store, sorted({*after, *commits[-NEWEST_COMMITS:]}))
    try:
        for key in files:
            _add_checkpoint(log, store, key)
        for version in after:
            for action in actions[version]:
                log.add(action)
        log.newest = [_describe(version, actions[version]) for version in sorted(actions, reverse=True)]
        _ = log.versions, log.columns
    except (OSError, *json_fields.MALFORMED) as error:
        raise LogDamaged(f"the log cannot be read: {type(error).__name__}: {error!s:.300}") from error
    return log


def _read_commits(store: ObjectStore, versions: Sequence[int]) -> dict[int, list[dict[str, Any]]]:
    found: dict[int, list[dict[str, Any]]] = {}
    with ParallelCalls(PARALLEL_READS, name="log") as calls:
        for version in versions:
            calls.submit(partial(_read_commit, store, version, found))
    return found


def _read_commit(store: ObjectStore, version: int, found: dict[int, list[dict[str, Any]]]) -> None:
    lines = store.get(commit_key(version)).split(b"\n")
    try:
        found[version] = [json_fields.mapping(json.loads(line)) for line in lines if line]
    except json_fields.MALFORMED as error:
        raise cannot_be_read(version, f"{error!s:.200}") from error


def _describe(version: int, actions: Sequence[Mapping[str, Any]]) -> LoggedCommit:
    info: Mapping[str, Any] = next((action["commitInfo"] for action in actions if "commitInfo" in action), {})
    files = [action.get("add") or action.get("remove") for action in actions if {"add", "remove"} & action.keys()]
    millis = json_fields.optional_number(info.get("timestamp"))
    return LoggedCommit(
        version,
        str(info.get("operation", "unknown")),
        str(info.get("engineInfo", "unknown")),
        None if millis is None else millis / 1000,
        frozenset(str(action["txn"]["appId"]) for action in actions if "txn" in action),
        any(file.get("dataChange", True) for file in files if file),
    )


def _add_checkpoint(log: TableLog, store: ObjectStore, key: str) -> None:
    """Only what is needed of it. A V2 checkpoint names further files, which have the data files."""
    data = store.get(key)
    if key.endswith(".json"):
        for line in filter(None, data.split(b"\n")):
            _add_checkpointed(log, store, json_fields.mapping(json.loads(line)))
        return
    import pyarrow.parquet as pq

    file = pq.ParquetFile(BytesIO(data))
    names = set(file.schema_arrow.names)
    for group in range(file.num_row_groups):
        for action in _rows(file.read_row_group(group, [name for name in _KINDS if name in names])):
            _add_checkpointed(log, store, action)
        if "add" in names:
            found = file.read_row_group(group, ["add.size", "add.path"])["add"].combine_chunks().drop_null()
            log.files += len(found)
            log.bytes += sum(found.field("size").to_pylist())
            some = range(0, len(found), max(1, len(found) // NAMED_FILES))
            log.paths.update(dict.fromkeys(found.field("path")[index].as_py() for index in some))


def _rows(table: Any) -> Iterator[dict[str, Any]]:
    for name in table.column_names:
        for value in table[name].drop_null().to_pylist():
            yield {name: {key: dict(each) if key == "configuration" else each for key, each in value.items()}}


def _add_checkpointed(log: TableLog, store: ObjectStore, action: Mapping[str, Any]) -> None:
    if "sidecar" in action:
        _add_checkpoint(log, store, SIDECARS + json_fields.text(action["sidecar"]["path"]))
    else:
        log.add({name: value for name, value in action.items() if name in ("add", "protocol", "metaData", "txn")})
