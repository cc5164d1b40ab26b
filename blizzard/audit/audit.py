"""The audit of one source: every object of it accounted for, and every row.

First the source is listed, then the manifest is read, then the table. So a file that arrives meanwhile is announced, or
in the table, or too young to be missing; and what a run commits meanwhile is in the table, which is read last.
"""

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from hashlib import blake2b
from operator import itemgetter
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import unquote

from blizzard.audit import listing, notices
from blizzard.audit.announced import Announced, read_announced
from blizzard.audit.checks import judge_suspects, judge_uncounted, look_again
from blizzard.audit.commits_of import CommitFinder
from blizzard.audit.compare import ComparePlan, CompareRange, readable_ledger
from blizzard.audit.deletions import Deletions
from blizzard.audit.gaps import Pieces, fill_gaps
from blizzard.audit.left_out import OBJECTS_NOT_LISTED
from blizzard.audit.letters import judge_doubled
from blizzard.audit.listing import ListingPlan, ListRanges
from blizzard.audit.ranges import RANGE_FILES, Ranges, numbers_of, ranges_of
from blizzard.audit.reach import Fate
from blizzard.audit.report import AuditReport, Notice, RowsAudit, SampleAudit, Verdict
from blizzard.audit.row_numbers import GONE_BEFORE
from blizzard.audit.sample import is_bad
from blizzard.audit.snapshot import Snapshot, copy_of, read_snapshot
from blizzard.audit.source import AuditedSource
from blizzard.audit.spill import Place, from_json, joined
from blizzard.audit.strangers import Strangers, by_kind, sources_committed_to, strangers_of
from blizzard.audit.swept import first_swept_ts, read_reports_of
from blizzard.audit.table_rows import CountNumbers, CountRows, RowsPlan, entries_of_commits, parts_of, rows_plan
from blizzard.audit.taken_out import explained
from blizzard.audit.tally import DIGEST_BYTES, Tally, digest_of
from blizzard.state.checkpoint import Checkpoint
from blizzard.sweep.rules import MANY_FOLDERS
from blizzard.table.active_files import ActiveFiles, active_files

NAMED: Mapping[str, Sequence[str]] = {
    "missing": ("path", "size", "etag", "modified_ts"),
    "doubled": ("path", "etag", "rows_expected", "rows_found", "rows_distinct"),
    "changed": ("path", "etag", "etag_committed", "sequence"),
    "other_content": ("path", "etag", "etag_committed", "rows_found"),
    "rows_deleted": ("path", "etag", "rows_expected", "rows_found", "rows_distinct"),
    "rows_added": ("path", "etag", "rows_expected", "rows_found", "rows_distinct"),
    "letters_lost": ("path", "etag", "letters_expected", "letters_found"),
    "letters_doubled": ("path", "etag", "letters_expected", "letters_found"),
    "announced_absent": ("path",),
    "data_files_lost": ("path", "rows", "why"),
    OBJECTS_NOT_LISTED: ("path", "why"),
}
"""The lists of names in the answer, with their fields."""
BAD = ("missing", "doubled", "changed", "other_content", "rows_added", "letters_lost", "data_files_lost")
BAD_NOTICES = ("rows_gone", "rows_of_unknown_sources", "txn_lost")
"""Kinds of notices that make the verdict bad without a list of names."""


class Processes(Protocol):
    """As ReadingProcesses."""

    def map(
        self, call: Callable[[str], str], parts: Sequence[str], answered: Callable[[str], None] | None = None
    ) -> list[str]: ...


class Progress(Protocol):
    def __call__(self, step: str, done: int, total: int) -> None:
        """`total` 0: unknown."""


def no_progress(step: str, done: int, total: int) -> None:
    """Shows nothing."""


