"""The life of each file of a source: who announced it, which commit has it, or why none does."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from copy import copy
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory

from blizzard.audit.announced import Announced, read_announced
from blizzard.audit.compare import readable_ledger
from blizzard.audit.gaps import entries_at, fill_gaps
from blizzard.audit.question import Question, may_be_wanted
from blizzard.audit.ranges import Ranges
from blizzard.audit.reach import PARTITION_FILTER, PATTERN, Fate, Reach, reach_of
from blizzard.audit.snapshot import Snapshot, copy_of, read_snapshot
from blizzard.audit.source import AuditedSource
from blizzard.audit.swept import first_swept_ts, read_reports_of
from blizzard.audit.table_rows import entries_of_commits, rows_plan
from blizzard.ledger.entry import FileState, LedgerEntry, merge_sorted
from blizzard.ledger.ledger import Ledger, RunUnreadable
from blizzard.ledger.run import BLOCK_ENTRIES
from blizzard.ledger.windows import LedgerWindows, Window
from blizzard.state.checkpoint import Checkpoint
from blizzard.state.dead_letters import DeadLetters
from blizzard.state.watermark import SourceProgress
from blizzard.storage.base import ObjectInfo
from blizzard.sweep.rules import MANY_FOLDERS
from blizzard.table.active_files import ActiveFiles, active_files

MOST_BLOCKS = 128
"""Of a window of the ledger: as many files are looked at together as these have, 65,536."""
AT_ONCE = 1_000
ABSENT = "absent"
"""The state of a file that the source does not have, and that nothing knows."""
_WORDS = {
    PATTERN: "the source's `pattern` does not match it",
    PARTITION_FILTER: "it was in a folder before `lookback` when the source was swept for the first time",
}


@dataclass(frozen=True, slots=True)
class EarlierCommit:
    """Of a file that an operator had read once more: a commit before that. The fields are as in Life; `error`: why the
    whole file was refused."""

    sequence: int
    table_version: int | None = None
    committed_ts: float | None = None
    etag: str | None = None
    rows: int | None = None
    rejected: int | None = None
    error: str | None = None
    announced_by: str | None = None
    announced_ts: float | None = None
    latency_secs: float | None = None


@dataclass(frozen=True, slots=True)
class Life:
    """`state`: as in an audit, or ABSENT. `reason`: why it is not in the table, or not as it is in the source. `rule`:
    which one skips it. `listed`: whether the source has it, with `etag`, `size` and `modified_ts`. `announced_by`:
    `event`, `sweep`, `late`, or `repair` if an operator had it read once more; None: nothing did, or nobody knows.
    `etag_committed`, `sequence`, `rows`, `rejected`: of its newest commit. `latency_secs`: from its announcement to the
    commit. `earlier`: the commits before a repair, newest first. `rows_found`: how many rows of this content the table
    has today; None: they were not looked at. `problem`: why nothing is known of any file of the source; the path is
    empty then. Whatever is unknown is None."""

    source: str
    path: str
    state: str
    reason: str | None = None
    listed: bool = False
    etag: str | None = None
    size: int | None = None
    modified_ts: float | None = None
    announced_by: str | None = None
    announced_ts: float | None = None
    etag_committed: str | None = None
    sequence: int | None = None
    table_version: int | None = None
    committed_ts: float | None = None
    rows: int | None = None
    rejected: int | None = None
    rows_found: int | None = None
    latency_secs: float | None = None
    rule: str | None = None
    earlier: tuple[EarlierCommit, ...] = ()
    problem: str | None = None


@dataclass(slots=True)
class Lives:
    """The files of a source whose path begins with `prefix` and `matches`, in the order of a listing. First the
    manifest is read, then the table, then the source is listed. `progress`: is told how many files were looked at.
    `listed`: afterwards, how many objects with this prefix there are."""

    source: AuditedSource
    prefix: str
    matches: Callable[[str], bool]
    now_ts: float
    progress: Callable[[int], None] = lambda count: None
    listed: int = field(init=False, default=0)
    snapshot: Snapshot = field(init=False)
    _announced: Announced = field(init=False)
    _reach: Reach = field(init=False)
    _letters: DeadLetters = field(init=False)

    def __post_init__(self) -> None:
        before = copy_of(self.source) or Checkpoint(self.source.identity.pipeline, self.source.identity.source)
        self._announced = read_announced(self.source, before)
        self.snapshot = read_snapshot(self.source, tail_commits=1)
        self._reach = self._reach_of()
        identity = self.source.identity
        self._letters = DeadLetters(self.source.state, identity.state_prefix, identity.source_id)

    def __iter__(self) -> Iterator[Life]:
        return self.wanted(Question())

    def wanted(self, question: Question) -> Iterator[Life]:
        """Those that the question asks for, and maybe others. Of most others nothing is made."""
        lost_runs: set[str] = set()
        seen = ""
        while True:
            self.listed = 0
            try:
                for life in self._lives(lost_runs, question):
                    if not seen or life.path > seen:
                        yield life
                        seen = life.path
            except RunUnreadable as error:
                lost_runs.add(error.ref.name)
            else:
                return

    def first_below(self, name: str) -> Life | None:
        """Of the file, or of the files whose path begins so."""
        below = copy(self)
        below.prefix = name
        return next(iter(below), None)

    def _lives(self, lost_runs: set[str], question: Question) -> Iterator[Life]:
        ledger = readable_ledger(self.source, self.snapshot.checkpoint, lost_runs)
        if ledger.gaps or question.is_everything:
            return self._every(ledger)
        return self._few(ledger, question)

    def _few(self, ledger: Ledger, question: Question) -> Iterator[Life]:
        announced, count = self._announced_by_path(), 0
        for window, listed in self._windows(ledger):
            paths = sorted({*may_be_wanted(question, window, listed), *filter(window.has, announced)})
            infos = {info.key: info for info in listed} if paths else {}
            for some in batches_of(filter(self.matches, paths), AT_ONCE):
                entries = window.find(some)
                for path in some:
                    if path in infos or path in entries:
                        yield self._life(infos.get(path), entries.get(path), announced.get(path, {}))
                    elif path in announced:
                        yield self._announced_only(path, announced[path])
            count += max(len(listed), window.count)
            self.progress(count)

    def _windows(self, ledger: Ledger) -> Iterator[tuple[Window, Sequence[ObjectInfo]]]:
        """With the objects that are listed there. The first ones are small, so that a question for few files ends
        soon."""
        windows, listed, blocks = LedgerWindows(ledger, self.prefix), _Listed(self.source.files.list(self.prefix)), 1
        low: str | None = self.prefix
        while low is not None:
            infos, high = listed.below(windows.bound(low, blocks), at_most=blocks * BLOCK_ENTRIES)
            self.listed += len(infos)
            yield windows.read(low, high), infos
            low, blocks = high, min(2 * blocks, MOST_BLOCKS)

    def _every(self, ledger: Ledger) -> Iterator[Life]:
        announced = self._announced_by_path()
        alone = deque(sorted(announced))
        with TemporaryDirectory(prefix="blizzard-files-") as folder:
            entries = (entry for entry in self._entries(Path(folder), ledger) if self.matches(entry.path))
            for number, (info, entry) in enumerate(side_by_side(self._listed(), entries), 1):
                if number % 1_000 == 0:
                    self.progress(number)
                path = info.key if info is not None else entry.path if entry is not None else ""
                while alone and alone[0] < path:
                    before = alone.popleft()
                    yield self._announced_only(before, announced[before])
                if alone and alone[0] == path:
                    alone.popleft()
                yield self._life(info, entry, announced.get(path, {}))
        for path in alone:
            yield self._announced_only(path, announced[path])

    def _listed(self) -> Iterator[ObjectInfo]:
        for info in self.source.files.list(self.prefix):
            self.listed += 1
            if self.matches(info.key):
                yield info

    def _entries(self, folder: Path, ledger: Ledger) -> Iterator[LedgerEntry]:
        ranges = Ranges((), self.prefix)
        plan = rows_plan(self.source, ranges, self._data_files() if ledger.gaps else ActiveFiles())
        pieces = fill_gaps(
            self.source,
            ledger.gaps,
            lambda sequences: entries_of_commits(plan, sequences),
            ranges=ranges,
            folder=folder,
        )
        return merge_sorted(ledger.scan(self.prefix), sorted(entries_at(folder, pieces.places.get(0, ()))))

    def _data_files(self) -> ActiveFiles:
        version = self.snapshot.version
        return ActiveFiles() if version is None else active_files(self.source.table_uri, version, self.source.s3)

    # -- one file

    def _life(self, info: ObjectInfo | None, entry: LedgerEntry | None, announced: Mapping[str, str]) -> Life:
        life = Life(
            self.source.identity.source_id, info.key if info is not None else entry.path if entry else "", ABSENT
        )
        if info is not None:
            life = replace(life, listed=True, etag=info.etag, size=info.size, modified_ts=info.modified_ts)
        if entry is not None:
            life = replace(
                life,
                etag_committed=entry.etag,
                sequence=entry.sequence,
                rows=entry.rows,
                rejected=entry.rejected,
                announced_ts=entry.time_ms / 1000 if entry.time_ms else None,
            )
        waits = None if info is None else announced.get(info.etag)
        state, reason = self._state(info, entry, waits)
        if state == Fate.SKIPPED and reason is not None:
            return replace(life, state=state, reason=_WORDS[reason], rule=reason)
        if state == Fate.PENDING:
            reason = self.snapshot.stops_runs or reason
        return replace(life, state=state, reason=reason, announced_by=waits if state == Fate.PENDING else None)

    def _state(self, info: ObjectInfo | None, entry: LedgerEntry | None, waits: str | None) -> tuple[str, str | None]:
        """With its reason; of a skipped file, the rule."""
        if entry is not None and (info is None or info.etag == entry.etag or entry.rows):
            return self._state_of_known(info, entry, waits)
        if info is None:
            return ABSENT, None
        if waits is not None or info.key in self.snapshot.checkpoint.in_progress:
            return Fate.PENDING, "it is announced; the next run reads it"
        if not self._reach.rules.matches(info.key):
            return Fate.SKIPPED, PATTERN
        if self._reach.is_settled_from_before(info):
            return Fate.COMMITTED, "by a state from before the ledger"
        fate, rule = self._reach.fate(info)
        if fate is Fate.MISSING:
            return fate, "no sweep looks there any more, and no event announced it: `blizzard audit --repair` does"
        return fate, rule if fate is Fate.SKIPPED else "nothing has announced it yet; the next sweep does"

    def _state_of_known(self, info: ObjectInfo | None, entry: LedgerEntry, waits: str | None) -> tuple[str, str | None]:
        if entry.is_in_progress:
            return Fate.PENDING, f"it is larger than a batch: {entry.rows + entry.rejected:,} records are read"
        if entry.state is FileState.FAILED:
            return Fate.DEAD_LETTERED, None
        if info is None:
            return Fate.COMMITTED, "the source no longer has it"
        if info.etag == entry.etag:
            return Fate.COMMITTED, None
        if self._letters.has_file(info.key, info.etag):
            return Fate.DEAD_LETTERED, "its new content was refused; the table has the content before"
        if self.source.overwrites_count and (waits is not None or self._reach.late_sweep_finds(info)):
            return Fate.PENDING, "it was overwritten; a run or a late sweep looks at its new content"
        return Fate.COMMITTED, "it was overwritten since; the table has the content before"

    def _announced_only(self, path: str, etags: Mapping[str, str]) -> Life:
        etag, found_by = next(iter(etags.items()))
        reason = "it is announced, and the source does not have it: the next run gives it a dead letter"
        reason = self.snapshot.stops_runs or reason
        return Life(self.source.identity.source_id, path, Fate.PENDING, reason, etag=etag, announced_by=found_by)

    def _announced_by_path(self) -> dict[str, dict[str, str]]:
        """By path and etag, what announced it."""
        found: dict[str, dict[str, str]] = {}
        for file in self._announced.after(self.snapshot.checkpoint.position):
            if file.path.startswith(self.prefix) and self.matches(file.path):
                found.setdefault(file.path, {})[file.etag] = file.found_by
        return found

    def _reach_of(self) -> Reach:
        rules, reports = self.source.rules(), read_reports_of(self.source)
        progress = SourceProgress.from_checkpoint(self.snapshot.checkpoint, rules.folder_of)
        for sweep in self._announced.sweeps:
            progress.apply_sweep(sweep)
        late = reports.late or reports.watermark
        return reach_of(
            progress,
            rules,
            listed_ts=self.now_ts,
            first_swept_ts=first_swept_ts(self.source, reports, self._announced.sweeps),
            many_folders=late is not None and late.partitions > MANY_FOLDERS,
        )


@dataclass(slots=True)
class _Listed:
    """A listing that is taken in parts."""

    objects: Iterator[ObjectInfo]
    _next: ObjectInfo | None = field(init=False)

    def __post_init__(self) -> None:
        self._next = next(self.objects, None)

    def below(self, high: str | None, *, at_most: int) -> tuple[list[ObjectInfo], str | None]:
        """The next ones, and below what they all are: `high` (None: all that there are), unless these are too many."""
        found: list[ObjectInfo] = []
        while self._next is not None and (high is None or self._next.key < high):
            if len(found) == at_most:
                return found, self._next.key
            found.append(self._next)
            self._next = next(self.objects, None)
        return found, high


def batches_of(paths: Iterable[str], count: int) -> Iterator[list[str]]:
    remaining = iter(paths)
    while some := [*islice(remaining, count)]:
        yield some


def side_by_side(
    listed: Iterator[ObjectInfo], entries: Iterator[LedgerEntry]
) -> Iterator[tuple[ObjectInfo | None, LedgerEntry | None]]:
    """Both are sorted by path. Each path comes once."""
    info, entry = next(listed, None), next(entries, None)
    while info is not None or entry is not None:
        if entry is None or (info is not None and info.key < entry.path):
            yield info, None
            info = next(listed, None)
        elif info is None or entry.path < info.key:
            yield None, entry
            entry = next(entries, None)
        else:
            yield info, entry
            info, entry = next(listed, None), next(entries, None)


def literal_prefix(globs: list[str]) -> str:
    """With which all paths begin that a pattern matches."""
    prefixes = [glob[: next((at for at, char in enumerate(glob) if char in "*?[{"), len(glob))] for glob in globs]
    if not prefixes:
        return ""
    low, high = min(prefixes), max(prefixes)
    with suppress(StopIteration):
        return low[: next(at for at, (one, other) in enumerate(zip(low, high, strict=False)) if one != other)]
    return low
