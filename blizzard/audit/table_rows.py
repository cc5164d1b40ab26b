"""How many rows of each file the table has, counted data file by data file: only fields of `_source` are read."""

import json
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc

from blizzard.audit.ranges import Ranges
from blizzard.audit.source import AuditedSource
from blizzard.audit.spill import SpillWriter, collect_seldom, to_json
from blizzard.errors import DataFileDamaged, NotFound
from blizzard.ledger.entry import FileState, LedgerEntry
from blizzard.state.run_ref import SequenceRange
from blizzard.storage.base import ObjectStore
from blizzard.table.active_files import ActiveFiles
from blizzard.table.added_files import AddedFile
from blizzard.table.row_runs import NO_ROW, RowRun, rows_of, runs_of
from blizzard.table.source_column import SourceColumn

PART_ROWS = 1_000_000
"""A process gets about as many rows at a time."""
AT_ONCE = 8
"""Data files that a process reads at the same time: of each it waits for three requests or so."""


LOST = (NotFound, DataFileDamaged)
"""Errors of a data file that the table's log has, and whose rows nobody can read."""


@dataclass(frozen=True, slots=True)
class RowsPlan:
    """`files`: those data files that may have rows of the source, or of nobody that is known. `salt`: of checksums."""

    source: AuditedSource
    ranges: Ranges
    files: Sequence[AddedFile]
    deleted: Mapping[str, Sequence[int]]
    salt: int = 0

    def runs(self, number: int, others: Counter[str | None] | None = None) -> Iterator[RowRun]:
        """Of one data file. `others`: as in `runs_of`. Raises what LOST has."""
        file, source_id = self.files[number], self.source.identity.source_id
        if file.is_nobodys and not self._deleted(number):
            rows = rows_of_nobody(self.source.state, file)
            if others is not None:
                others[None] += rows
            return
        yield from runs_of(self._column(number), source_id, self._deleted(number), salt=self.salt, others=others)

    def rows(self, number: int, *fields: str) -> Iterator[pa.Table]:
        """As `read`. None of a data file that is lost."""
        with suppress(*LOST):
            yield from self.read(number, *fields)

    def read(self, number: int, *fields: str) -> Iterator[pa.Table]:
        """The source's rows in one data file, with these fields of `_source`; `source` is one of them. Raises what LOST
        has."""
        return rows_of(self._column(number), self.source.identity.source_id, fields, self._deleted(number))

    def _column(self, number: int) -> SourceColumn:
        return SourceColumn(self.source.state, self.files[number])

    def _deleted(self, number: int) -> Sequence[int]:
        return self.deleted.get(unquote(self.files[number].path), ())


def rows_plan(
    source: AuditedSource,
    ranges: Ranges,
    active: ActiveFiles,
    *,
    salt: int = 0,
    known: Collection[str] | None = None,
) -> RowsPlan:
    """`known`: the sources of the table; None: nobody asks for rows of others."""
    files = [
        file
        for file in active.files
        if file.may_hold(source.identity.source_id) or (known is not None and may_hold_strangers(file, known))
    ]
    return RowsPlan(source, ranges, files, active.deleted, salt)


def may_hold_strangers(file: AddedFile, known: Collection[str]) -> bool:
    return file.may_hold_others(known) or file.may_hold_nobodys()


def rows_of_nobody(store: ObjectStore, file: AddedFile) -> int:
    """Of a data file that is nobody's, by the log. Raises NotFound."""
    if store.head(unquote(file.path)) is None:
        raise NotFound(f"the data file {unquote(file.path)} is not there")
    return file.rows or 0


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
    checksum: int | None
    file: int


class _Counted(NamedTuple):
    """Of one data file. `lost`: why its rows cannot be read; None: they can."""

    runs: Sequence[RowRun]
    others: Counter[str | None]
    lost: str | None


@dataclass(frozen=True, slots=True)
class CountRows:
    """Called with numbers of data files, some of which are read at the same time. Answers with how many rows they have,
    where their runs are, the numbers of rows of other sources, each with its data file, and which data files are
    lost, each with the reason."""

    folder: Path
    plan: RowsPlan

    def __call__(self, part: str) -> str:
        collect_seldom()
        plan, numbers, rows = self.plan, json.loads(part), 0
        others, lost = list[tuple[str | None, int, int]](), list[tuple[int, str]]()
        with (
            SpillWriter(self.folder, f"rows-{numbers[0]}") as spill,
            ThreadPoolExecutor(AT_ONCE, thread_name_prefix="rows") as threads,
        ):
            for number, counted in zip(numbers, threads.map(self._counted, numbers), strict=True):
                for run in counted.runs:
                    if run.path.startswith(plan.ranges.prefix):
                        spill.add(plan.ranges.of(run.path), (*run, number))
                        rows += run.rows
                others += [(source, count, number) for source, count in counted.others.items()]
                lost += [] if counted.lost is None else [(number, counted.lost)]
        places = to_json(spill.places)
        return json.dumps({"files": len(numbers), "rows": rows, "places": places, "others": others, "lost": lost})

    def _counted(self, number: int) -> _Counted:
        others = Counter[str | None]()
        try:
            return _Counted([*self.plan.runs(number, others)], others, None)
        except NotFound:
            return _Counted((), Counter(), "it is not there")
        except DataFileDamaged as error:
            return _Counted((), Counter(), str(error))


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
        with suppress(*LOST):
            for run in plan.runs(number) if file.may_be_of(sequences) else ():
                if sequences.first <= run.sequence <= sequences.last:
                    key = (run.path, run.etag, run.sequence)
                    rows[key] = rows.get(key, 0) + run.rows
    for (path, etag, sequence), count in rows.items():
        yield LedgerEntry(path, sequence, etag, 0, 0, count, 0, FileState.DONE)


@dataclass(frozen=True, slots=True)
class CountNumbers:
    """Called with some contents of files, what their row numbers may not be, and the numbers of the data files that
    have their rows. Answers for each content with how many of its row numbers are different, and how many of these no
    commit can have brought: below 0, from `beyond` on, or with an open letter, except for `excess` of these."""

    plan: RowsPlan

    def __call__(self, part: str) -> str:
        asked = json.loads(part)
        contents = {(path, etag): place for place, (path, etag, *_) in enumerate(asked["contents"])}
        paths = pa.array([path for path, _ in contents], pa.string())
        found: list[set[int]] = [set() for _ in contents]
        for number in asked["files"]:
            for rows in self.plan.rows(number, "source", "file", "etag", "row"):
                rows = rows.filter(pc.is_in(pc.fill_null(rows["file"], ""), paths))
                for path, etag, row in zip(*(rows[name].to_pylist() for name in ("file", "etag", "row")), strict=True):
                    place = contents.get((path or "", etag or ""))
                    if place is not None:
                        found[place].add(NO_ROW if row is None else row)
        wanted = (limits for _, _, *limits in asked["contents"])
        return json.dumps([(len(rows), _foreign(rows, *limits)) for rows, limits in zip(found, wanted, strict=True)])


def _foreign(rows: set[int], beyond: int | None, open_rows: list[int], excess: int) -> int:
    outside = sum(row < 0 or row >= beyond for row in rows) if beyond is not None else 0
    return outside + max(0, len(rows.intersection(open_rows)) - excess)
