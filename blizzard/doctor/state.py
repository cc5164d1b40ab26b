"""Checks of what Blizzard knows of a source: its checkpoint, manifest, receipts, ledger, sweeps and dead letters."""

from collections.abc import Sequence
from itertools import islice
from typing import Protocol

from blizzard.doctor.check import Check, Finding, ok, problem, skipped, warning
from blizzard.doctor.source_state import SourceState
from blizzard.errors import BucketMissing, LogDamaged, NotFound, UnreadableState
from blizzard.ledger.ledger import ledger_folder
from blizzard.ledger.receipt_chain import MissingReceipts, ReceiptChain
from blizzard.ledger.run import RunLoading
from blizzard.ledger.settled_files import SettledFiles
from blizzard.log import silent
from blizzard.manifest.pending_manifest import Manifest
from blizzard.manifest.segments import Entry
from blizzard.state.dead_letters import DeadLetters
from blizzard.state.identity import SourceIdentity
from blizzard.state.run_ref import RunRef, SequenceRange
from blizzard.state.settled_letters import SettledLetters, settled_folders
from blizzard.storage.base import ObjectStore

CHECKED_RECEIPTS = 100
COUNTED_LETTERS = 10_000
HOUR_SECS, DAY_SECS = 3_600.0, 86_400.0
BACKLOG_WARNING_SECS, BACKLOG_PROBLEM_SECS = HOUR_SECS, DAY_SECS
MAX_REFUSED = 100
"""Of more files that wait, neither dead letters nor newer content are looked up."""
QUIET_SECS = 7 * DAY_SECS
MISSED_SWEEPS = 10
"""So many times its interval without a sweep, and nobody sweeps any more."""
UNSCHEDULED_SECS = 26 * HOUR_SECS
"""`blizzard run --once` may be started once a day."""


OF_DAMAGED_LOG = "no run repairs it: put right first what `table.log` says"


def age(secs: float) -> str:
    for unit, size in (("days", DAY_SECS), ("hours", HOUR_SECS), ("minutes", 60.0)):
        if secs >= 2 * size:
            return f"{secs / size:.0f} {unit}"
    return f"{max(secs, 0.0):.0f} seconds"


# --- The checkpoint ---


def _checkpoint(state: SourceState) -> Finding:
    try:
        found = state.checkpoint
    except LogDamaged as error:
        return problem(str(error), expected="a log of the table that can be read", advice=OF_DAMAGED_LOG)
    except UnreadableState as error:
        return problem(
            str(error),
            expected="the checkpoint of the newest commit, with its bases",
            advice="the next run repairs it from the table: `blizzard run --once`. If a newer version wrote it, "
            "upgrade this one; lost bases: docs/runbook.md#lost-bases-of-a-table-that-was-taken-over",
        )
    if found is None:
        return skipped("nothing is committed yet")
    if found.moved_to is not None:
        return problem(
            f"table {found.moved_to} has taken the place of this one, which gets no more rows",
            expected="a configuration with the new table",
            advice="change `table_uri`, publish and deploy; see docs/cli.md#blizzard-rebuild",
        )
    if state.newest.sequence is None and state.has_log:
        return ok(f"the table has no commit of this source; that of the copy has sequence {found.sequence:,}")
    return ok(f"sequence {found.sequence:,}")


def _copy(state: SourceState) -> Finding:
    expected, advice = "a copy of the newest commit's checkpoint", "the next commit writes it: `blizzard run --once`"
    try:
        copy = state.copy
    except UnreadableState as error:
        return warning(f"the copy cannot be read: {error}", expected=expected, advice=advice)
    sequence = state.committed.sequence
    if copy is None:
        return warning("there is no copy, so sweeps list too much", expected=expected, advice=advice)
    if copy.sequence < sequence:
        return warning(
            f"the copy is of sequence {copy.sequence:,}, the commit of {sequence:,}", expected=expected, advice=advice
        )
    of_nothing = state.newest.sequence is None and copy.sequence >= 0
    if copy.sequence > sequence or of_nothing or not state.has_log:
        newest = (
            "the table has no commit of this source" if of_nothing else f"the table's newest commit of {sequence:,}"
        )
        newest = newest if state.has_log else "there is no table"
        return problem(
            f"the copy is of sequence {copy.sequence:,}, but {newest}",
            expected=expected,
            advice="the table was restored, replaced or deleted. If that was meant, the next runs continue from the "
            "table and ingest again what it lacks; else restore the table's folder with `_blizzard`",
        )
    return ok("it is that of the newest commit")


