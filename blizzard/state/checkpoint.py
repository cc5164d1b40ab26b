"""The checkpoint: the state of one source, stored in each Delta commit, and its JSON."""

import base64
import binascii
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from types import MappingProxyType
from typing import Any

from blizzard.errors import PermanentError, UnreadableState
from blizzard.manifest.segments import Position
from blizzard.state import base
from blizzard.state.base import BaseOf, BaseRef, Difference, Settled, difference, no_base
from blizzard.state.identity import APP_ID_PREFIX
from blizzard.state.run_ref import RunRef, decode_ref, encode_ref
from blizzard.storage import json_fields

SCHEMA_VERSION = 6
"""Of the last checkpoint of a source in a table that was moved. Programs that read only version 5 must not take it for
one to continue from."""
WITH_BASES_VERSION = 5
"""Of a checkpoint that names bases. Programs that read only version 4 must not take it for a whole one."""
WITHOUT_BASES_VERSION = 4
BEFORE_LEDGER_VERSION = 3
"""Schema version of states that decided by themselves which files are settled. They name ingested files, and a late
sweep settled what it had seen below a watermark."""
COMMITTER_APP_ID_PREFIX = "penguin-"
COMMITTERS_VERSION = 2
"""Schema version of states of Penguin, the committer of the first Blizzard. They track the table's Parquet files, not a
source's files. The first Blizzard kept the source's state in a file, where the checkpoint's copy is now."""
_LEGACY_PARTS = frozenset({"source_state", "watermark", "partition_watermarks"})
_ONLY_WITH_BASES = ("bases", "removed_partitions", "removed_files")
_LEFT_OUT_IF_NONE = ("history", "schema_change", "moved_to")

FINISHED = base.FINISHED
"""In `Checkpoint.files`: the whole file is committed. Any other value is the number of records read so far."""


class WatermarkState(StrEnum):
    """Initial: there is no watermark yet. Active: the newest commit had files. Idle: it had none."""

    INITIAL = "Initial"
    ACTIVE = "Active"
    IDLE = "Idle"


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The state of one source after commit `sequence`, which is also its Txn version in the Delta log."""

    pipeline: str
    source: str
    sequence: int = -1
    delta_version: int = -1
    """The table version on which the batch was planned."""
    position: Position = field(default_factory=Position)
    state: WatermarkState = WatermarkState.INITIAL
    watermark: str | None = None
    """Highest settled path. Only for display; decisions use `partition_watermarks`."""
    partition_watermarks: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """By partition: the file name up to which (inclusive) all files are settled."""
    bases: tuple[BaseRef, ...] = ()
    """Stored objects that have most of `partition_watermarks` and `files`, oldest first, so that commits need not;
    none if there are few partitions."""
    closed_through: str | None = None
    late_swept_ts: float | None = None
    before_ledger_ts: float | None = None
    """The late sweep of the state from which this source was taken over, or upgraded. The ledger may lack files at or
    below a watermark that arrived before it, minus the overlap of late sweeps: they are settled. None: it has all."""
    receipt: str | None = None
    ledger: tuple[RunRef, ...] = ()
    """The runs of the ledger, ascending. Commits after the last of them are in receipts only."""
    history: str | None = None
    """The index of the packs that have what older receipts say. Only for questions."""
    schema_change: str | None = None
    """The record of the newest change of the table's schema that a commit of this source has made."""
    files: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    """Files in progress, by path: the number of records read so far of a file that is read in slices. A state from
    before the ledger also has committed files (FINISHED), until a watermark passes them."""
    last_update_ts: float = 0.0
    moved_to: str | None = None
    """The URI of the table that has taken this one's place: no job commits to this one any more."""

    @property
    def settled(self) -> Settled:
        """What bases can hold of it."""
        return Settled(self.partition_watermarks, self.files)

    @property
    def about_move(self) -> str | None:
        """That the table has moved, and what to do; None: it has not."""
        if self.moved_to is None:
            return None
        return (
            f"table {self.moved_to} has taken the place of this one, which gets no more rows; change `table_uri`, "
            "publish and deploy"
        )

    @property
    def in_progress(self) -> dict[str, int]:
        """Files that are committed in part, with the number of records read."""
        return {path: read for path, read in self.files.items() if read != FINISHED}

    @property
    def has_files(self) -> bool:
        """Whether it has any information about ingested files."""
        return bool(self.files or self.partition_watermarks)


class BaseUnreadable(UnreadableState):
    """A checkpoint is readable, but not one of the bases that it names. `rest`: all but what its bases hold."""

    def __init__(self, message: str, rest: Checkpoint) -> None:
        super().__init__(message)
        self.rest = rest


