"""Dead letters: every file or record that was not ingested, with its reason, as NDJSON next to the table's data.

The key of a dead letter depends only on the file and its etag, so writing it again is idempotent.
"""

import base64
import hashlib
import json
import re
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from functools import partial
from typing import Any

from blizzard.errors import NotFound
from blizzard.state.letter_attempts import attempt_in, one_of_each
from blizzard.storage import json_fields
from blizzard.storage.base import ObjectStore
from blizzard.storage.parallel_calls import ParallelCalls

RECORDS_PER_OBJECT = 10_000
BYTES_PER_OBJECT = 8 << 20
FILE_LETTER = "file.ndjson"
_READABLE_CHARACTERS = 60
_FETCHED_AHEAD = 16
"""Objects of dead letters in memory, of at most BYTES_PER_OBJECT each; most have a few hundred bytes."""
_FILE_LETTERS_PER_SLOT = 4
"""This many objects with a single dead letter of a file may be written concurrently instead of one object of
records."""


class Stage(StrEnum):
    """The stage that failed."""

    DOWNLOAD = "download"
    DECOMPRESS = "decompress"
    PARSE = "parse"


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A file or, with `row` (0-based), one of its records. `raw`: the original record. `member`: of the zip file that
    holds it. `about`: what else is known of it, as a JSON object."""

    path: str
    etag: str
    stage: Stage
    error: str
    row: int | None = None
    raw: str | bytes | None = None
    retry_count: int = 0
    member: str | None = None
    about: str | None = None

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
        if self.member is not None:
            document["member"] = self.member
        if self.about is not None:
            document.update(json.loads(self.about))
        if isinstance(self.raw, bytes):
            document["raw_base64"] = base64.b64encode(self.raw).decode()
        elif self.raw is not None:
            document["raw"] = self.raw
        return json.dumps(document, ensure_ascii=True)


class DeadLetters:
    """The dead letters of one source, below `{state_prefix}/dead_letters/`, in one folder for each file and etag.
    `max_concurrency`: how many objects of records may be written concurrently."""

    def __init__(self, store: ObjectStore, state_prefix: str, source_id: str, *, max_concurrency: int = 1) -> None:
        self._store = store
        self._folder = f"{state_prefix}/dead_letters/"
        self._source_id = source_id
        self._max_concurrency = max_concurrency

    def write_file(self, letter: DeadLetter, now_ts: float) -> None:
        self._put(letter, FILE_LETTER, [self._line(letter, _timestamp(now_ts))])

    def write_files(self, letters: Iterable[DeadLetter], now_ts: float) -> None:
        """Raises the storage error of the first failed write, after all writes have ended."""
        factor = 1 if self._max_concurrency == 1 else _FILE_LETTERS_PER_SLOT
        with ParallelCalls(factor * self._max_concurrency, name="dead-letters") as writes:
            for letter in letters:
                writes.submit(partial(self.write_file, letter, now_ts))

    def write_records(self, letters: Iterable[DeadLetter], now_ts: float, attempt: str = "") -> int:
        """Write dead letters, sorted by file, then row, in bounded memory. Returns how many. Raises the storage error
        of the first failed write, after all writes have ended. `attempt`: of a file that is read once more, so that
        the letters of before stay until a commit has settled them."""
        written, timestamp = 0, _timestamp(now_ts)
        with ParallelCalls(self._max_concurrency, name="dead-letters") as writes:
            for first, lines in _chunked_by_file((letter, self._line(letter, timestamp)) for letter in letters):
                name = f"records-{first.row or 0:012d}{f'-{attempt}' if attempt else ''}.ndjson"
                writes.submit(partial(self._put, first, name, lines))
                written += len(lines)
        return written

    def dead_letter_folder(self, path: str, etag: str) -> str:
        """The folder of the dead letters of this version of the file: a readable part of its name, and a digest of path
        and etag."""
        digest = hashlib.sha256(f"{path}\0{etag}".encode(errors="surrogatepass")).hexdigest()[:20]
        return f"{self._folder}{_readable(path)}-{digest}/"

    def count_files(self) -> int:
        """How many versions of files have dead letters."""
        return sum(1 for _ in self._store.list_folders(self._folder))

    def folders_of(self, paths: Iterable[str]) -> set[str]:
        """Those folders of dead letters that may be of these paths."""
        names = {_readable(path) for path in paths}
        return {
            each
            for each in self._store.list_folders(self._folder)
            if each[len(self._folder) :].rpartition("-")[0] in names
        }

    def etags_of(self, paths: Collection[str]) -> Mapping[str, set[str]]:
        """The contents of each of these files that have letters, as far as these can be read."""
        found, unreadable = {path: set[str]() for path in paths}, list[str]()
        for folder in self.folders_of(paths) if paths else ():
            for letter in self.letters(folder=folder, unreadable=unreadable):
                if (path := letter.get("path")) in found:
                    found[path].add(str(letter.get("etag", "")))
        return found

    def has_file(self, path: str, etag: str) -> bool:
        """Whether this version of the file has any."""
        return any(True for _ in self._store.list(self.dead_letter_folder(path, etag)))

    def objects(self, path: str, etag: str) -> list[tuple[str, int]]:
        """The names and sizes of those that have the letters of this version of the file."""
        folder = self.dead_letter_folder(path, etag)
        return [(info.key.removeprefix(folder), info.size) for info in self._store.list(folder)]

    def letters(
        self,
        *,
        folder: str | None = None,
        since_ts: float = 0.0,
        unreadable: list[str] | None = None,
        committed: str | None = None,
    ) -> Iterator[dict[str, Any]]:
        """All dead letters, or those of one folder, as stored, without objects that were last written before
        `since_ts`. Of a message that several attempts have refused there is one: that of the attempt `committed`, else
        the newest. Some objects are fetched ahead. Lines that cannot be read are described in `unreadable`; without it
        they raise ValueError."""
        return one_of_each(self._stored(self._folder if folder is None else folder, since_ts, unreadable), committed)

    def of_all_attempts(self, path: str, etag: str) -> Iterator[tuple[str | None, dict[str, Any]]]:
        """All letters of this version of the file, each with the attempt to commit that stored it; None: its object
        names none. Lines that cannot be read are left out."""
        for key, letters in self._stored(self.dead_letter_folder(path, etag), 0.0, []):
            for letter in letters:
                yield attempt_in(key), letter

    def _stored(
        self, folder: str, since_ts: float, unreadable: list[str] | None
    ) -> Iterator[tuple[str, Iterator[dict[str, Any]]]]:
        recent = (info.key for info in self._store.list(folder) if info.modified_ts >= since_ts)
        return ((key, _letters_in(key, data, unreadable)) for key, data in self._fetched(recent))

    def _fetched(self, keys: Iterable[str]) -> Iterator[tuple[str, bytes]]:
        """In order. An object that is gone by then has none."""
        waiting: deque[tuple[str, Future[bytes]]] = deque()
        with ThreadPoolExecutor(_FETCHED_AHEAD, thread_name_prefix="letters") as threads:
            for key in keys:
                waiting.append((key, threads.submit(self._get, key)))
                if len(waiting) == _FETCHED_AHEAD:
                    first, fetched = waiting.popleft()
                    yield first, fetched.result()
            for key, fetched in waiting:
                yield key, fetched.result()

    def _get(self, key: str) -> bytes:
        try:
            return self._store.get(key)
        except NotFound:
            return b""

    def _line(self, letter: DeadLetter, timestamp: str) -> bytes:
        return letter.to_json(self._source_id, timestamp).encode() + b"\n"

    def _put(self, letter: DeadLetter, name: str, lines: list[bytes]) -> None:
        self._store.put(self.dead_letter_folder(letter.path, letter.etag) + name, b"".join(lines))


def _letters_in(key: str, data: bytes, unreadable: list[str] | None) -> Iterator[dict[str, Any]]:
    for number, line in enumerate(data.splitlines()):
        try:
            yield _checked(json_fields.mapping(json.loads(line)))
        except json_fields.MALFORMED as error:
            if unreadable is None:
                raise
            unreadable.append(f"{key}, line {number + 1}: {error}")


def _checked(letter: dict[str, Any]) -> dict[str, Any]:
    """Raises TypeError or ValueError if it does not say what it is about."""
    for name in ("path", "etag"):
        if not isinstance(letter.get(name), str):
            raise TypeError(f'expected "{name}" as a text, found {letter.get(name)!r:.80}')
    numbers = ("row", "lost_from", "lost_to") if "lost_from" in letter else ("row",)
    for name in numbers:
        if name in letter:
            try:
                json_fields.natural(letter[name])
            except (TypeError, ValueError) as error:
                raise ValueError(f'"{name}": {error}') from error
    if "lost_from" in letter and "lost_to" not in letter:
        raise ValueError('expected "lost_to" with "lost_from"')
    return letter


def _readable(path: str) -> str:
    return re.sub(r"[^A-Za-z0-9._=-]", "_", path)[-_READABLE_CHARACTERS:].lstrip(".")


def _timestamp(now_ts: float) -> str:
    return datetime.fromtimestamp(now_ts, UTC).isoformat(timespec="milliseconds")


def _chunked_by_file(letters: Iterable[tuple[DeadLetter, bytes]]) -> Iterator[tuple[DeadLetter, list[bytes]]]:
    """Consecutive dead letters of one file, limited in number and stored bytes: the first letter, and all lines."""
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
