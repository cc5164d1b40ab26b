"""The ledger of a source: the newest commit of every file that was ever settled, as of one checkpoint.

It is derived from receipts, and from the table where receipts are missing. The checkpoint names its runs; the receipts
of later commits follow from the one that the checkpoint names. Nothing else counts.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from operator import attrgetter

from blizzard.errors import AccessDenied, BucketMissing, NotFound, StorageError, UnreadableState
from blizzard.ledger.entry import LedgerEntry, entries_of, merge_sorted, merged
from blizzard.ledger.path_filter import digest_of
from blizzard.ledger.receipt_chain import MissingReceipts, ReceiptChain
from blizzard.ledger.run import Run, RunLoading
from blizzard.ledger.run_index import PartitionStats
from blizzard.state.checkpoint import Checkpoint
from blizzard.state.identity import SourceIdentity
from blizzard.state.receipts import Receipt, Receipts
from blizzard.state.run_ref import RunRef, SequenceRange, ranges_without
from blizzard.state.watermark import split_path
from blizzard.storage.base import ObjectStore
from blizzard.storage.parallel_calls import ParallelCalls

PARALLEL_READS = 32
MAX_RECENT_COMMITS = 256
MAX_RECENT_FILES = 200_000


@dataclass(frozen=True, slots=True)
class RecentCommit:
    """A commit that no run has yet, from its receipt. `previous`: the name of the receipt before."""

    sequence: int
    receipt: str
    previous: str | None
    entries: Sequence[LedgerEntry]


@dataclass(frozen=True, slots=True)
class Gap:
    """Commits whose files are in no run, and not read from receipts either. `receipt`: where their receipts begin, the
    newest first; None if only the table knows."""

    sequences: SequenceRange
    receipt: str | None


class RunUnreadable(UnreadableState):
    """A run is missing or damaged: its commits are a gap."""

    def __init__(self, ref: RunRef, error: Exception) -> None:
        super().__init__(
            f"run {ref.name} of the ledger cannot be read ({error!s:.200}). Nothing is lost: the next run of the job "
            "reads its files from the receipts or from the table, and writes it anew."
        )
        self.ref = ref


class Ledger:
    """`runs` and `recent` (ascending) cover disjoint ranges of commits; `gaps` are the others. A look-up makes up to
    `parallel` requests at a time."""

    def __init__(
        self,
        runs: Iterable[Run],
        recent: Iterable[RecentCommit],
        gaps: Iterable[Gap] = (),
        *,
        parallel: int = PARALLEL_READS,
    ) -> None:
        self._parallel = parallel
        self.runs = tuple(sorted(runs, key=attrgetter("ref.first")))
        self.gaps = tuple(gaps)
        self._recent: list[RecentCommit] = []
        self._recent_entries: dict[str, LedgerEntry] = {}
        for commit in recent:
            self.add(commit)

    @property
    def recent(self) -> Sequence[RecentCommit]:
        return self._recent

    @property
    def refs(self) -> tuple[RunRef, ...]:
        return tuple(run.ref for run in self.runs)

    def without(self, ref: RunRef) -> "Ledger":
        """The ledger without a run that cannot be read. Its commits become a gap."""
        following = {run.ref.first: run.index.previous for run in self.runs}
        following |= {commit.sequence: commit.previous for commit in self._recent}
        kept = [run for run in self.runs if run.ref != ref]
        return self.with_parts(kept, self._recent, [*self.gaps, Gap(ref.range, following.get(ref.last + 1))])

    def with_parts(self, runs: Iterable[Run], recent: Iterable[RecentCommit], gaps: Iterable[Gap] = ()) -> "Ledger":
        """A ledger of other parts, whose look-ups work as those of this one."""
        return Ledger(runs, recent, gaps, parallel=self._parallel)

    def add(self, commit: RecentCommit) -> None:
        """The commit follows those that the ledger has."""
        self._recent.append(commit)
        entries = self._recent_entries
        for entry in commit.entries:
            known = entries.get(entry.path)
            entries[entry.path] = entry if known is None else merged((known, entry))

    def find(self, paths: Iterable[str]) -> dict[str, LedgerEntry]:
        """The entries of those of these files that the ledger has. Raises RunUnreadable."""
        wanted = [(path, digest_of(path)) for path in dict.fromkeys(paths)]
        in_runs: list[LedgerEntry] = []
        with ParallelCalls(self._parallel, name="ledger") as calls:
            for run in self.runs:
                blocks = run.blocks_of(wanted)
                for numbers in run.reads(blocks):
                    calls.submit(partial(_read, run, numbers, blocks, in_runs))
        recent = (self._recent_entries[path] for path, _ in wanted if path in self._recent_entries)
        return {entry.path: entry for entry in merge_sorted(sorted(in_runs), sorted(recent))}

    def scan(self, prefix: str = "") -> Iterator[LedgerEntry]:
        """The files whose path begins with `prefix`, in the order of a listing. Holds about a megabyte of each run in
        memory. Raises RunUnreadable."""
        recent = sorted(entry for path, entry in self._recent_entries.items() if path.startswith(prefix))
        return merge_sorted(recent, *(scan_run(run, prefix) for run in self.runs))

    def between(self, after: str, through: str | None, *more: Iterable[LedgerEntry]) -> Iterator[LedgerEntry]:
        """The files whose path is above `after` and not above `through` (None: to the end), in the order of a listing.
        `more`: sorted entries of these files that the ledger lacks. Raises RunUnreadable."""

        def is_within(path: str) -> bool:
            return path > after and (through is None or path <= through)

        recent = sorted(entry for path, entry in self._recent_entries.items() if is_within(path))
        runs = (_scan_between(run, after, through) for run in self.runs)
        return (entry for entry in merge_sorted(recent, *runs, *more) if is_within(entry.path))

    def since(self, sequence: int) -> Iterator[LedgerEntry]:
        """The files that commits after `sequence` settled, in the order of a listing, with what these commits and those
        of the same runs say of them. Reads only runs that have such commits. Raises RunUnreadable."""
        recent = [entry for commit in self._recent if commit.sequence > sequence for entry in commit.entries]
        runs = (scan_run(run) for run in self.runs if run.ref.last > sequence)
        return (entry for entry in merge_sorted(sorted(recent), *runs) if entry.sequence > sequence)

    def recent_entries(self) -> list[LedgerEntry]:
        """The files of commits that no run has, in the order of a listing."""
        return sorted(self._recent_entries.values())

    def partitions(self) -> Mapping[str, PartitionStats]:
        """What the files of each partition look like; recent commits count as one run. A file that several runs have
        counts in each of them."""
        total: dict[str, PartitionStats] = {}
        for run in self.runs:
            for partition, stats in run.index.partitions.items():
                total.setdefault(partition, PartitionStats()).add_run(stats)
        recent: dict[str, PartitionStats] = {}
        for entry in sorted(self._recent_entries.values()):
            partition, name = split_path(entry.path)
            recent.setdefault(partition, PartitionStats()).add(name, entry)
        for partition, stats in recent.items():
            total.setdefault(partition, PartitionStats()).add_run(stats)
        return total


def _read(run: Run, numbers: range, blocks: Mapping[int, Sequence[str]], found: list[LedgerEntry]) -> None:
    with naming(run.ref):
        for number, data in run.read(numbers):
            if number in blocks:
                found.extend(run.find(blocks[number], data))


def scan_run(run: Run, prefix: str = "") -> Iterator[LedgerEntry]:
    """The run's files whose path begins with `prefix`, in the order of a listing. Raises RunUnreadable."""
    with naming(run.ref):
        for entry in run.scan(prefix):
            if not entry.path.startswith(prefix):
                return
            yield entry


