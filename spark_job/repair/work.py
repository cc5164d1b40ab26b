"""What an operator wants to have read once more, and what has become of it."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

from blizzard.state.batch import BatchRules


class Kind(StrEnum):
    """How a file, or a partition of a topic, is read once more. A commit has files of one kind."""

    REPLACE = "replace"
    """As a whole, as it is now: its rows take the place of those that the table has of it."""
    FILE = "file"
    """As a whole: it was refused."""
    RECORDS = "records"
    """Some of its records, which were refused."""
    GIVEN = "given"
    """Records that are given in place of refused ones."""
    OFFSETS = "offsets"
    """All messages of a topic's partition: their rows take the place of those that the table has of it."""


class Fate(StrEnum):
    """What became of an item."""

    DONE = "done"
    """A commit has what was asked for."""
    IN_ALREADY = "in_already"
    """An earlier commit has it."""
    SUPERSEDED = "superseded"
    """The file has other content in the table now, so there is nothing to put back."""
    REFUSED = "refused"
    """Refused again."""
    HELD = "held"
    """Not tried, for a reason that the operator has to remove."""


@dataclass(frozen=True, slots=True)
class Item:
    """One file, or one partition of a topic: its records are messages, numbered by their offsets. `etag`: of the
    content that is meant; empty: whatever it has now. `records`: the numbers of those that are meant, ascending;
    `given`: their texts, of kind GIVEN. `settled`: by number, those whose letters are settled, with the sequence of the
    commit that did it; -1: an earlier one. `open_letters`: the numbers of all records of this content whose letters are
    open."""

    kind: Kind
    path: str
    etag: str = ""
    records: tuple[int, ...] = ()
    given: Mapping[int, str] = field(default_factory=dict)
    size: int = 0
    settled: Mapping[int, int] = field(default_factory=dict)
    open_letters: frozenset[int] = frozenset()

    def settled_at(self, sequence: int) -> frozenset[int]:
        """Of the records, those that were settled by commits up to this one, which the table has."""
        return frozenset(number for number in self.records if self.settled.get(number, sequence + 1) <= sequence)

    @property
    def is_of_records(self) -> bool:
        """Whether records are meant, by their numbers, and not a file as a whole."""
        return self.kind in (Kind.RECORDS, Kind.GIVEN, Kind.OFFSETS)

    @property
    def key(self) -> tuple[str, str, bool]:
        return self.path, self.etag, self.is_of_records


@dataclass(slots=True)
class Result:
    """Of one item. `rows`: that its commit brought. `settled`: numbers of records that need no replay any more.
    `refused`: by number, why a record was refused again. `sequence`, `version`: of the commit."""

    item: Item
    fate: Fate
    reason: str | None = None
    rows: int = 0
    settled: tuple[int, ...] = ()
    refused: Mapping[int, str] = field(default_factory=dict)
    sequence: int | None = None
    version: int | None = None


def part_of(item: Item, records: Collection[int]) -> Item:
    """Some records of an item that is of records."""
    some = tuple(sorted(records))
    given = {number: item.given[number] for number in some} if item.given else {}
    return replace(item, records=some, given=given)


class Work:
    """The items that are left, and the results of the others."""

    def __init__(self, items: Iterable[Item]) -> None:
        self._left = {item.key: item for item in items}
        self.results: list[Result] = []

    def end(self, result: Result) -> None:
        if self._left.pop(result.item.key, None) is not None:
            self.results.append(result)

    def hold(self, item: Item, records: Collection[int], reason: str) -> Item | None:
        """Ends some records of the item. Returns what is left of it; None: nothing."""
        self.results.append(Result(part_of(item, records), Fate.HELD, reason))
        kept = {*item.records} - {*records}
        if not kept:
            del self._left[item.key]
            return None
        self._left[item.key] = left = part_of(item, kept)
        return left

    def hold_all(self, reason: str) -> None:
        for item in self.left:
            self.end(Result(item, Fate.HELD, reason))

    @property
    def left(self) -> Sequence[Item]:
        return [*self._left.values()]

    def next_batch(self, rules: BatchRules) -> Sequence[Item]:
        """Of one kind. What is replaced is all in one commit."""
        first = next(iter(self._left.values()), None)
        if first is None:
            return ()
        same = [item for item in self._left.values() if item.kind is first.kind]
        return same if first.kind in (Kind.REPLACE, Kind.OFFSETS) else [*_filled(same, rules)]


def _filled(items: Sequence[Item], rules: BatchRules) -> Iterator[Item]:
    """As many as fill a batch; of a file only one content."""
    size, paths = 0, set[str]()
    for item in items:
        size += item.size
        if paths and (len(paths) >= rules.interval_files or size > rules.interval_bytes):
            return
        if item.path not in paths:
            paths.add(item.path)
            yield item
