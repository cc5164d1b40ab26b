"""One range of an audit: its objects, the ledger's files and the table's rows, side by side."""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import blake2b
from pathlib import Path
from typing import Any

from blizzard.audit.gaps import entries_at
from blizzard.audit.letters import Refused, Settlements, compare_letters, has_letters
from blizzard.audit.ranges import Ranges
from blizzard.audit.reach import PATTERN, Fate, Reach, reach_of
from blizzard.audit.row_numbers import (
    ANY_SEQUENCE,
    ROWS_UNCOUNTED,
    SUSPECTS,
    UNCOUNTED,
    FoundRows,
    are_distinct,
    found_rows,
    name_faults,
    suspicious,
)
from blizzard.audit.source import AuditedSource
from blizzard.audit.spill import Place, collect_seldom, items_at
from blizzard.audit.table_rows import FileRun, runs_by_path
from blizzard.audit.tally import Tally, digest_of
from blizzard.ledger.entry import FileState, LedgerEntry
from blizzard.ledger.ledger import Ledger, RunUnreadable, open_ledger
from blizzard.manifest.segments import Sweep
from blizzard.state.checkpoint import Checkpoint
from blizzard.state.watermark import SourceProgress, split_path
from blizzard.storage.base import ObjectInfo

Rows = dict[str, list[list[Any]]]
"""By path, the values of each FileRun."""
ETAG, ROWS, FIRST, CHECKSUM, ASCENDING = (
    FileRun._fields.index(name) for name in ("etag", "rows", "first", "checksum", "ascending")
)
_COUNTED = (FileState.DONE, FileState.COUNTED, FileState.FAILED, FileState.READ_ANEW)


@dataclass(frozen=True, slots=True, eq=False)
class ComparePlan:
    """`announced`: by range and path, the etags of unconsumed entries. `pieces`: files of commits that the ledger has
    lost. `lost_runs`: names of runs that cannot be read. `rows`: None if the table's rows are not compared. `sweeps`:
    in unconsumed segments. The times are as in Reach."""

    source: AuditedSource
    ranges: Ranges
    checkpoint: Checkpoint
    sweeps: Sequence[Sweep]
    listed_ts: float
    first_swept_ts: float | None
    many_folders: bool
    announced: Mapping[int, Mapping[str, frozenset[str]]]
    listed: Mapping[int, list[Place]]
    rows: Mapping[int, list[Place]] | None
    pieces: Mapping[int, list[Place]]
    lost_runs: frozenset[str]
    sample: int = 0
    """How many files each range proposes for the sample; which ones depends on `seed`."""
    seed: str = ""
    sequence_before: int = -1
    """Of the newest commit before the listing; -1: unknown."""
    salt: int = 0
    """Of the checksums of row numbers."""

    def reach(self) -> Reach:
        rules = self.source.rules()
        progress = SourceProgress.from_checkpoint(self.checkpoint, rules.folder_of)
        for sweep in self.sweeps:
            progress.apply_sweep(sweep)
        return reach_of(
            progress,
            rules,
            listed_ts=self.listed_ts,
            first_swept_ts=self.first_swept_ts,
            many_folders=self.many_folders,
        )


@dataclass(frozen=True, slots=True)
class CompareRange:
    """Called with the number of a range."""

    folder: Path
    plan: ComparePlan

    def __call__(self, number: str) -> str:
        collect_seldom()
        plan = self.plan
        ledger, reach = _opened(plan)
        comparison = Comparison(plan, reach, dict(plan.announced.get(int(number), {})))
        try:
            comparison.run(
                (ObjectInfo(*each) for each in items_at(self.folder, plan.listed.get(int(number), ()))),
                _entries(self.folder, plan, ledger, int(number)),
                runs_by_path(items_at(self.folder, (plan.rows or {}).get(int(number), ()))),
            )
        except RunUnreadable as error:
            return json.dumps({"lost_run": error.ref.name})
        compare_letters(plan.source, comparison.settlements, comparison.refused, comparison.tally, plan.salt)
        return comparison.tally.to_json()


@lru_cache(maxsize=1)
def _opened(plan: ComparePlan) -> tuple[Ledger, Reach]:
    """Once for each process."""
    return readable_ledger(plan.source, plan.checkpoint, plan.lost_runs), plan.reach()


def readable_ledger(source: AuditedSource, checkpoint: Checkpoint, lost_runs: Iterable[str] = ()) -> Ledger:
    """The ledger as of a checkpoint; what cannot be read is a gap."""
    ledger = open_ledger(source.state, source.identity, checkpoint, with_filters=False)
    for ref in [ref for ref in ledger.refs if ref.name in {*lost_runs}]:
        ledger = ledger.without(ref)
    return ledger


def _entries(folder: Path, plan: ComparePlan, ledger: Ledger, number: int) -> Iterator[LedgerEntry]:
    pieces = sorted(entries_at(folder, plan.pieces.get(number, ())))
    entries = ledger.between(plan.ranges.after(number), plan.ranges.through(number), pieces)
    return (entry for entry in entries if entry.path.startswith(plan.ranges.prefix))


