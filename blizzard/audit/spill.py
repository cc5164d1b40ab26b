"""What processes leave on the local disk for each other, by range, so that memory does not grow with the source."""

import gc
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

import orjson

OBJECTS_BETWEEN_COLLECTIONS = 100_000
"""Of Python's garbage collector. A range is tens of thousands of objects that stay, and are in no cycles: with the
usual 700 a quarter of an audit's processor time is spent on looking at them."""
HELD_ITEMS = 100_000
"""As many are in memory before they are written."""


class Place(NamedTuple):
    """Where items of one range are."""

    file: str
    offset: int
    size: int


Places = Mapping[int, list[Place]]
"""By range."""


class SpillWriter:
    """Writes one file. Items are lists or tuples of texts, numbers and truth values; they are read as lists."""

    def __init__(self, folder: Path, name: str) -> None:
        self._name = name
        self._stream = (folder / name).open("wb")
        self._held: dict[int, list[Sequence[Any]]] = {}
        self._count = 0
        self.places: dict[int, list[Place]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if kind is None:
            self._write()
        self._stream.close()

    def add(self, number: int, item: Sequence[Any]) -> None:
        self._held.setdefault(number, []).append(item)
        self._count += 1
        if self._count >= HELD_ITEMS:
            self._write()

    def _write(self) -> None:
        for number, items in self._held.items():
            data = orjson.dumps(items)
            self.places.setdefault(number, []).append(Place(self._name, self._stream.tell(), len(data)))
            self._stream.write(data)
        self._held, self._count = {}, 0


def items_at(folder: Path, places: Iterable[Place]) -> Iterator[list[Any]]:
    for file, offset, size in places:
        with (folder / file).open("rb") as stream:
            stream.seek(offset)
            yield from orjson.loads(stream.read(size))


def joined(several: Iterable[Places]) -> dict[int, list[Place]]:
    found: dict[int, list[Place]] = {}
    for places in several:
        for number, more in places.items():
            found.setdefault(number, []).extend(more)
    return found


def collect_seldom() -> None:
    """From now on, in this process."""
    gc.set_threshold(OBJECTS_BETWEEN_COLLECTIONS, *gc.get_threshold()[1:])


def to_json(places: Places) -> list[tuple[int, list[Place]]]:
    return [*places.items()]


def from_json(found: Iterable[tuple[int, list[list[Any]]]]) -> dict[int, list[Place]]:
    return {number: [Place(*place) for place in places] for number, places in found}
