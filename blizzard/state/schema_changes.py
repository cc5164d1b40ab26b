"""Changes of a table's schema that files have brought: on record beside the table.

A record is written before its commit, and the commit's checkpoint names it: without that commit it counts for nothing.
After the commit it is written once more, as landed, since the log forgets its commits. Until then it counts if a
checkpoint leads to it: each record names the one before.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, NamedTuple

from blizzard.errors import NotFound, UnreadableState
from blizzard.storage import json_fields
from blizzard.storage.base import ObjectStore

_DIGITS = 20


class FieldChange(NamedTuple):
    """One column, or field of a column, that the table gets or widens."""

    path: str
    """`address.zip` is a field of the column `address`, `items[].price` one of the elements of `items`. Names are
    quoted as `field_places` says."""
    type: str
    """From this change on, as in `simpleString`."""
    was: str | None
    """The type before; None: the column is new."""
    records: int
    """How many of the batch had it, or did not fit."""
    file: str
    """The first one that asked for it."""
    record: int | None = None
    """The first one of that file, counted from 0; None: not known."""
    inferred: bool = False
    """Whether it is of a schema that was inferred: by so many records, the first of them in that file."""

    def as_document(self) -> dict[str, Any]:
        return {name: value for name, value in self._asdict().items() if value is not None and value is not False}

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> "FieldChange":
        """Raises what `json_fields.MALFORMED` names."""
        record = document.get("record")
        return cls(
            json_fields.text(document["path"]),
            json_fields.text(document["type"]),
            json_fields.optional_text(document.get("was")),
            json_fields.natural(document["records"]),
            json_fields.text(document["file"]),
            None if record is None else json_fields.natural(record),
            document.get("inferred") is True,
        )

    def __str__(self) -> str:
        return f"+ {self.path} {self.type}" if self.was is None else f"{self.path}: {self.was} -> {self.type}"


@dataclass(frozen=True, slots=True)
class SchemaChange:
    """What one commit changes, all of it at once."""

    fields: tuple[FieldChange, ...]

    @property
    def added(self) -> tuple[FieldChange, ...]:
        return tuple(field for field in self.fields if field.was is None)

    @property
    def widened(self) -> tuple[FieldChange, ...]:
        return tuple(field for field in self.fields if field.was is not None)

    def __str__(self) -> str:
        return ", ".join(map(str, self.fields))


@dataclass(frozen=True, slots=True)
class ChangeRecord:
    """A change on record. `sequence`: of the commit of its source; `after_version`: a version of the table before that
    commit."""

    name: str
    source: str
    sequence: int
    after_version: int
    written_ts: float
    previous: str | None
    """The record of the source's change before."""
    change: SchemaChange
    landed: bool = False
    """Whether the commit is known to be in the table."""
    version: int | None = None
    """Of the table, with this change; None: not known, or not any more."""


def sequence_of(name: str) -> int:
    """The sequence of the commit whose record has this name; -1 for a name that no record has."""
    digits = name[:_DIGITS]
    return int(digits) if digits.isdigit() and digits.isascii() else -1


class ChangeRecords:
    """The records of one source, below `{state_prefix}/schema_changes/`."""

    def __init__(self, store: ObjectStore, state_prefix: str, source_id: str) -> None:
        self._store = store
        self._folder = f"{state_prefix}/schema_changes/"
        self._source_id = source_id

    def put(
        self,
        change: SchemaChange,
        *,
        sequence: int,
        attempt: str,
        after_version: int,
        previous: str | None,
        now_ts: float,
    ) -> ChangeRecord:
        """Write the record of an attempt. The checkpoint has to name it."""
        name = f"{sequence:0{_DIGITS}d}-{attempt}.json"
        record = ChangeRecord(name, self._source_id, sequence, after_version, now_ts, previous, change)
        self._write(record)
        return record

    def get(self, name: str) -> ChangeRecord:
        """Raises NotFound or UnreadableState."""
        return _decode(name, self._store.get(self._folder + name), self._source_id)

    def all(self) -> Iterator[ChangeRecord]:
        """Those of lost attempts too, in the order of sequences. Raises UnreadableState."""
        for info in self._store.list(self._folder, recursive=False):
            yield self.get(info.key.removeprefix(self._folder))

    def confirm(self, name: str, version_of: Callable[[ChangeRecord], int | None]) -> list[ChangeRecord]:
        """A checkpoint that is in the table names this record: note in it, and in those before it that have it not yet,
        that they have landed. `version_of`: of the table, as far as its log still has the commit. Returns those that
        had it not yet."""
        chain: list[ChangeRecord] = []
        following: str | None = name
        while following is not None:
            try:
                record = self.get(following)
            except NotFound:
                break  # deleted by somebody; nothing depends on it
            if record.landed:
                break
            chain.append(record)
            following = record.previous
        confirmed = [replace(record, landed=True, version=version_of(record)) for record in reversed(chain)]
        for record in confirmed:  # the oldest first: whoever dies in between has to find the way to the others
            self._write(record)
        return confirmed

    def _write(self, record: ChangeRecord) -> None:
        document = asdict(record)
        del document["name"]
        document["change"] = [field.as_document() for field in record.change.fields]
        self._store.put(self._folder + record.name, json.dumps(document, separators=(",", ":")).encode())


def _decode(name: str, data: bytes, source_id: str) -> ChangeRecord:
    try:
        document = json_fields.mapping(json.loads(data))
        if document["source"] != source_id:
            raise ValueError(f"it belongs to {document['source']!r:.80}")
        version = document["version"]
        return ChangeRecord(
            name=name,
            source=source_id,
            sequence=json_fields.natural(document["sequence"]),
            after_version=json_fields.integer(document["after_version"]),
            written_ts=json_fields.number(document["written_ts"]),
            previous=json_fields.optional_text(document["previous"]),
            change=SchemaChange(tuple(map(FieldChange.from_document, json_fields.array(document["change"])))),
            landed=document["landed"] is True,
            version=None if version is None else json_fields.natural(version),
        )
    except json_fields.MALFORMED as error:
        raise UnreadableState(
            f"the record {name} of a schema change cannot be read ({type(error).__name__}: {error!s:.200}). Only the "
            "history needs it: delete it, or restore it from a copy."
        ) from error
