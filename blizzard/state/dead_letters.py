"""Dead letters: every file or record that was not ingested, with its reason, as NDJSON beside the table.

A letter's place follows from the file and its etag, so a repetition overwrites itself.
"""

import base64
import hashlib
import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from functools import partial
from typing import Any

from blizzard.storage.base import ObjectStore
from blizzard.storage.parallel_calls import ParallelCalls

RECORDS_PER_OBJECT = 10_000
BYTES_PER_OBJECT = 8 << 20
_READABLE = 60
_SMALL_FOR_ONE = 4
"""As many objects of one letter may be on their way in place of one of records."""


class Stage(StrEnum):
    """How far a file or record got."""

    DOWNLOAD = "download"
    DECOMPRESS = "decompress"
    PARSE = "parse"


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A file, or with `row` (0-based) one record of it; `raw` is the record as it was found."""

    path: str
    etag: str
    stage: Stage
    error: str
    row: int | None = None
    raw: str | bytes | None = None
    retry_count: int = 0

    def to_json(self, source_id: str, timestamp: str) -> str:
        document: dict[str, Any] = {
            "source": source_id,
            "path": self.path,
            "etag": self.etag,
            "stage": str(self.stage),
            "error": self.error,
            "timestamp": timestamp,
            "retry_count": self.retry_count,
        }
        if self.row is not None:
            document["row"] = self.row
        if isinstance(self.raw, bytes):
            document["raw_base64"] = base64.b64encode(self.raw).decode()
        elif self.raw is not None:
            document["raw"] = self.raw
        return json.dumps(document, ensure_ascii=True)


class DeadLetters:
    """The dead letters of one source, below `{state_prefix}/dead_letters/`, one folder for each file and etag.
    `at_once`: how many objects of records may be on their way at the same time."""

    def __init__(self, store: ObjectStore, state_prefix: str, source_id: str, *, at_once: int = 1) -> None:
        self._store = store
        self._folder = f"{state_prefix}/dead_letters/"
        self._source_id = source_id
        self._at_once = at_once

    def put_file(self, letter: DeadLetter, now_ts: float) -> None:
        self._put(letter, "file.ndjson", [self._line(letter, _timestamp(now_ts))])

    def put_files(self, letters: Iterable[DeadLetter], now_ts: float) -> None:
        """Raises what storage has against one of them, once none is on its way any more."""
        at_once = self._at_once if self._at_once == 1 else _SMALL_FOR_ONE * self._at_once
        with ParallelCalls(at_once, name="dead-letters") as writes:
            for letter in letters:
                writes.submit(partial(self.put_file, letter, now_ts))

    def put_records(self, letters: Iterable[DeadLetter], now_ts: float) -> int:
        """Write letters that are sorted by file, then row; return how many. Bounded memory, whatever their number.
        Raises what storage has against one of them, once none is on its way any more."""
        written, timestamp = 0, _timestamp(now_ts)
        with ParallelCalls(self._at_once, name="dead-letters") as writes:
            for first, lines in _chunks((letter, self._line(letter, timestamp)) for letter in letters):
                writes.submit(partial(self._put, first, f"records-{first.row or 0:012d}.ndjson", lines))
                written += len(lines)
        return written

    def folder_of(self, path: str, etag: str) -> str:
        """Where the letters of this version of the file are: a readable piece of its name and a digest of both."""
        digest = hashlib.sha256(f"{path}\0{etag}".encode(errors="surrogatepass")).hexdigest()[:20]
        readable = re.sub(r"[^A-Za-z0-9._=-]", "_", path)[-_READABLE:].lstrip(".")
        return f"{self._folder}{readable}-{digest}/"

    def files(self) -> int:
        """How many versions of files have letters."""
        return sum(1 for _ in self._store.list_folders(self._folder))

    def letters(self) -> Iterator[dict[str, Any]]:
        """All of them, as they are stored."""
        for info in self._store.list(self._folder):
            for line in self._store.get(info.key).splitlines():
                yield json.loads(line)

    def _line(self, letter: DeadLetter, timestamp: str) -> bytes:
        return letter.to_json(self._source_id, timestamp).encode() + b"\n"

    def _put(self, letter: DeadLetter, name: str, lines: list[bytes]) -> None:
        self._store.put(self.folder_of(letter.path, letter.etag) + name, b"".join(lines))


def _timestamp(now_ts: float) -> str:
    return datetime.fromtimestamp(now_ts, UTC).isoformat(timespec="milliseconds")


def _chunks(letters: Iterable[tuple[DeadLetter, bytes]]) -> Iterator[tuple[DeadLetter, list[bytes]]]:
    """Runs of one file's letters, each bounded in number and bytes as stored: the first letter, and the lines."""
    first: DeadLetter | None = None
    lines: list[bytes] = []
    size = 0
    for letter, line in letters:
        same_file = first is not None and (first.path, first.etag) == (letter.path, letter.etag)
        full = len(lines) == RECORDS_PER_OBJECT or size + len(line) > BYTES_PER_OBJECT
        if first is not None and (full or not same_file):
            yield first, lines
            first, lines, size = None, [], 0
        first = first or letter
        lines.append(line)
        size += len(line)
    if first is not None:
        yield first, lines
