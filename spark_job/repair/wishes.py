"""From what an operator asks for to items: by dead letters, by repaired records, or by the source's files."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from blizzard.audit.lives import Life
from blizzard.errors import ConfigError
from blizzard.state.settled_letters import Settlement, letters_with_settlements
from blizzard.state.stored_letters import LetterFilter
from blizzard.storage.base import ObjectStore
from spark_job.repair.topic_whole import WholePartitions
from spark_job.repair.work import Fate, Item, Kind, Result

MAX_PROBLEMS = 20
_DECODER = json.JSONDecoder()


@dataclass(slots=True)
class Wish:
    """`results`: of what needs no reading, or cannot be read once more. `unreadable`: letters and marks. `whole`: of
    the partitions that are to be replaced. `deleted`: of the files to be replaced, by path, how many rows that were
    committed the table has no more; None: nobody has looked."""

    items: list[Item] = field(default_factory=list)
    results: list[Result] = field(default_factory=list)
    unreadable: list[str] = field(default_factory=list)
    whole: WholePartitions | None = None
    deleted: Mapping[str, int] | None = None


@dataclass(slots=True)
class _Letters:
    """The open letters of one content of a file. `members`: numbers of refused members of a zip. `gaps`: offsets that a
    topic's partition had lost before they were read, the first and the last of each."""

    of_file: bool = False
    rows: set[int] = field(default_factory=set)
    members: set[int] = field(default_factory=set)
    gaps: set[tuple[int, int]] = field(default_factory=set)

    def add(self, letter: Mapping[str, Any]) -> None:
        if "row" not in letter:
            self.of_file = True
        elif (gap := _gap_of(letter)) is not None:
            self.gaps.add(gap)
        elif _is_of_member(letter):
            self.members.add(letter["row"])
        else:
            self.rows.add(letter["row"])

    def lost_rows(self) -> set[int]:
        """Of the rows, those within a gap: an attempt that did not commit could still read them."""
        return {row for row in self.rows if any(first <= row <= last for first, last in self.gaps)}


@dataclass(slots=True)
class _Known:
    """The letters of one content of a file: the numbers of records whose letters are open, and of those with a settled
    one the sequence of the commit; -1: an earlier one. `gaps`: offsets whose letters are about many messages."""

    open_letters: set[int] = field(default_factory=set)
    settled: dict[int, int] = field(default_factory=dict)
    gaps: set[int] = field(default_factory=set)

    def add(self, letter: Mapping[str, Any], settlement: Settlement | None) -> None:
        row = letter.get("row")
        if row is None or _is_of_member(letter):
            return
        if _gap_of(letter) is not None:
            self.gaps.add(row)
        elif settlement is None:
            self.open_letters.add(row)
        else:
            self.settled[row] = -1 if settlement.sequence is None else settlement.sequence

    def has(self, row: int) -> bool:
        return row in self.open_letters or row in self.settled


def from_letters(store: ObjectStore, state_prefix: str, source_id: str, wanted: LetterFilter) -> Wish:
    """All open letters that are wanted."""
    wish, by_content, every = Wish(), dict[tuple[str, str], _Letters](), dict[tuple[str, str], _Letters]()
    for letter, settlement in letters_with_settlements(store, state_prefix, source_id, wish.unreadable):
        if settlement is not None:
            continue
        content = letter["path"], letter["etag"]
        every.setdefault(content, _Letters()).add(letter)
        if wanted.wants(letter):
            by_content.setdefault(content, _Letters()).add(letter)
    for (path, etag), letters in sorted(by_content.items()):
        if letters.of_file:
            wish.items.append(Item(Kind.FILE, path, etag))
            continue
        if rows := letters.rows - letters.lost_rows():
            known = frozenset(every[path, etag].rows)
            wish.items.append(Item(Kind.RECORDS, path, etag, tuple(sorted(rows)), open_letters=known))
        for first, last in sorted(letters.gaps):
            reason = f"offsets {first} to {last} were gone before they were read"
            wish.results.append(Result(Item(Kind.RECORDS, path, etag, (first,)), Fate.HELD, reason))
        if letters.members:
            item = Item(Kind.RECORDS, path, etag, tuple(sorted(letters.members)))
            reason = "a member of a zip that was refused has no numbers for its records: `blizzard replace --path`"
            wish.results.append(Result(item, Fate.HELD, reason))
    return wish


def _gap_of(letter: Mapping[str, Any]) -> tuple[int, int] | None:
    """The first and the last offset of a letter about messages that nobody has read; None: it is of another kind."""
    return (letter["lost_from"], letter["lost_to"]) if "lost_from" in letter else None


def _is_of_member(letter: Mapping[str, Any]) -> bool:
    """Whether a whole member of a zip was refused, and not one of its records."""
    member = letter.get("member")
    return member is not None and not letter.get("raw") and str(letter.get("error")).startswith(f"member {member}: ")


@dataclass(frozen=True, slots=True)
class GivenRecord:
    """One line of the file with repaired records. `source`, `etag`: empty if it does not say."""

    line: int
    source: str
    path: str
    etag: str
    row: int
    text: str


