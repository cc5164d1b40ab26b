"""Checks of one message, segment, checkpoint or configuration; each raises Failed."""

import json
import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from blizzard.collect import messages as events
from blizzard.collect.collector import Message, collect
from blizzard.collect.messages import FileArrived, Ignored, NotAnS3Event
from blizzard.collect.routing import Route, Router
from blizzard.config.load import LoadResult, read_config
from blizzard.config.published import read_published
from blizzard.errors import ConfigError, UnreadableState
from blizzard.manifest import segment_codec
from blizzard.manifest.segments import Entry, Segment
from blizzard.state import checkpoint as states
from tests.proof.bad_input import documents
from tests.proof.bad_input.configurations import CONFIG, OBJECTS
from tests.proof.campaign import Failed

MOST_SECS = 10.0
"""Processor time for one document: a hostile one must not occupy a function until its timeout."""
MOST_TEXT = 2_000


@dataclass(frozen=True, slots=True)
class Decoders:
    """The product's decoders; a variant replaces one of them."""

    message: Callable[[str], list[events.Event]] = events.parse_message
    segment: Callable[..., Segment] = segment_codec.decode_segment
    checkpoint: Callable[..., states.Checkpoint] = states.decode
    config: Callable[..., LoadResult] = read_config


def _said(what: str, text: str) -> str:
    """Checks the text of an error, which people read in logs and terminals."""
    if not 0 < len(text) <= MOST_TEXT:
        raise Failed(f"{what}: an error of {len(text)} characters; expected 1 to {MOST_TEXT}")
    return text


@contextmanager
def bounded(what: str) -> Iterator[None]:
    """Any error other than Failed is a crash, and so is a call that takes too long."""
    began = time.process_time()
    try:
        yield
    except Failed:
        raise
    except Exception as error:
        raise Failed(f"{what}: crashed with {type(error).__name__}: {error!s:.300}") from error
    if (took := time.process_time() - began) > MOST_SECS:
        raise Failed(f"{what}: took {took:.0f} s of a processor; expected at most {MOST_SECS:g}")


def check_message(decoders: Decoders, body: str) -> list[events.Event] | NotAnS3Event:
    """The message is parsed or refused; a parsed event survives being stored in a segment."""
    with bounded("a message"):
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
    again = segment_codec.decode_segment(segment_codec.encode_segment(segment, "a:b"), "a:b", documents.REF)
    if again != segment:
        raise Failed(f"an arrival that its segment does not hold: {event!a:.300} became {again.entries!a:.300}")


def _entry_of(event: FileArrived) -> Entry:
    return Entry(
        event.key, event.size, event.etag, event.event_ts, version_id=event.version_id, sequencer=event.sequencer
    )


def check_queue(decoders: Decoders, bodies: list[str]) -> tuple[int, int]:
    """Collects a batch of messages with good ones among them: no good one stays in the queue, no bad one leaves it.
    Returns the number of appended files and of remaining messages."""
    appended: list[str] = []

    def append(source_id: str, entries: Any) -> int:
        appended.extend(entry.path for entry in entries)
        return 7

    good = [f"good-{number}" for number in range(3)]
    messages = [Message(f"bad-{number}", body) for number, body in enumerate(bodies)]
    messages += [Message(name, documents.put(name)) for name in good]
    with bounded("a batch of messages"):
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
    """None if it is refused."""
    with bounded("a segment"):
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
            segment_codec.decode_segment(
                segment_codec.encode_segment(segment, documents.SOURCE_ID), documents.SOURCE_ID, documents.REF
            )
            != segment
        ):
            raise Failed("a segment that is another one when it is written again")
        return segment


def check_checkpoint(decoders: Decoders, data: str | bytes) -> states.Checkpoint | None:
    """None if it is refused."""
    with bounded("a checkpoint"):
        try:
            state = decoders.checkpoint(data, pipeline="events", source="landing")
        except UnreadableState as error:
            _said("a checkpoint", str(error))
            return None
        document = json.loads(data)
        version = document.get("schema_version", 1)
        owner = (document.get("pipeline", "events"), document.get("source", "landing"))
        if version > 6 or (version >= 3 and owner != ("events", "landing")):
            raise Failed(f"a checkpoint of schema version {version!r:.20} and {owner!r:.80} was believed")
        if states.decode(states.encode(state), pipeline="events", source="landing") != state:
            raise Failed("a checkpoint that is another one when it is written again")
        return state


def check_app_id(app_id: str) -> states.Checkpoint | None:
    """None if it holds no state."""
    with bounded("an app id"):
        return states.decode_app_id(app_id, pipeline="events", source="landing")


def check_config(decoders: Decoders, text: str) -> LoadResult:
    with bounded("a configuration"):
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
    """No configuration makes the loader call anything."""
    for number, (name, of) in enumerate(OBJECTS.items()):
        file = folder / f"made-by-a-configuration-{number}"
        reading = check_config(decoders, CONFIG.replace("1GiB", of(file)))
        if file.exists() or reading.config is not None:
            raise Failed(f"{name} in a configuration was carried out", [of(file)])
    return len(OBJECTS)
