"""Parses queue messages about S3 objects: directly from S3, through SNS, or through EventBridge.

Any body gives either a list of events or NotAnS3Event, never another exception.
"""

import json
import string
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any
from urllib.parse import unquote_plus

from blizzard.errors import PermanentError
from blizzard.log import one_line

MAX_TEXT_BYTES = 1024
"""S3's limit for keys and version ids; all other texts of an event are shorter."""
MAX_SIZE = 2**63 - 1
HEX = frozenset(string.hexdigits)


class NotAnS3Event(PermanentError):
    """The message is not an event about S3 objects in a format of AWS."""

    def __init__(self, what: str) -> None:
        super().__init__(
            f"{what}. Only S3's own event messages belong in this queue (from S3, SNS, or EventBridge without "
            "input transformer): find out what else sends to it. No file is lost: sweeps find unannounced files."
        )


class IgnoreReason(StrEnum):
    """Why an event gives no entry."""

    TEST_EVENT = "test_event"
    FOLDER_MARKER = "folder_marker"
    NOT_AN_ARRIVAL = "not_an_arrival"
    NO_SOURCE = "no_source"


@dataclass(frozen=True, slots=True)
class FileArrived:
    """An object was created or overwritten. `event_ts` is Unix seconds; `etag` has no quotes; `key` is decoded."""

    bucket: str
    key: str
    size: int
    etag: str
    event_ts: float
    sequencer: str | None = None
    version_id: str | None = None


@dataclass(frozen=True, slots=True)
class Ignored:
    """A valid event that needs no action. `detail` is safe to print."""

    reason: IgnoreReason
    detail: str


Event = FileArrived | Ignored


@dataclass(frozen=True, slots=True)
class _FieldPaths:
    """Where one kind of event has each field: the keys that lead to it."""

    name: tuple[str, ...]
    arrival: str
    time: tuple[str, ...]
    bucket: tuple[str, ...]
    key: tuple[str, ...]
    size: tuple[str, ...]
    etag: tuple[str, ...]
    sequencer: tuple[str, ...]
    version_id: tuple[str, ...]
    key_is_encoded: bool


_S3 = _FieldPaths(
    name=("eventName",),
    arrival="ObjectCreated:",
    time=("eventTime",),
    bucket=("s3", "bucket", "name"),
    key=("s3", "object", "key"),
    size=("s3", "object", "size"),
    etag=("s3", "object", "eTag"),
    sequencer=("s3", "object", "sequencer"),
    version_id=("s3", "object", "versionId"),
    key_is_encoded=True,
)
_EVENTBRIDGE = _FieldPaths(
    name=("detail-type",),
    arrival="Object Created",
    time=("time",),
    bucket=("detail", "bucket", "name"),
    key=("detail", "object", "key"),
    size=("detail", "object", "size"),
    etag=("detail", "object", "etag"),
    sequencer=("detail", "object", "sequencer"),
    version_id=("detail", "object", "version-id"),
    key_is_encoded=False,
)


def parse_message(body: str) -> list[Event]:
    """All events of one message, in order. Raises NotAnS3Event when any of them is bad."""
    document = _json_object(body, "the message")
    if "TopicArn" in document and "Type" in document:
        document = _sns_payload(document)
    if "Records" in document:
        return [_from_s3(record) for record in _records(document)]
    if document.get("Event") == "s3:TestEvent":
        return [Ignored(IgnoreReason.TEST_EVENT, f"bucket {_printable(document.get('Bucket'))}")]
    if document.get("source") == "aws.s3":
        return [_read(document, _EVENTBRIDGE)]
    raise NotAnS3Event(f"the message has neither Records nor source aws.s3, but {_names(document)}")


def printable_uri(bucket: str, key: str) -> str:
    """The URI of an object, safe to print."""
    return one_line(f"s3://{bucket}/{key}")


def is_newer(sequencer: str, than: str) -> bool:
    """Whether the event with this sequencer is the later of two on one key. Padded on the right, as S3 documents.

    Case is ignored, since S3 writes upper case and EventBridge lower case.
    """
    width = max(len(sequencer), len(than))
    return sequencer.lower().ljust(width, "0") > than.lower().ljust(width, "0")


def _json_object(text: str, what: str) -> dict[str, Any]:
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise NotAnS3Event(f"{what} is not JSON ({type(error).__name__}); it begins {_printable(text)}") from None
    if not isinstance(document, dict):
        raise NotAnS3Event(f"{what} holds {_printable(document)}, expected a JSON object")
    return document


def _sns_payload(envelope: dict[str, Any]) -> dict[str, Any]:
    if envelope["Type"] != "Notification":
        raise NotAnS3Event(
            f"the message is an SNS {_printable(envelope['Type'])}, expected a Notification; "
            "confirm the subscription once, by opening its SubscribeURL"
        )
    return _json_object(_text(envelope, ("Message",), limit_bytes=None), "the SNS Message")