def _scan_between(run: Run, after: str, through: str | None) -> Iterator[LedgerEntry]:
    with naming(run.ref):
        yield from run.scan(after, through)


@contextmanager
def naming(ref: RunRef) -> Iterator[None]:
    """Errors name the run: RunUnreadable if it is missing or damaged."""
    try:
        yield
    except (UnreadableState, NotFound, StorageError) as error:
        if isinstance(error, (RunUnreadable, AccessDenied, BucketMissing)):
            raise
        raise RunUnreadable(ref, error) from error


@dataclass(slots=True)
class LedgerCache:
    """What was read of a source's ledger, by name. Runs and receipts never change."""

    runs: dict[str, Run] = field(default_factory=dict)
    receipts: dict[str, Receipt] = field(default_factory=dict)


def open_ledger(
    store: ObjectStore,
    identity: SourceIdentity,
    checkpoint: Checkpoint,
    *,
    with_filters: bool,
    cache: LedgerCache | None = None,
    parallel: int = PARALLEL_READS,
) -> Ledger:
    """The ledger as of a checkpoint, with as few rounds of requests as possible. What cannot be read is a gap.

    `with_filters`: for many look-ups of new files; a reader of few files does without. `cache` has what earlier calls
    read; afterwards it has what this ledger needs. Raises StorageUnavailable, AccessDenied.
    """
    cache = cache or LedgerCache()
    chain = ReceiptChain(Receipts(store, identity.state_prefix), parallel=parallel, known=cache.receipts)
    recent = _RecentReader(chain)
    newest = max((ref.last for ref in checkpoint.ledger), default=-1)
    folder = ledger_folder(identity)
    wanted = [ref for ref in checkpoint.ledger if ref.name not in cache.runs]
    loadings = [RunLoading(store, folder, ref, identity.source_id, with_filters) for ref in wanted]
    unreadable: set[str] = set()
    with ParallelCalls(parallel, name="ledger") as calls:
        if newest < checkpoint.sequence:
            calls.submit(partial(recent.read, checkpoint.receipt, SequenceRange(newest + 1, checkpoint.sequence)))
        for loading in loadings:
            for call in loading.calls():
                calls.submit(partial(_load, loading.ref, call, unreadable))
    runs = [cache.runs[ref.name] for ref in checkpoint.ledger if ref.name in cache.runs]
    for loading in loadings:
        with suppress(UnreadableState):
            if loading.ref.name not in unreadable:
                runs.append(loading.run())
    cache.runs, cache.receipts = {run.ref.name: run for run in runs}, recent.receipts
    gaps = [*recent.gaps, *_gaps(checkpoint, runs, recent.commits, newest)]
    return Ledger(runs, recent.commits, gaps, parallel=parallel)


