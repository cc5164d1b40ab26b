"""The dispatcher's decisions: whether to start a run, and the next run record. No I/O, no clock."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from hashlib import sha256
from types import MappingProxyType

from blizzard.dispatch.backlog import Backlog
from blizzard.dispatch.run_records import Phase, RunRecord, SourcePosition
from blizzard.dispatch.service import RunState, RunStatus

UNKNOWN_GRACE_SECS = 300.0
"""For this long after its start the service may not know a run yet."""
TOKEN_GRACE_SECS = 900.0
"""The longest possible run time of a Lambda. After that no other dispatcher can still use this attempt's token."""
MAX_REASON = 500
RESUMED = "resumed by hand"
_NOTHING: Mapping[str, SourcePosition] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class FailurePolicy:
    """How failed runs are retried. After the n-th consecutive failure the next start waits `backoff_secs` * 2^(n-1), at
    most `max_backoff_secs`. After `max_failures` the circuit opens.

    `run_secs`: the time limit of a run, in seconds. A run that reached it may have left a backlog.
    """

    max_failures: int = 5
    backoff_secs: float = 60.0
    max_backoff_secs: float = 3600.0
    run_secs: float = math.inf


class Hold(StrEnum):
    """Why no run is started although the backlog needs one."""

    BACKOFF = "backoff"
    CIRCUIT_OPEN = "circuit_open"


def examined_positions(record: RunRecord | None) -> Mapping[str, SourcePosition]:
    """The positions at the start of the last run, by source name. Empty unless it succeeded: only then it has examined
    all segments that existed at its start."""
    return record.positions if record is not None and record.phase is Phase.SUCCEEDED else _NOTHING


def hold_reason(record: RunRecord | None, fingerprint: str, now_ts: float) -> Hold | None:
    """Whether failures prevent a start. Failures of another release or configuration do not count."""
    if record is None or record.fingerprint != fingerprint:
        return None
    if record.phase is Phase.OPEN:
        return Hold.CIRCUIT_OPEN
    return Hold.BACKOFF if record.phase is Phase.FAILED and now_ts < record.not_before_ts else None


def should_start_run(backlog: Backlog, hold: Hold | None) -> bool:
    """Whether to start a run: the backlog needs one, and no failures prevent it. The newest record must show that no
    run is starting or running."""
    return backlog.needs_run and hold is None


def starting_record(
    latest: RunRecord | None, *, pipeline: str, epoch: str, fingerprint: str, backlog: Backlog, now_ts: float
) -> RunRecord:
    """The record before the start of a run. `epoch` is used for the very first record only.

    A token that has not started a run yet is reused. If another dispatcher uses it too, both get the same run.
    """
    base = latest or _before_first(pipeline, epoch, fingerprint)
    return replace(
        base,
        number=base.number + 1,
        attempt=base.attempt + base.token_used,
        token_used=False,
        phase=Phase.STARTING,
        run_id=None,
        fingerprint=fingerprint,
        failures=base.failures if base.fingerprint == fingerprint else 0,
        not_before_ts=0.0,
        started_ts=now_ts,
        ended_ts=None,
        reason=None,
        positions=MappingProxyType(backlog.positions),
    )


def running_record(record: RunRecord, run_id: str, fingerprint: str) -> RunRecord:
    """The record after the service has started the run that `record` announced."""
    return replace(
        record, number=record.number + 1, phase=Phase.RUNNING, run_id=run_id, token_used=True, fingerprint=fingerprint
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
        token_used=base.token_used or base.phase is Phase.STARTING,
        fingerprint=fingerprint,
        failures=base.failures if base.fingerprint == fingerprint else 0,
        not_before_ts=0.0,
        started_ts=now_ts,
        ended_ts=None,
        reason=None,
        positions=_NOTHING,
    )


