"""Messages of one partition of a topic, as a block of records."""

import base64
import json
from bisect import bisect_left
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa
import pyarrow.compute as pc

from spark_job.formats.messages.message_columns import Message, MessageColumns


@dataclass(frozen=True)
class MessageBlock:
    """Messages with ascending offsets, which may have gaps. At least one. Implements `Block` and `RecordPlaces`."""

    topic: str
    partition: int
    messages: MessageColumns
    size_bytes: int

    @property
    def first_record(self) -> int:
        return int(self.messages.offsets[0].as_py())

    @property
    def count(self) -> int:
        return len(self.messages)

    @property
    def numbers(self) -> pa.Array:
        return self.messages.offsets

    @property
    def modified_micros(self) -> pa.Array:
        """A message without a time has that of 1970."""
        return pc.multiply(pc.fill_null(self.messages.times_ms, 0), 1000)

    def number_of(self, index: int) -> int:
        return self._offsets[index]

    def modified_micros_of(self, number: int) -> int:
        return 1000 * (self._message(number).time_ms or 0)

    def about(self, number: int) -> str:
        """Key and headers of the message with this offset, as a dead letter has them."""
        message = self._message(number)
        headers = [{"name": name, **_shown("value", value)} for name, value in message.headers]
        return json.dumps({**_shown("key", message.key), "headers": headers})

    def text(self, number: int) -> bytes:
        """The payload of the message with this offset."""
        return self._message(number).payload or b""

    @cached_property
    def _offsets(self) -> list[int]:
        found: list[int] = self.messages.offsets.to_pylist()
        return found

    def _message(self, number: int) -> Message:
        return self.messages.message(bisect_left(self._offsets, number))


def _shown(name: str, value: bytes | None) -> dict[str, str | None]:
    """As text, or in Base64 if it is none."""
    if value is None:
        return {name: None}
    try:
        return {name: value.decode()}
    except UnicodeDecodeError:
        return {f"{name}_base64": base64.b64encode(value).decode()}
