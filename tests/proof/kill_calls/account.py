"""What the files of a round held, one content after the other, and what of it has to be in the table and in the
letters. That a file may miss in the table is for what happened to it to say, not for the product."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.proof.kill_calls.operator import repaired
from tests.unit.fakes import POISON, REFUSED, Row

CHANGED = "it changed while in progress"
Record = tuple[str, int, str, str]
"""Path, number, etag and value."""
Dead = tuple[str, int | None, str]
"""Path, number of the record or None for the whole file, and etag."""


@dataclass(frozen=True, slots=True)
class Content:
    """What was at a path once."""

    path: str
    etag: str
    body: bytes

    @property
    def bad(self) -> bool:
        """Whether the file cannot be read as a whole."""
        return self.body.startswith(POISON)

    @property
    def lines(self) -> list[str]:
        return [] if self.bad else self.body.decode().splitlines()

    def good(self, end: int | None = None) -> Counter[Record]:
        """The records that have to be rows, of those before number `end`."""
        numbered = enumerate(self.lines[:end])
        return Counter((self.path, n, self.etag, line) for n, line in numbered if not line.startswith(REFUSED))

    def repaired(self) -> Counter[Record]:
        """The rows that an operator may have made of refused records."""
        numbered = enumerate(self.lines)
        return Counter((self.path, n, self.etag, repaired(line)) for n, line in numbered if line.startswith(REFUSED))

    def dead(self, end: int | None = None) -> list[Dead]:
        """What has to have a letter, of the records before number `end`."""
        numbered = enumerate(self.lines[:end])
        whole: list[Dead] = [(self.path, None, self.etag)] if self.bad else []
        return whole + [(self.path, n, self.etag) for n, line in numbered if line.startswith(REFUSED)]


class History:
    """Of each path every content. `slice_bytes`: a larger file is read in parts."""

    def __init__(self, slice_bytes: int) -> None:
        self._slice_bytes = slice_bytes
        self._contents: dict[str, list[Content]] = {}

    def put(self, path: str, etag: str, body: bytes) -> None:
        self._contents.setdefault(path, []).append(Content(path, etag, body))

    @property
    def paths(self) -> list[str]:
        return sorted(self._contents)

    def newest(self, path: str) -> Content:
        return self._contents[path][-1]

    def in_progress(self, rows: Iterable[Row]) -> list[str]:
        """Paths of whose newest content a part is in the table."""
        there = Counter((row.path, row.etag) for row in rows)
        newest = (self.newest(path) for path in self.paths)
        return [each.path for each in newest if 0 < there[each.path, each.etag] < each.good().total()]

    def accounts_for(self, letter: Mapping[str, Any]) -> bool:
        """Whether that is what was wrong with a content that the path really had."""
        path, row, etag = dead_of(letter)
        content = next((content for content in self._contents.get(path, ()) if content.etag == etag), None)
        if content is None:
            return False
        if row is not None:
            return (path, row, etag) in content.dead() and letter.get("raw") == content.lines[row]
        return content.bad or (changed(letter) and self._may_have_begun(content) and content is not self.newest(path))

    def _may_have_begun(self, content: Content) -> bool:
        """Whether a part of it can have been in the table without the rest."""
        return len(content.body) > self._slice_bytes


@dataclass(slots=True)
class Account:
    """Of some files: what is not as their newest content has it."""

    records: int = 0
    """That had to be in the table, and were looked for."""
    missing: list[Record] = field(default_factory=list)
    more: list[Record] = field(default_factory=list)
    """In the table more often than in the file, or as it does not have them."""
    silent: list[Dead] = field(default_factory=list)
    """Without an open letter, and without a row."""
    put_back: int = 0
    """Refused records that are rows."""


def changed(letter: Mapping[str, Any]) -> bool:
    """Whether it is of a content that was overwritten while a part of it was in the table."""
    return letter.get("row") is None and CHANGED in letter["error"]


def dead_of(letter: Mapping[str, Any]) -> Dead:
    return letter["path"], letter.get("row"), letter["etag"]


def account(
    history: History, rows: Iterable[Row], open_letters: Iterable[Mapping[str, Any]], paths: Iterable[str]
) -> Account:
    """Of the files at `paths`, each record against each row and each open letter of the same content. A refused one has
    a letter, or an operator's row."""
    there: dict[str, Counter[Record]] = {}
    for row in rows:
        there.setdefault(row.path, Counter())[row.path, row.row, row.etag, row.value] += 1
    dead = {*map(dead_of, open_letters)}
    found = Account()
    for path in paths:
        newest, has = history.newest(path), there.get(path, Counter())
        wanted = newest.good()
        found.records += wanted.total()
        found.missing += [*(wanted - has)]
        found.more += [*(has - wanted - newest.repaired())]
        put_back = {(path, row, newest.etag) for _, row, _, _ in has & newest.repaired()}
        found.put_back += len(put_back)
        found.silent += [one for one in newest.dead() if one not in dead and one not in put_back]
    return found


def strangers(history: History, rows: Iterable[Row]) -> list[str]:
    """Files that have rows, and never were."""
    return sorted({row.path for row in rows}.difference(history.paths))


def wrong_letters(
    history: History, letters: Iterable[Mapping[str, Any]], read_anew: Collection[str] = ()
) -> Iterator[str]:
    """Each is there once, and says what was wrong with a content that was there. Of a file that is read anew as a whole
    the letters of its parts stay; an operator that dies before these are settled leaves them open."""
    letters = [*letters]
    counted = Counter(dead_of(letter) for letter in letters if letter["path"] not in read_anew)
    if doubled := [one for one, times in counted.items() if times > 1]:
        yield f"letters that are there twice: {doubled[:5]}"
    if wrong := [letter for letter in letters if not history.accounts_for(letter)]:
        yield f"letters of what was not so: {wrong[:3]}"
