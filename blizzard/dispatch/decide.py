"""What follows from a record and from what was found out: the next record. No I/O, no clock."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from hashlib import sha256
from types import MappingProxyType

from blizzard.dispatch.backlog import Backlog
from blizzard.dispatch.run_records import Phase, RunRecord, SourceMark
from blizzard.dispatch.service import Life, RunState

UNKNOWN_GRACE_SECS = 300.0
"""A run that was just started may not be known everywhere in the service yet."""
TOKEN_GRACE_SECS = 900.0
"""The longest life of a Lambda: after that nobody holds this attempt's token any more."""
MAX_REASON = 500
RESUMED = "resumed by hand"
_NOTHING: Mapping[str, SourceMark] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Policy:
    """How failures are answered. The n-th in a row waits `backoff_secs` * 2^(n-1), at most `max_backoff_secs`.

    A run that lasted `run_secs` may have ended by itself before its backlog was gone.
    """

    max_failures: int = 5
    backoff_secs: float = 60.0
    max_backoff_secs: float = 3600.0
    run_secs: float = math.inf


class Hold(StrEnum):
    """Why a backlog that is worth a run has none."""

    BACKOFF = "backoff"
    CIRCUIT_OPEN = "circuit_open"


def seen(record: RunRecord | None) -> Mapping[str, SourceMark]:
    """What the pipeline's last run is known to have looked at."""
    return record.marks if record is not None and record.phase is Phase.SUCCEEDED else _NOTHING


def hold(record: RunRecord | None, fingerprint: str, now_ts: float) -> Hold | None:
    """Whether failures keep a run from being started; not those of another release or configuration."""
    if record is None or record.fingerprint != fingerprint:
        return None
    if record.phase is Phase.OPEN:
        return Hold.CIRCUIT_OPEN
    return Hold.BACKOFF if record.phase is Phase.FAILED and now_ts < record.not_before_ts else None


def starting(
    latest: RunRecord | None, *, pipeline: str, epoch: str, fingerprint: str, backlog: Backlog, now_ts: float
) -> RunRecord:
    """About to ask for a run. `epoch` is for the very first record.

    An attempt whose token has started nothing is repeated with the same token: should somebody still be about to use
    it, there is one run all the same.
    """
    base = latest or _first(pipeline, epoch, fingerprint)
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


def running(record: RunRecord, run_id: str, fingerprint: str) -> RunRecord:
    """The service answered the start that `record` announced."""
    return replace(
        record, number=record.number + 1, phase=Phase.RUNNING, run_id=run_id, spent=True, fingerprint=fingerprint
    )


def adopted(
    latest: RunRecord | None, run_id: str, *, pipeline: str, epoch: str, fingerprint: str, now_ts: float
) -> RunRecord:
    """An active run was found that no record speaks of: started by hand, or the records were wiped."""
    base = latest or _first(pipeline, epoch, fingerprint)
    return replace(
        base,
        number=base.number + 1,
        phase=Phase.RUNNING,
        run_id=run_id,
        # If a start was announced, this may well be what came of it.
        spent=base.spent or base.phase is Phase.STARTING,
        fingerprint=fingerprint,
        failures=base.failures if base.fingerprint == fingerprint else 0,
        not_before_ts=0.0,
        started_ts=now_ts,
        ended_ts=None,
        reason=None,
        marks=_NOTHING,
    )


def refused(record: RunRecord, reason: str, now_ts: float, policy: Policy, *, spent: bool) -> RunRecord:
    """The start that `record` announced came to nothing. `spent`: its token is of no more use."""
    return _failed(replace(record, spent=spent), f"not started: {reason}", record.failures + 1, now_ts, policy)


def after(record: RunRecord, state: RunState | None, backlog: Backlog, now_ts: float, policy: Policy) -> RunRecord:
    """The run of `record` is over: `state` says how, None that the service does not know it any more.

    `backlog` was read after the run's end, with `record.marks` as seen if it succeeded.
    """
    if state is None:
        gone = "the application does not know this run any more, as after its replacement; it counts as ended"
        ended = replace(record, phase=Phase.FAILED, reason=gone, not_before_ts=0.0, marks=_NOTHING)
        return replace(ended, number=record.number + 1, ended_ts=now_ts)
    if state.life is Life.FAILED:
        failures = 1 if backlog.advanced_since(record.marks) else record.failures + 1
        return _failed(record, state.detail, failures, now_ts, policy)
    if backlog.left_behind:
        stuck = f"the run succeeded and consumed nothing of {', '.join(backlog.left_behind)}, though files wait there"
        return _failed(record, stuck, record.failures + 1, now_ts, policy)
    return replace(
        record,
        number=record.number + 1,
        phase=Phase.SUCCEEDED,
        failures=0,
        reason=None,
        ended_ts=now_ts,
        marks=_looked_at(record, backlog, now_ts, policy),
    )


def _looked_at(record: RunRecord, backlog: Backlog, now_ts: float, policy: Policy) -> Mapping[str, SourceMark]:
    """The marks of those sources of which the run is known to have looked at everything: all, unless its time was up.
    Then those where it could not get on any further."""
    if record.started_ts is not None and now_ts - record.started_ts < policy.run_secs:
        return record.marks
    now = backlog.marks
    stayed = {name: mark for name, mark in record.marks.items() if name in now and mark.same_place(now[name])}
    return MappingProxyType(stayed)


def resumed(latest: RunRecord) -> RunRecord | None:
    """The record that forgets the failures; None when there is nothing to forget."""
    waiting = latest.phase is Phase.OPEN or (latest.phase is Phase.FAILED and latest.failures > 0)
    if not waiting:
        return None
    return replace(latest, number=latest.number + 1, phase=Phase.FAILED, failures=0, not_before_ts=0.0, reason=RESUMED)


def _first(pipeline: str, epoch: str, fingerprint: str) -> RunRecord:
    """What comes before record 0."""
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
    return replace(failed, not_before_ts=now_ts + wait_secs(failed, policy))


def wait_secs(record: RunRecord, policy: Policy) -> float:
    """Exponential in the failures, and up to a quarter more, by the record: pipelines that failed together do not
    come back together, and everybody who asks gets the same answer."""
    doubled = policy.backoff_secs * 2.0 ** min(record.failures - 1, 30)
    seed = sha256(f"{record.pipeline}/{record.epoch}/{record.number}".encode()).digest()
    return min(doubled, policy.max_backoff_secs) * (1 + int.from_bytes(seed[:2], "big") / 65536 / 4)