def encode(checkpoint: Checkpoint, change: Difference | None = None) -> str:
    """The JSON for the commit's `userMetadata` and for the copy. `change`: how it differs from its bases; only
    needed if it names any."""
    if change is None:
        if checkpoint.bases:
            raise ValueError("a checkpoint with bases needs the difference from them")
        change = difference(Settled(), checkpoint.settled)
    lists = base.encode_difference(change)
    watermark: dict[str, Any] = {"state": str(checkpoint.state)}
    if checkpoint.watermark is not None:
        watermark["value"] = checkpoint.watermark
    document = {
        "schema_version": _version(checkpoint),
        "pipeline": checkpoint.pipeline,
        "source": checkpoint.source,
        "sequence": checkpoint.sequence,
        "delta_version": checkpoint.delta_version,
        "manifest": asdict(checkpoint.position),
        "watermark": watermark,
        "bases": [base.encode_ref(ref) for ref in checkpoint.bases],
        "partition_watermarks": lists["partition_watermarks"],
        "removed_partitions": lists["removed_partitions"],
        "closed_through": checkpoint.closed_through,
        "late_swept_ts": checkpoint.late_swept_ts,
        "before_ledger_ts": checkpoint.before_ledger_ts,
        "receipt": checkpoint.receipt,
        "ledger": [encode_ref(ref) for ref in checkpoint.ledger],
        "history": checkpoint.history,
        "schema_change": checkpoint.schema_change,
        "source_state": lists["source_state"],
        "removed_files": lists["removed_files"],
        "last_update_ts": checkpoint.last_update_ts,
        "moved_to": checkpoint.moved_to,
    }
    left_out = {name for name in _LEFT_OUT_IF_NONE if document[name] is None}
    left_out.update(() if checkpoint.bases else _ONLY_WITH_BASES)
    kept = {name: value for name, value in document.items() if name not in left_out}
    return json.dumps(kept, separators=(",", ":"))


def _version(checkpoint: Checkpoint) -> int:
    if checkpoint.moved_to is not None:
        return SCHEMA_VERSION
    return WITH_BASES_VERSION if checkpoint.bases else WITHOUT_BASES_VERSION


def decode(text: str | bytes, *, pipeline: str, source: str, base_of: BaseOf = no_base) -> Checkpoint:
    """Reads schema versions up to SCHEMA_VERSION. Raises UnreadableState, also for a checkpoint of another source;
    BaseUnreadable if `base_of` cannot read the bases."""
    document = _load(text)
    if document.get("kind") is not None and document.get("source") == source and document.get("pipeline") == pipeline:
        raise PermanentError(
            f"the table has the state of source {pipeline}:{source} as one that reads {document['kind']}, and its "
            "configuration has a `uri`. Nothing was read. Give the source of files another name."
        )
    try:
        version = json_fields.natural(document.get("schema_version", 1))
        if version > SCHEMA_VERSION:
            raise UnreadableState(
                f"the checkpoint has schema version {version}; this program reads up to {SCHEMA_VERSION}. "
                "Upgrade blizzard on every machine that runs it."
            )
        if version == WITH_BASES_VERSION or (version == SCHEMA_VERSION and "bases" in document):
            return _decode_on_bases(document, pipeline, source, base_of)
        if version >= WITHOUT_BASES_VERSION:
            return _decode_current(document, pipeline, source)
        if version == BEFORE_LEDGER_VERSION:
            state = _decode_current(document, pipeline, source)
            return replace(state, before_ledger_ts=state.late_swept_ts)
        return _decode_legacy(document, pipeline, source)
    except json_fields.MALFORMED as error:
        raise UnreadableState(f"the checkpoint cannot be read ({type(error).__name__}: {error!s:.200})") from error


def segment_of(text: str | bytes) -> int:
    """The segment in which a checkpoint's position is; 0 if the text does not say it. For who needs nothing else, and
    no bases."""
    try:
        return json_fields.natural(_load(text)["manifest"]["segment"])
    except (UnreadableState, *json_fields.MALFORMED):
        return 0


def schema_change_of(text: str | bytes) -> str | None:
    """The record that a checkpoint names as that of the newest change of the schema. Otherwise like `segment_of`."""
    try:
        return json_fields.optional_text(_load(text).get("schema_change"))
    except (UnreadableState, *json_fields.MALFORMED):
        return None


def decode_app_id(app_id: str, *, pipeline: str, source: str) -> Checkpoint | None:
    """The state that the first Blizzard stored in the Txn's app id; None for any other app id. A state of Penguin, its
    committer, has no files. `delta_version` is the table's version before the commit, by which such states are ordered;
    -1 if the state does not have it.

    Raises UnreadableState if the state cannot be read: continuing without it would double its rows.
    """
    committers = COMMITTER_APP_ID_PREFIX + pipeline
    if app_id == committers or app_id.startswith(f"{committers}-"):
        return Checkpoint(pipeline, source)
    if not app_id.startswith(APP_ID_PREFIX):
        return None
    try:
        text = base64.b64decode(app_id.removeprefix(APP_ID_PREFIX), validate=True)
        document = _load(text)
    except (binascii.Error, ValueError, UnreadableState):
        return None
    if not _LEGACY_PARTS.intersection(document):
        return None
    state = Checkpoint(pipeline, source)
    try:
        if document.get("schema_version") != COMMITTERS_VERSION:
            state = decode(text, pipeline=pipeline, source=source)
        return replace(state, delta_version=json_fields.integer(document.get("delta_version", -1)))
    except (UnreadableState, *json_fields.MALFORMED) as error:
        raise UnreadableState(
            f"the state of the first Blizzard in the table's Txn cannot be read ({error!s:.300}). Restore the table to "
            "a version with a readable state. docs/how-it-works.md says what a takeover needs (Tables of the first "
            "Blizzard)."
        ) from error


