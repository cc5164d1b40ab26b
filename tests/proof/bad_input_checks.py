"""What must hold of one document, one key, one command; each raises Failed."""

import io
import json
import math
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from blizzard import checkpoint as states
from blizzard import events, manifest
from blizzard.cli import main
from blizzard.cli.progress import Progress
from blizzard.collect import Message, collect
from blizzard.config import Reading, read_config
from blizzard.errors import BlizzardError, ConfigError, StorageError, UnreadableState
from blizzard.events import FileArrived, Ignored, NotAnS3Event
from blizzard.manifest import Segment
from blizzard.published import read_published
from blizzard.routing import Route, Router
from blizzard.storage.base import ObjectStore
from tests.proof import bad_input_documents as documents
from tests.proof.bad_input_configurations import CONFIG, OBJECTS
from tests.proof.bad_input_places import check_log
from tests.proof.campaign import Failed

MOST_SECS = 10.0
"""Of a processor, for one document: a hostile one must not keep a function busy until its time is over."""
MOST_TEXT = 2_000
CANARY = b'{"id": "canary", "n": 1, "kind": "x"}\n'


@dataclass(frozen=True, slots=True)
class Decoders:
    """The product's own; a variant has one of them broken."""

    message: Callable[[str], list[events.Event]] = events.parse_message
    segment: Callable[..., Segment] = manifest.decode_segment
    checkpoint: Callable[..., states.Checkpoint] = states.decode
    config: Callable[..., Reading] = read_config


def _said(what: str, text: str) -> str:
    """An error's text, which people read in logs and terminals."""
    if not 0 < len(text) <= MOST_TEXT:
        raise Failed(f"{what}: an error of {len(text)} characters; expected 1 to {MOST_TEXT}")
    return text


@contextmanager
def _bounded(what: str) -> Iterator[None]:
    """Every other error than Failed is a crash, and so is whoever does not come back."""
    began = time.process_time()
    try:
        yield
    except Failed:
        raise
    except Exception as error:
        raise Failed(f"{what}: crashed with {type(error).__name__}: {error!s:.300}") from error
    if (took := time.process_time() - began) > MOST_SECS:
        raise Failed(f"{what}: took {took:.0f} s of a processor; expected at most {MOST_SECS:g}")


# --- Decoders ---


def check_message(decoders: Decoders, body: str) -> list[events.Event] | NotAnS3Event:
    """Understood or refused; what is understood can be kept in a segment and comes back from it."""
    with _bounded("a message"):
        try:
            found = decoders.message(body)
        except NotAnS3Event as error:
            if not _said("a message", str(error)).isprintable():
                raise Failed(f"a message: its error has control characters: {str(error)!a:.300}") from None
            return error
        for event in found:
            _check_event(event)
        return found


def _check_event(event: events.Event) -> None:
    if isinstance(event, Ignored):
        if not event.detail.isprintable():
            raise Failed(f"an ignored event has control characters: {event.detail!a:.300}")
        return
    sound = (
        0 < len(event.key.encode()) <= 1024
        and 0 <= event.size < 2**63
        and math.isfinite(event.event_ts)
        and event.etag
        and not event.key.endswith("/")
    )
    if not sound:
        raise Failed(f"an arrival that no object can be: {event!a:.400}")
    segment = Segment(7, (_entry_of(event),), None, None, "collector", 0.0, "etag")
    again = manifest.decode_segment(manifest.encode_segment(segment, "a:b"), "a:b", documents.REF)
    if again != segment:
        raise Failed(f"an arrival that its segment does not hold: {event!a:.300} became {again.entries!a:.300}")


def _entry_of(event: FileArrived) -> manifest.Entry:
    return manifest.Entry(
        event.key, event.size, event.etag, event.event_ts, version_id=event.version_id, sequencer=event.sequencer
    )