def _last_commit(state: SourceState) -> Finding:
    secs = state.now_ts - state.committed.last_update_ts
    if secs < QUIET_SECS:
        return ok(f"{age(secs)} ago")
    return warning(
        f"nothing was committed for {age(secs)}",
        expected=f"a commit within {age(QUIET_SECS)}",
        advice="if files should have arrived, ask their producer, and look at `uri` and `pattern`; see "
        "docs/runbook.md#files-wait-too-long",
    )


# --- What is derived from commits ---


def _receipts(state: SourceState) -> Finding:
    last = state.committed.sequence
    if last < 0:
        return skipped("the first commit of this version is still to come")
    wanted = SequenceRange(max(0, last - CHECKED_RECEIPTS + 1), last)
    chain = ReceiptChain(state.receipts).back_from(state.committed.receipt, wanted)
    covered = max((ref.last for ref in state.committed.ledger), default=-1)
    lost = [found.sequences for found in chain if isinstance(found, MissingReceipts) and found.sequences.last > covered]
    if not lost:
        return ok("those of the newest commits are there")
    shown = ", ".join(f"{each.first:,} to {each.last:,}" for each in lost[:3])
    return warning(
        f"the receipts of the commits {shown} are missing or cannot be read",
        expected="a receipt for each commit that the ledger does not have yet",
        advice="nothing is lost: the next run asks the table which files these commits had",
    )


def _ledger(state: SourceState) -> Finding:
    refs = state.committed.ledger
    if not refs:
        return ok("the receipts have everything so far")
    lost = [ref.name for ref in refs if not _is_readable(state, ref)]
    if not lost:
        return ok(f"{len(refs)} parts with {sum(ref.files for ref in refs):,} files")
    return warning(
        f"{len(lost)} of {len(refs)} parts are missing or damaged, such as {lost[0]}",
        expected="every part that the checkpoint names",
        advice="nothing is lost: the next run builds them from the receipts, or from the table",
    )


def _is_readable(state: SourceState, ref: RunRef) -> bool:
    """By its index, which has checksums of all other parts."""
    folder, source_id = ledger_folder(state.identity), state.identity.source_id
    loading = RunLoading(state.store, folder, ref, source_id, with_filter=False)
    try:
        for call in loading.calls():
            call()
    except (NotFound, UnreadableState):
        return False
    return True


# --- What waits ---


def _manifest(state: SourceState) -> Finding:
    manifest = Manifest(state.store, state.identity.state_prefix, state.identity.source_id)
    unreadable: list[UnreadableState] = []
    try:
        count = sum(1 for _ in manifest.unconsumed(state.known.position, unreadable))
    except BucketMissing:
        return skipped("there is no folder of the table yet")
    if not unreadable:
        return ok(f"{count:,} segments wait")
    return problem(
        f"{len(unreadable)} segments cannot be read: {unreadable[0]}",
        expected="segments that the collector and the sweeper wrote",
        advice="delete them; the next sweep finds their files again",
    )


def _backlog(state: SourceState) -> Finding:
    backlog = state.backlog
    if backlog.oldest_ts is None:
        return ok("nothing waits")
    secs = state.now_ts - backlog.oldest_ts
    if secs >= BACKLOG_WARNING_SECS and _needs_no_run(state):
        return ok("nothing waits but files that were overwritten, and have their dead letters or newer content")
    found = f"{backlog.files:,} files{' or more' if backlog.truncated else ''} wait, the oldest for {age(secs)}"
    expected, advice = f"less than {age(BACKLOG_WARNING_SECS)}", "see docs/runbook.md#files-wait-too-long"
    if not state.deployed:
        advice = f"start `blizzard run --once`, or look why it does not end; {advice}"
    if secs >= BACKLOG_PROBLEM_SECS:
        return problem(found, expected=expected, advice=advice)
    return warning(found, expected=expected, advice=advice) if secs >= BACKLOG_WARNING_SECS else ok(found)


def _needs_no_run(state: SourceState) -> bool:
    """Whether all files that wait have been overwritten, and a run has looked at them. The manifest keeps them until
    the next commit of other files: neither a refusal nor the replacing of rows consumes it."""
    if state.source.on_overwrite == "ignore" or state.backlog.files > MAX_REFUSED:
        return False
    manifest = Manifest(state.store, state.identity.state_prefix, state.identity.source_id)
    announced = [
        entry
        for item in manifest.unconsumed(state.known.position, [])
        for entry in item.segment.entries[item.first_entry :]
    ]
    settled = SettledFiles(state.store, state.identity, state.known, silent)
    verdict = settled.judge(announced)
    waiting = [*verdict.late, *verdict.other]
    paths = {entry.path for entry in waiting}
    return len(paths) == state.backlog.files and paths <= _refused(state, waiting) | _superseded(settled, waiting)


