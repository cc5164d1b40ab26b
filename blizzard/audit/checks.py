"""What a comparison alone cannot decide: files whose rows may be doubled, and objects that have changed meanwhile."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from blizzard.audit.commits_of import CommitOfFile, FileInCommit
from blizzard.audit.compare import object_digest
from blizzard.audit.reach import Fate
from blizzard.audit.row_numbers import SUSPECTS, UNCOUNTED, Suspect, name_faults
from blizzard.audit.source import AuditedSource
from blizzard.audit.tally import Tally
from blizzard.state.dead_letters import DeadLetters
from blizzard.state.watermark import split_path
from blizzard.storage.heads import heads
from blizzard.storage.keys import is_plain
from blizzard.storage.parallel_calls import ParallelCalls

PART_ROWS = 500_000
"""So many row numbers are in the memory of a process at a time."""
PARALLEL_HEADS = 32

Answer = Callable[[Sequence[str]], Sequence[str]]
"""Answers for parts, by processes."""


def judge_suspects(tally: Tally, count: Answer) -> None:
    """Files of which not every row number is known to be as it should. `count` answers as CountNumbers."""
    suspects = [Suspect._make(each) for each in tally.found.pop(SUSPECTS, [])]
    groups = [*_groups(suspects)]
    parts = [
        json.dumps(
            {
                "contents": [[each.path, each.etag, each.beyond, each.open_rows, each.excess] for each in group],
                "files": sorted({number for suspect in group for number in suspect.files}),
            }
        )
        for group in groups
    ]
    for group, answer in zip(groups, count(parts), strict=True):
        for suspect, (distinct, foreign) in zip(group, json.loads(answer), strict=True):
            name_faults(tally, suspect, distinct, foreign)


def judge_uncounted(tally: Tally, commits: Callable[[set[FileInCommit]], Mapping[FileInCommit, CommitOfFile]]) -> None:
    """Files with more rows than the ledger counts. Receipts of earlier versions lack rows of files that were read in
    slices, which those of today do not. `commits` answers as CommitFinder."""
    more = tally.found.pop(UNCOUNTED, [])
    found = commits({(path, sequence) for path, _, sequences, *_ in more for sequence in sequences}) if more else {}
    named = {path for path, *_ in tally.found.get("rows_added", ())}
    for path, etag, sequences, counted, total in more:
        of_file = (found.get((path, sequence)) for sequence in sequences)
        lines = [commit.line for commit in of_file if commit is not None and commit.line is not None]
        if path not in named and any(line.begins and line.etag == etag for line in lines):
            tally.name("rows_added", [path, etag, counted, total, total])


def _groups(suspects: Sequence[Suspect]) -> Iterator[list[Suspect]]:
    group, rows = list[Suspect](), 0
    for suspect in suspects:
        group.append(suspect)
        rows += suspect.total
        if rows >= PART_ROWS:
            yield group
            group, rows = [], 0
    if group:
        yield group


def look_again(tally: Tally, source: AuditedSource, *, sequence_before: int) -> None:
    """At objects that seem to be missing or changed: they may have been deleted, overwritten or committed since the
    listing; and at those that are announced and were not listed, which may have come since. `sequence_before`: of the
    newest commit before it."""
    _leave_out_arrived(tally, source)
    missing, changed = tally.found.pop("missing", []), tally.found.pop("changed", [])
    recent = [each for each in changed if each[3] > sequence_before]
    now = heads(source.files, [each[0] for each in (*missing, *recent)], at_once=PARALLEL_HEADS)
    refused = _with_letters(source, changed) if source.overwrites_count else set()
    for path, size, etag, modified_ts in missing:
        info = now[path]
        if info is not None and info.etag == etag:
            tally.found.setdefault("missing", []).append([path, size, etag, modified_ts])
        else:
            _move(tally, path, 0, (etag, Fate.MISSING), None if info is None else (info.etag, Fate.PENDING))
    for path, etag, committed, sequence, comes, rows in changed:
        info = now.get(path)
        if (path, etag) in refused:
            _move(tally, path, rows, (etag, Fate.COMMITTED), (etag, Fate.DEAD_LETTERED))
        elif comes:
            _move(tally, path, rows, (etag, Fate.COMMITTED), (etag, Fate.PENDING))
        elif sequence <= sequence_before or (info is not None and info.etag != committed):
            tally.found.setdefault("changed", []).append([path, etag, committed, sequence])


def _leave_out_arrived(tally: Tally, source: AuditedSource) -> None:
    """Of files that are announced and seem to be absent, those that the source has by now. What can be no path of an
    object was announced by nobody of ours."""
    absent = tally.found.get("announced_absent", [])
    now = heads(source.files, [path for (path,) in absent if is_plain(path)], at_once=PARALLEL_HEADS)
    absent[:] = [[path] for (path,) in absent if now.get(path) is None]
    tally.counts["announced_absent"] = len(absent)


def _move(tally: Tally, path: str, rows: int, before: tuple[str, Fate], after: tuple[str, Fate] | None) -> None:
    """An object whose etag or fate turned out to be another one; None: it does not exist."""
    fates = tally.fates[split_path(path)[0]]
    fates[before[1]] -= 1
    tally.digest -= object_digest(path, *before, rows)
    if after is not None:
        fates[after[1]] += 1
        tally.digest += object_digest(path, *after, rows)


def _with_letters(source: AuditedSource, changed: Sequence[Sequence[Any]]) -> set[tuple[str, str]]:
    """Those whose new content has a dead letter: the ledger still has the content before."""
    letters = DeadLetters(source.state, source.identity.state_prefix, source.identity.source_id)
    found: set[tuple[str, str]] = set()

    def look(path: str, etag: str) -> None:
        if letters.has_file(path, etag):
            found.add((path, etag))

    with ParallelCalls(PARALLEL_HEADS, name="letters") as calls:
        for path, etag, *_ in changed:
            calls.submit(partial(look, path, etag))
    return found