def check_queue(decoders: Decoders, bodies: list[str]) -> tuple[int, int]:
    """A batch of messages with good ones among them: nothing that is good stays in the queue, nothing that is bad goes.
    How many files were appended and how many messages stay."""
    appended: list[str] = []

    def append(source_id: str, entries: Any) -> int:
        appended.extend(entry.path for entry in entries)
        return 7

    good = [f"good-{number}" for number in range(3)]
    messages = [Message(f"bad-{number}", body) for number, body in enumerate(bodies)]
    messages += [Message(name, documents.put(name)) for name in good]
    with _bounded("a batch of messages"):
        result = collect(messages, Router([Route("events:landing", "s3://landing/", str.isprintable)]), append)
    for event in result.ignored:
        _check_event(event)
    stays = set(result.failed_message_ids)
    refused = {m.message_id for m in messages if isinstance(check_message(decoders, m.body), NotAnS3Event)}
    if stays != refused:
        raise Failed(f"messages that stay {sorted(stays)[:5]}; expected those that are refused {sorted(refused)[:5]}")
    if not set(good) <= set(appended):
        raise Failed(f"good messages beside bad ones were not appended: {sorted(set(good) - set(appended))}")
    return len(appended), len(stays)


def check_segment(decoders: Decoders, data: bytes) -> Segment | None:
    """None: refused."""
    with _bounded("a segment"):
        try:
            segment = decoders.segment(data, documents.SOURCE_ID, documents.REF)
        except UnreadableState as error:
            _said("a segment", str(error))
            return None
        document = json.loads(data)
        if (document["format"], document["source"], document["segment"]) != (
            1,
            documents.SOURCE_ID,
            documents.REF.number,
        ):
            raise Failed(f"a segment of {document['source']!r:.80}, {document['segment']!r:.20} was believed")
        if (
            manifest.decode_segment(
                manifest.encode_segment(segment, documents.SOURCE_ID), documents.SOURCE_ID, documents.REF
            )
            != segment
        ):
            raise Failed("a segment that is another one when it is written again")
        return segment


def check_checkpoint(decoders: Decoders, data: str | bytes) -> states.Checkpoint | None:
    """None: refused."""
    with _bounded("a checkpoint"):
        try:
            state = decoders.checkpoint(data, pipeline="events", source="landing")
        except UnreadableState as error:
            _said("a checkpoint", str(error))
            return None
        document = json.loads(data)
        version = document.get("schema_version", 1)
        owner = (document.get("pipeline", "events"), document.get("source", "landing"))
        if version > 3 or (version == 3 and owner != ("events", "landing")):
            raise Failed(f"a checkpoint of schema version {version!r:.20} and {owner!r:.80} was believed")
        if states.decode(states.encode(state), pipeline="events", source="landing") != state:
            raise Failed("a checkpoint that is another one when it is written again")
        return state


def check_app_id(app_id: str) -> states.Checkpoint | None:
    """None: it holds no state."""
    with _bounded("an app id"):
        return states.decode_app_id(app_id, pipeline="events", source="landing")


def check_config(decoders: Decoders, text: str) -> Reading:
    with _bounded("a configuration"):
        reading = decoders.config(text, {}, name="pipelines.yaml", folder=None)
        if (reading.config is None) != bool(reading.problems):
            raise Failed("a configuration with problems, or none without one")
        for problem in map(str, reading.problems):
            if not _said("a configuration", problem).isprintable():
                raise Failed(f"a problem with control characters: {problem!a:.300}")
            if "secret" in problem:
                raise Failed(f"a problem that prints a password: {problem!a:.300}")
        with suppress(ConfigError):
            read_published(text, "pipelines.json")
    return reading


def check_objects(decoders: Decoders, folder: Path) -> int:
    """No configuration makes a loader call anything."""
    for number, (name, of) in enumerate(OBJECTS.items()):
        file = folder / f"made-by-a-configuration-{number}"
        reading = check_config(decoders, CONFIG.replace("1GiB", of(file)))
        if file.exists() or reading.config is not None:
            raise Failed(f"{name} in a configuration was carried out", [of(file)])
    return len(OBJECTS)


# --- Commands ---


def command(*words: str) -> tuple[int, str]:
    """Exit code, and all that a command printed."""
    printed = io.StringIO()
    with redirect_stdout(printed), redirect_stderr(printed):
        code = main(words)
    return code, printed.getvalue()