def given_records(text: str, name: str) -> list[GivenRecord]:
    """Raises ConfigError with what is wrong in each line."""
    found, problems = list[GivenRecord](), list[str]()
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        try:
            found.append(_given_record(number, line))
        except (ValueError, TypeError, AttributeError) as error:
            problems.append(f"{name}, line {number}: {error}")
    seen = set[tuple[str, str, str, int]]()
    for one in found:
        place = one.source, one.path, one.etag, one.row
        if place in seen:
            problems.append(f"{name}, line {one.line}: record {one.row} of {one.path} is there twice")
        seen.add(place)
    if not found and not problems:
        problems.append(f"{name}: expected a repaired record in each line, found none")
    if problems:
        raise ConfigError(problems[:MAX_PROBLEMS])
    return found


def _given_record(number: int, line: str) -> GivenRecord:
    """Raises ValueError."""
    values = _texts_of(line)
    path, row = (json.loads(values.get(name, "null")) for name in ("path", "row"))
    if not isinstance(path, str) or isinstance(row, bool) or not isinstance(row, int) or row < 0:
        raise ValueError('expected "path" and "row" of the letter that the record replaces')
    text = values.get("record", values.get("raw", "null"))
    if text.startswith('"'):
        text = json.loads(text)
    try:
        is_object = isinstance(json.loads(text), dict)
    except ValueError as error:
        raise ValueError(f'expected JSON in "raw" or "record", found {text[:60]!r}: {error}') from error
    if not is_object:
        raise ValueError('expected the repaired record as "record", an object, or as JSON text in "raw"')
    source, etag = (json.loads(values.get(name, "null")) or "" for name in ("source", "etag"))
    text.encode()  # a lone surrogate is a ValueError
    return GivenRecord(number, str(source), path, str(etag), row, text.replace("\r", " ").replace("\n", " "))


def _texts_of(line: str) -> dict[str, str]:
    """The fields of a JSON object, each with its value exactly as it is written: a number keeps all its digits. Raises
    ValueError."""
    if not isinstance(json.loads(line), dict):
        raise ValueError("expected an object with path, row and record")  # noqa: TRY004 - of a file's content
    found, at = dict[str, str](), line.index("{") + 1
    while True:
        at = _next(line, at)
        if line[at] in "},":
            if line[at] == "}":
                return found
            at = _next(line, at + 1)
        name, at = _DECODER.raw_decode(line, at)
        at = _next(line, _next(line, at) + 1)
        _, end = _DECODER.raw_decode(line, at)
        found[name], at = line[at:end], end


def _next(line: str, at: int) -> int:
    """The place of the next character that is no white space."""
    while line[at] in " \t\r\n":
        at += 1
    return at


def from_given(
    store: ObjectStore, state_prefix: str, source_id: str, records: Sequence[GivenRecord], taken: dict[int, list[str]]
) -> Wish:
    """Of the records, those for which this source has a letter. `taken`: by line, which letters it may mean; this adds
    to it."""
    wish, by_path = Wish(), {one.path: dict[str, _Known]() for one in records}
    for letter, settlement in letters_with_settlements(store, state_prefix, source_id, wish.unreadable):
        if letter["path"] in by_path:
            by_path[letter["path"]].setdefault(letter["etag"], _Known()).add(letter, settlement)
    by_content = dict[tuple[str, str], dict[int, str]]()
    for one in records:
        known = {etag: each for etag, each in by_path[one.path].items() if one.etag in ("", etag) and each.has(one.row)}
        if any(one.row in each.gaps for each in by_path[one.path].values()):
            known = {}  # the letter is about many messages, and has this one's number
        meant = [etag for etag, each in known.items() if one.row in each.open_letters] or [*known]
        if meant and one.source in ("", source_id):
            taken.setdefault(one.line, []).extend(f"{source_id}, etag {etag}" for etag in meant)
            by_content.setdefault((one.path, meant[0]), {})[one.row] = one.text
    for (path, etag), texts in sorted(by_content.items()):
        size, each = sum(map(len, texts.values())), by_path[path][etag]
        settled = {row: each.settled[row] for row in texts if row in each.settled and row not in each.open_letters}
        item = Item(Kind.GIVEN, path, etag, tuple(sorted(texts)), texts, size, settled, frozenset(each.open_letters))
        wish.items.append(item)
    return wish


def from_lives(lives: Iterable[Life]) -> Wish:
    """All of the files that the source has and its pattern matches. Others keep the rows that the table has."""
    wish, deleted, looked = Wish(), dict[str, int](), True
    for life in lives:
        item = Item(Kind.REPLACE, life.path, size=life.size or 0)
        if life.listed:
            wish.items.append(item)
            looked = looked and (life.rows_found is not None or not life.rows)
            if life.rows_found is not None and (gone := (life.rows or 0) - life.rows_found) > 0:
                deleted[life.path] = gone
        elif life.rows:
            wish.results.append(Result(item, Fate.HELD, "the source no longer has it; its rows stay in the table"))
    wish.deleted = deleted if looked else None
    return wish


def from_partitions(source_id: str, whole: WholePartitions) -> Wish:
    """Raises ConfigError if one of them cannot be read again whole. Errors as of `WholePartitions.newest`."""
    known, wish = whole.newest(), Wish(whole=whole)
    refused = [f"{path}: {why}" for path, why in sorted(known.items()) if isinstance(why, str)]
    if refused:
        text = f"source {source_id} cannot be read again whole, so nothing was replaced: "
        raise ConfigError([text + each for each in refused[:MAX_PROBLEMS]])
    for path, one in sorted(known.items()):
        if not isinstance(one, str):
            wish.items.append(Item(Kind.OFFSETS, path, one.topic_id))
    return wish