@dataclass(slots=True)
class Comparison:
    """Fills `tally`. `announced`: of this range. `refused`: afterwards, the files whose dead letters are needed.
    `settlements`: read as soon as rows of a file are gone."""

    plan: ComparePlan
    reach: Reach
    announced: dict[str, frozenset[str]] = field(default_factory=dict)
    tally: Tally = field(default_factory=Tally)
    refused: list[Refused] = field(default_factory=list)
    settlements: Settlements = field(init=False)
    _folder: str | None = None
    _fates: Counter[str] = field(default_factory=Counter)
    _in_progress: frozenset[str] = field(init=False)

    def __post_init__(self) -> None:
        self._in_progress = frozenset(self.plan.checkpoint.in_progress)
        self.settlements = Settlements(self.plan.source)

    def run(self, listed: Iterable[ObjectInfo], entries: Iterable[LedgerEntry], rows: Rows) -> None:
        """`listed` and `entries` are sorted by path."""
        remaining = iter(entries)
        entry = next(remaining, None)
        for info in listed:
            while entry is not None and entry.path < info.key:
                self._gone(entry, rows)
                entry = next(remaining, None)
            is_known = entry is not None and entry.path == info.key
            self._object(info, entry if is_known else None, rows)
            if is_known:
                entry = next(remaining, None)
            self.announced.pop(info.key, None)
        while entry is not None:
            self._gone(entry, rows)
            entry = next(remaining, None)
        for path, runs in rows.items():
            self.tally.name("rows_added", [path, None, None, *2 * [sum(item[ROWS] for item in runs)]])
        for path in self.announced:
            self.tally.name("announced_absent", [path])

    # -- objects

    def _object(self, info: ObjectInfo, entry: LedgerEntry | None, rows: Rows) -> None:
        fate, rule = self._fate(info, entry)
        folder = info.key.rpartition("/")[0]
        if folder != self._folder:  # of the object before: most have the same
            self._folder, self._fates = folder, self.tally.fates.setdefault(split_path(info.key)[0], Counter())
        self._fates[fate] += 1
        if rule is not None:
            self.tally.skipped_by[rule] += 1
        if fate is Fate.MISSING:
            self.tally.found.setdefault("missing", []).append([info.key, info.size, info.etag, info.modified_ts])
        count = 0 if entry is None else self._compare_rows(entry, rows)
        if fate is Fate.COMMITTED and entry is not None:
            self._committed(info, entry, count)
        self.tally.digest += object_digest(info.key, info.etag, fate, count)

    def _committed(self, info: ObjectInfo, entry: LedgerEntry, rows_found: int) -> None:
        if info.etag == entry.etag:
            if self.plan.sample:
                self._choose(info, rows_found=rows_found, is_counted=not entry.is_from_table)
            return
        is_announced = info.etag in self.announced.get(info.key, ())
        comes = self.plan.source.overwrites_count and (is_announced or self.reach.late_sweep_finds(info))
        changed = [info.key, info.etag, entry.etag, entry.sequence, comes, rows_found]
        self.tally.found.setdefault("changed", []).append(changed)

    def _fate(self, info: ObjectInfo, entry: LedgerEntry | None) -> tuple[Fate, str | None]:
        if entry is not None and entry.etag == info.etag and entry.is_done:
            return Fate.COMMITTED, None  # as nearly all are
        is_announced = info.etag in self.announced.get(info.key, ())
        if entry is not None and entry.etag == info.etag:
            return self._fate_of_content(info, entry, is_announced=is_announced), None
        if entry is not None and entry.rows:
            return Fate.COMMITTED, None  # with other content: `look_again` decides
        if is_announced or info.key in self._in_progress:
            return Fate.PENDING, None
        if not self.reach.rules.matches(info.key):
            return Fate.SKIPPED, PATTERN
        return (Fate.COMMITTED, None) if self.reach.is_settled_from_before(info) else self.reach.fate(info)

    def _fate_of_content(self, info: ObjectInfo, entry: LedgerEntry, *, is_announced: bool) -> Fate:
        if entry.is_in_progress:
            return Fate.PENDING
        was_copied = info.modified_ts * 1000 >= entry.time_ms + 1  # onto itself, to have it read once more
        return Fate.PENDING if was_copied and is_announced else Fate.DEAD_LETTERED

    def _gone(self, entry: LedgerEntry, rows: Rows) -> None:
        """Settled, and no longer in the source; or it came after the listing, and a run has committed it since."""
        is_gone = entry.sequence <= self.plan.sequence_before or self.plan.sequence_before < 0
        self.tally.counts["gone"] += is_gone
        self.announced.pop(entry.path, None)
        count = self._compare_rows(entry, rows)
        if is_gone:
            self.tally.digest += object_digest(entry.path, entry.etag, "gone", count)

    # -- rows

    def _compare_rows(self, entry: LedgerEntry, rows: Rows) -> int:
        """Returns how many rows of the entry's content the table has."""
        if not entry.is_from_table:
            self.tally.sequences.add(entry.sequence)
        elif self.plan.rows is not None:
            self.tally.name(ROWS_UNCOUNTED, [entry.path])
        is_refused = has_letters(entry)
        if self.plan.rows is None:
            if is_refused:
                self.refused.append((entry, None))
            return 0
        runs = rows.pop(entry.path, [])
        self.tally.counts["rows_expected"] += entry.rows
        if not is_refused and len(runs) == 1 and _is_whole(runs[0], entry):  # as of nearly all files
            self.tally.counts["rows_found"] += entry.rows
            return entry.rows
        contents: dict[str, list[FileRun]] = {entry.etag: []}
        for item in map(FileRun._make, runs):
            contents.setdefault(item.etag, []).append(item)
        for etag, some in contents.items():
            self._judge(entry, etag, some)
            if etag != entry.etag:
                self._name_other_content(entry, etag, some)
        return sum(item.rows for item in contents[entry.etag])

    def _name_other_content(self, entry: LedgerEntry, etag: str, runs: list[FileRun]) -> None:
        """No rule leaves rows of a content that was overwritten."""
        self.tally.name("other_content", [entry.path, etag, entry.etag, sum(item.rows for item in runs)])

    def _judge(self, entry: LedgerEntry, etag: str, runs: list[FileRun]) -> None:
        """Names what is wrong, or leaves it to those who know the letters, or all row numbers."""
        is_own, is_distinct = etag == entry.etag, are_distinct(runs)
        expected = expected_rows(entry, runs) if is_own else None
        sequence = self._brought_by(entry, runs)
        found = found_rows(entry.path, etag, sequence, expected, runs, is_distinct=is_distinct, salt=self.plan.salt)
        self.tally.counts["rows_found"] += found.total
        if expected is not None and expected > entry.rows:
            self.tally.found.setdefault(UNCOUNTED, []).append(
                [entry.path, etag, sorted({item.sequence for item in runs}), entry.rows, expected]
            )
        if is_own and entry.is_from_table:
            found = found._replace(at_least=entry.rows)
        if is_own and (has_letters(entry) or _may_lack_letters(found)):
            self.refused.append((entry, found))
        elif not is_distinct:
            self.tally.found.setdefault(SUSPECTS, []).append(suspicious(found, expected))
        else:
            name_faults(self.tally, suspicious(found), found.total, 0)

    def _brought_by(self, entry: LedgerEntry, runs: list[FileRun]) -> int:
        """The commit that has brought all rows of the entry's content; ANY_SEQUENCE: it may have been several."""
        is_one = entry.state is FileState.READ_ANEW or (
            entry.state is FileState.DONE and not entry.is_from_table and entry.size <= self.plan.source.slice_bytes
        )
        if not is_one or any(item.sequence != entry.sequence for item in runs):
            return ANY_SEQUENCE
        is_whole = sum(item.rows for item in runs) >= entry.rows
        return entry.sequence if is_whole or not self.settlements.has_records_of(entry.path) else ANY_SEQUENCE

    # -- the sample

    def _choose(self, info: ObjectInfo, *, rows_found: int, is_counted: bool) -> None:
        """Keeps the files with the smallest hashes, which depend on the seed."""
        text = f"{self.plan.seed}\0{info.key}".encode(errors="surrogatepass")
        chosen = blake2b(text, digest_size=8).hexdigest()
        sample = self.tally.sample
        sample.append((chosen, [info.key, info.size, info.etag, info.modified_ts, rows_found, is_counted]))
        if len(sample) > 2 * self.plan.sample:
            self.tally.sample = sorted(sample)[: self.plan.sample]


