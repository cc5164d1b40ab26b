"""Letters of messages, of which each attempt to commit stores its own: one that was killed or lost its race leaves
letters of messages that the next attempt stores again."""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeVar

_OF_ATTEMPT = re.compile(r"/records-(?P<first>[0-9]+)-(?P<attempt>[^-/]+)\.ndjson\Z")
"""The name of an object of records that somebody had read once more has two parts more, and is none of these."""

_OF_ATTEMPT_OR_REPAIR = re.compile(r"/records-[0-9]+-(?:[0-9]{20}-)?(?P<attempt>[^-/]+)\.ndjson\Z")

L = TypeVar("L", bound=Mapping[str, Any])
_Place = tuple[int, str, str]
"""Record number first, then file and etag."""


def one_of_each(objects: Iterable[tuple[str, Iterator[L]]], committed: str | None = None) -> Iterator[L]:
    """The letters of stored objects, in the order of their keys, with one of each message: that of the attempt
    `committed`, or else the newest. In memory are those of objects whose ranges overlap."""
    waiting, folder = dict[_Place, tuple[tuple[bool, str, str], L]](), ""
    for key, letters in objects:
        name = _OF_ATTEMPT.search(key)
        if name is None:
            yield from letters
            continue
        if key[: name.start()] != folder:
            yield from _taken(waiting)
            folder = key[: name.start()]
        yield from _taken(waiting, int(name["first"]))
        for letter in letters:
            row, attempt = letter.get("row"), name["attempt"]
            if not isinstance(row, int):
                yield letter
                continue
            place = row, str(letter.get("path")), str(letter.get("etag"))
            rank = attempt == committed, str(letter.get("timestamp")), attempt
            if place not in waiting or waiting[place][0] <= rank:
                waiting[place] = rank, letter
    yield from _taken(waiting)


def attempt_in(key: str) -> str | None:
    """The attempt that stored this object of letters, or the repair; None if its key names none."""
    name = _OF_ATTEMPT_OR_REPAIR.search(key)
    return None if name is None else name["attempt"]


def _taken(waiting: dict[_Place, tuple[Any, L]], below: int | None = None) -> Iterator[L]:
    """Takes those out that no further object of the folder has, which begin with record `below`; None: all."""
    for place in sorted(each for each in waiting if below is None or each[0] < below):
        yield waiting.pop(place)[1]