@dataclass(slots=True)
class Audit:
    """One audit of one source. `folder`: an empty one, for what its processes leave for each other. `prefix`: only
    paths that begin with it. `sample`: how many files are proposed for reading again. `seed`: of the choice, and of
    checksums. `known`: the sources that are configured for the table; None: only this one."""

    source: AuditedSource
    processes: Processes
    folder: Path
    clock: Callable[[], float]
    prefix: str = ""
    sample: int = 0
    seed: str = ""
    known: Collection[str] | None = None
    range_files: int = RANGE_FILES
    progress: Progress = no_progress
    tally: Tally = field(default_factory=Tally)
    snapshot: Snapshot = field(init=False)
    active: ActiveFiles = field(init=False, default_factory=ActiveFiles)
    _ranges: Ranges = field(init=False)
    _copy: Checkpoint | None = field(init=False, default=None)
    _notices: list[Notice] = field(init=False, default_factory=list)
    _listed_ts: float = field(init=False)
    _deletions: Deletions = field(init=False, default_factory=Deletions)
    _strangers: list[Strangers] = field(init=False, default_factory=list)

    def run(self) -> None:
        """Fills `tally`. Raises BlizzardError."""
        self._copy = copy_of(self.source)
        before = self._copy or Checkpoint(self.source.identity.pipeline, self.source.identity.source)
        self._ranges = ranges_of(readable_ledger(self.source, before), self.prefix, self.range_files)
        self._listed_ts = self.clock()
        listed = self._list()
        announced = read_announced(self.source, before)
        self.snapshot = read_snapshot(self.source)
        pieces = self._compare(listed, announced, before.sequence)
        look_again(self.tally, self.source, sequence_before=before.sequence)
        judge_doubled(self.source, self.tally)
        if self.snapshot.txn_lost:
            self.tally.forget("rows_added")  # rows are there of commits that nobody knows
        self._deletions = self._explain()
        self._notices += notices.manifest_notices(announced, self.tally)
        are_gone = self.tally.counts["rows_deleted"] > 0
        self._notices += notices.state_notices(self.snapshot, self._copy, pieces, are_rows_gone=are_gone)
        self._notices += notices.file_notices(self.tally, self.active.problem)
        self._notices += notices.left_out_notices(self.tally)
        self._notices += notices.folder_notices(self.prefix, self.tally)
        self._notices += notices.uncounted_notices(self.tally, pieces)
        self._notices += notices.deletion_notices(self._deletions)
        taken_over = self.snapshot.checkpoint.before_ledger_ts is not None
        self._notices += notices.stranger_notices(self._strangers, taken_over=taken_over)
        self._notices += notices.receipt_notices(self.source, self.tally)

    def report(self, sample: SampleAudit | None = None, repaired: int | None = None) -> AuditReport:
        tally, identity = self.tally, self.source.identity
        is_wrong = any(tally.found.get(kind) for kind in BAD) or (
            sample is not None and is_bad(sample, self._gone_of_uncounted())
        )
        is_wrong = is_wrong or any(notice.kind in BAD_NOTICES for notice in self._notices)
        is_noted = self._notices or (sample is not None and (sample.problem or sample.differ))
        noted = Verdict.NOTES if is_noted else Verdict.GOOD
        totals = {str(fate): tally.total(fate) for fate in Fate}
        return AuditReport(
            source=identity.source_id,
            table_uri=self.source.table_uri,
            verdict=Verdict.BAD if is_wrong else noted,
            objects=sum(totals.values()),
            **totals,
            doubled=len(tally.found.get("doubled", ())),
            changed=len(tally.found.get("changed", ())),
            gone=tally.counts["gone"],
            skipped_by=dict(tally.skipped_by),
            rows=RowsAudit(
                tally.counts["rows_expected"],
                tally.counts["rows_found"],
                tally.counts["rows_deleted"],
                tally.counts["rows_added"],
                self._deletions.gone,
                self._deletions.unexplained,
                self.active.problem,
            ),
            others=self._strangers,
            names={kind: _named(fields, tally.found.get(kind, ())) for kind, fields in NAMED.items()},
            partitions=dict(tally.partitions()),
            notices=self._notices,
            sample=sample,
            repaired=repaired,
            table_version=self.snapshot.version,
            sequence=self.snapshot.checkpoint.sequence if self.snapshot.checkpoint.sequence >= 0 else None,
            listed_at=self._listed_ts,
            digest=f"{self._digest():064x}",
            problem=None,
        )

    def _digest(self) -> int:
        """With the rows of strangers, and what no single file tells."""
        found = [
            f"{kind}\0{each.source}\0{each.rows}" for kind, some in by_kind(self._strangers).items() for each in some
        ]
        found += [f"data_files_lost\0{path}" for path, *_ in self.tally.found.get("data_files_lost", ())]
        found.append(f"rows_gone\0{self._deletions.unexplained}")
        return self.tally.digest + sum(map(digest_of, found)) & (1 << 8 * DIGEST_BYTES) - 1

    def _gone_of_uncounted(self) -> dict[str, int]:
        """Rows that are known to be gone, of those files of the sample whose rows the ledger does not count."""
        gone = self.tally.gone_uncounted
        return {path: gone.get(path, 0) for _, (path, *_, is_counted) in self.tally.sample if not is_counted}

    @property
    def _salt(self) -> int:
        return int.from_bytes(blake2b(self.seed.encode(), digest_size=8).digest())

    # -- steps

    def _list(self) -> dict[int, list[Place]]:
        plan = ListingPlan(self.source, self._ranges)
        parts = listing.parts_of(self._ranges)
        answers = self._map("listing objects", ListRanges(self.folder, plan), parts, "objects", 0)
        for path, why in sorted(each for answer in answers for each in answer["left_out"]):
            self.tally.name(OBJECTS_NOT_LISTED, [path, why])
        return joined(from_json(answer["places"]) for answer in answers)

    def _compare(self, listed: dict[int, list[Place]], announced: Announced, sequence_before: int) -> Pieces:
        lost_runs: set[str] = set()
        reports = read_reports_of(self.source)
        late = reports.late or reports.watermark
        rows_of, rows = self._rows()
        while True:
            ledger = readable_ledger(self.source, self.snapshot.checkpoint, lost_runs)
            ask_table = partial(entries_of_commits, rows_of)
            pieces = fill_gaps(self.source, ledger.gaps, ask_table, ranges=self._ranges, folder=self.folder)
            plan = ComparePlan(
                self.source,
                self._ranges,
                _portable(self.snapshot.checkpoint),
                announced.sweeps,
                self._listed_ts,
                first_swept_ts(self.source, reports, announced.sweeps),
                late is not None and late.partitions > MANY_FOLDERS,
                self._announced_by_range(announced),
                listed,
                rows,
                pieces.places,
                frozenset(lost_runs),
                self.sample,
                self.seed,
                sequence_before,
                self._salt,
            )
            numbers = [*numbers_of(self._ranges)]
            answers = self._map("comparing", CompareRange(self.folder, plan), numbers, None, len(numbers))
            newly_lost = {answer["lost_run"] for answer in answers if "lost_run" in answer}
            if not newly_lost:
                break
            lost_runs |= newly_lost
        for answer in answers:
            self.tally.add(answer)
        count = CountNumbers(rows_of)
        judge_suspects(self.tally, lambda parts: self.processes.map(count, parts))
        judge_uncounted(self.tally, CommitFinder(self.source, self.snapshot.checkpoint).find)
        return pieces

    def _rows(self) -> tuple[RowsPlan, dict[int, list[Place]] | None]:
        """The plan of counting, and where the counts are; None if they cannot be had."""
        if self.snapshot.version is not None:
            self.active = active_files(self.source.table_uri, self.snapshot.version, self.source.s3)
        own = self.source.identity.source_id
        known = None if self.prefix else {own, *(self.known or ())}
        plan = rows_plan(self.source, self._ranges, self.active, salt=self._salt, known=known)
        if self.active.problem is not None:
            return plan, None
        answers = self._map(
            "counting rows in data files", CountRows(self.folder, plan), parts_of(plan), "files", len(plan.files)
        )
        paths = [unquote(file.path) for file in plan.files]
        for number, why in (lost for answer in answers for lost in answer["lost"]):
            self.tally.name("data_files_lost", [paths[number], plan.files[number].rows, why])
        counted = ((source, rows, paths[number]) for answer in answers for source, rows, number in answer["others"])
        ever_committed = sources_committed_to(self.source.table_uri, self.snapshot.version or 0, self.source.s3)
        self._strangers = [] if known is None else strangers_of(counted, known, ever_committed)
        return plan, joined(from_json(answer["places"]) for answer in answers)

    def _explain(self) -> Deletions:
        """Why rows are gone, as of the version of the table that was read."""
        found = explained(self.source, +self.tally.gone, self.snapshot.version)
        before = self.tally.counts[GONE_BEFORE]
        return replace(found, gone=found.gone + before, before_rebuild=before)

    def _map(
        self, step: str, call: Callable[[str], str], parts: Sequence[str], counted: str | None, total: int
    ) -> list[Any]:
        """`counted`: the field of an answer that says how much was done; None: each part is one."""
        done = 0

        def answered(answer: str) -> None:
            nonlocal done
            done += 1 if counted is None else json.loads(answer)[counted]
            self.progress(step, done, total)

        return [json.loads(answer) for answer in self.processes.map(call, parts, answered)]

    def _announced_by_range(self, announced: Announced) -> dict[int, dict[str, frozenset[str]]]:
        found: dict[int, dict[str, frozenset[str]]] = {}
        for file in announced.after(self.snapshot.checkpoint.position):
            if file.path.startswith(self.prefix):
                by_path = found.setdefault(self._ranges.of(file.path), {})
                by_path[file.path] = by_path.get(file.path, frozenset()) | {file.etag}
        return found


def _portable(checkpoint: Checkpoint) -> Checkpoint:
    """As other processes can get it."""
    watermarks, files = dict(checkpoint.partition_watermarks), dict(checkpoint.files)
    return replace(checkpoint, partition_watermarks=watermarks, files=files)


def _named(fields: Sequence[str], found: Sequence[Sequence[Any]]) -> list[dict[str, Any]]:
    return [dict(zip(fields, each, strict=False)) for each in sorted(found, key=itemgetter(0))]
