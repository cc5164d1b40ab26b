"""Hostile messages, segments and checkpoints, the good documents that they are made of, and their required results."""

import base64
import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from blizzard.manifest.segment_codec import encode_segment
from blizzard.manifest.segments import Closing, Entry, FoundBy, Position, Segment, SegmentRef, SettleMark, Sweep
from blizzard.state.checkpoint import SCHEMA_VERSION, Checkpoint, WatermarkState, encode
from infra.local.processes.checkout import CHECKOUT

SOURCE_ID = "events:landing"
REF = SegmentRef(7, "etag", 100)

# --- Messages ---

SAMPLES: tuple[str, ...] = (
    "s3_put",
    "s3_put_versioned",
    "s3_hostile_key",
    "s3_delete",
    "s3_folder_marker",
    "s3_test_event",
    "sns_wrapped",
    "eventbridge_created",
    "eventbridge_hostile_key",
)


def sample(name: str) -> Any:
    """The body of the one message of a sample, decoded."""
    return json.loads(json.loads((CHECKOUT / "events" / f"{name}.json").read_text())["Records"][0]["body"])


@dataclass(frozen=True, slots=True)
class Message:
    """`key`: of the one object that it announces; None: it is refused, or has no file and is `ignored`."""

    name: str
    body: str
    key: str | None = None
    ignored: bool = False


def put(key: str, **changes: Any) -> str:
    """S3's message of one object; `key` is the encoded key."""
    body = sample("s3_put")
    body["Records"][0]["s3"]["object"] |= {"key": key, **changes}
    return json.dumps(body)


def _with(name: str, value: Any) -> str:
    body = sample("s3_put")
    body["Records"][0][name] = value
    return json.dumps(body)


NO_MESSAGES = {
    "nothing": "",
    "blank": " ",
    "NUL": "\0",
    "half": put("a")[:200],
    "text": '"text"',
    "a list": "[1]",
    "null": "null",
    "NaN": "NaN",
    "an empty object": "{}",
    "records are no list": '{"Records": {"0": {}}}',
    "a record is null": '{"Records": [null]}',
    "a record is a list": '{"Records": [[]]}',
    "100 levels": "[" * 100 + "]" * 100,
    "2000 levels": "[" * 2_000 + "]" * 2_000,
    "100000 levels": '{"Records":' * 100_000,
    "a number of 5000 digits": '{"Records": ' + "9" * 5_000 + "}",
    "SNS of nothing": '{"Type": "Notification", "TopicArn": "a", "Message": ""}',
    "SNS in SNS": json.dumps({"Type": "Notification", "TopicArn": "a", "Message": json.dumps(sample("sns_wrapped"))}),
}
"""Bodies that do not have the structure of an event. All of them must be refused, as must those below."""

NO_OBJECTS = {
    "another service": _with("eventSource", "aws:sqs"),
    "version 3": _with("eventVersion", "3.0"),
    "no time": _with("eventTime", "yesterday"),
    "February 30": _with("eventTime", "2024-02-30T00:00:00Z"),
    "a time that is a number": _with("eventTime", 1706450400),
    "no record's object": _with("s3", []),
    "size below 0": put("a", size=-1),
    "size beyond 64 bits": put("a", size=2**63),
    "size as text": put("a", size="1"),
    "size as a fraction": put("a", size=1.5),
    "size true": put("a", size=True),
    "size NaN": put("a", size=float("nan")),
    "no etag": put("a", eTag='""'),
    "etag as an object": put("a", eTag={"a": "b"}),
    "sequencer of other letters": put("a", sequencer="xyz"),
    "key missing": put("a").replace('"key": "a"', '"other": "a"'),
    "key empty": put(""),
    "key of 1,025 bytes": put("x" * 1_025),
    "key of 513 two-byte letters": put("%C3%A9" * 513),
    "key no UTF-8": put("%ff"),
    "key with a lone surrogate": put("\ud800"),
    "key with an encoded surrogate": put("%ED%A0%80"),
}
"""Events with one wrong field."""

