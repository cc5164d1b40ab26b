"""Rows that commits have brought and the table lacks: does its log say that somebody has deleted them?

Whoever deletes rows on purpose leaves a commit with that operation, and mostly with the number of rows. So of the rows
that are gone, as many are explained. RESTORE explains nothing, and takes back the deletions that it undoes; nor does a
data file that is no longer there, or another program that writes the table anew.
"""

import math
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from blizzard.audit.snapshot import RESTORE
from blizzard.state.checkpoint import LEGACY_APP_ID_PREFIX
from blizzard.state.delta_log import Commit

DELETING: Mapping[str, tuple[str, ...]] = {
    "DELETE": ("numDeletedRows", "num_deleted_rows"),
    "MERGE": ("numTargetRowsDeleted", "num_target_rows_deleted"),
    "TRUNCATE": (),
}
"""Operations that delete rows on purpose, each with the names of the metric that counts them."""


@dataclass(frozen=True, slots=True)
class Deletions:
    """`gone`: rows. `unexplained`: those of them that no commit of the log has deleted. `unknown`: those that may have
    been deleted before `log_begins`, a version of the table, from which on there is a log."""

    gone: int = 0
    unexplained: int = 0
    unknown: int = 0
    log_begins: int = 0


def deletions_of(gone: Mapping[int, int], commits: Iterable[Commit], app_id: str) -> Deletions:
    """`gone`: rows that are gone, by the sequence of a commit of source `app_id` that brought them, or of a later one;
    below 0: any. `commits`: newest first. It is read until all is explained."""
    total = sum(gone.values())
    deleted, oldest, begins = 0.0, math.inf, 0
    undone_above = math.inf
    for commit in commits if total else ():
        begins, oldest = commit.version, commit.txns.get(app_id, oldest)
        if commit.version > undone_above:  # by a RESTORE
            continue
        undone_above = _restored(commit) if commit.operation == RESTORE else math.inf
        deleted += _deleted_rows(commit)
        if deleted >= total:
            return Deletions(total)
    recent = sum(rows for sequence, rows in gone.items() if sequence >= oldest)
    rest = total - int(deleted)
    unexplained = rest if begins == 0 else max(0, recent - int(deleted))
    return Deletions(total, unexplained, rest - unexplained, begins)


def _restored(commit: Commit) -> float:
    """The version that a commit has restored; infinity: it does not say."""
    with suppress(KeyError, TypeError, ValueError):
        return int(commit.parameters["version"])
    return math.inf


def _deleted_rows(commit: Commit) -> float:
    """Infinity: it does not say how many."""
    names = DELETING.get(commit.operation or "")
    if names is None or any(app_id.startswith(LEGACY_APP_ID_PREFIX) for app_id in commit.txns):
        return 0
    return next((_number(commit.metrics[name]) for name in names if name in commit.metrics), math.inf)


def _number(value: Any) -> float:
    with suppress(TypeError, ValueError):
        return int(value)
    return math.inf
