"""The history of a table's schema: the records of its sources, and what the log still says.

The log has every change, also of others and of a changed configuration, but forgets it after its retention. The records
have only what files have brought, with the file, and stay.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from blizzard.errors import BucketMissing, NotFound, UnreadableState
from blizzard.state.checkpoint import schema_change_of
from blizzard.state.delta_log import WHOLE_LOG, Commit, DeltaLogTail
from blizzard.state.identity import SourceIdentity
from blizzard.state.schema_changes import ChangeRecord, ChangeRecords, FieldChange
from blizzard.state.schema_diff import Difference, differences
from blizzard.storage import json_fields
from blizzard.storage.base import ObjectStore


@dataclass(frozen=True, slots=True)
class HistoryField:
    """One column, or field of a column, in one change. `type` None: it was dropped; `was` None: it is new. The rest is
    known of what files have brought."""

    path: str
    type: str | None
    was: str | None
    records: int | None = None
    file: str | None = None
    record: int | None = None

    def __str__(self) -> str:
        if self.type is None:
            return f"- {self.path}"
        return f"+ {self.path} {self.type}" if self.was is None else f"{self.path}: {self.was} -> {self.type}"


@dataclass(frozen=True, slots=True)
class HistoryEntry:
    """One version of the table that has another schema than the one before."""

    version: int | None
    """None: its commit was in the table, but is not known any more."""
    ts: float | None
    """Unix seconds."""
    source: str | None
    """Of the files that have brought the change; None: another writer, or a changed configuration."""
    operation: str | None
    """As the commit's writer names it; None: the log does not have the commit any more."""
    fields: tuple[HistoryField, ...] | None
    """None: the log does not have the schema before."""

    def as_document(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(slots=True)
class _Log:
    """What the log says. `changes`: the commits with a schema, the oldest first; `newest`: by app id, the userMetadata
    of its newest commit."""

    changes: list[Commit] = field(default_factory=list)
    newest: dict[str, str | None] = field(default_factory=dict)
    txns: dict[tuple[str, int], int] = field(default_factory=dict)
    """The version of the table of each Txn that changed a schema."""


def table_history(store: ObjectStore, sources: Sequence[SourceIdentity]) -> list[HistoryEntry]:
    """Oldest first. `store`: the table's; `sources`: all that write to it. Reads the whole log. Raises
    UnreadableState."""
    log = _read_log(store)
    records = {(source.app_id, record.sequence): record for source in sources for record in _landed(store, source, log)}
    entries = [*_from_log(log, records)]
    told = {entry.version for entry in entries}
    entries += [_entry(record) for record in records.values() if record.version is None or record.version not in told]
    return sorted(entries, key=lambda entry: (entry.ts or 0.0, -1 if entry.version is None else entry.version))


def _read_log(store: ObjectStore) -> _Log:
    log = _Log()
    try:
        for commit in DeltaLogTail(store).commits(WHOLE_LOG):
            for app_id in commit.txns:
                log.newest.setdefault(app_id, commit.user_metadata)
            if commit.schema is not None:
                log.changes.insert(0, replace(commit, user_metadata=None))
                log.txns |= dict.fromkeys(commit.txns.items(), commit.version)
    except BucketMissing:
        pass
    return log


def _landed(store: ObjectStore, source: SourceIdentity, log: _Log) -> Iterator[ChangeRecord]:
    """The records of changes that are in the table: they say so, or the newest checkpoint leads to them."""
    found = {record.name: record for record in ChangeRecords(store, source.state_prefix, source.source_id).all()}
    name = schema_change_of(log.newest.get(source.app_id) or _copy(store, source))
    reached = set[str]()
    while name is not None and name in found and name not in reached:
        reached.add(name)
        name = found[name].previous
    for record in found.values():
        if record.landed or record.name in reached:
            version = record.version if record.landed else log.txns.get((source.app_id, record.sequence))
            yield replace(record, version=version)


def _copy(store: ObjectStore, source: SourceIdentity) -> bytes:
    try:
        return store.get(source.copy_key)
    except (NotFound, BucketMissing):
        return b""


def _from_log(log: _Log, records: Mapping[tuple[str, int], ChangeRecord]) -> Iterator[HistoryEntry]:
    before: str | None = None
    for number, commit in enumerate(log.changes):
        assert commit.schema is not None
        record = next((records[txn] for txn in commit.txns.items() if txn in records), None)
        brought = {one.path: one for one in record.change.fields} if record is not None else {}
        known = number > 0 or commit.version == 0
        try:
            found = differences(before, commit.schema) if known else []
        except json_fields.MALFORMED as error:
            raise UnreadableState(f"the schema of version {commit.version} of the log cannot be read") from error
        before = commit.schema
        fields = _fields(found, brought) if known else _brought(record)
        if fields is None or fields:
            source = record.source if record is not None else None
            yield HistoryEntry(commit.version, commit.committed_ts, source, commit.operation, fields)


def _fields(found: Sequence[Difference], brought: Mapping[str, FieldChange]) -> tuple[HistoryField, ...]:
    """With the files that have brought them. A field that is a part of a new column is also listed by itself."""
    paths = {one.path for one in found}
    whole = [_field(one, brought.get(one.path)) for one in found]
    return (*whole, *(HistoryField(*one) for one in brought.values() if one.path not in paths))


def _field(found: Difference, brought: FieldChange | None) -> HistoryField:
    if brought is None:
        return HistoryField(*found)
    return HistoryField(*found, brought.records, brought.file, brought.record)


def _brought(record: ChangeRecord | None) -> tuple[HistoryField, ...] | None:
    if record is None:
        return None
    return tuple(HistoryField(*one) for one in record.change.fields)


def _entry(record: ChangeRecord) -> HistoryEntry:
    return HistoryEntry(record.version, record.written_ts, record.source, None, _brought(record))
