"""The ledger of a source in a running job: opened when it is first needed, kept as commits follow, merged meanwhile."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from blizzard.ledger.committed_receipts import CommittedReceipts
from blizzard.ledger.entry import LedgerEntry, entries_of
from blizzard.ledger.ledger import Gap, Ledger, LedgerCache, RecentCommit, RunUnreadable, ledger_folder, open_ledger
from blizzard.ledger.merge import LedgerSettings, Merge, MergeInput, next_merge
from blizzard.ledger.rebuild import AskTable, Piece, pieces_of
from blizzard.ledger.receipt_chain import ReceiptChain
from blizzard.ledger.run import Run, write_run
from blizzard.ledger.run_index import PartitionStats
from blizzard.log import Log
from blizzard.state.checkpoint import Checkpoint
from blizzard.state.delta_log import Commit
from blizzard.state.identity import SourceIdentity
from blizzard.state.receipts import Receipt, Receipts
from blizzard.state.run_ref import RunRef, is_name
from blizzard.storage.base import ObjectInfo, ObjectStore

KEPT_SECS = 3_600.0
"""A run is deleted so long after the first commit that does not name it: a reader may have the checkpoint before."""
KEPT_AFTER_RESTART_SECS = 86_400.0
"""A run that another process superseded is deleted so long after it was merged: nobody has stored when a commit named
the result. This is for processes that end within the hour; one that lives longer counts an hour of its own."""


class LedgerKeeper:
    """Used by one thread. Merges run in another, and change nothing before this one adopts them.

    `ask_table` is called for commits that have no readable receipt. `commits` gives those in the table's log, newest
    first: they tell where the chain of receipts goes on before one that cannot be read. `clock` gives Unix seconds,
    `new_id` a short unique text.
    """

    def __init__(
        self,
        store: ObjectStore,
        identity: SourceIdentity,
        *,
        ask_table: AskTable,
        commits: Callable[[], Iterable[Commit]] = tuple,
        clock: Callable[[], float],
        new_id: Callable[[], str],
        log: Log,
        settings: LedgerSettings | None = None,
    ) -> None:
        self._store = store
        self._identity = identity
        self._folder = ledger_folder(identity)
        self._ask_table = ask_table
        self._commits = commits
        self._clock = clock
        self._new_id = new_id
        self._log = log
        self._settings = settings or LedgerSettings()
        self._ledger: Ledger | None = None
        self._as_of: tuple[int, str | None] = (-1, None)
        """Sequence and receipt of the checkpoint that `_ledger` belongs to."""
        self._expected: Receipt | None = None
        self._cache = LedgerCache()
        self._merge: Merge | None = None
        self._costly: set[str] = set()
        """Names of runs that took long to make."""
        self._seen_named: set[str] = set()
        """Names of runs that a checkpoint named, among those that this process has seen since it last cleaned."""
        self._unnamed_since: dict[str, float] = {}
        """By the name of a run that the newest checkpoint does not name: when its time began to count."""
        self._just_opened = False

    # -- reading

    def find(self, checkpoint: Checkpoint, paths: Iterable[str]) -> Mapping[str, LedgerEntry]:
        """The entries of those of these files that were settled by the commits up to `checkpoint`."""
        wanted = [*paths]
        while True:
            ledger = self._at(checkpoint)
            try:
                return ledger.find(wanted)
            except RunUnreadable as error:
                self._lose(ledger, error)

    def since(
        self, checkpoint: Checkpoint, sequence: int, wanted: Callable[[LedgerEntry], bool]
    ) -> tuple[int, Mapping[str, LedgerEntry]]:
        """How many files the commits after `sequence` settled, and of those that are `wanted`, judged by what these
        commits say, what all commits up to `checkpoint` say."""
        while True:
            ledger = self._at(checkpoint)
            files, paths = 0, []
            try:
                for entry in ledger.since(sequence):
                    files += 1
                    if wanted(entry):
                        paths.append(entry.path)
                return files, ledger.find(paths)
            except RunUnreadable as error:
                self._lose(ledger, error)

    def entries(self, checkpoint: Checkpoint) -> Iterator[LedgerEntry]:
        """All files that the commits up to `checkpoint` settled, in the order of a listing. Raises RunUnreadable."""
        return self._at(checkpoint).scan()

    def partitions(self, checkpoint: Checkpoint) -> Mapping[str, PartitionStats]:
        """What the settled files of each partition look like."""
        return self._at(checkpoint).partitions()

    # -- commits

    def forget(self) -> None:
        """The next checkpoint may be that of another job. Opened runs stay in memory: it probably names them too."""
        self._ledger = self._expected = None

    def expect(self, receipt: Receipt) -> None:
        """This receipt was written, and the commit that names it is about to follow."""
        self._expected = receipt

    def refs(self, checkpoint: Checkpoint) -> tuple[RunRef, ...]:
        """The runs that the commit after `checkpoint` names. Adopts a merge that has ended, and starts the next one.

        What is due when the ledger is opened is merged before this returns, unless it takes long: the process may end
        with this commit, and would leave it to the next one, which may end just as early.
        """
        self._seen_named.update(ref.name for ref in checkpoint.ledger)
        newest = max((ref.last for ref in checkpoint.ledger), default=-1)
        if self._ledger is None and checkpoint.sequence - newest < self._settings.commits:
            return checkpoint.ledger
        self._ledger = ledger = self._adopt(self._at(checkpoint))
        while self._merge is None and (source := next_merge(ledger, self._settings)) is not None:
            at_once = self._just_opened and not self._takes_long(source)
            in_background = self._settings.in_background and not at_once
            self._merge = merge = Merge(source, self._write_merged, in_background=in_background)
            if not at_once:
                break
            self._ledger = ledger = self._adopt(ledger)
            if merge.run is None:  # it failed, and would fail again
                break
        self._just_opened = False
        return ledger.refs

    def is_merging_runs(self) -> bool:
        """Whether a merge goes on that takes long, and that the next process would have to begin anew."""
        return self._merge is not None and self._takes_long(self._merge.source) and not self._merge.ended

    def owes_commit(self, checkpoint: Checkpoint) -> bool:
        """Called at the end of a run. Whether the ledger has runs that cost much to make and that no checkpoint names
        yet: rebuilt ones, or one that was merged from many files."""
        if self._ledger is None:
            return False
        self._ledger = self._adopt(self._at(checkpoint))
        unnamed = {ref.name for ref in self._ledger.refs} - {ref.name for ref in checkpoint.ledger}
        return not unnamed.isdisjoint(self._costly)

    def clean(self, checkpoint: Checkpoint) -> None:
        """After a commit: delete runs that no commit has named for an hour, because they were merged into others or
        nobody adopted them. Until then a checkpoint that another process has just read may name them, or a commit that
        is about to follow."""
        named = {ref.name for ref in checkpoint.ledger}
        if self._merge is not None and self._merge.run is not None:
            named.add(self._merge.run.ref.name)  # by the next commit
        runs = self._cache.runs.items()
        self._cache.runs = {name: run for name, run in runs if name in named or self._is_current(name)}
        stored = {info.key.removeprefix(self._folder): info for info in self._store.list(self._folder, recursive=False)}
        unnamed = [name for name in stored if name not in named and is_name(name)]
        now_ts = self._clock()
        since = {name: self._begin_of_kept_time(name, checkpoint, stored, now_ts) for name in unnamed}
        self._unnamed_since, self._seen_named = since, named
        self._store.delete([self._folder + name for name, ts in since.items() if ts < now_ts - KEPT_SECS])

    def _begin_of_kept_time(
        self, name: str, checkpoint: Checkpoint, stored: Mapping[str, ObjectInfo], now_ts: float
    ) -> float:
        """Of a stored run that the newest checkpoint does not name."""
        if name in self._unnamed_since:
            return self._unnamed_since[name]
        if name in self._seen_named:
            return now_ts
        return min(now_ts, _merged_ts(name, checkpoint, stored) + KEPT_AFTER_RESTART_SECS - KEPT_SECS)

    # -- keeping up

    def _at(self, checkpoint: Checkpoint) -> Ledger:
        """The ledger as of the checkpoint: the one in memory if it can be continued, else the stored one."""
        now = (checkpoint.sequence, checkpoint.receipt)
        expected, ledger = self._expected, self._ledger
        follows = expected is not None and (expected.sequence, expected.name) == now
        if ledger is not None and expected is not None and follows and self._as_of[0] == expected.sequence - 1:
            ledger.add(RecentCommit(expected.sequence, expected.name, expected.previous, entries_of(expected)))
            self._as_of, self._expected = now, None
        if ledger is None or self._as_of != now:
            ledger = self._ledger = self._open(checkpoint)
            self._as_of = now
        return ledger

    def _open(self, checkpoint: Checkpoint) -> Ledger:
        self._just_opened = True
        ledger = open_ledger(
            self._store,
            self._identity,
            checkpoint,
            with_filters=True,
            cache=self._cache,
            parallel=self._settings.parallel_reads,
        )
        self._log(
            "ledger_opened",
            source=self._identity.source_id,
            runs=len(ledger.runs),
            files=sum(run.ref.files for run in ledger.runs),
            receipts=len(ledger.recent),
            missing_commits=_commits(ledger.gaps),
        )
        return self._fill(ledger)

    def _lose(self, ledger: Ledger, error: RunUnreadable) -> None:
        self._log("ledger_run_unreadable", source=self._identity.source_id, run=error.ref.name, error=str(error))
        self._cache.runs.pop(error.ref.name, None)
        self._ledger = self._fill(ledger.without(error.ref))

    def _fill(self, ledger: Ledger) -> Ledger:
        """The ledger without gaps: their commits become runs."""
        if not ledger.gaps:
            return ledger
        receipts = Receipts(self._store, self._identity.state_prefix)
        committed = CommittedReceipts(self._commits(), self._identity)
        chain = ReceiptChain(receipts, parallel=self._settings.parallel_reads, named_by_commits=committed.newest)
        runs, missing, files = [*ledger.runs], _commits(ledger.gaps), 0
        for gap in ledger.gaps:
            for piece in pieces_of(gap, chain, self._ask_table):
                runs.append(self._write_piece(piece))
                self._costly.add(runs[-1].ref.name)
                missing -= piece.sequences.last - piece.sequences.first + 1
                files += len(piece.entries)
                self._log(
                    "ledger_rebuilding",
                    source=self._identity.source_id,
                    from_table=piece.from_table,
                    files=files,
                    missing_commits=missing,
                )
        return ledger.with_parts(runs, ledger.recent)

    # -- merging

    def _takes_long(self, source: MergeInput) -> bool:
        """Receipts are merged as soon as they are worth a run."""
        return bool(source.runs) and source.files > self._settings.files

    def _adopt(self, ledger: Ledger) -> Ledger:
        """The ledger with the result of a merge that has ended. A merge of commits that the ledger has not is
        dropped: another job has made other ones."""
        merge = self._merge
        if merge is None or not merge.ended:
            return ledger
        self._merge = None
        if merge.run is None:
            self._merge_failed(merge, ledger)
            return self._ledger or ledger
        if not merge.source.belongs_to(ledger):
            return ledger
        if self._takes_long(merge.source):
            self._costly.add(merge.run.ref.name)
        self._cache.runs[merge.run.ref.name] = merge.run
        return merge.source.replaced_by(merge.run, ledger)

    def _merge_failed(self, merge: Merge, ledger: Ledger) -> None:
        self._log("ledger_merge_failed", source=self._identity.source_id, error=str(merge.error))
        if isinstance(merge.error, RunUnreadable) and merge.error.ref in ledger.refs:
            self._lose(ledger, merge.error)

    def _write_merged(self, source: MergeInput) -> Run:
        """Called in the thread of a merge."""
        run = write_run(
            self._store,
            self._folder,
            source.entries(),
            sequences=source.sequences,
            previous=source.previous,
            source_id=self._identity.source_id,
            run_id=self._new_id(),
            max_files=source.files,
        )
        self._log_written(run, merged=len(source.runs))
        return run

    def _write_piece(self, piece: Piece) -> Run:
        run = write_run(
            self._store,
            self._folder,
            piece.entries,
            sequences=piece.sequences,
            previous=piece.previous,
            source_id=self._identity.source_id,
            run_id=self._new_id(),
            max_files=len(piece.entries),
        )
        self._cache.runs[run.ref.name] = run
        return run

    def _log_written(self, run: Run, *, merged: int) -> None:
        self._log(
            "ledger_run_written",
            source=self._identity.source_id,
            run=run.ref.name,
            files=run.ref.files,
            bytes=run.ref.size,
            merged_runs=merged,
        )

    def _is_current(self, name: str) -> bool:
        return self._ledger is not None and any(ref.name == name for ref in self._ledger.refs)


def _commits(gaps: Sequence[Gap]) -> int:
    return sum(gap.sequences.last - gap.sequences.first + 1 for gap in gaps)


def _merged_ts(name: str, checkpoint: Checkpoint, stored: Mapping[str, ObjectInfo]) -> float:
    """When a run was written that has all commits of this one; without such a run, when this one was written."""
    first, last, _ = name.split("-", 2)
    covering = (
        stored[ref.name].modified_ts
        for ref in checkpoint.ledger
        if f"{ref.first:020d}" <= first and last <= f"{ref.last:020d}" and ref.name in stored
    )
    return max(stored[name].modified_ts, *covering, 0.0)
