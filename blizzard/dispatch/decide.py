"""The dispatcher's decisions: whether to start a run, and the next run record. No I/O, no clock."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from hashlib import sha256
from types import MappingProxyType

from blizzard.dispatch.backlog import Backlog
from blizzard.dispatch.run_records import Phase, RunRecord, SourceMark
from blizzard.dispatch.service import RunState, RunStatus

UNKNOWN_GRACE_SECS = 300.0
"""For so long after its start the service may not know a run yet."""
TOKEN_GRACE_SECS = 900.0
"""The longest possible run time of a Lambda. After that no other dispatcher can still use this attempt's token."""
MAX_REASON = 500
RESUMED = "resumed by hand"
_NOTHING: Mapping[str, SourceMark] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Policy:
    """What follows a failure. After the n-th in a row the next start waits `backoff_secs` * 2^(n-1), at most
    `max_backoff_secs`; after `max_failures` the circuit opens.

    A run that took `run_secs` or longer may have reached its time limit before its backlog was gone.
    """

    max_failures: int = 5
    backoff_secs: float = 60.0
    max_backoff_secs: float = 3600.0
    run_secs: float = math.inf


class Hold(StrEnum):
    """Why no run is started although the backlog needs one."""

    BACKOFF = "backoff"
    CIRCUIT_OPEN = "circuit_open"


def examined_marks(record: RunRecord | None) -> Mapping[str, SourceMark]:
    """What the last run has examined, by source name; empty unless it succeeded."""
    return record.marks if record is not None and record.phase is Phase.SUCCEEDED else _NOTHING


def hold_reason(record: RunRecord | None, fingerprint: str, now_ts: float) -> Hold | None:
    """Whether failures prevent a start. Failures of another release or configuration do not count."""
    if record is None or record.fingerprint != fingerprint:
        return None
    if record.phase is Phase.OPEN:
        return Hold.CIRCUIT_OPEN
    return Hold.BACKOFF if record.phase is Phase.FAILED and now_ts < record.not_before_ts else None


def should_start_run(backlog: Backlog, hold: Hold | None) -> bool:
    """Whether to start a run: the backlog needs one, and no failures prevent it. The caller has made sure by the newest
    record that no run is starting or running."""
    return backlog.needs_run and hold is None


def starting_record(
    latest: RunRecord | None, *, pipeline: str, epoch: str, fingerprint: str, backlog: Backlog, now_ts: float
) -> RunRecord:
    """The record before the start of a run. `epoch` is used for the very first record only.

    A token that has not started a run yet is used again. If another dispatcher uses it too, both get the same run.
    """
    base = latest or _before_first(pipeline, epoch, fingerprint)
    return replace(
        base,
        number=base.number + 1,
        attempt=base.attempt + base.spent,
        spent=False,
        phase=Phase.STARTING,
        run_id=None,
        fingerprint=fingerprint,
        failures=base.failures if base.fingerprint == fingerprint else 0,
        not_before_ts=0.0,
        started_ts=now_ts,
        ended_ts=None,
        reason=None,
        marks=MappingProxyType(backlog.marks),
    )


def running_record(record: RunRecord, run_id: str, fingerprint: str) -> RunRecord:
    """The record after the service has started the run that `record` announced."""
    return replace(
        record, number=record.number + 1, phase=Phase.RUNNING, run_id=run_id, spent=True, fingerprint=fingerprint
    )


def adopted_record(
    latest: RunRecord | None, run_id: str, *, pipeline: str, epoch: str, fingerprint: str, now_ts: float
) -> RunRecord:
    """The record of an active run that has no record: it was started by hand, or the records were deleted."""
    base = latest or _before_first(pipeline, epoch, fingerprint)
    return replace(
        base,
        number=base.number + 1,
        phase=Phase.RUNNING,
        run_id=run_id,
        # If a start was announced, it may have started this run.
        spent=base.spent or base.phase is Phase.STARTING,
        fingerprint=fingerprint,
        failures=base.failures if base.fingerprint == fingerprint else 0,
        not_before_ts=0.0,
        started_ts=now_ts,
        ended_ts=None,
        reason=None,
        marks=_NOTHING,
    )