def object_digest(path: str, etag: str, fate: str, rows: int) -> int:
    return digest_of(f"{path}\0{etag}\0{fate}\0{rows}")


def expected_rows(entry: LedgerEntry, runs: list[FileRun]) -> int | None:
    """How many rows of the entry's content the commits have brought; None if the ledger may have lost count."""
    if entry.state not in _COUNTED or entry.is_from_table:
        return None
    sequences = {item.sequence for item in runs}
    may_lack = entry.state is not FileState.READ_ANEW and len(sequences) > 1
    if may_lack and max(sequences) <= entry.sequence:  # read in slices, of which old receipts may lack some
        return max(entry.rows, sum(item.rows for item in runs)) if are_distinct(runs) else entry.rows
    return entry.rows


def _may_lack_letters(found: FoundRows) -> bool:
    """Whether there may be letters between the rows that the ledger does not count."""
    if found.at_least is not None:
        return not found.has_no_hole
    return found.expected is not None and found.last >= found.expected


def _is_whole(run: Sequence[Any], entry: LedgerEntry) -> bool:
    """Whether these are all records from the first one on, as many as the commits have brought."""
    return bool(
        run[CHECKSUM] is None
        and run[FIRST] == 0
        and run[ROWS] == entry.rows
        and run[ASCENDING]
        and run[ETAG] == entry.etag
    )
