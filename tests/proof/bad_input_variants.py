"""What is broken on purpose around the reader, the decoders and the log, so that the campaign can show that it would
find it."""

import io
import json
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from blizzard import checkpoint, events
from blizzard.config import Reading, read_config
from blizzard.dead_letters import DeadLetter, DeadLetters
from blizzard.errors import StorageError
from blizzard.manifest import Segment, SegmentRef, decode_segment
from blizzard.storage.local import LocalStore
from spark_job.decode import Limits
from tests.proof.bad_input_checks import Decoders
from tests.proof.bad_input_reader import Parts


@dataclass(frozen=True, slots=True)
class Surroundings:
    """All that a round works with."""

    parts: Parts = field(default_factory=Parts)
    decoders: Decoders = field(default_factory=Decoders)


class _SilentLetters(DeadLetters):
    """Drops bad records."""

    def put_records(self, letters: Iterable[DeadLetter], now_ts: float) -> int:
        return sum(1 for _ in letters)


class _LettersByKey(DeadLetters):
    """Files them under the key as it is."""

    def folder_of(self, path: str, etag: str) -> str:
        return f"{self._folder}{path}-{etag}/"


class _OpenStore(LocalStore):
    """Takes every key for a path, wherever it leads."""

    def _path(self, key: str) -> Path:
        if "\0" in key or not key:
            raise StorageError("no name of a file")
        return self._root / key


def _raw_log(stream: io.StringIO) -> Callable[..., None]:
    def log(event: str, /, **fields: object) -> None:
        values = ", ".join(f'"{name}": "{value}"' for name, value in fields.items())
        stream.write(f'{{"event": "{event}", {values}}}\n')

    return log


def _trusting_message(body: str) -> list[events.Event]:
    """Takes what looks like an event for one."""
    with suppress(ValueError, RecursionError):
        document = json.loads(body)
        if isinstance(document, dict) and "Records" in document:
            return [_trusted(record) for record in document["Records"]]
    return events.parse_message(body)


def _trusted(record: Any) -> events.Event:
    stored = record["s3"]["object"]
    return events.FileArrived(record["s3"]["bucket"]["name"], stored["key"], stored["size"], stored["eTag"], 0.0)


def _any_segment(data: bytes, source_id: str, ref: SegmentRef) -> Segment:
    """Whosever it is."""
    with suppress(ValueError, TypeError, RecursionError):
        document = json.loads(data)
        data = json.dumps({**document, "source": source_id, "segment": ref.number}).encode()
    return decode_segment(data, source_id, ref)


def _any_checkpoint(text: str | bytes, *, pipeline: str, source: str) -> checkpoint.Checkpoint:
    """Whatever its version."""
    with suppress(ValueError, TypeError, RecursionError):
        document = json.loads(text)
        if document["schema_version"] > checkpoint.SCHEMA_VERSION:
            text = json.dumps({**document, "schema_version": checkpoint.SCHEMA_VERSION})
    return checkpoint.decode(text, pipeline=pipeline, source=source)


def _building(text: str, environ: Mapping[str, str], *, name: str, folder: str | None) -> Reading:
    """As the loader that many programs use would: a tag calls what it names."""
    tag = "!!python/object/apply:os.mkdir ["
    if tag in text:
        Path(json.loads(text[text.index(tag) + len(tag) - 1 :].partition("\n")[0].partition("]")[0] + "]")[0]).mkdir()
    return read_config(text, environ, name=name, folder=folder)


_NO_LIMITS = Limits(1 << 40, 1 << 40)
_SOUND, _DECODERS = Parts(), Decoders()

VARIANTS: Mapping[str, tuple[str, Surroundings]] = {
    "bad records are dropped": (
        "a record is in no row and in no letter",
        Surroundings(replace(_SOUND, letters=_SilentLetters)),
    ),
    "a store lets `..` out of its root": (
        "a file outside is read, and others are written there",
        Surroundings(replace(_SOUND, store=_OpenStore)),
    ),
    "letters are filed under the key as it is": (
        "a key that climbs, or is too long, cannot be filed",
        Surroundings(replace(_SOUND, letters=_LettersByKey)),
    ),
    "a log writes the text as it is": (
        "a key with an end of line is two lines",
        Surroundings(replace(_SOUND, log=_raw_log)),
    ),
    "a decoder has no bound": (
        "a bomb is taken as sound, and takes its size of memory",
        Surroundings(replace(_SOUND, limits=_NO_LIMITS)),
    ),
    "an event is believed as it looks": (
        "a record of another shape is a crash, a key of 1,025 bytes an arrival",
        Surroundings(decoders=replace(_DECODERS, message=_trusting_message)),
    ),
    "a segment of another source is believed": (
        "it is taken for one of this source",
        Surroundings(decoders=replace(_DECODERS, segment=_any_segment)),
    ),
    "a checkpoint of a newer version is believed": (
        "what it says in fields that nobody knows is ignored",
        Surroundings(decoders=replace(_DECODERS, checkpoint=_any_checkpoint)),
    ),
    "a configuration builds objects": (
        "a folder is made by a tag",
        Surroundings(decoders=replace(_DECODERS, config=_building)),
    ),
}
"""Each with how it shows here."""
