"""The status of a source, read from the table's log and its state files, without Spark."""

from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Protocol

from blizzard.dispatch.backlog_size import BacklogCounter
from blizzard.dispatch.run_records import RunLog
from blizzard.errors import BucketMissing, NotFound, UnreadableState
from blizzard.ledger.settled_files import SettledFiles
from blizzard.log import silent
from blizzard.manifest.pending_manifest import Manifest
from blizzard.state.batch import BatchRules
from blizzard.state.checkpoint import Checkpoint
from blizzard.state.checkpoint_codec import CheckpointCodec
from blizzard.state.dead_letters import DeadLetters
from blizzard.state.delta_log import Commit, DeltaLogTail
from blizzard.state.identity import SourceIdentity
from blizzard.state.newest_commit import newest_commit, no_checkpoint
from blizzard.state.receipts import Receipts
from blizzard.state.settled_letters import SettledLetters, settled_folders
from blizzard.state.unknown_fields import NO_FIELDS
from blizzard.state.watermark import no_folder
from blizzard.storage.base import ObjectStore
from blizzard.sweep.reports import read_reports
from blizzard.sweep.unordered import UnorderedReport


@dataclass(frozen=True, slots=True)
class RunStatus:
    """The dispatcher's record of a pipeline's last run. `phase` is `open` when the circuit is open."""

    phase: str
    run_id: str | None
    failures: int
    not_before_ts: float
    reason: str | None


@dataclass(frozen=True, slots=True)
class SourceStatus:
    """None: there is nothing yet, or the state cannot be read, as `problem` says."""

    source: str
    table_uri: str
    table_version: int | None
    sequence: int | None
    watermark_state: str
    watermark: str | None
    partition_watermarks: dict[str, str]
    closed_through: str | None
    backlog_files: int
    backlog_bytes: int
    tracked_files: int
    in_progress_files: int
    dead_letter_files: int
    unknown_fields: dict[str, Any]
    """Of the newest commit, as in its receipt."""
    misfits: dict[str, Any]
    """Of the newest commit, as in its receipt."""
    last_commit_ts: float | None
    last_commit_age_secs: float | None
    unordered: UnorderedReport | None = None
    """How the last ordinary sweep listed folders whose names are in no order; None if it did not look for them."""
    moved_to: str | None = None
    """The table that has taken this one's place: this one gets no more rows."""
    run: RunStatus | None = None
    """Of the source's pipeline; None when no dispatcher has started one."""
    problem: str | None = None
    """What is wrong with the stored state, and how it will be repaired."""


class CommittedState(Protocol):
    """A checkpoint of whatever kind of source."""

    @property
    def receipt(self) -> str | None: ...

    @property
    def last_update_ts(self) -> float | None: ...


def source_status(
    store: ObjectStore,
    *,
    pipeline: str,
    source: str,
    state_prefix: str,
    table_uri: str,
    now_ts: float,
    rules: BatchRules | None = None,
) -> SourceStatus:
    """Reads only. `store`: the table's. `rules`: the source's; None: the defaults, without dated folders."""
    identity = SourceIdentity(pipeline, source, state_prefix)
    version = table_version(store)
    commit, checkpoint, problem = _state(store, identity, has_table=version is not None)
    backlog, segments_problem = _backlog(store, identity, checkpoint, rules or BatchRules(no_folder))
    committed = committed_ts(commit, checkpoint)
    run, run_problem = run_status(store, pipeline)
    return SourceStatus(
        source=identity.source_id,
        table_uri=table_uri,
        table_version=version,
        sequence=checkpoint.sequence if checkpoint else None,
        watermark_state=str(checkpoint.state) if checkpoint else "Initial",
        watermark=checkpoint.watermark if checkpoint else None,
        partition_watermarks=dict(checkpoint.partition_watermarks) if checkpoint else {},
        closed_through=checkpoint.closed_through if checkpoint else None,
        backlog_files=len(backlog.sizes),
        backlog_bytes=sum(backlog.sizes.values()),
        tracked_files=len(checkpoint.files) if checkpoint else 0,
        in_progress_files=len(checkpoint.in_progress) if checkpoint else 0,
        dead_letter_files=dead_letter_files(store, identity),
        **odd_fields(store, identity, checkpoint),
        last_commit_ts=committed,
        last_commit_age_secs=age_secs(committed, now_ts),
        unordered=_unordered(store, identity),
        moved_to=checkpoint.moved_to if checkpoint else None,
        run=run,
        problem=problem or (checkpoint.about_move if checkpoint else None) or segments_problem or run_problem,
    )


def table_version(store: ObjectStore) -> int | None:
    """None: there is no table."""
    try:
        return DeltaLogTail(store).newest_version()
    except BucketMissing:
        return None


