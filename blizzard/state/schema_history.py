"""The history of a table's schema: the records of its sources, and what the log still says.

The log has every change, also of others and of a changed configuration, but forgets it after its retention. The records
have only what files have brought, with the file, and stay.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from blizzard.config.field_places import in_place
from blizzard.config.source_names import state_prefix
from blizzard.errors import BucketMissing, LogDamaged, NotFound, UnreadableState
from blizzard.state.checkpoint import schema_change_of
from blizzard.state.delta_log import WHOLE_LOG, Commit, DeltaLogTail
from blizzard.state.identity import SourceIdentity, source_of_app_id
from blizzard.state.schema_changes import ChangeRecord, ChangeRecords, FieldChange
from blizzard.state.schema_diff import Difference, differences
from blizzard.state.schema_origin import Origin, decode
from blizzard.state.txns import txns_of
from blizzard.storage import json_fields
from blizzard.storage.base import ObjectStore

FILES, INFERRED, CONFIGURATION = "files", "inferred", "configuration"


@dataclass(frozen=True, slots=True)
class HistoryField:
    """One column, or field of a column, in one change. `type` None: it was dropped; `was` None: it is new. `origin`:
    how the source came by it: FILES, INFERRED or CONFIGURATION; None: it is not of a source. The rest is known of what
    files have brought, and of an inferred schema: how many records were looked at, and the first file."""

    path: str
    type: str | None
    was: str | None
    records: int | None = None
    file: str | None = None
    record: int | None = None
    origin: str | None = None
    renamed_from: str | None = None
    """The path before, of one that was renamed; `was` is then the type that it had there."""

    def __str__(self) -> str:
        if self.renamed_from is not None:
            kind = self.type if self.was == self.type else f"{self.was} -> {self.type}"
            return f"{self.renamed_from} -> {self.path} {kind}"
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
    """Whose files or configuration have brought the change; None: another writer, or a version that did not say so."""
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
    origins: dict[int, Origin] = field(default_factory=dict)
    """What commits without a Txn say of whom they are, by version."""
    newest: dict[str, str | None] = field(default_factory=dict)
    txns: dict[tuple[str, int], int] = field(default_factory=dict)
    """The version of the table of each Txn that changed a schema."""


def table_history(store: ObjectStore, sources: Sequence[SourceIdentity]) -> list[HistoryEntry]:
    """Oldest first. `store`: the table's; `sources`: all that write to it. Those that did before are found by their
    Txns. Reads the whole log. Raises UnreadableState."""
    log = _read_log(store)
    sources = [*sources, *_former_sources(store, log, {source.source_id for source in sources})]
    records = {(source.app_id, record.sequence): record for source in sources for record in _landed(store, source, log)}
    entries = [*_from_log(log, records, {source.app_id: source.source_id for source in sources})]
    told = {entry.version for entry in entries}
    entries += [_entry(record) for record in records.values() if record.version is None or record.version not in told]
    return sorted(entries, key=lambda entry: (entry.ts or 0.0, -1 if entry.version is None else entry.version))


def _former_sources(store: ObjectStore, log: _Log, known: Collection[str]) -> Iterator[SourceIdentity]:
    """That have committed to the table, and are not `known`: they were taken out of the configuration, or renamed."""
    app_ids = {*log.newest}
    with suppress(LogDamaged, BucketMissing):  # then those count of which the log still has a commit
        app_ids |= {txn.app_id for txn in txns_of(store)}
    for source_id in sorted({source_of_app_id(app_id) or "" for app_id in app_ids} - {"", *known}):
        pipeline, _, source = source_id.partition(":")
        yield SourceIdentity(pipeline, source, state_prefix(pipeline, source))


def _read_log(store: ObjectStore) -> _Log:
    log = _Log()
    try:
        for commit in DeltaLogTail(store).commits(WHOLE_LOG):
            for app_id in commit.txns:
                log.newest.setdefault(app_id, commit.user_metadata)
            if commit.schema is not None:
                log.changes.insert(0, replace(commit, user_metadata=None))
                if not commit.txns and (origin := decode(commit.user_metadata)) is not None:
                    log.origins[commit.version] = origin
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


def _from_log(
    log: _Log, records: Mapping[tuple[str, int], ChangeRecord], sources: Mapping[str, str]
) -> Iterator[HistoryEntry]:
    """`sources`: by app id."""
    before: str | None = None
    for number, commit in enumerate(log.changes):
        assert commit.schema is not None
        record = next((records[txn] for txn in commit.txns.items() if txn in records), None)
        known = number > 0 or commit.version == 0
        try:
            found = differences(before, commit.schema) if known else []
        except json_fields.MALFORMED as error:
            raise UnreadableState(f"the schema of version {commit.version} of the log cannot be read") from error
        before = commit.schema
        origin = log.origins.get(commit.version) or _by_txn(commit, sources)
        fields = _fields(found, record, origin) if known else _brought(record)
        if fields is None or fields:
            source = record.source if record is not None else None if origin is None else origin.source
            yield HistoryEntry(commit.version, commit.committed_ts, source, commit.operation, fields)


def _by_txn(commit: Commit, sources: Mapping[str, str]) -> Origin | None:
    """Of a commit of a source, whose checkpoint it has; None: of another writer."""
    return next((Origin(sources[app_id]) for app_id in commit.txns if app_id in sources), None)


def _fields(
    found: Sequence[Difference], record: ChangeRecord | None, origin: Origin | None
) -> tuple[HistoryField, ...]:
    """With who has brought them. A field that is a part of a new column is also listed by itself."""
    brought = {one.path: one for one in record.change.fields} if record is not None else {}
    places = [one.path if one.path in brought else _around(one.path) for one in found]
    whole = [_field(one, brought.get(place), origin) for one, place in zip(found, places, strict=True)]
    return (*whole, *(_told(one) for one in brought.values() if one.path not in places))


def _around(path: str) -> str:
    """Of elements and values the array or map, of which a record says that it was widened."""
    while path.endswith(("[]", "{}")):
        path = path[:-2]
    return path


def _field(found: Difference, brought: FieldChange | None, origin: Origin | None) -> HistoryField:
    if brought is not None:
        return replace(_told(brought), path=found.path, type=found.type, was=found.was)
    plain = HistoryField(found.path, found.type, found.was, renamed_from=found.renamed_from)
    if origin is None:
        return plain
    if origin.first is not None and found.path in map(in_place, origin.inferred):
        return replace(plain, records=origin.first.records, file=origin.first.file, origin=INFERRED)
    return replace(plain, origin=CONFIGURATION)


def _told(brought: FieldChange) -> HistoryField:
    path, kind, was, records, file, record, inferred = brought
    return HistoryField(path, kind, was, records, file, record, INFERRED if inferred else FILES)


def _brought(record: ChangeRecord | None) -> tuple[HistoryField, ...] | None:
    if record is None:
        return None
    return tuple(map(_told, record.change.fields))


def _entry(record: ChangeRecord) -> HistoryEntry:
    return HistoryEntry(record.version, record.written_ts, record.source, None, _brought(record))