def _refused(state: SourceState, waiting: Sequence[Entry]) -> set[str]:
    """The files whose new content was refused: for being new, or with `replace` because it cannot be read."""
    letters = DeadLetters(state.store, state.identity.state_prefix, state.identity.source_id)
    return {entry.path for entry in waiting if letters.has_file(entry.path, entry.etag)}


def _superseded(settled: SettledFiles, waiting: Sequence[Entry]) -> set[str]:
    """The files that were overwritten again, and whose newer content is ingested."""
    found = settled.find([*{entry.path for entry in waiting}])
    newer = {each.path for each in waiting if each.path in found and each.event_ts * 1000 >= found[each.path].time_ms}
    return {*found} - newer


# --- Sweeps ---


def _sweeps(state: SourceState) -> Finding:
    last = state.reports.watermark
    return _swept(state, last.started_ts if last else None, state.source.sweep.interval_secs)


def _late_sweeps(state: SourceState) -> Finding:
    """The first one is due an interval after the source's first sweep, which may have listed everything."""
    reports = state.reports
    starts = (reports.late.started_ts if reports.late else None, reports.watched_since_ts, state.known.late_swept_ts)
    newest = max((start for start in starts if start is not None), default=None)
    return _swept(state, newest, state.source.sweep.late_interval_secs)


def _swept(state: SourceState, started_ts: float | None, interval_secs: float) -> Finding:
    limit_secs = max(MISSED_SWEEPS * interval_secs, HOUR_SECS if state.deployed else UNSCHEDULED_SECS)
    if started_ts is None and not state.has_begun:
        return skipped("the source was not swept yet")
    secs = None if started_ts is None else state.now_ts - started_ts
    if secs is not None and secs < limit_secs:
        return ok(f"the last one began {age(secs)} ago")
    advice = "docs/runbook.md#the-sweeper-does-not-run" if state.deployed else "start `blizzard run`, or schedule it"
    return warning(
        "there is no report of one" if secs is None else f"the last one began {age(secs)} ago",
        expected=f"one in {age(limit_secs)}: only sweeps find files that no event announced",
        advice=advice,
    )


def _lost_events(state: SourceState) -> Finding:
    if not state.deployed:
        return skipped("without a stack, sweeps find all files")
    missed = state.reports.watermark.unannounced if state.reports.watermark else 0
    if not missed:
        return ok("the last sweep found no file whose event is overdue")
    return warning(
        f"the last sweep found {missed:,} files whose events did not arrive",
        expected="an event for each file",
        advice="docs/runbook.md#a-sweep-found-missed-files",
    )


# --- Dead letters ---


class HasLetters(Protocol):
    """`store`: the table's."""

    @property
    def identity(self) -> SourceIdentity: ...
    @property
    def store(self) -> ObjectStore: ...
    @property
    def now_ts(self) -> float: ...


def dead_letters(state: HasLetters) -> Finding:
    folder = f"{state.identity.state_prefix}/dead_letters/"
    try:
        found = [*islice(state.store.list(folder), COUNTED_LETTERS)]
        letters = DeadLetters(state.store, state.identity.state_prefix, state.identity.source_id)
        settled = settled_folders(letters, SettledLetters(state.store, state.identity.state_prefix).read())
    except BucketMissing:
        found, settled = [], set()
    found = [info for info in found if f"{info.key.rpartition('/')[0]}/" not in settled]
    if not found:
        return ok("there is none that is open")
    files = len({info.key.removeprefix(folder).partition("/")[0] for info in found})
    ages = [state.now_ts - info.modified_ts for info in found]
    more = " or more" if len(found) == COUNTED_LETTERS else ""
    return warning(
        f"{files:,} files{more} have dead letters, the newest {age(min(ages))}, the oldest {age(max(ages))} old",
        expected="files and records that can be ingested",
        advice="docs/runbook.md#dead-letters",
    )


CHECKS: Sequence[Check[SourceState]] = (
    Check("state.checkpoint", _checkpoint),
    Check("state.copy", _copy, needs=("state.checkpoint",)),
    Check("state.last-commit", _last_commit, needs=("state.checkpoint",)),
    Check("state.receipts", _receipts, needs=("state.checkpoint",)),
    Check("state.ledger", _ledger, needs=("state.checkpoint",)),
    Check("state.manifest", _manifest),
    Check("state.backlog", _backlog),
    Check("state.sweeps", _sweeps),
    Check("state.late-sweeps", _late_sweeps),
    Check("state.lost-events", _lost_events),
    Check("state.dead-letters", dead_letters),
)
