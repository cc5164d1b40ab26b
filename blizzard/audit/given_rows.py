"""Rows of records that an operator has given in place of refused ones, by `blizzard replay --records`. The file does
not have them, or has other values."""

from collections import Counter
from collections.abc import Collection
from typing import NamedTuple

from blizzard.audit.commits_of import CommitFinder, CommitOfFile
from blizzard.audit.snapshot import read_snapshot
from blizzard.audit.source import AuditedSource
from blizzard.state.receipts import Repair
from blizzard.state.settled_letters import Scope, Settled, SettledLetters


class RowOfCommit(NamedTuple):
    """A row of the table, by its `_source`."""

    path: str
    etag: str
    row: int
    sequence: int


def given_rows(source: AuditedSource, rows: Collection[RowOfCommit]) -> set[RowOfCommit]:
    """Those that an operator has given, as the receipts of their commits say; where a receipt is lost, as the marks of
    settled letters do."""
    if not rows:
        return set()
    finder = CommitFinder(source, read_snapshot(source, tail_commits=1).checkpoint)
    commits = finder.find({(row.path, row.sequence) for row in rows})
    counts = Counter((row.path, row.sequence) for row in rows)
    settled: Settled | None = None
    found = set()
    for row in rows:
        commit = commits.get((row.path, row.sequence))
        if commit is not None and commit.line is not None:
            is_given = _has_given(commit, row.etag, counts[row.path, row.sequence])
        else:
            settled = settled or SettledLetters(source.state, source.identity.state_prefix).read()
            is_given = _is_marked(settled, row)
        if is_given:
            found.add(row)
    return found


def _has_given(commit: CommitOfFile, etag: str, rows: int) -> bool:
    """Whether the commit has brought given records of this content, and as many rows: of more, some are not its own."""
    line = commit.line
    return line is not None and line.repair == Repair.GIVEN and line.etag == etag and rows <= line.rows


def _is_marked(settled: Settled, row: RowOfCommit) -> bool:
    return any(
        mark.scope is Scope.RECORDS and mark.etag == row.etag and row.row in mark.rows and done.sequence == row.sequence
        for mark, done in settled.by_path.get(row.path, ())
    )
