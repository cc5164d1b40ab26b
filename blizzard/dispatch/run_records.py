"""Run records: what the dispatcher knows about a pipeline's job runs, one numbered object for each transition.

Each record is the full state after its transition. A conditional write creates it under the next number. Of two
concurrent dispatchers one writes the record; the other gets AlreadyExists and reads again.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from hashlib import sha256
from types import MappingProxyType
from typing import Any

from blizzard.errors import BucketMissing, NotFound, StorageUnavailable, UnreadableState
from blizzard.storage import json_fields
from blizzard.storage.base import ObjectStore

SCHEMA_VERSION = 1
RECORDS_KEPT = 50
TRIM_SLACK = 10
"""This many more may exist before the oldest are deleted, so that not every new record costs a deletion."""
MAX_READS = 5


class Phase(StrEnum):
    """The phase of a pipeline's newest record."""

    STARTING = "starting"
    """A start is announced. Whether the service received it is not known."""
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    OPEN = "open"
    """The circuit is open after too many failures in a row. No run starts until release or configuration change."""


@dataclass(frozen=True, slots=True)
class SourcePosition:
    """The position of one source when the start of a run was announced."""

    sequence: int
    segment: int
    entry: int
    head: tuple[int, str] | None
    """Number and etag of the last segment at that time. The run examines at least all segments up to it."""
    has_backlog: bool
    """Whether the source's backlog needed a run."""

    def same_position(self, other: "SourcePosition") -> bool:
        """Whether nothing was consumed between the two."""
        return (self.sequence, self.segment, self.entry) == (other.sequence, other.segment, other.entry)


@dataclass(frozen=True, slots=True)
class RunRecord:
    """The state after transition `number`. Times are Unix seconds."""

    number: int
    pipeline: str
    epoch: str
    """A random id from the first record. Another one means that the records were deleted and restarted."""
    attempt: int
    phase: Phase
    fingerprint: str
    """Of the job's release and configuration. When it changes, the cause of earlier failures may be fixed."""
    token_used: bool = False
    """Whether this attempt's token has started a run. The next start then needs a new token."""
    run_id: str | None = None
    failures: int = 0
    """How many runs failed in a row without any progress."""
    not_before_ts: float = 0.0
    started_ts: float | None = None
    ended_ts: float | None = None
    reason: str | None = None
    positions: Mapping[str, SourcePosition] = field(default_factory=lambda: MappingProxyType({}))
    """By source name. Empty for an adopted run: what it examines is not known."""
    written_ts: float = 0.0

    @property
    def client_token(self) -> str:
        """The idempotency token of this attempt's start. All dispatchers compute the same one."""
        pipeline = sha256(self.pipeline.encode()).hexdigest()[:12]
        return f"{self.epoch}-{pipeline}-{self.attempt}"


def encode(record: RunRecord, writer_id: str) -> bytes:
    """The stored JSON. `writer_id` is unique, so that two writers never write the same bytes."""
    document: dict[str, Any] = {
        "schema_version": SCHEMA_VERSION,
        "pipeline": record.pipeline,
        "number": record.number,
        "phase": str(record.phase),
        "run_id": record.run_id,
        "epoch": record.epoch,
        "attempt": record.attempt,
        "spent": record.token_used,
        "fingerprint": record.fingerprint,
        "failures": record.failures,
        "not_before_ts": record.not_before_ts,
        "started_ts": record.started_ts,
        "ended_ts": record.ended_ts,
        "reason": record.reason,
        "progress": {name: _encode_position(start) for name, start in sorted(record.positions.items())},
        "written_ts": record.written_ts,
        "writer": writer_id,
    }
    return json.dumps(document, separators=(",", ":")).encode()


def _encode_position(position: SourcePosition) -> dict[str, Any]:
    return {
        "sequence": position.sequence,
        "segment": position.segment,
        "entry": position.entry,
        "head": list(position.head) if position.head else None,
        "waiting": position.has_backlog,
    }


