"""Some messages of topics, which an operator has read once more: by their offsets, or given as texts."""

from collections.abc import Callable, Iterable, Iterator, Sequence

from spark_job.formats.messages.message_columns import Message, MessageColumns
from spark_job.ports.offset_range import OffsetRange

ReadRanges = Callable[[Sequence[OffsetRange]], Iterable[tuple[OffsetRange, MessageColumns]]]
"""Of ranges of different partitions."""


def chosen_messages(
    ranges: Sequence[OffsetRange], read: ReadRanges, now_ms: int
) -> Iterator[tuple[OffsetRange, MessageColumns]]:
    """The wanted messages of the ranges, with the payloads that are given. A given one whose message is gone has the
    time `now_ms` (Unix milliseconds), no key and no headers."""
    found: dict[OffsetRange, list[Message]] = {one: [] for one in ranges if one.given}
    for some in _rounds([one for one in ranges if one.length]):
        for one, messages in read(some):
            wanted = frozenset(one.wanted or ())
            places = [at for at, offset in enumerate(messages.offsets.to_pylist()) if offset in wanted]
            if one.given:
                found[one] += map(messages.message, places)
            elif places:
                yield one, messages.chosen(places)
    for one, chosen in found.items():
        yield one, MessageColumns.of([*_given(one, chosen, now_ms)])


def _given(one: OffsetRange, messages: Sequence[Message], now_ms: int) -> Iterator[Message]:
    """In the order of their offsets."""
    there = {message.offset: message for message in messages}
    for offset, text in one.given:
        message = there.get(offset, Message(offset, now_ms, None, (), None))
        yield message._replace(payload=text.encode(), fault=None)


def _rounds(ranges: Sequence[OffsetRange]) -> Iterator[list[OffsetRange]]:
    """Each with one range of a partition at most."""
    left = [*ranges]
    while left:
        taken: dict[str, OffsetRange] = {}
        for one in left:
            taken.setdefault(one.path, one)
        yield [*taken.values()]
        left = [one for one in left if taken[one.path] is not one]