KEYS = {
    "a%0Ab": "a\nb",
    "a%00b": "a\0b",
    "%2E%2E%2Foutside%2Fcanary": "../outside/canary",
    "a%2F%2Fb": "a//b",
    "%252e%252e%252f": "%2e%2e%2f",
    "a%E2%80%AEb": "a\u202eb",
    "x" * 1_024: "x" * 1_024,
    "%zz%": "%zz%",
    "{0.__class__}%25s": "{0.__class__}%s",
    "a+b%2Bc": "a b+c",
}
"""Keys by their encoding in an event."""


def messages() -> Iterator[Message]:
    yield Message("good", put("a.ndjson"), "a.ndjson")
    for name, body in (NO_MESSAGES | NO_OBJECTS).items():
        yield Message(name, body)
    for encoded, key in KEYS.items():
        yield Message(f"key {encoded[:40]}", put(encoded), key)
    yield Message("a folder's marker of two lines", put("a%0A%1B%5B2J%E2%80%AE/"), ignored=True)
    yield Message("Records twice: the last one counts", '{"Records": null, ' + put("b")[1:], "b")
    yield Message("year 1 in the far east", _with("eventTime", "0001-01-01T00:00:00+23:59"), PUT_KEY)
    yield Message("year 9999 in the far west", _with("eventTime", "9999-12-31T23:59:59-23:59"), PUT_KEY)


PUT_KEY = "raw-events/date=2024-01-28/1706450400-01926abc.ndjson.gz"

# --- Segments ---

SEGMENT = Segment(
    number=7,
    entries=(
        Entry("date=1/a", 10, "e1", 1_706_450_400.0),
        Entry("date=1/b", 20, "e2", 1_706_450_401.0, FoundBy.LATE, "version", "0065B6"),
    ),
    sweep=Sweep((SettleMark("date=1", None, "b"),), Closing(None, "date=0"), 1_706_450_000.0, 3, "a>b"),
    previous="before",
    writer_id="sweeper",
    written_ts=1_706_450_402.0,
    etag=REF.etag,
)


def segment_document() -> dict[str, Any]:
    document: dict[str, Any] = json.loads(encode_segment(SEGMENT, SOURCE_ID))
    return document


def _entry(**changes: Any) -> bytes:
    document = segment_document()
    document["entries"][0] |= changes
    return json.dumps(document).encode()


def segments() -> Iterator[tuple[str, bytes]]:
    """All of them must be refused."""
    good = segment_document()
    whole = json.dumps(good).encode()
    yield "nothing", b""
    yield "half", whole[:100]
    yield "two", whole + whole
    yield "NUL bytes", bytes(1_000)
    yield "a list", b"[]"
    yield "100000 levels", b"[" * 100_000
    yield "of another pipeline", encode_segment(SEGMENT, "other:landing")
    yield "of another source", encode_segment(SEGMENT, "events:other")
    yield "of another number", encode_segment(replace(SEGMENT, number=8), SOURCE_ID)
    yield "of a newer format", json.dumps(good | {"format": 2}).encode()
    yield "entries are an object", json.dumps(good | {"entries": {}}).encode()
    yield "an entry is null", json.dumps(good | {"entries": [None]}).encode()
    yield "a sweep is null", json.dumps(good | {"sweep": None}).encode()
    yield "a source's name of a megabyte", json.dumps(good | {"source": "x" * (1 << 20)}).encode()
    yield "a number of 5000 digits", whole.replace(b'"segment": 7', b'"segment": ' + b"7" * 5_000)
    yield "written at infinity", json.dumps(good | {"written_ts": float("inf")}).encode()
    yield "path with a lone surrogate", _entry(path="\ud800")
    yield "path is no text", _entry(path=["a"])
    yield "size beyond 64 bits", _entry(size=2**63)
    yield "size below 0", _entry(size=-1)
    yield "size true", _entry(size=True)
    yield "time NaN", _entry(event_ts=float("nan"))
    yield "time of 400 digits", _entry(event_ts=10**400)
    yield "found by nobody", _entry(found_by="x" * 10_000)


# --- Checkpoints ---