def _state(
    store: ObjectStore, identity: SourceIdentity, *, has_table: bool
) -> tuple[Commit | None, Checkpoint | None, str | None]:
    """The newest commit, if it had to be found; its checkpoint, or else its copy; and the problem, if there is one."""
    codec = CheckpointCodec(store, identity)
    copy, copy_problem = _copy(codec)
    if not has_table:
        return None, copy, copy_problem
    copy_sequence = None if copy is None else copy.sequence
    try:
        newest = newest_commit(store, identity.app_id, lambda: copy_sequence)
    except UnreadableState as error:
        return None, copy, str(error)
    if newest.commit is not None:
        try:
            return newest.commit, codec.decode(newest.commit.user_metadata or ""), None
        except UnreadableState as error:
            return newest.commit, copy, f"{error}; the next run repairs it from the table"
    if newest.sequence is None and copy_sequence is not None and copy_sequence >= 0:
        return None, None, uncommitted(copy_sequence)
    if newest.sequence in (None, copy_sequence):
        return None, copy, copy_problem
    return None, None, no_checkpoint(newest.sequence)


def uncommitted(copy_sequence: int) -> str:
    """What is wrong if the copy is of a commit, and the table has no Txn of the source."""
    return (
        f"the copy of the checkpoint has sequence {copy_sequence:,}, and the table has no commit of this source: it "
        "was made anew, or lost its Txn; `blizzard doctor` says which"
    )


def _copy(codec: CheckpointCodec) -> tuple[Checkpoint | None, str | None]:
    try:
        return codec.read_copy(), None
    except (NotFound, BucketMissing):
        return None, None
    except UnreadableState as error:
        return None, f"the checkpoint's copy: {error}; the next commit rewrites it"


def _add_segments(backlog: BacklogCounter, manifest: Manifest) -> str | None:
    """Adds every readable segment to the backlog and returns the problem of the others."""
    unreadable: list[UnreadableState] = []
    with suppress(BucketMissing):  # before the table's first write
        for item in manifest.unconsumed(backlog.checkpoint.position, unreadable):
            backlog.add_segment(item)
    if not unreadable:
        return None
    rest = f" The same holds for {len(unreadable) - 1} more." if len(unreadable) > 1 else ""
    return f"{unreadable[0]}{rest}"


def _unordered(store: ObjectStore, identity: SourceIdentity) -> UnorderedReport | None:
    try:
        last = read_reports(store, identity).watermark
    except BucketMissing:
        return None
    return None if last is None else last.unordered


def run_status(store: ObjectStore, pipeline: str) -> tuple[RunStatus | None, str | None]:
    try:
        record = RunLog(store, pipeline, str).latest()
    except UnreadableState as error:
        return None, str(error)
    if record is None:
        return None, None
    return RunStatus(record.phase, record.run_id, record.failures, record.not_before_ts, record.reason), None


def dead_letter_files(store: ObjectStore, identity: SourceIdentity) -> int:
    """Those with open ones."""
    try:
        letters = DeadLetters(store, identity.state_prefix, identity.source_id)
        settled = SettledLetters(store, identity.state_prefix).read()
        return letters.count_files() - len(settled_folders(letters, settled))
    except BucketMissing:
        return 0


def _backlog(
    store: ObjectStore, identity: SourceIdentity, checkpoint: Checkpoint | None, rules: BatchRules
) -> tuple[BacklogCounter, str | None]:
    """With what is wrong with the manifest."""
    known = checkpoint or Checkpoint(pipeline=identity.pipeline, source=identity.source)
    backlog = BacklogCounter(known, rules, SettledFiles(store, identity, known, silent))
    return backlog, _add_segments(backlog, Manifest(store, identity.state_prefix, identity.source_id))


def odd_fields(store: ObjectStore, identity: SourceIdentity, checkpoint: CommittedState | None) -> dict[str, Any]:
    """`unknown_fields` and `misfits` of the newest commit."""
    unknown_fields, misfits = NO_FIELDS, NO_FIELDS
    if checkpoint is not None and checkpoint.receipt is not None:
        with suppress(NotFound, UnreadableState):  # the next run says what is wrong with it
            receipt = Receipts(store, identity.state_prefix).get(checkpoint.receipt)
            unknown_fields, misfits = receipt.unknown_fields, receipt.misfits
    return {"unknown_fields": unknown_fields.as_document(), "misfits": misfits.as_document()}


def committed_ts(commit: Commit | None, checkpoint: CommittedState | None) -> float | None:
    if commit is not None and commit.committed_ts is not None:
        return commit.committed_ts
    return checkpoint.last_update_ts if checkpoint else None


def age_secs(ts: float | None, now_ts: float) -> float | None:
    return None if ts is None else max(0.0, now_ts - ts)
