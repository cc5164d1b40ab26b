"""Which dead letters are settled: what they are about has been put into the table since, or was replaced.

Each commit that settles letters leaves one object below `{state_prefix}/settled_letters/`. It is written after the
commit. If it is lost, the letters look open again, and a replay of them finds that nothing is left to do.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Self

from blizzard.errors import BucketMissing
from blizzard.state.dead_letters import DeadLetters
from blizzard.state.stored_letters import time_of
from blizzard.storage import json_fields
from blizzard.storage.base import ObjectStore


class Scope(StrEnum):
    """Which letters of a file one mark is about."""

    ALL = "all"
    """Of the file as a whole, and of all records of the content with this etag: it was read anew."""
    FILE = "file"
    """Of the file as a whole, with this etag."""
    RECORDS = "records"
    """Of some records of the content with this etag."""


@dataclass(frozen=True, slots=True)
class Mark:
    """Letters of one file that were written before `before_ts` (Unix seconds)."""

    path: str
    scope: Scope
    before_ts: float
    etag: str = ""
    rows: tuple[int, ...] = ()

    def covers(self, etag: str, row: int | None, written_ts: float) -> bool:
        if written_ts >= self.before_ts or etag != self.etag:
            return False
        if self.scope is Scope.RECORDS:
            return row in self.rows
        return self.scope is Scope.ALL or row is None

    def as_document(self) -> dict[str, Any]:
        return {
            "path": self.path,
            "scope": self.scope,
            "before_ts": self.before_ts,
            "etag": self.etag,
            "rows": self.rows,
        }

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> Self:
        return cls(
            json_fields.text(document["path"]),
            Scope(document["scope"]),
            json_fields.number(document["before_ts"]),
            json_fields.text(document["etag"]),
            tuple(json_fields.naturals(document["rows"])),
        )


@dataclass(frozen=True, slots=True)
class Settlement:
    """`sequence`, `version`: of the commit that has what the letters are about; None: an earlier one had it."""

    settled_ts: float
    sequence: int | None
    version: int | None
    marks: tuple[Mark, ...]

    def as_document(self) -> dict[str, Any]:
        """Without the marks."""
        return {"settled_ts": self.settled_ts, "sequence": self.sequence, "table_version": self.version}


@dataclass(slots=True)
class Settled:
    """The marks of a source, by path, oldest first. `unreadable`: what is wrong with stored ones."""

    by_path: dict[str, list[tuple[Mark, Settlement]]] = field(default_factory=dict)
    unreadable: list[str] = field(default_factory=list)

    def of(self, letter: Mapping[str, Any]) -> Settlement | None:
        """What settled a stored letter first; None: it is open. One about messages that were gone before they were
        read is never settled: it is about many, and none of them can be put into the table."""
        if "lost_from" in letter:
            return None
        path, etag = str(letter.get("path", "")), str(letter.get("etag", ""))
        return self.covering(path, etag, letter.get("row"), time_of(letter) or 0.0)

    def covering(self, path: str, etag: str, row: int | None, written_ts: float) -> Settlement | None:
        """As `of`, of a letter that is not about messages which were gone."""
        marks = self.by_path.get(path, ())
        return next((settlement for mark, settlement in marks if mark.covers(etag, row, written_ts)), None)


def settled_folders(letters: DeadLetters, settled: Settled) -> set[str]:
    """The folders all of whose letters are settled. Only those of files with marks are read."""
    found = set()
    for folder in letters.folders_of(settled.by_path) if settled.by_path else ():
        unreadable: list[str] = []
        stored = [*letters.letters(folder=folder, unreadable=unreadable)]
        if not unreadable and all(settled.of(letter) is not None for letter in stored):
            found.add(folder)
    return found


def letters_with_settlements(
    store: ObjectStore,
    state_prefix: str,
    source_id: str,
    unreadable: list[str],
    *,
    since_ts: float = 0.0,
    committed: str | None = None,
    settled: Settled | None = None,
) -> Iterator[tuple[dict[str, Any], Settlement | None]]:
    """Each stored letter of a source with what settled it; None: it is open. `unreadable`, `since_ts`,
    `committed`: as in `DeadLetters.letters`; letters and marks that cannot be read are added. `settled`: the
    marks as they were read before; None: they are read now."""
    try:
        if settled is None:
            settled = SettledLetters(store, state_prefix).read()
        unreadable += settled.unreadable
        letters = DeadLetters(store, state_prefix, source_id).letters(
            since_ts=since_ts, unreadable=unreadable, committed=committed
        )
        for letter in letters:
            yield letter, settled.of(letter)
    except BucketMissing:  # before the table's first write
        return


class SettledLetters:
    """Of one source."""

    def __init__(self, store: ObjectStore, state_prefix: str) -> None:
        self._store = store
        self._folder = f"{state_prefix}/settled_letters/"

    def put(self, settlement: Settlement, new_id: str) -> None:
        document = {
            "settled_ts": settlement.settled_ts,
            "sequence": settlement.sequence,
            "version": settlement.version,
            "marks": [mark.as_document() for mark in settlement.marks],
        }
        name = f"{round(settlement.settled_ts * 1000):015d}-{new_id}.json"
        self._store.put(self._folder + name, json.dumps(document).encode())

    def read(self) -> Settled:
        found = Settled()
        for settlement in self._settlements(found.unreadable):
            for mark in settlement.marks:
                found.by_path.setdefault(mark.path, []).append((mark, settlement))
        return found

    def _settlements(self, unreadable: list[str]) -> Iterator[Settlement]:
        for info in self._store.list(self._folder):
            try:
                yield _settlement(json.loads(self._store.get(info.key)))
            except json_fields.MALFORMED as error:
                unreadable.append(f"{info.key}: {error}")


def _settlement(document: Mapping[str, Any]) -> Settlement:
    return Settlement(
        json_fields.number(document["settled_ts"]),
        None if document["sequence"] is None else json_fields.integer(document["sequence"]),
        None if document["version"] is None else json_fields.integer(document["version"]),
        tuple(map(Mark.from_document, json_fields.array(document["marks"]))),
    )