CHECKPOINT = Checkpoint(
    pipeline="events",
    source="landing",
    sequence=42,
    delta_version=117,
    position=Position(90, 1, "etag", 80, "a>b"),
    state=WatermarkState.ACTIVE,
    watermark="date=1/b",
    partition_watermarks={"date=1": "b"},
    closed_through="date=0",
    late_swept_ts=1_706_446_800.0,
    receipt="42-7f3a.json.gz",
    files={"date=1/c": -1, "date=1/d": 5_000},
    last_update_ts=1_706_450_500.0,
)


def checkpoint_document() -> dict[str, Any]:
    document: dict[str, Any] = json.loads(encode(CHECKPOINT))
    return document


def on_a_base(document: dict[str, Any]) -> dict[str, Any]:
    """The checkpoint as what differs from a base."""
    bases = [[f"{7:020d}-7f3a-all.json.gz", "58cd26ff66764b55"]]
    return document | {"schema_version": 5, "bases": bases, "removed_partitions": [], "removed_files": []}


def checkpoints() -> Iterator[tuple[str, str | bytes]]:
    """All of them must be refused."""
    good = checkpoint_document()
    whole = encode(CHECKPOINT)
    yield "nothing", ""
    yield "half", whole[:100]
    yield "two", whole + whole
    yield "UTF-16", whole.encode("utf-16") + b"\xff"
    yield "a list", "[]"
    yield "100000 levels", "[" * 100_000
    yield "of another pipeline", json.dumps(good | {"pipeline": "other"})
    yield "of another source", json.dumps(good | {"source": "other"})
    yield "of a name of a megabyte", json.dumps(good | {"pipeline": "x" * (1 << 20)})
    yield "of the next schema version", json.dumps(good | {"schema_version": SCHEMA_VERSION + 1})
    yield "with a base that nobody has", json.dumps(on_a_base(good))
    yield "on a base, without what is removed", json.dumps(on_a_base(good) | {"removed_files": None})
    yield "on a base outside of its folder", json.dumps(on_a_base(good) | {"bases": [["../../x-all.json.gz", "0"]]})
    yield "on no base", json.dumps(on_a_base(good) | {"bases": []})
    yield "of schema version 10**18", json.dumps(good | {"schema_version": 10**18})
    yield "of schema version true", json.dumps(good | {"schema_version": True})
    yield "of schema version -1", json.dumps(good | {"schema_version": -1})
    yield "of schema version '3'", json.dumps(good | {"schema_version": "3"})
    yield "no manifest", json.dumps(good | {"manifest": None})
    yield "a position beyond 64 bits", json.dumps(good | {"manifest": {"segment": 10**30, "entry": 0}})
    yield "a position below 0", json.dumps(good | {"manifest": {"segment": -1, "entry": 0}})
    yield "sequence beyond 64 bits", json.dumps(good | {"sequence": 2**63})
    yield "sequence as text", json.dumps(good | {"sequence": "42"})
    yield "sequence 42.0", json.dumps(good | {"sequence": 42.0})
    yield "an unknown state", json.dumps(good | {"watermark": {"state": "x" * 10_000}})
    yield "files are a list", json.dumps(good | {"source_state": {"files": ["a"]}})
    yield "a file's state is unknown", json.dumps(good | {"source_state": {"files": {"a": "Started"}}})
    yield "a file read to -5", json.dumps(good | {"source_state": {"files": {"a": {"RecordsRead": -5}}}})
    yield "a path with a lone surrogate", json.dumps(good | {"source_state": {"files": {"\ud800": "Finished"}}})
    yield "swept at NaN", json.dumps(good | {"late_swept_ts": float("nan")})
    yield "nothing of a checkpoint", "{}"


def app_ids() -> Iterator[tuple[str, str]]:
    """App ids of Txns that look like one of the first Blizzard's, but hold no state."""
    for name, text in {"rubbish": b"\xff\xfe", "a list": b"[]", "deep": b"[" * 100_000, "foreign": b'{"a": 1}'}.items():
        yield name, "blizzard:" + base64.b64encode(text).decode()
    yield "no base64", "blizzard:events:landing"
    yield "surrogate", "blizzard:\ud800"
