"""How many rows of each file the table has, counted data file by data file: only fields of `_source` are read."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc

from blizzard.audit.ranges import Ranges
from blizzard.audit.source import AuditedSource
from blizzard.audit.spill import SpillWriter, collect_seldom, to_json
from blizzard.ledger.entry import FileState, LedgerEntry
from blizzard.state.run_ref import SequenceRange
from blizzard.table.active_files import ActiveFiles
from blizzard.table.added_files import AddedFile
from blizzard.table.row_runs import RowRun, rows_of, runs_of
from blizzard.table.source_column import SourceColumn

PART_ROWS = 1_000_000
"""A process gets about as many rows at a time."""
AT_ONCE = 8
"""Data files that a process reads at the same time: of each it waits for three requests or so."""


@dataclass(frozen=True, slots=True)
class RowsPlan:
    """`files`: those data files that may have rows of the source."""

    source: AuditedSource
    ranges: Ranges
    files: Sequence[AddedFile]
    deleted: Mapping[str, Sequence[int]]

    def runs(self, number: int) -> Iterator[RowRun]:
        """Of one data file."""
        return runs_of(self._column(number), self.source.identity.source_id, self._deleted(number))

    def rows(self, number: int, *fields: str) -> Iterator[pa.Table]:
        """Of one data file, with these fields of `_source`; `source` is one of them."""
        return rows_of(self._column(number), self.source.identity.source_id, fields, self._deleted(number))

    def _column(self, number: int) -> SourceColumn:
        return SourceColumn(self.source.state, self.files[number])

    def _deleted(self, number: int) -> Sequence[int]:
        return self.deleted.get(unquote(self.files[number].path), ())


def rows_plan(source: AuditedSource, ranges: Ranges, active: ActiveFiles) -> RowsPlan:
    files = [file for file in active.files if file.may_hold(source.identity.source_id)]
    return RowsPlan(source, ranges, files, active.deleted)


def parts_of(plan: RowsPlan) -> list[str]:
    """The data files in parts for processes, by number."""
    parts: list[list[int]] = []
    rows = PART_ROWS
    for number, file in enumerate(plan.files):
        if rows >= PART_ROWS:
            parts.append([])
            rows = 0
        parts[-1].append(number)
        rows += PART_ROWS if file.rows is None else max(1, file.rows)
    return [json.dumps(part) for part in parts]


class FileRun(NamedTuple):
    """As RowRun, and the number of the data file that has it."""

    path: str
    etag: str
    sequence: int
    rows: int
    first: int
    last: int
    ascending: bool
    file: int


@dataclass(frozen=True, slots=True)
class CountRows:
    """Called with numbers of data files, some of which are read at the same time. Answers with how many rows they have,
    and where their runs are."""

    folder: Path
    plan: RowsPlan

    def __call__(self, part: str) -> str:
        collect_seldom()
        plan, numbers, rows = self.plan, json.loads(part), 0
        with (
            SpillWriter(self.folder, f"rows-{numbers[0]}") as spill,
            ThreadPoolExecutor(AT_ONCE, thread_name_prefix="rows") as threads,
        ):
            for number, runs in zip(numbers, threads.map(lambda number: [*plan.runs(number)], numbers), strict=True):
                for run in runs:
                    if run.path.startswith(plan.ranges.prefix):
                        spill.add(plan.ranges.of(run.path), (*run, number))
                        rows += run.rows
        return json.dumps({"files": len(numbers), "rows": rows, "places": to_json(spill.places)})


def runs_by_path(items: Iterable[list[Any]]) -> dict[str, list[list[Any]]]:
    """What CountRows has left: lists with the values of a FileRun, which most of them never become."""
    found: dict[str, list[list[Any]]] = {}
    for item in items:
        found.setdefault(item[0], []).append(item)
    return found


def entries_of_commits(plan: RowsPlan, sequences: SequenceRange) -> Iterable[LedgerEntry]:
    """What the ledger would have of these commits if their receipts are lost."""
    rows: dict[tuple[str, str, int], int] = {}
    for number, file in enumerate(plan.files):
        for run in plan.runs(number) if file.may_be_of(sequences) else ():
            if sequences.first <= run.sequence <= sequences.last:
                key = (run.path, run.etag, run.sequence)
                rows[key] = rows.get(key, 0) + run.rows
    for (path, etag, sequence), count in rows.items():
        yield LedgerEntry(path, sequence, etag, 0, 0, count, 0, FileState.DONE)


@dataclass(frozen=True, slots=True)
class CountDistinct:
    """Called with some contents of files and the numbers of the data files that have their rows. Answers for each
    content with how many of its row numbers are different."""

    plan: RowsPlan

    def __call__(self, part: str) -> str:
        asked = json.loads(part)
        contents = {(path, etag): place for place, (path, etag) in enumerate(asked["contents"])}
        paths = pa.array([path for path, _ in contents], pa.string())
        found: list[set[int]] = [set() for _ in contents]
        for number in asked["files"]:
            for rows in self.plan.rows(number, "source", "file", "etag", "row"):
                rows = rows.filter(pc.is_in(rows["file"], paths))
                for path, etag, row in zip(*(rows[name].to_pylist() for name in ("file", "etag", "row")), strict=True):
                    place = contents.get((path, etag or ""))
                    if place is not None:
                        found[place].add(row)
        return json.dumps([len(rows) for rows in found])
