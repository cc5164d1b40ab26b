"""The smallest reproduction that can be found in a bounded time: the parts of what was done that still fail, each time
from new."""

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import TypeVar

from tests.proof.campaign import Failed

T = TypeVar("T")


def smallest(parts: Sequence[T], fails: Callable[[Sequence[T]], bool], left: Callable[[], bool]) -> list[T] | None:
    """Some of the parts, in their order, with which it fails, and of which nothing can be spared as far as there was
    time. `left`: whether another try may begin. None: nothing smaller than all of them failed."""
    now, found, pieces = [*parts], False, 2
    while len(now) > 1:
        smaller = next((some for some in _smaller(now, pieces) if left() and fails(some)), None)
        if smaller is not None:
            now, found, pieces = smaller, True, 2
        elif pieces < len(now) and left():
            pieces = min(len(now), 2 * pieces)
        else:
            break
    return now if found else None


def _smaller(parts: Sequence[T], pieces: int) -> Iterator[list[T]]:
    """One of so many pieces alone, the last one first; then all but one of them."""
    ends = [len(parts) * number // pieces for number in range(pieces + 1)]
    for begin, end in reversed([*pairwise(ends)]):
        yield [*parts[begin:end]]
    if pieces > 2:
        for begin, end in pairwise(ends):
            yield [*parts[:begin], *parts[end:]]


def reduced(
    failed: Failed, parts: Sequence[T], again: Callable[[Sequence[T]], object], left: Callable[[], bool]
) -> Failed:
    """The failure with the smallest way to it. `again` goes the way with some of the parts and raises Failed."""
    ways: list[Failed] = []

    def fails(some: Sequence[T]) -> bool:
        try:
            again(some)
        except Failed as found:
            ways.append(found)
            return True
        return False

    found = smallest(parts, fails, left)
    if found is None:
        tried = f"nothing smaller failed again, of the {len(parts)} that it took" if len(parts) > 1 else ""
        return Failed(failed.why, [*failed.steps, *filter(None, [tried])])
    enough = f"on a new table {len(found)} of {len(parts)} are enough: {ways[-1].why}"
    return Failed(failed.why, [enough, *ways[-1].steps])