def refused_record(record: RunRecord, reason: str, now_ts: float, policy: Policy, *, spent: bool) -> RunRecord:
    """The record after the start that `record` announced was refused. `spent`: the token cannot be used again."""
    return _failed(replace(record, spent=spent), f"not started: {reason}", record.failures + 1, now_ts, policy)


def ended_record(
    record: RunRecord, state: RunState | None, backlog: Backlog, now_ts: float, policy: Policy
) -> RunRecord:
    """The record after the run of `record` ended. `state` None: the service does not know the run any more.

    `backlog` was read after the end of the run; if the run succeeded, with `record.marks` as examined.
    """
    if state is None:
        gone = "the application does not know this run any more, as after its replacement; it counts as ended"
        ended = replace(record, phase=Phase.FAILED, reason=gone, not_before_ts=0.0, marks=_NOTHING)
        return replace(ended, number=record.number + 1, ended_ts=now_ts)
    if state.status is RunStatus.FAILED:
        failures = 1 if backlog.advanced_since(record.marks) else record.failures + 1
        return _failed(record, state.detail, failures, now_ts, policy)
    if backlog.stuck:
        reason = f"the run succeeded and consumed nothing of {', '.join(backlog.stuck)}, though files wait there"
        return _failed(record, reason, record.failures + 1, now_ts, policy)
    return replace(
        record,
        number=record.number + 1,
        phase=Phase.SUCCEEDED,
        failures=0,
        reason=None,
        ended_ts=now_ts,
        marks=_examined_by_run(record, backlog, now_ts, policy),
    )


def _examined_by_run(record: RunRecord, backlog: Backlog, now_ts: float, policy: Policy) -> Mapping[str, SourceMark]:
    """The marks of the sources that the run has examined completely: all of them, unless it reached its time limit.
    Then only the sources in which it consumed nothing."""
    if record.started_ts is not None and now_ts - record.started_ts < policy.run_secs:
        return record.marks
    now = backlog.marks
    unchanged = {name: mark for name, mark in record.marks.items() if name in now and mark.same_position(now[name])}
    return MappingProxyType(unchanged)


def resumed_record(latest: RunRecord) -> RunRecord | None:
    """The record that resets the failures; None if there are none to reset."""
    on_hold = latest.phase is Phase.OPEN or (latest.phase is Phase.FAILED and latest.failures > 0)
    if not on_hold:
        return None
    return replace(latest, number=latest.number + 1, phase=Phase.FAILED, failures=0, not_before_ts=0.0, reason=RESUMED)


def _before_first(pipeline: str, epoch: str, fingerprint: str) -> RunRecord:
    """The state before record 0."""
    return RunRecord(-1, pipeline, epoch, attempt=1, phase=Phase.SUCCEEDED, fingerprint=fingerprint)


def _failed(record: RunRecord, reason: str, failures: int, now_ts: float, policy: Policy) -> RunRecord:
    failed = replace(
        record,
        number=record.number + 1,
        phase=Phase.OPEN if failures >= policy.max_failures else Phase.FAILED,
        failures=failures,
        ended_ts=now_ts,
        reason=reason if len(reason) <= MAX_REASON else f"{reason[: MAX_REASON - 1]}…",
        marks=_NOTHING,
    )
    return replace(failed, not_before_ts=now_ts + backoff_secs_after(failed, policy))


def backoff_secs_after(record: RunRecord, policy: Policy) -> float:
    """Exponential in the failures, plus up to a quarter as jitter, so that pipelines that failed together do not start
    together. The jitter depends on the record alone, so that all dispatchers compute the same time."""
    doubled = policy.backoff_secs * 2.0 ** min(record.failures - 1, 30)
    seed = sha256(f"{record.pipeline}/{record.epoch}/{record.number}".encode()).digest()
    return min(doubled, policy.max_backoff_secs) * (1 + int.from_bytes(seed[:2], "big") / 65536 / 4)