def _load(text: str | bytes) -> dict[str, Any]:
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UnreadableState(f"the checkpoint is not JSON ({error})") from error
    if not isinstance(document, dict):
        raise UnreadableState(f"the checkpoint is a {type(document).__name__}; expected an object")
    return document


def _decode_on_bases(document: dict[str, Any], pipeline: str, source: str, base_of: BaseOf) -> Checkpoint:
    change, refs = base.decode_difference(document), base.decode_refs(document["bases"])
    checkpoint = _decode_current(document, pipeline, source)
    try:
        settled = change.apply_to(base_of(refs))
    except UnreadableState as error:
        rest = replace(checkpoint, partition_watermarks=MappingProxyType({}), files=MappingProxyType({}))
        raise BaseUnreadable(str(error), rest) from error
    return replace(
        checkpoint,
        partition_watermarks=MappingProxyType(settled.watermarks),
        files=MappingProxyType(settled.files),
        bases=refs,
    )


def _decode_current(document: dict[str, Any], pipeline: str, source: str) -> Checkpoint:
    found = (document["pipeline"], document["source"])
    if found != (pipeline, source):
        raise UnreadableState(f"the checkpoint belongs to {found!r:.200}; expected {(pipeline, source)}")
    manifest = document["manifest"]
    return replace(
        _decode_shared(document, pipeline, source),
        sequence=json_fields.integer(document["sequence"]),
        delta_version=json_fields.integer(document["delta_version"]),
        position=Position(
            json_fields.natural(manifest["segment"]),
            json_fields.natural(manifest["entry"]),
            json_fields.optional_text(manifest.get("etag")),
            json_fields.natural(manifest.get("unbroken_since", manifest["segment"])),
            json_fields.optional_text(manifest.get("chain")),
        ),
        closed_through=json_fields.optional_text(document.get("closed_through")),
        late_swept_ts=json_fields.optional_number(document.get("late_swept_ts")),
        before_ledger_ts=json_fields.optional_number(document.get("before_ledger_ts")),
        receipt=json_fields.optional_text(document.get("receipt")),
        ledger=tuple(decode_ref(ref) for ref in json_fields.array(document.get("ledger", []))),
        history=json_fields.optional_text(document.get("history")),
        schema_change=json_fields.optional_text(document.get("schema_change")),
        moved_to=json_fields.optional_text(document.get("moved_to")),
        files=MappingProxyType(base.decode_files(document["source_state"])),
    )


def _decode_legacy(document: dict[str, Any], pipeline: str, source: str) -> Checkpoint:
    """Versions 0 to 2. They have no sequence and no manifest position, and only some of: read states, watermarks by
    partition, and a single watermark, which was a text or null at first.

    The single watermark applies to the root partition. It applies to the partition that it names only if there are
    watermarks by partition too: alone it does not say which files of other partitions are in the table.
    """
    if not _LEGACY_PARTS.intersection(document):
        raise ValueError(f"expected one of {', '.join(sorted(_LEGACY_PARTS))}")
    if document.get("schema_version") == COMMITTERS_VERSION:
        raise ValueError("it is a state of Penguin, which tracks the table's files, not the source's")
    watermark = document.get("watermark")
    if not isinstance(watermark, dict):
        watermark = {"state": "Initial"} if watermark is None else {"state": "Active", "value": watermark}
    shared = _decode_shared({**document, "watermark": watermark}, pipeline, source)
    watermarks = dict(shared.partition_watermarks)
    if shared.watermark is not None and (watermarks or "/" not in shared.watermark):
        partition, _, name = shared.watermark.rpartition("/")
        watermarks.setdefault(partition, name)
    return replace(
        shared,
        partition_watermarks=MappingProxyType(watermarks),
        files=MappingProxyType(base.decode_files(document.get("source_state", {"files": {}}))),
    )


def _decode_shared(document: dict[str, Any], pipeline: str, source: str) -> Checkpoint:
    watermark = document.get("watermark", {"state": "Initial"})
    return Checkpoint(
        pipeline=pipeline,
        source=source,
        state=WatermarkState(watermark["state"]),
        watermark=json_fields.optional_text(watermark.get("value")),
        partition_watermarks=MappingProxyType(base.decode_watermarks(document.get("partition_watermarks", {}))),
        last_update_ts=json_fields.optional_number(document.get("last_update_ts")) or 0.0,
    )
