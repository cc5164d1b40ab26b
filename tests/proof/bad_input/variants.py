"""Deliberate faults around the reader, the decoders and the log, which the campaign must find."""

import io
import json
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
from ruamel.yaml import YAML

from blizzard.collect import messages as events
from blizzard.config.load import LoadResult, read_config
from blizzard.errors import StorageError
from blizzard.manifest.segment_codec import decode_segment
from blizzard.manifest.segments import Segment, SegmentRef
from blizzard.state import checkpoint
from blizzard.state.dead_letters import DeadLetter, DeadLetters
from blizzard.storage.local import LocalStore
from spark_job.formats.json.format import NdjsonFormat
from spark_job.formats.lines import LineBlock
from spark_job.formats.protocol import Limits, Parsed
from spark_job.tasks.decided_records import RefusedByTasks
from tests.proof.bad_input.decoders import Decoders
from tests.proof.bad_input.reader import Parts
from tests.proof.campaign import Fault


@dataclass(frozen=True, slots=True)
class Surroundings:
    """Everything that a round works with; a variant replaces a part."""

    parts: Parts = field(default_factory=Parts)
    decoders: Decoders = field(default_factory=Decoders)


class _SilentLetters(DeadLetters):
    """Drops bad records."""

    def write_records(self, letters: Iterable[DeadLetter], now_ts: float) -> int:
        return sum(1 for _ in letters)


class _SilentAboutFiles(DeadLetters):
    """Drops bad files."""

    def write_file(self, letter: DeadLetter, now_ts: float) -> None:
        """Pretends to store it."""


class _Uncounted(RefusedByTasks):
    """Stores dead letters for bad records, and reports that there were none."""

    def __init__(self, lines: pa.Table) -> None:
        super().__init__(lines)
        self.refused = Counter[str]()


class _Lenient(NdjsonFormat):
    """A number that does not fit its column is null."""

    def parse(self, blocks: Sequence[LineBlock]) -> Parsed:
        return super().parse([replace(block, data=_lenient(block.data)) for block in blocks])


def _lenient(lines: bytes) -> bytes:
    return b"\n".join(map(_without_misfit, lines.split(b"\n")))


def _without_misfit(line: bytes) -> bytes:
    with suppress(ValueError, RecursionError):
        record = json.loads(line)
        if isinstance(record, dict) and type(record.get("n", 0)) is not int:
            return json.dumps({**record, "n": None}).encode()
    return line


class _LettersByKey(DeadLetters):
    """Stores them under the key as it is."""

    def dead_letter_folder(self, path: str, etag: str) -> str:
        return f"{self._folder}{path}-{etag}/"


class _OpenStore(LocalStore):
    """Uses every key as a path, wherever it leads."""

    def _path(self, key: str) -> Path:
        if "\0" in key or not key:
            raise StorageError("no name of a file")
        return self._root / key


def _raw_log(stream: io.StringIO) -> Callable[..., None]:
    def log(event: str, /, **fields: object) -> None:
        values = ", ".join(f'"{name}": "{value}"' for name, value in fields.items())
        stream.write(f'{{"event": "{event}", {values}}}\n')

    return log


def _unchecked_message(body: str) -> list[events.Event]:
    """Accepts anything with `Records` as an event, without a check."""
    with suppress(ValueError, RecursionError):
        document = json.loads(body)
        if isinstance(document, dict) and "Records" in document:
            return [_unchecked_event(record) for record in document["Records"]]
    return events.parse_message(body)


def _unchecked_event(record: Any) -> events.Event:
    stored = record["s3"]["object"]
    return events.FileArrived(record["s3"]["bucket"]["name"], stored["key"], stored["size"], stored["eTag"], 0.0)


def _any_segment(data: bytes, source_id: str, ref: SegmentRef) -> Segment:
    """Accepts a segment of any source."""
    with suppress(ValueError, TypeError, RecursionError):
        document = json.loads(data)
        data = json.dumps({**document, "source": source_id, "segment": ref.number}).encode()
    return decode_segment(data, source_id, ref)


def _any_checkpoint(text: str | bytes, *, pipeline: str, source: str) -> checkpoint.Checkpoint:
    """Accepts a checkpoint of any version."""
    with suppress(ValueError, TypeError, RecursionError):
        document = json.loads(text)
        if document["schema_version"] > checkpoint.SCHEMA_VERSION:
            text = json.dumps({**document, "schema_version": checkpoint.WITHOUT_BASES_VERSION})
    return checkpoint.decode(text, pipeline=pipeline, source=source)