def _gaps(checkpoint: Checkpoint, runs: Sequence[Run], recent: Sequence[RecentCommit], newest: int) -> Iterator[Gap]:
    """The commits up to `newest` that no run has. What follows a gap names its newest receipt."""
    receipts = {run.ref.first: run.index.previous for run in runs}
    receipts |= {commit.sequence: commit.previous for commit in recent}
    receipts.setdefault(checkpoint.sequence + 1, checkpoint.receipt)
    for missing in ranges_without([run.ref.range for run in runs], newest):
        yield Gap(missing, receipts.get(missing.last + 1))


def ledger_folder(identity: SourceIdentity) -> str:
    return f"{identity.state_prefix}/ledger/"


def _load(ref: RunRef, call: Callable[[], None], unreadable: set[str]) -> None:
    try:
        with naming(ref):
            call()
    except RunUnreadable:
        unreadable.add(ref.name)


class _RecentReader:
    """Reads the receipts of the newest commits, as many as memory allows."""

    def __init__(self, chain: ReceiptChain) -> None:
        self._chain = chain
        self.commits: list[RecentCommit] = []
        self.receipts: dict[str, Receipt] = {}
        self.gaps: list[Gap] = []

    def read(self, name: str | None, sequences: SequenceRange) -> None:
        files = 0
        for found in self._chain.back_from(name, sequences):
            if isinstance(found, MissingReceipts):
                self.gaps.append(Gap(found.sequences, None))
                continue
            if len(self.commits) >= MAX_RECENT_COMMITS or files + len(found.lines) > MAX_RECENT_FILES:
                self.gaps.append(Gap(SequenceRange(sequences.first, found.sequence), found.name))
                break
            files += len(found.lines)
            self.receipts[found.name] = found
            self.commits.append(RecentCommit(found.sequence, found.name, found.previous, entries_of(found)))
        self.commits.reverse()