def check_validate(folder: Path, name: str, text: str) -> None:
    """2, each problem a line without control characters."""
    file = folder / "pipelines.yaml"
    file.write_bytes(text.encode(errors="surrogatepass"))
    with _bounded(f"validate {name}"):
        code, printed = command("validate", str(file))
    file.unlink()
    if code != 2 or not printed.endswith("\n"):
        raise Failed(f"validate of a configuration with {name}: exit code {code}; expected 2")
    if strange := [line for line in printed.split("\n")[:-1] if not line.isprintable()]:
        raise Failed(f"validate of a configuration with {name} prints {strange[0]!a:.200}")


def check_status(folder: Path, name: str, copy: str | bytes) -> None:
    """Of a source whose copy of the checkpoint is hostile: 1, and what is the matter."""
    state = folder / "table" / "_blizzard"
    (state / "events_landing" / "pending").mkdir(parents=True, exist_ok=True)
    (folder / "landing").mkdir(exist_ok=True)
    (state / "events_landing_checkpoint.json").write_bytes(
        copy.encode(errors="surrogatepass") if isinstance(copy, str) else copy
    )
    for number, (_, data) in enumerate(documents.segments()):
        (state / "events_landing" / "pending" / f"{number:020d}.json").write_bytes(data)
    source = {"uri": str(folder / "landing"), "schema": "id STRING"}
    file = folder / "pipelines.yaml"
    pipeline = {"table_uri": str(folder / "table"), "sources": {"landing": source}}
    file.write_text(json.dumps({"pipelines": {"events": pipeline}}))
    with _bounded(f"status of {name}"):
        code, printed = command("status", str(file))
    if code != 1 or "checkpoint" not in printed:
        raise Failed(
            f"status with a checkpoint of {name}: exit code {code}; expected 1 and the reason: {printed!a:.300}"
        )


def check_view(key: str) -> None:
    """What `blizzard run` shows of a file with this key is one line that moves no cursor."""
    printed = io.StringIO()
    with redirect_stdout(printed), redirect_stderr(printed):
        progress = Progress()
        error = f"{key}: found nothing"
        progress.show({"event": "file_dead_lettered", "source": "a:b", "path": key, "stage": "parse", "error": error})
    line, end = printed.getvalue()[:-1], printed.getvalue()[-1:]
    if not line.isprintable() or end != "\n" or not line.startswith("a:b: dead-lettered "):
        raise Failed(f"a terminal is shown {printed.getvalue()!a:.300}")


# --- Places and lines ---


def check_store(store: ObjectStore, key: str) -> None:
    """Nothing outside of a local store's root is read, written or removed, whatever the key. The caller compares the
    tree; that nothing was read is seen here."""

    def write() -> None:
        with store.writer(key) as writer:
            writer.write(b"x")

    def read() -> bytes:
        with store.open(key) as reader:
            return reader.read()

    calls: Mapping[str, Callable[[], Any]] = {
        "get": lambda: store.get(key),
        "open": read,
        "head": lambda: store.head(key),
        "list": lambda: [*store.list(key)],
        "list_folders": lambda: [*store.list_folders(key)],
        "create": lambda: store.create(key, b"x"),
        "put": lambda: store.put(key, b"x"),
        "writer": write,
        "delete": lambda: store.delete([key]),
    }
    for name, call in calls.items():
        with _bounded(f"{name} of {key!a:.100}"), suppress(StorageError):
            answer = call()
            if answer == CANARY or (name in ("head", "list") and answer and "canary" in str(answer) and ".." in key):
                raise Failed(f"{name} of {key!a:.100} reads what lies outside of the root")


def check_events(log: Callable[..., object], said: io.StringIO, texts: list[str]) -> None:
    """Of events with hostile fields each is one line."""
    for text in texts:
        log("object_skipped", key=text, reason=text)
        log("source_failed", error=BlizzardError(text), source=text)
    check_log(said.getvalue().split("\n"), ["object_skipped", "source_failed"] * len(texts))


def linked(folder: Path) -> None:
    """Ways out of a root, for the store to refuse."""
    for name, target in {"link": "../outside", "link.ndjson": "../outside/canary.ndjson", "self": "."}.items():
        (folder / name).symlink_to(target)