def _records(document: dict[str, Any]) -> list[Any]:
    records = document["Records"]
    if not isinstance(records, list):
        raise NotAnS3Event(f"Records is {_printable(records)}, expected a list")
    return records


def _from_s3(record: object) -> Event:
    source, version = _text(record, ("eventSource",)), _text(record, ("eventVersion",))
    if source != "aws:s3":
        raise NotAnS3Event(f"eventSource is {_printable(source)}, expected 'aws:s3'")
    if not version.startswith("2."):
        raise NotAnS3Event(f"eventVersion is {_printable(version)}, expected 2.x, whose fields are known")
    return _read(record, _S3)


def _read(document: object, fields: _FieldPaths) -> Event:
    name = _text(document, fields.name)
    if not name.startswith(fields.arrival):
        return Ignored(IgnoreReason.NOT_AN_ARRIVAL, f"{_printable(name)} of {_printable(_value(document, fields.key))}")
    bucket, key = _text(document, fields.bucket), _key(document, fields)
    if key.endswith("/"):
        return Ignored(IgnoreReason.FOLDER_MARKER, printable_uri(bucket, key))
    return FileArrived(
        bucket=bucket,
        key=key,
        size=_size(document, fields.size),
        etag=_etag(document, fields.etag),
        event_ts=_unix_seconds(document, fields.time),
        sequencer=_sequencer(document, fields.sequencer),
        version_id=_optional_text(document, fields.version_id),
    )


def _key(document: object, fields: _FieldPaths) -> str:
    if not fields.key_is_encoded:
        return _text(document, fields.key)
    raw = _text(document, fields.key, limit_bytes=None)
    try:
        key = unquote_plus(raw, errors="strict")
    except UnicodeDecodeError:
        raise NotAnS3Event(f"{_dotted(fields.key)} is {_printable(raw)}, which does not decode to UTF-8") from None
    return _checked(key, fields.key)


def _size(document: object, path: tuple[str, ...]) -> int:
    """S3 sends the size with every arrival, also 0. Batches are planned by size, so a missing one is an error."""
    size = _value(document, path)
    if isinstance(size, bool) or not isinstance(size, int) or not 0 <= size <= MAX_SIZE:
        raise NotAnS3Event(f"{_dotted(path)} is {_printable(size)}, expected a number of bytes")
    return size


def _etag(document: object, path: tuple[str, ...]) -> str:
    etag = _text(document, path).strip('"')
    if not etag:
        raise NotAnS3Event(f"{_dotted(path)} is empty, expected the object's etag")
    return etag


def _unix_seconds(document: object, path: tuple[str, ...]) -> float:
    text = _text(document, path)
    try:
        moment = datetime.fromisoformat(text)
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    except ValueError:
        raise NotAnS3Event(f"{_dotted(path)} is {_printable(text)}, expected an ISO 8601 time") from None


def _sequencer(document: object, path: tuple[str, ...]) -> str | None:
    sequencer = _optional_text(document, path)
    if sequencer is not None and not HEX.issuperset(sequencer):
        raise NotAnS3Event(f"{_dotted(path)} is {_printable(sequencer)}, expected hexadecimal digits")
    return sequencer


def _optional_text(document: object, path: tuple[str, ...]) -> str | None:
    return _text(document, path) if _value(document, path) not in (None, "") else None


def _text(document: object, path: tuple[str, ...], limit_bytes: int | None = MAX_TEXT_BYTES) -> str:
    value = _value(document, path)
    if not isinstance(value, str) or not value:
        raise NotAnS3Event(f"{_dotted(path)} is {_printable(value)}, expected text")
    return _checked(value, path, limit_bytes)


def _checked(text: str, path: tuple[str, ...], limit_bytes: int | None = MAX_TEXT_BYTES) -> str:
    """Refuses lone surrogates, which JSON can hold but UTF-8 cannot encode, and texts above the limit."""
    try:
        size_bytes = len(text) if text.isascii() else len(text.encode())
    except UnicodeEncodeError:
        raise NotAnS3Event(f"{_dotted(path)} is {_printable(text)}, which is not valid Unicode") from None
    if limit_bytes is not None and size_bytes > limit_bytes:
        raise NotAnS3Event(f"{_dotted(path)} has {size_bytes} bytes, expected at most {limit_bytes}")
    return text


def _value(document: object, path: tuple[str, ...]) -> object:
    for name in path:
        document = document.get(name) if isinstance(document, dict) else None
    return document


def _dotted(path: tuple[str, ...]) -> str:
    return ".".join(path)


def _names(document: dict[str, Any]) -> str:
    return ", ".join(_printable(name) for name in list(document)[:10]) or "nothing at all"


def _printable(value: object) -> str:
    """Short ASCII for any value. Containers only by kind, since printing a deeply nested one recurses."""
    if isinstance(value, dict | list):
        return "an object" if isinstance(value, dict) else "a list"
    if value is None:
        return "missing"
    text = ascii(value[:80] if isinstance(value, str) else value)
    return text if len(text) <= 120 else f"{text[:120]}..."
