"""Receipts: which files each commit contained. The ledger is merged from them."""

import gzip
import json
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from hashlib import blake2b
from types import MappingProxyType
from typing import Any, NamedTuple

from blizzard.errors import UnreadableState
from blizzard.state.unknown_fields import NO_FIELDS, UnknownFields
from blizzard.storage import json_fields
from blizzard.storage.base import ObjectStore


class ReceiptLine(NamedTuple):
    """One file of a commit. `rows` are in the table, `dead_records` are dead-lettered. `error`: why the whole file was
    dead-lettered. `finished`: whether no later commit continues it. `begins`: whether this commit has its first record;
    receipts of earlier versions do not say so. `found_by`: what announced it, as in Entry; None in receipts of earlier
    versions, and if a commit before this one has its first record. `repair`: what an operator had read once more, by
    `blizzard replay` or `blizzard replace`; None: nothing. `repairs`: the sequence of the commit that had the file
    before; None: none, nobody knows, or this is no repair."""

    path: str
    etag: str
    size: int
    rows: int
    dead_records: int
    event_ts: float
    error: str | None = None
    finished: bool = True
    begins: bool = False
    found_by: str | None = None
    repair: str | None = None
    repairs: int | None = None


class Repair(StrEnum):
    """What of a file is read once more."""

    WHOLE = "whole"
    """All of it. `rows` and `dead_records` are all that its content has, whatever earlier commits had."""
    RECORDS = "records"
    """Records that had been refused: `rows` of them are in the table now."""
    GIVEN = "given"
    """As RECORDS, and an operator has given the records, so the file does not have them."""


Offsets = Mapping[str, tuple[int, int]]
"""By partition (`topic/partition`), from which offset (inclusive) to which (exclusive) it was read."""
NO_OFFSETS: Offsets = MappingProxyType({})
Settles = Mapping[str, tuple[int, ...]]
"""By partition (`topic/partition`), the offsets of messages."""
NO_MESSAGES: Settles = MappingProxyType({})
_DIGITS = 20
_SUFFIX = ".json.gz"
_DIGEST_BYTES = 16


@dataclass(frozen=True, slots=True)
class Receipt:
    """One attempt to commit. The attempt succeeded if a checkpoint names the receipt."""

    name: str
    previous: str | None
    sequence: int
    written_ts: float
    lines: tuple[ReceiptLine, ...]
    unknown_fields: UnknownFields = NO_FIELDS
    misfits: UnknownFields = NO_FIELDS
    """The columns with values that do not fit them, and were kept beside them."""
    offsets: Offsets = field(default_factory=lambda: NO_OFFSETS)
    """Of a source of topics; empty in receipts of earlier versions."""
    settles: Settles = field(default_factory=lambda: NO_MESSAGES)
    """Of a repair of topics: of which messages the commit settles the dead letters that were there before; empty in
    receipts of earlier versions."""


