"""What an SQS message says about S3 objects, as values: straight from S3, through SNS, or through EventBridge.

Whatever the body holds, the outcome is a list of values or NotAnS3Event, never another exception.
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
"""S3's own limit for keys and version ids; everything else in an event is shorter."""
MAX_SIZE = 2**63 - 1
HEX = frozenset(string.hexdigits)


class NotAnS3Event(PermanentError):
    """A message that does not tell of S3 objects in a shape that AWS sends."""

    def __init__(self, what: str) -> None:
        super().__init__(
            f"{what}. Only S3's own event messages belong into this queue (from S3, SNS, or EventBridge without "
            "input transformer): see who else sends to it. No file is lost, a sweep finds what no event announced."
        )


class Reason(StrEnum):
    """Why an event leads to no entry."""

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
    """An event that is well-formed and asks for nothing. `detail` can be printed anywhere."""

    reason: Reason
    detail: str


Event = FileArrived | Ignored


@dataclass(frozen=True, slots=True)
class _Shape:
    """Where one kind of event keeps what matters."""

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


_S3 = _Shape(
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
_EVENTBRIDGE = _Shape(
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
    """Everything that one message says, in its order. Raises NotAnS3Event, and then none of it counts."""
    document = _json_object(body, "the message")
    if "TopicArn" in document and "Type" in document:
        document = _sns_payload(document)
    if "Records" in document:
        return [_from_s3(record) for record in _records(document)]
    if document.get("Event") == "s3:TestEvent":
        return [Ignored(Reason.TEST_EVENT, f"bucket {_shown(document.get('Bucket'))}")]
    if document.get("source") == "aws.s3":
        return [_read(document, _EVENTBRIDGE)]
    raise NotAnS3Event(f"the message has neither Records nor source aws.s3, but {_names(document)}")


def shown_uri(bucket: str, key: str) -> str:
    """Of an object, for people: it can be printed anywhere."""
    return one_line(f"s3://{bucket}/{key}")


def newer(sequencer: str, than: str) -> bool:
    """Whether the event with this sequencer is the later of two on one key. Padded right, as S3 documents.

    Upper and lower case count alike, since S3 writes the one and EventBridge the other.
    """
    width = max(len(sequencer), len(than))
    return sequencer.lower().ljust(width, "0") > than.lower().ljust(width, "0")


def _json_object(text: str, what: str) -> dict[str, Any]:
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise NotAnS3Event(f"{what} is not JSON ({type(error).__name__}); it begins {_shown(text)}") from None
    if not isinstance(document, dict):
        raise NotAnS3Event(f"{what} holds {_shown(document)}, expected a JSON object")
    return document


def _sns_payload(envelope: dict[str, Any]) -> dict[str, Any]:
    if envelope["Type"] != "Notification":
        raise NotAnS3Event(
            f"the message is an SNS {_shown(envelope['Type'])}, expected a Notification; "
            "a subscription is confirmed once, by opening its SubscribeURL"
        )
    return _json_object(_text(envelope, ("Message",), limit_bytes=None), "the SNS Message")


def _records(document: dict[str, Any]) -> list[Any]:
    records = document["Records"]
    if not isinstance(records, list):
        raise NotAnS3Event(f"Records is {_shown(records)}, expected a list")
    return records


def _from_s3(record: object) -> Event:
    source, version = _text(record, ("eventSource",)), _text(record, ("eventVersion",))
    if source != "aws:s3":
        raise NotAnS3Event(f"eventSource is {_shown(source)}, expected 'aws:s3'")
    if not version.startswith("2."):
        raise NotAnS3Event(f"eventVersion is {_shown(version)}, expected 2.x, whose fields are known")
    return _read(record, _S3)


def _read(document: object, shape: _Shape) -> Event:
    name = _text(document, shape.name)
    if not name.startswith(shape.arrival):
        return Ignored(Reason.NOT_AN_ARRIVAL, f"{_shown(name)} of {_shown(_value(document, shape.key))}")
    bucket, key = _text(document, shape.bucket), _key(document, shape)
    if key.endswith("/"):
        return Ignored(Reason.FOLDER_MARKER, shown_uri(bucket, key))
    return FileArrived(
        bucket=bucket,
        key=key,
        size=_size(document, shape.size),
        etag=_etag(document, shape.etag),
        event_ts=_unix_seconds(document, shape.time),
        sequencer=_sequencer(document, shape.sequencer),
        version_id=_optional_text(document, shape.version_id),
    )


def _key(document: object, shape: _Shape) -> str:
    if not shape.key_is_encoded:
        return _text(document, shape.key)
    raw = _text(document, shape.key, limit_bytes=None)
    try:
        key = unquote_plus(raw, errors="strict")
    except UnicodeDecodeError:
        raise NotAnS3Event(f"{_dotted(shape.key)} is {_shown(raw)}, which does not decode to UTF-8") from None
    return _checked(key, shape.key)


def _size(document: object, path: tuple[str, ...]) -> int:
    """S3 gives the size with every arrival, 0 included: batches are cut by it, so a missing one is not guessed."""
    size = _value(document, path)
    if isinstance(size, bool) or not isinstance(size, int) or not 0 <= size <= MAX_SIZE:
        raise NotAnS3Event(f"{_dotted(path)} is {_shown(size)}, expected a number of bytes")
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
        raise NotAnS3Event(f"{_dotted(path)} is {_shown(text)}, expected an ISO 8601 time") from None


def _sequencer(document: object, path: tuple[str, ...]) -> str | None:
    sequencer = _optional_text(document, path)
    if sequencer is not None and not HEX.issuperset(sequencer):
        raise NotAnS3Event(f"{_dotted(path)} is {_shown(sequencer)}, expected hexadecimal digits")
    return sequencer


def _optional_text(document: object, path: tuple[str, ...]) -> str | None:
    return _text(document, path) if _value(document, path) not in (None, "") else None


def _text(document: object, path: tuple[str, ...], limit_bytes: int | None = MAX_TEXT_BYTES) -> str:
    value = _value(document, path)
    if not isinstance(value, str) or not value:
        raise NotAnS3Event(f"{_dotted(path)} is {_shown(value)}, expected text")
    return _checked(value, path, limit_bytes)


def _checked(text: str, path: tuple[str, ...], limit_bytes: int | None = MAX_TEXT_BYTES) -> str:
    """JSON can carry half of a surrogate pair, which nothing downstream could encode."""
    try:
        size_bytes = len(text) if text.isascii() else len(text.encode())
    except UnicodeEncodeError:
        raise NotAnS3Event(f"{_dotted(path)} is {_shown(text)}, which is not valid Unicode") from None
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
    return ", ".join(_shown(name) for name in list(document)[:10]) or "nothing at all"


def _shown(value: object) -> str:
    """Short and plain ASCII, whatever it is: containers by kind, because printing a deep one recurses."""
    if isinstance(value, dict | list):
        return "an object" if isinstance(value, dict) else "a list"
    if value is None:
        return "missing"
    text = ascii(value[:80] if isinstance(value, str) else value)
    return text if len(text) <= 120 else f"{text[:120]}..."