def decode(data: bytes, *, pipeline: str, number: int) -> RunRecord:
    """Raises UnreadableState unless `data` is record `number` of `pipeline`."""
    try:
        document = json_fields.mapping(json.loads(data))
        found = (document["schema_version"], document["pipeline"], document["number"])
        if found != (SCHEMA_VERSION, pipeline, number):
            raise _unreadable(pipeline, number, f"found schema version, pipeline, number {found}")
        return RunRecord(
            number=number,
            pipeline=pipeline,
            epoch=json_fields.text(document["epoch"]),
            attempt=json_fields.natural(document["attempt"]),
            phase=Phase(document["phase"]),
            fingerprint=json_fields.text(document["fingerprint"]),
            token_used=_flag(document["spent"]),
            run_id=json_fields.optional_text(document["run_id"]),
            failures=json_fields.natural(document["failures"]),
            not_before_ts=json_fields.number(document["not_before_ts"]),
            started_ts=json_fields.optional_number(document["started_ts"]),
            ended_ts=json_fields.optional_number(document["ended_ts"]),
            reason=json_fields.optional_text(document["reason"]),
            positions=MappingProxyType(
                {name: _decode_position(start) for name, start in json_fields.mapping(document["progress"]).items()}
            ),
            written_ts=json_fields.number(document["written_ts"]),
        )
    except json_fields.MALFORMED as error:
        raise _unreadable(pipeline, number, f"{type(error).__name__}: {error}") from error


def _decode_position(position: dict[str, Any]) -> SourcePosition:
    head = position["head"]
    return SourcePosition(
        sequence=json_fields.integer(position["sequence"]),
        segment=json_fields.natural(position["segment"]),
        entry=json_fields.natural(position["entry"]),
        head=None if head is None else (json_fields.natural(head[0]), json_fields.text(head[1])),
        has_backlog=_flag(position["waiting"]),
    )


def _flag(value: object) -> bool:
    if not isinstance(value, bool):
        raise TypeError(f"expected true or false, found {value!r:.80}")
    return value


def _unreadable(pipeline: str, number: int, found: str) -> UnreadableState:
    return UnreadableState(
        f"run record {number} of pipeline {pipeline} cannot be read ({found}; expected schema version "
        f"{SCHEMA_VERSION}). If a newer release wrote it, upgrade the dispatcher. Else delete the folder of the "
        "pipeline's run records: the dispatcher starts new records and adopts a run that is active."
    )


class RunLog:
    """One pipeline's records, below `_blizzard/_runs/{pipeline}/` of the table's store. No source's state is there,
    since names cannot begin with `_`. `new_id` gives a short unique text."""

    def __init__(self, store: ObjectStore, pipeline: str, new_id: Callable[[], str]) -> None:
        self._store = store
        self._pipeline = pipeline
        self._new_id = new_id
        self._folder = f"_blizzard/_runs/{pipeline}/"
        self._first_known = 0
        """A record that is there, or was: older ones are trimmed. In a versioned bucket a listing of all of them passes
        their delete markers."""

    def latest(self) -> RunRecord | None:
        """None before the first record, and after all were deleted. Raises UnreadableState; and StorageUnavailable if
        the listed record was deleted before it could be read, MAX_READS times: whether one exists is then unknown."""
        for _ in range(MAX_READS):
            numbers = self._numbers()
            if not numbers:
                return None
            try:
                return decode(self._store.get(self._key(numbers[-1])), pipeline=self._pipeline, number=numbers[-1])
            except NotFound:
                continue  # deleted, or trimmed after many newer records
        raise StorageUnavailable(
            f"the newest run record of pipeline {self._pipeline} was deleted before it could be read, {MAX_READS} "
            "times in a row. Stop whatever deletes run records, and try again; until then no run is started."
        )

    def append(self, record: RunRecord, *, now_ts: float) -> RunRecord:
        """Create the record under its number. Raises AlreadyExists if another dispatcher has."""
        written = replace(record, written_ts=now_ts)
        self._store.create(self._key(record.number), encode(written, self._new_id()))
        return written

    def trim(self) -> int:
        """Delete all but the last RECORDS_KEPT records. Returns how many were deleted."""
        numbers = self._numbers()
        if len(numbers) <= RECORDS_KEPT + TRIM_SLACK:
            return 0
        gone = numbers[:-RECORDS_KEPT]
        self._store.delete(self._key(number) for number in gone)
        self._first_known = numbers[-RECORDS_KEPT]
        return len(gone)

    def _numbers(self) -> list[int]:
        try:
            numbers = self._numbers_from(self._first_known) or self._numbers_from(0)
        except BucketMissing:
            return []
        self._first_known = numbers[0] if numbers else 0
        return numbers

    def _numbers_from(self, first: int) -> list[int]:
        after = self._key(first - 1) if first else self._folder
        keys = [info.key for info in self._store.list(self._folder, start_after=after, recursive=False)]
        numbers = (self._number(key) for key in keys)
        return [number for number in numbers if number is not None]

    def _number(self, key: str) -> int | None:
        """None for an object whose name is not that of a record."""
        name = key.removeprefix(self._folder).removesuffix(".json")
        number = int(name) if name.isascii() and name.isdigit() else -1
        return number if key == self._key(number) else None

    def _key(self, number: int) -> str:
        return f"{self._folder}{number:020d}.json"