def _building(text: str, environ: Mapping[str, str], *, name: str, folder: str | None) -> LoadResult:
    """As the loader that many programs use: a YAML tag calls what it names."""
    if "!!python" in text:
        with suppress(Exception), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it is deprecated, for what is shown here
            YAML(typ="unsafe").load(text)
    return read_config(text, environ, name=name, folder=folder)


_NO_LIMITS = Limits(1 << 40, 1 << 40)
_SOUND, _DECODERS = Parts(), Decoders()

CONTAINERS = "hostile files by name: what compresses them"
LINES = "hostile files by name: lines"
VALUES = "hostile files by name: values"
TEXTS = "hostile files by name: text"
KEYS = "hostile keys"
STORE = "a local store and hostile keys"
LOG = "a log and hostile texts"
DOCUMENTS = "messages, segments and checkpoints by name"
CONFIGURATIONS = "configurations by name"
MEMORY = "bombs, in processes of their own"
"""The parts of the list."""


@dataclass(frozen=True, slots=True)
class Broken:
    """A deliberate fault. `shows_at`: the part of the list to try first."""

    fault: Fault
    shows_at: str
    around: Surroundings


VARIANTS: Mapping[str, Broken] = {
    "bad records are dropped": Broken(
        Fault("a record is in no row and in no dead letter", r"is in 0 rows, 0 letters, 0 lines"),
        KEYS,
        Surroundings(replace(_SOUND, letters=_SilentLetters)),
    ),
    "a dead file is dropped": Broken(
        Fault("none of its records is a row, and no dead letter says why", r"^'.*': 0 dead letters; expected one"),
        KEYS,
        Surroundings(replace(_SOUND, letters=_SilentAboutFiles)),
    ),
    "dead records are not counted": Broken(
        Fault(
            "a file has more letters than its outcome counts", r"counted as 3 rows and 0 dead records; expected 2 and 1"
        ),
        KEYS,
        Surroundings(replace(_SOUND, refused=_Uncounted)),
    ),
    "a value that does not fit is null": Broken(
        Fault("the record is a row, and a value of it is gone", r"n is null in its row, and .* in the record"),
        VALUES,
        Surroundings(replace(_SOUND, ndjson=_Lenient)),
    ),
    "a store lets `..` out of its root": Broken(
        Fault("a file outside is read, and others are written there", r"outside of (its|the) (root|source)"),
        STORE,
        Surroundings(replace(_SOUND, store=_OpenStore)),
    ),
    "letters are filed under the key as it is": Broken(
        Fault(
            "a key that climbs, or is too long, cannot be filed",
            r"^the batch crashed with StorageError: .*dead_letters.*expected a relative path",
        ),
        KEYS,
        Surroundings(replace(_SOUND, letters=_LettersByKey)),
    ),
    "a log writes the text as it is": Broken(
        Fault("a key with an end of line is two lines", r"^the log has \d+ lines; expected \d+"),
        LOG,
        Surroundings(replace(_SOUND, log=_raw_log)),
    ),
    "a decoder has no bound": Broken(
        Fault(
            "a bomb is taken as sound, and takes its size of memory",
            r"taken as sound, though a plain reading finds a fault|takes \d{3,} MiB; expected",
        ),
        CONTAINERS,
        Surroundings(replace(_SOUND, limits=_NO_LIMITS)),
    ),
    "an event is believed as it looks": Broken(
        Fault(
            "a record of another shape is a crash, a key of 1,025 bytes an arrival",
            r"^a message: crashed with|^an arrival that no object can be|^a message \(.*\) gave",
        ),
        DOCUMENTS,
        Surroundings(decoders=replace(_DECODERS, message=_unchecked_message)),
    ),
    "a segment of another source is believed": Broken(
        Fault(
            "its entries are treated as this source's",
            r"^a segment \(of another pipeline\) was believed|^a segment of '",
        ),
        DOCUMENTS,
        Surroundings(decoders=replace(_DECODERS, segment=_any_segment)),
    ),
    "a checkpoint of a newer version is believed": Broken(
        Fault(
            "what it says in fields that nobody knows is ignored",
            r"^a checkpoint \(of the next schema version\) was believed|^a checkpoint of schema version",
        ),
        DOCUMENTS,
        Surroundings(decoders=replace(_DECODERS, checkpoint=_any_checkpoint)),
    ),
    "a configuration builds objects": Broken(
        Fault("a folder is made by a tag", r"^a call in a configuration was carried out"),
        CONFIGURATIONS,
        Surroundings(decoders=replace(_DECODERS, config=_building)),
    ),
}
"""By name."""
