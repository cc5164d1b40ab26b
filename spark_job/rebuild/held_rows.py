"""The rows that a table has of each file, and those of others: counted data file by data file, as an audit does."""

import json
import shutil
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote

from blizzard.audit.compare import readable_ledger
from blizzard.audit.ranges import Ranges, ranges_of
from blizzard.audit.row_numbers import checksum_of_run
from blizzard.audit.source import AuditedSource
from blizzard.audit.spill import Place, from_json, items_at, joined
from blizzard.audit.table_rows import CountRows, FileRun, parts_of, rows_plan
from blizzard.state.checkpoint import Checkpoint
from blizzard.table.active_files import ActiveFiles, active_files
from blizzard.table.row_checksums import joined as joined_checksums
from spark_job.rebuild.stopped import Check, never
from spark_job.rebuild.values import SourceValues


class RowCount(NamedTuple):
    """`checksum`: of the row numbers, with a number that is there twice in it twice."""

    rows: int = 0
    checksum: int = 0

    def plus(self, run: FileRun) -> "RowCount":
        return RowCount(self.rows + run.rows, joined_checksums(self.checksum, checksum_of_run(run, 0)))


NO_ROWS = RowCount()
Contents = Mapping[str, RowCount]
"""The rows of a file, by the etags of its contents."""


@dataclass(frozen=True, slots=True)
class HeldRows:
    """Of one source in one table. `others`: how many rows name other sources, None: no source; those of the table's own
    sources are among them. `lost`: the data files whose rows cannot be read. `problem`: why nothing was counted.
    `values`: of the same rows; None: there are none."""

    folder: Path
    places: Mapping[int, list[Place]] = field(default_factory=dict)
    others: Mapping[str | None, int] = field(default_factory=dict)
    lost: Collection[str] = ()
    problem: str | None = None
    values: SourceValues | None = None

    def files(self) -> Iterator[tuple[str, Contents]]:
        """By path, ascending."""
        for number in sorted(self.places):
            found = dict[str, dict[str, RowCount]]()
            for item in items_at(self.folder, self.places[number]):
                run = FileRun(*item)
                contents = found.setdefault(run.path, {})
                contents[run.etag] = contents.get(run.etag, NO_ROWS).plus(run)
            yield from sorted(found.items())


@dataclass(frozen=True, slots=True)
class RowCounter:
    """Counts the rows of one version. `folder`: made for what is found. `known`: the sources of the table; None:
    nobody asks for rows of others. `check`: ends it between data files."""

    source: AuditedSource
    folder: Path
    known: Collection[str] | None = None
    check: Check = never

    def __call__(self, checkpoint: Checkpoint, version: int) -> HeldRows:
        """`checkpoint`: whose ledger divides the paths. `version`: below 0: there is no table. Errors as of storage."""
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)
        if version < 0:
            return HeldRows(self.folder)
        active = active_files(self.source.table_uri, version, self.source.s3)
        if active.problem is not None:
            return HeldRows(self.folder, problem=active.problem)
        return self._counted(active, version, ranges_of(readable_ledger(self.source, checkpoint)))

    def _counted(self, active: ActiveFiles, version: int, ranges: Ranges) -> HeldRows:
        plan = rows_plan(self.source, ranges, active, known=self.known)
        count = CountRows(self.folder, plan)
        answers = list[Any]()
        for part in parts_of(plan):
            self.check()
            answers.append(json.loads(count(part)))
        others = Counter[str | None]()
        for source, rows, _ in (found for answer in answers for found in answer["others"]):
            others[source] += rows
        lost = [unquote(plan.files[number].path) for answer in answers for number, _ in answer["lost"]]
        places = joined(from_json(answer["places"]) for answer in answers)
        return HeldRows(self.folder, places, others, lost, values=SourceValues(plan, version, self.check))