class Receipts:
    """The receipts of one source, below `{state_prefix}/receipts/`."""

    def __init__(self, store: ObjectStore, state_prefix: str) -> None:
        self._store = store
        self._folder = f"{state_prefix}/receipts/"

    def put(
        self,
        *,
        sequence: int,
        attempt: str,
        previous: str | None,
        now_ts: float,
        lines: Sequence[ReceiptLine],
        unknown_fields: UnknownFields = NO_FIELDS,
        misfits: UnknownFields = NO_FIELDS,
        offsets: Offsets = NO_OFFSETS,
        settles: Settles = NO_MESSAGES,
    ) -> Receipt:
        """Write the receipt of an attempt. The checkpoint has to name it. The name has a digest of the content, so that
        a checkpoint vouches for all receipts of its chain."""
        document: dict[str, Any] = {
            "sequence": sequence,
            "previous": previous,
            "written_ts": now_ts,
            "files": [line._asdict() for line in lines],
            "unknown_fields": unknown_fields.as_document(),
            "misfits": misfits.as_document(),
        }
        if offsets:
            document["offsets"] = dict(offsets)
        if settles:
            document["settles"] = dict(settles)
        text = json.dumps(document, separators=(",", ":"))
        data = gzip.compress(text.encode(), compresslevel=1, mtime=0)
        name = f"{sequence:0{_DIGITS}d}-{attempt}-{_digest(data)}{_SUFFIX}"
        self._store.put(self._folder + name, data)
        return Receipt(name, previous, sequence, now_ts, tuple(lines), unknown_fields, misfits, offsets, settles)

    def get(self, name: str) -> Receipt:
        """Raises NotFound or UnreadableState."""
        try:
            data = self._store.get(self._folder + name)
            _check_digest(name, data)
            document = json.loads(gzip.decompress(data))
            if document.get("name", name) != name:  # as versions without digests wrote it
                raise ValueError(f"it is a copy of {document['name']!r:.80}")
            return Receipt(
                name=name,
                previous=json_fields.optional_text(document["previous"]),
                sequence=json_fields.integer(document["sequence"]),
                written_ts=json_fields.number(document["written_ts"]),
                lines=tuple(_lines(json_fields.array(document["files"]))),
                unknown_fields=UnknownFields.from_document(document.get("unknown_fields")),
                misfits=UnknownFields.from_document(document.get("misfits")),
                offsets=_offsets(document.get("offsets", {})),
                settles=_settles(document.get("settles", {})),
            )
        except (OSError, EOFError, zlib.error, *json_fields.MALFORMED) as error:
            raise UnreadableState(
                f"receipt {name} cannot be read ({type(error).__name__}: {error}). Nothing is lost: the next run asks "
                "the table which files this commit had."
            ) from error

    def names(self, first: int, last: int) -> Iterator[str]:
        """The names of all receipts of the sequences `first` through `last`, of lost attempts too, ascending."""
        after = f"{self._folder}{first:020d}"
        for info in self._store.list(self._folder, start_after=after, recursive=False):
            name = info.key.removeprefix(self._folder)
            sequence = sequence_of(name)
            if sequence is not None and sequence > last:
                return
            if sequence is not None:
                yield name


def sequence_of(name: str) -> int | None:
    """The sequence in a receipt's name; None if it is no receipt's name."""
    number = name.partition("-")[0]
    return int(number) if len(number) == _DIGITS and number.isascii() and number.isdigit() else None


def attempt_of(name: str) -> str | None:
    """The attempt in a receipt's name, as it was put; None if it is no receipt's name."""
    return None if sequence_of(name) is None else name.removesuffix(_SUFFIX).partition("-")[2].partition("-")[0]


def _digest(data: bytes) -> str:
    return blake2b(data, digest_size=_DIGEST_BYTES).hexdigest()


def _check_digest(name: str, data: bytes) -> None:
    """Raises ValueError if these are not the bytes that the name was made for. Names of earlier versions have no
    digest."""
    parts = name.removesuffix(_SUFFIX).split("-")
    if len(parts) == 3 and parts[2] != _digest(data):
        raise ValueError("its content is not that of its name")


def _lines(files: list[dict[str, Any]]) -> Iterable[ReceiptLine]:
    """Column by column: a job that starts reads tens of thousands of lines before its first batch."""
    columns = (
        json_fields.texts([line["path"] for line in files]),
        json_fields.texts([line["etag"] for line in files]),
        json_fields.naturals([line["size"] for line in files]),
        json_fields.naturals([line["rows"] for line in files]),
        json_fields.naturals([line["dead_records"] for line in files]),
        json_fields.numbers([line["event_ts"] for line in files]),
        map(json_fields.optional_text, [line["error"] for line in files]),
        [line.get("finished", True) is True for line in files],
        [line.get("begins") is True for line in files],
        map(json_fields.optional_text, [line.get("found_by") for line in files]),
        map(json_fields.optional_text, [line.get("repair") for line in files]),
        [None if (before := line.get("repairs")) is None else json_fields.natural(before) for line in files],
    )
    return map(ReceiptLine._make, zip(*columns, strict=True))


def _offsets(found: Any) -> Offsets:
    pairs = {path: tuple(json_fields.naturals(pair)) for path, pair in json_fields.mapping(found).items()}
    return MappingProxyType({path: (start, end) for path, (start, end) in pairs.items()})


def _settles(found: Any) -> Settles:
    numbers = {path: tuple(json_fields.naturals(some)) for path, some in json_fields.mapping(found).items()}
    return MappingProxyType(numbers)
