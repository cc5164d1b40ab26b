"""Receipts: which files each commit contained. For people and for sweeps. Exactly-once decisions use only the table."""

import gzip
import json
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from blizzard.errors import NotFound, UnreadableState
from blizzard.state.known_files import MAX_FILES, KnownFiles
from blizzard.storage import json_fields
from blizzard.storage.base import ObjectStore


@dataclass(frozen=True, slots=True)
class ReceiptLine:
    """One file of a commit. `rows` are in the table, `dead_records` are dead-lettered. `error`: why the whole file was
    dead-lettered."""

    path: str
    etag: str
    size: int
    rows: int
    dead_records: int
    event_ts: float
    error: str | None = None


_LINE_FIELDS = ReceiptLine.__slots__


@dataclass(frozen=True, slots=True)
class Receipt:
    """One attempt to commit. The attempt succeeded if a checkpoint names the receipt."""

    name: str
    previous: str | None
    sequence: int
    written_ts: float
    lines: tuple[ReceiptLine, ...]


class Receipts:
    """The receipts of one source, below `{state_prefix}/receipts/`."""

    def __init__(self, store: ObjectStore, state_prefix: str) -> None:
        self._store = store
        self._folder = f"{state_prefix}/receipts/"

    def put(
        self, *, sequence: int, attempt: str, previous: str | None, now_ts: float, lines: Sequence[ReceiptLine]
    ) -> str:
        """Write the receipt of an attempt. Returns its name, for the checkpoint."""
        name = f"{sequence:020d}-{attempt}.json.gz"
        document = {
            "sequence": sequence,
            "previous": previous,
            "written_ts": now_ts,
            "files": [{name: getattr(line, name) for name in _LINE_FIELDS} for line in lines],
        }
        data = json.dumps(document, separators=(",", ":")).encode()
        self._store.put(self._folder + name, gzip.compress(data, compresslevel=1, mtime=0))
        return name

    def get(self, name: str) -> Receipt:
        """Raises NotFound or UnreadableState."""
        try:
            document = json.loads(gzip.decompress(self._store.get(self._folder + name)))
            return Receipt(
                name=name,
                previous=json_fields.optional_text(document["previous"]),
                sequence=json_fields.integer(document["sequence"]),
                written_ts=json_fields.number(document["written_ts"]),
                lines=tuple(_line(line) for line in json_fields.array(document["files"])),
            )
        except (OSError, EOFError, zlib.error, *json_fields.MALFORMED) as error:
            raise UnreadableState(
                f"receipt {name} cannot be read ({type(error).__name__}: {error}). Nothing "
                "is lost: the table has the rows, and sweeps only ask it about more files."
            ) from error

    def back_from(self, name: str | None) -> Iterator[Receipt]:
        """The receipts of successful commits from `name` backwards, newest first, up to the first commit or a missing
        or unreadable receipt."""
        seen: set[str] = set()
        while name is not None and name not in seen:
            seen.add(name)
            try:
                receipt = self.get(name)
            except (NotFound, UnreadableState):
                return
            yield receipt
            name = receipt.previous

    def ingested_since(self, name: str | None, since_ts: float, *, max_files: int = MAX_FILES) -> KnownFiles:
        """The files committed at or after `since_ts`, with their newest etag, as far back as there are receipts. At
        most `max_files` files, the newest ones."""
        found = KnownFiles(max_files)
        for receipt in self.back_from(name):
            if receipt.written_ts < since_ts or found.full:
                break
            for line in receipt.lines:
                found.add(line.path, line.etag)
        return found


def _line(line: dict[str, Any]) -> ReceiptLine:
    return ReceiptLine(
        path=json_fields.text(line["path"]),
        etag=json_fields.text(line["etag"]),
        size=json_fields.natural(line["size"]),
        rows=json_fields.natural(line["rows"]),
        dead_records=json_fields.natural(line["dead_records"]),
        event_ts=json_fields.number(line["event_ts"]),
        error=json_fields.optional_text(line["error"]),
    )
