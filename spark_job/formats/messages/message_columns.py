"""Messages of topics, column by column: what is done with each of them costs a topic more than all else."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, repeat
from typing import NamedTuple, Self

import pyarrow as pa

Headers = Sequence[tuple[str, bytes | None]]


class Message(NamedTuple):
    """One message. `time_ms`: Unix milliseconds, None if it has no time. `payload`: None for a tombstone. `fault`: why
    no format can take it, whatever its payload is."""

    offset: int
    time_ms: int | None
    key: bytes | None
    headers: Headers
    payload: bytes | None
    fault: str | None = None

    @property
    def size_bytes(self) -> int:
        """Of its key, headers and payload."""
        return len(self.payload or b"") + len(self.key or b"") + _size_of(self.headers)


@dataclass(frozen=True, slots=True)
class MessageColumns:
    """Some messages. `offsets` and `times_ms`: int64, as those of `Message`, null for no time. `headers`: None if no
    message has any. `faults`: of the few that have one, by their place here."""

    offsets: pa.Array
    times_ms: pa.Array
    keys: Sequence[bytes | None]
    headers: Sequence[Headers] | None
    payloads: Sequence[bytes | None]
    faults: Mapping[int, str] = field(default_factory=dict)

    @classmethod
    def of(cls, messages: Sequence[Message]) -> Self:
        """`messages`: few."""
        return cls(
            pa.array([message.offset for message in messages], pa.int64()),
            pa.array([message.time_ms for message in messages], pa.int64()),
            [message.key for message in messages],
            [message.headers for message in messages] if any(message.headers for message in messages) else None,
            [message.payload for message in messages],
            {at: message.fault for at, message in enumerate(messages) if message.fault is not None},
        )

    def __len__(self) -> int:
        return len(self.payloads)

    def __iter__(self) -> Iterator[Message]:
        return map(self.message, range(len(self)))

    def message(self, at: int) -> Message:
        """The one at this place."""
        headers = () if self.headers is None else self.headers[at]
        where = self.offsets[at].as_py(), self.times_ms[at].as_py()
        return Message(*where, self.keys[at], headers, self.payloads[at], self.faults.get(at))

    @property
    def size_bytes(self) -> int:
        """Of keys, headers and payloads."""
        size = sum(map(len, filter(None, self.payloads))) + sum(map(len, filter(None, self.keys)))
        return size if self.headers is None else size + sum(map(_size_of, self.headers))

    def chosen(self, places: Sequence[int]) -> Self:
        """The messages at these places."""
        numbers = pa.array(places, pa.int64())
        return type(self)(
            self.offsets.take(numbers),
            self.times_ms.take(numbers),
            [self.keys[at] for at in places],
            None if self.headers is None else [self.headers[at] for at in places],
            [self.payloads[at] for at in places],
            {new: self.faults[old] for new, old in enumerate(places) if old in self.faults} if self.faults else {},
        )


def joined(parts: Sequence[MessageColumns]) -> MessageColumns:
    """All messages of the parts, one part at least."""
    if len(parts) == 1:
        return parts[0]
    faults, start = dict[int, str](), 0
    for part in parts:
        faults.update((start + at, why) for at, why in part.faults.items())
        start += len(part)
    return MessageColumns(
        pa.concat_arrays([part.offsets for part in parts]),
        pa.concat_arrays([part.times_ms for part in parts]),
        [*chain.from_iterable(part.keys for part in parts)],
        _joined_headers(parts),
        [*chain.from_iterable(part.payloads for part in parts)],
        faults,
    )


def _joined_headers(parts: Sequence[MessageColumns]) -> Sequence[Headers] | None:
    if all(part.headers is None for part in parts):
        return None
    nothing: Headers = ()
    each: Iterable[Iterable[Headers]] = (
        repeat(nothing, len(part)) if part.headers is None else part.headers for part in parts
    )
    return [*chain.from_iterable(each)]


def _size_of(headers: Headers) -> int:
    return sum(len(name) + len(value or b"") for name, value in headers)
