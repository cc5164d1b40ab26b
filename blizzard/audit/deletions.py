"""Rows that commits have brought and the table lacks: does its log say that somebody has deleted them?

Whoever deletes rows on purpose leaves a commit with that operation, and mostly with the number of rows. So of the rows
that are gone, as many are explained: of those that were committed before, and of this source. RESTORE explains nothing,
and takes back the deletions that it undoes; nor does a data file that is no longer there, or another program that
writes the table anew.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from blizzard.audit.snapshot import RESTORE
from blizzard.state.delta_log import Commit
from blizzard.state.identity import APP_ID_PREFIX

DELETING: Mapping[str, tuple[str, ...]] = {
    "DELETE": ("numDeletedRows", "num_deleted_rows"),
    "MERGE": ("numTargetRowsDeleted", "num_target_rows_deleted"),
    "TRUNCATE": (),
}
"""Operations that delete rows on purpose, each with the names of the metric that counts them."""
EASTERNMOST = timedelta(hours=14)
"""The time zone in which a time of day comes first."""


@dataclass(frozen=True, slots=True)
class Deletions:
    """`gone`: rows. `unexplained`: those of them that no commit of the log has deleted. `unknown`: those that may have
    been deleted before `log_begins`, a version of the table, from which on there is a log. `before_rebuild`: those that
    were gone when the state was made anew from the others; nobody knows whether they had been deleted."""

    gone: int = 0
    unexplained: int = 0
    unknown: int = 0
    log_begins: int = 0
    before_rebuild: int = 0


def deletions_of(
    gone: Mapping[int, int],
    commits: Iterable[Commit],
    app_id: str,
    taken_out: Callable[[Commit], float] = lambda commit: math.inf,
) -> Deletions:
    """`gone`: rows that are gone, by the sequence of the commit of source `app_id` that brought them; below 0: nobody
    knows which one it was. `commits`: newest first. It is read until all is explained, or no older one can.
    `taken_out`: how many rows of the source a commit has, at most; it is asked of those that delete rows."""
    total = sum(gone.values())
    oldest_sequence = min(gone, default=0)
    deleted, unexplained, begins = 0.0, 0, 0
    is_undone: Callable[[Commit], bool] = _nothing
    for commit in commits if total else ():
        begins, sequence = commit.version, commit.txns.get(app_id)
        if sequence is not None:  # what was deleted before it are not its rows
            brought = sum(rows for by, rows in gone.items() if by >= sequence)
            unexplained = max(unexplained, _without(brought, deleted))
            if sequence <= oldest_sequence:
                return Deletions(total, unexplained)
        if is_undone(commit):  # by a RESTORE
            continue
        is_undone = _undone_by(commit) if commit.operation == RESTORE else _nothing
        rows = _deleted_rows(commit)
        deleted += min(rows, taken_out(commit)) if rows else 0
        if deleted >= total:
            return Deletions(total, unexplained)
    rest = max(unexplained, _without(total, deleted))
    unexplained = rest if begins == 0 else unexplained
    return Deletions(total, unexplained, rest - unexplained, begins)


def _without(rows: int, deleted: float) -> int:
    return int(max(0, rows - deleted))


def _nothing(_: Commit) -> bool:
    return False


def _undone_by(restore: Commit) -> Callable[[Commit], bool]:
    """Which commits before it a RESTORE takes back; all, if it does not say."""
    version = _number(restore.parameters.get("version"))
    if version < math.inf:
        return lambda commit: commit.version > version
    ts = _restored_ts(restore.parameters)
    return lambda commit: commit.committed_ts is None or commit.committed_ts > ts


def _restored_ts(parameters: Mapping[str, Any]) -> float:
    """Spark says its own time of day, deltalake milliseconds of Unix time."""
    millis = _number(parameters.get("datetime"))
    if millis < math.inf:
        return millis / 1000
    with suppress(TypeError, ValueError, OverflowError):
        when = datetime.fromisoformat(parameters.get("timestamp", ""))
        return (when if when.tzinfo else when.replace(tzinfo=UTC) - EASTERNMOST).timestamp()
    return -math.inf


def _deleted_rows(commit: Commit) -> float:
    """Infinity: it does not say how many."""
    names = DELETING.get(commit.operation or "")
    if names is None or any(app_id.startswith(APP_ID_PREFIX) for app_id in commit.txns):
        return 0
    return next((_number(commit.metrics[name]) for name in names if name in commit.metrics), math.inf)


def _number(value: Any) -> float:
    """Infinity: it is none."""
    with suppress(TypeError, ValueError):
        return int(value)
    return math.inf
