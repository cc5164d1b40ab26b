"""Messages whose payload is one record of another format: JSON, or text."""

from collections.abc import Mapping, Sequence
from io import BytesIO
from typing import NoReturn, Protocol

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from spark_job.formats.deferred import all_refused
from spark_job.formats.messages.block import Message, MessageBlock
from spark_job.formats.protocol import FileFault, Format, Limits, Parsed
from spark_job.formats.record_list import RecordList

TOMBSTONE = "a tombstone: the message has no payload, so it holds no record"


class MessageFormat(Protocol):
    """What a message holds, as `Format` has it for a block of a file."""

    def parse(self, blocks: Sequence[MessageBlock]) -> Parsed: ...

    def decide(self, deferred: DataFrame) -> DataFrame: ...


class JsonPayloads:
    """Each payload is one JSON object. `records`: the format `json` with the schema of a payload."""

    def __init__(self, records: Format[RecordList], limits: Limits) -> None:
        self._records = records
        self._limits = limits

    def parse(self, blocks: Sequence[MessageBlock]) -> Parsed:
        return self._records.parse([self._record_list(block) for block in blocks])

    def decide(self, deferred: DataFrame) -> DataFrame:
        return self._records.decide(deferred)

    def _record_list(self, block: MessageBlock) -> RecordList:
        """Records have no line ends."""
        payloads = [message.payload for message in block.messages]
        records, broken = [payload or b"" for payload in payloads], dict[int, str]()
        joined = b" ".join(records)  # so that two broken payloads do not make a character together
        odd = None in payloads or not all(records) or any(message.fault for message in block.messages)
        suspicious = odd or b"\n" in joined or b"\r" in joined or not _is_utf8(joined)
        if suspicious or len(joined) > self._limits.max_record_bytes:
            for number, payload in enumerate(payloads):
                if (why := block.messages[number].fault or self._fault(payload)) is not None:
                    broken[number] = why
                elif payload is not None and (b"\n" in payload or b"\r" in payload):
                    records[number], why = self._on_one_line(payload)
                    broken |= {} if why is None else {number: why}
        return RecordList(records, 0, broken)

    def _fault(self, payload: bytes | None) -> str | None:
        return TOMBSTONE if payload is None else text_fault(payload, self._limits) or empty_fault(payload)

    def _on_one_line(self, payload: bytes) -> tuple[bytes, str | None]:
        """Line ends are white space between the parts of an object, and nothing else in JSON."""
        if not payload.lstrip().startswith(b"{"):
            return payload.replace(b"\r", b" ").replace(b"\n", b" "), None
        try:
            blocks = [*self._records.blocks(_Text(payload), first_record=0)]
        except FileFault as fault:
            return payload, fault.reason
        found = [(text, block.broken.get(at)) for block in blocks for at, text in enumerate(block.records)]
        if len(found) != 1:
            return payload, f"not a JSON object: found {len(found)} of them; expected one in each message"
        [(text, why)] = found
        return (text, None) if why is None else (payload, why)


class TextPayloads:
    """Each payload is the value of one column. A tombstone is null."""

    def __init__(self, schema: StructType, limits: Limits) -> None:
        self._schema = schema
        self._limits = limits

    def parse(self, blocks: Sequence[MessageBlock]) -> Parsed:
        messages = [message for block in blocks for message in block.messages]
        texts, positions, refused = decoded_payloads(messages, self._limits)
        records = pa.table([pa.array(texts, pa.string())], names=self._schema.names)
        return Parsed(records, positions, [*refused.items()], [messages[at].payload or b"" for at in refused])

    def decide(self, deferred: DataFrame) -> DataFrame:
        return all_refused(deferred, self._schema)


def decoded_payloads(
    messages: Sequence[Message], limits: Limits
) -> tuple[list[str | None], list[int], Mapping[int, str]]:
    """The payloads as text, the numbers of their messages, and why the others are none, by number."""
    texts, positions, refused = list[str | None](), list[int](), dict[int, str]()
    for number, message in enumerate(messages):
        why = message.fault or (None if message.payload is None else text_fault(message.payload, limits))
        if why is None:
            texts.append(None if message.payload is None else message.payload.decode())
            positions.append(number)
        else:
            refused[number] = why
    return texts, positions, refused


def text_fault(payload: bytes, limits: Limits) -> str | None:
    """Why the payload is no text within the limits; None if it is."""
    if (why := size_fault(payload, limits)) is not None:
        return why
    try:
        payload.decode()
    except UnicodeDecodeError as error:
        return f"not UTF-8 at byte {error.start}: {error.reason}"
    return None


def size_fault(payload: bytes | None, limits: Limits) -> str | None:
    if len(payload or b"") <= limits.max_record_bytes:
        return None
    return f"limit max_record_bytes: it holds more than {limits.max_record_bytes} bytes"


def empty_fault(payload: bytes) -> str | None:
    return None if payload and not payload.isspace() else "not JSON: it is empty; expected an object"


def _is_utf8(text: bytes) -> bool:
    if text.isascii():
        return True
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True


class _Text:
    """Implements `Content`."""

    path = ""

    def __init__(self, text: bytes) -> None:
        self._text = text
        self.chunk_bytes = max(1, len(text))

    def stream(self) -> BytesIO:
        return BytesIO(self._text)

    def random_access(self) -> NoReturn:
        raise NotImplementedError("a payload is read forward only")
