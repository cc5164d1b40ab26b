"""Messages of one partition of a topic, as a block of records."""

import base64
import json
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

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


def size_of(messages: Iterable[Message]) -> int:
    """Bytes of their keys, headers and payloads."""
    size = 0
    for _, _, key, headers, payload, _ in messages:
        size += len(payload or b"") + len(key or b"")
        if headers:
            size += sum(len(name) + len(value or b"") for name, value in headers)
    return size


@dataclass(frozen=True)
class MessageBlock:
    """Messages with ascending offsets, which may have gaps. At least one. Implements `Block` and `RecordPlaces`."""

    topic: str
    partition: int
    messages: Sequence[Message]
    size_bytes: int

    @property
    def first_record(self) -> int:
        return self.messages[0].offset

    @property
    def count(self) -> int:
        return len(self.messages)

    @cached_property
    def numbers(self) -> Sequence[int]:
        return [message.offset for message in self.messages]

    @cached_property
    def modified_micros(self) -> Sequence[int]:
        """A message without a time has that of 1970."""
        return [1000 * (message.time_ms or 0) for message in self.messages]

    def modified_micros_of(self, number: int) -> int:
        return self.modified_micros[bisect_left(self.numbers, number)]

    def about(self, number: int) -> str:
        """Key and headers of the message with this offset, as a dead letter has them."""
        message = self.messages[bisect_left(self.numbers, number)]
        headers = [{"name": name, **_shown("value", value)} for name, value in message.headers]
        return json.dumps({**_shown("key", message.key), "headers": headers})

    def text(self, number: int) -> bytes:
        """The payload of the message with this offset."""
        return self.messages[bisect_left(self.numbers, number)].payload or b""


def _shown(name: str, value: bytes | None) -> dict[str, str | None]:
    """As text, or in Base64 if it is none."""
    if value is None:
        return {name: None}
    try:
        return {name: value.decode()}
    except UnicodeDecodeError:
        return {f"{name}_base64": base64.b64encode(value).decode()}
