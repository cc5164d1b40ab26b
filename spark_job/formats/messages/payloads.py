"""Messages whose payload is one record of another format: JSON, or text."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from io import BytesIO
from typing import NoReturn, Protocol

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from spark_job.formats.deferred import all_refused
from spark_job.formats.messages.block import MessageBlock
from spark_job.formats.messages.message_columns import MessageColumns, joined
from spark_job.formats.protocol import FileFault, Format, Limits, Parsed
from spark_job.formats.record_list import JoinedRecords, RecordList

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
        payloads, faults = block.messages.payloads, block.messages.faults
        if not faults and (lines := self._lines(payloads)) is not None:
            return RecordList(lines, 0, {})
        records, broken = [payload or b"" for payload in payloads], dict[int, str]()
        for number, payload in enumerate(payloads):
            if (why := faults.get(number) or self._fault(payload)) is not None:
                broken[number] = why
            elif payload is not None and (b"\n" in payload or b"\r" in payload):
                records[number], why = self._on_one_line(payload)
                broken |= {} if why is None else {number: why}
        return RecordList(records, 0, broken)

    def _lines(self, payloads: Sequence[bytes | None]) -> JoinedRecords | None:
        """None: one of them may be no line, no text, or too large."""
        texts = [*filter(None, payloads)]
        joined_texts = b"\n".join(texts)  # with something between, so that two broken ones do not make a character
        if len(texts) < len(payloads) or len(joined_texts) > self._limits.max_record_bytes:
            return None
        lines = JoinedRecords(joined_texts)
        is_good = len(lines) == len(payloads) and b"\r" not in joined_texts and _is_utf8(joined_texts)
        return lines if is_good else None

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
        messages = joined([block.messages for block in blocks])
        texts, positions, refused = payload_column(messages, self._limits, as_text=True)
        records = pa.table([texts], names=self._schema.names)
        return Parsed(records, positions, [*refused.items()], [messages.payloads[at] or b"" for at in refused])

    def decide(self, deferred: DataFrame) -> DataFrame:
        return all_refused(deferred, self._schema)


def payload_column(
    messages: MessageColumns, limits: Limits, *, as_text: bool
) -> tuple[pa.Array, list[int] | None, Mapping[int, str]]:
    """The payloads that can be taken, the numbers of their messages (None: all), and why the others cannot, by number.
    Nearly always all can, which is found at once."""
    kind = pa.string() if as_text else pa.binary()
    whole = pa.array(messages.payloads, pa.binary())
    longest = pc.max(pc.binary_length(whole)).as_py() or 0
    if not messages.faults and longest <= limits.max_record_bytes:
        with suppress(pa.ArrowInvalid):  # of one that is no text
            return whole.cast(kind), None, {}
    fault_of: Callable[[bytes, Limits], str | None] = text_fault if as_text else size_fault
    refused = dict[int, str]()
    for number, payload in enumerate(messages.payloads):
        why = messages.faults.get(number) or (None if payload is None else fault_of(payload, limits))
        if why is not None:
            refused[number] = why
    positions = [number for number in range(len(messages)) if number not in refused]
    return whole.take(pa.array(positions, pa.int64())).cast(kind), positions, refused


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