def refused_record(
    record: RunRecord, reason: str, now_ts: float, policy: FailurePolicy, *, token_used: bool
) -> RunRecord:
    """The record after the start that `record` announced was refused. `token_used`: the token cannot be used again."""
    return _failed(
        replace(record, token_used=token_used), f"not started: {reason}", record.failures + 1, now_ts, policy
    )


def ended_record(
    record: RunRecord, state: RunState | None, backlog: Backlog, now_ts: float, policy: FailurePolicy
) -> RunRecord:
    """The record after the run of `record` ended. `state` None: the service does not know the run any more.

    `backlog` was read after the end of the run; if the run succeeded, with `record.positions` as examined.
    """
    if state is None:
        gone = (
            f"the application does not know run {record.run_id} any more, for example because it was replaced; the run "
            "counts as ended, and the next one starts without backoff"
        )
        ended = replace(record, phase=Phase.FAILED, reason=gone, not_before_ts=0.0, positions=_NOTHING)
        return replace(ended, number=record.number + 1, ended_ts=now_ts)
    if state.status is RunStatus.FAILED:
        failures = 1 if backlog.advanced_since(record.positions) else record.failures + 1
        return _failed(record, state.detail, failures, now_ts, policy)
    if backlog.stuck:
        reason = (
            f"the run succeeded but consumed nothing of {', '.join(backlog.stuck)}, although files are pending; "
            "look for the source in the run's log"
        )
        return _failed(record, reason, record.failures + 1, now_ts, policy)
    return replace(
        record,
        number=record.number + 1,
        phase=Phase.SUCCEEDED,
        failures=0,
        reason=None,
        ended_ts=now_ts,
        positions=_examined_by_run(record, backlog, now_ts, policy),
    )


def _examined_by_run(
    record: RunRecord, backlog: Backlog, now_ts: float, policy: FailurePolicy
) -> Mapping[str, SourcePosition]:
    """The start positions of the sources that the run has examined completely: all of them, unless it reached its time
    limit. Then only the sources of which it consumed nothing."""
    if record.started_ts is not None and now_ts - record.started_ts < policy.run_secs:
        return record.positions
    now = backlog.positions
    return MappingProxyType(
        {name: start for name, start in record.positions.items() if name in now and start.same_position(now[name])}
    )


def resumed_record(latest: RunRecord) -> RunRecord | None:
    """The record that resets the failures; None if there are none to reset."""
    on_hold = latest.phase is Phase.OPEN or (latest.phase is Phase.FAILED and latest.failures > 0)
    if not on_hold:
        return None
    return replace(latest, number=latest.number + 1, phase=Phase.FAILED, failures=0, not_before_ts=0.0, reason=RESUMED)


def _before_first(pipeline: str, epoch: str, fingerprint: str) -> RunRecord:
    """The state before record 0."""
    return RunRecord(-1, pipeline, epoch, attempt=1, phase=Phase.SUCCEEDED, fingerprint=fingerprint)


def _failed(record: RunRecord, reason: str, failures: int, now_ts: float, policy: FailurePolicy) -> RunRecord:
    failed = replace(
        record,
        number=record.number + 1,
        phase=Phase.OPEN if failures >= policy.max_failures else Phase.FAILED,
        failures=failures,
        ended_ts=now_ts,
        reason=reason if len(reason) <= MAX_REASON else f"{reason[: MAX_REASON - 1]}…",
        positions=_NOTHING,
    )
    return replace(failed, not_before_ts=now_ts + backoff_secs_after(failed, policy))


def backoff_secs_after(record: RunRecord, policy: FailurePolicy) -> float:
    """Exponential in the failures, plus up to a quarter as jitter, so that pipelines that failed together do not start
    together. The jitter depends on the record alone, so that all dispatchers compute the same time."""
    doubled = policy.backoff_secs * 2.0 ** min(record.failures - 1, 30)
    seed = sha256(f"{record.pipeline}/{record.epoch}/{record.number}".encode()).digest()
    return min(doubled, policy.max_backoff_secs) * (1 + int.from_bytes(seed[:2], "big") / 65536 / 4)
