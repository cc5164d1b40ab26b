"""The state of a source, made anew from its table: what is wrong with it, and the commit without rows that repairs it.

Recovery repairs most of it by itself at the start of a run. This does the same at once, looks at the whole ledger, and
also helps where recovery refuses: a table that has rows of the source, but no Txn of it.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

from blizzard.errors import TxnLost, UnreadableState
from blizzard.ledger.entry import FileState, LedgerEntry
from blizzard.ledger.keeper import LedgerKeeper
from blizzard.ledger.ledger import open_ledger
from blizzard.log import Log
from blizzard.state.checkpoint import Checkpoint
from blizzard.state.dead_letters import DeadLetters
from blizzard.state.run_ref import SequenceRange
from blizzard.sweep.report import SweepKind
from blizzard.sweep.source_sweep import SourceSweep
from spark_job.loop.files.file_sizes import FileSizes
from spark_job.loop.files.recovery import FilesRead, copy_of, repair
from spark_job.rebuild.parts import Parts, count_files
from spark_job.rebuild.unknown_rows import lost_race, refuse_unknown_rows

NOTES: Mapping[str, str] = {
    "txn_lost": "the table has rows of this source, but no Txn that says which commit was the last",
    "checkpoint_unreadable": "the newest checkpoint cannot be read",
    "ledger_incomplete": "parts of the ledger are lost or damaged",
    "copy_lost": "the copy of the checkpoint is missing, cannot be read, or is older than the table",
    "table_behind": "the copy of the checkpoint is of a later commit than the table's newest: the table was restored",
}
"""What can be wrong, by name."""
_PATHS_AT_ONCE = 10_000


@dataclass(frozen=True, slots=True)
class Found:
    """What is to be done about a source. `checkpoint`: the state that it continues from; `files`: how many the ledger
    has; `in_progress`: how many of them are ingested in part. `commits`: whether a commit is needed, or only objects
    beside the table. `sweeps`: whether all folders are listed before."""

    source: str
    checkpoint: Checkpoint
    problems: Sequence[str]
    steps: Sequence[str]
    files: int
    commits: bool
    sweeps: bool = False
    without_rows: int = 0
    """Files that the former ledger has as ingested, and of which the table has no row: they are read again."""

    @property
    def is_well(self) -> bool:
        return not self.problems

    def as_document(self) -> dict[str, Any]:
        return {
            "kind": "files",
            "source": self.source,
            "sequence": None if self.checkpoint.sequence < 0 else self.checkpoint.sequence,
            "files": self.files,
            "in_progress": len(self.checkpoint.in_progress),
            "read_again": self.without_rows,
            "problems": [{"kind": kind, "text": NOTES[kind]} for kind in self.problems],
            "steps": [*self.steps],
        }


@dataclass(frozen=True, slots=True)
class StateRebuild:
    """Of one source. Nothing is written before `apply`."""

    parts: Parts

    # -- finding out

    def find(self) -> Found:
        """Raises RecoveryError if the table does not tell which files are in it, and any BlizzardError of storage."""
        try:
            return self._by_recovery()
        except TxnLost:
            return self._by_rows()

    def _by_recovery(self) -> Found:
        parts, log = self.parts, _NotingLog(self.parts.log)
        keeper = parts.keeper(log=log)
        recovered = parts.recovered(keeper, log=log)
        checkpoint = recovered.checkpoint
        files = count_files(keeper, checkpoint)
        incomplete = checkpoint.sequence >= 0 and keeper.owes_commit(checkpoint)
        problems = ["table_behind"] * ("table_behind" in log.events)
        problems += ["checkpoint_unreadable"] * recovered.repaired
        problems += ["ledger_incomplete"] * (incomplete and not recovered.repaired)
        problems += ["copy_lost"] * (recovered.unpublished and not recovered.repaired)
        commits = recovered.repaired or incomplete
        if commits:
            checkpoint = replace(checkpoint, ledger=keeper.refs(checkpoint))
        elif recovered.unpublished:
            parts.state.put(parts.identity.copy_key, parts.codec().encode(checkpoint).encode())
        return Found(parts.source_id, checkpoint, problems, self._steps(commits=commits), files, commits)

    def _by_rows(self) -> Found:
        """The table has lost its Txns, so its log proves nothing: only its rows say which files are in it. Of what the
        state beside the table says, only files without rows count. The sequence becomes higher than any before, so that
        the copy that is there never seems to be newer than the table."""
        parts = self.parts
        refuse_unknown_rows(parts.table, parts.source_id, parts.known)
        copy = copy_of(parts.codec())[0]
        without_rows = [] if copy is None else self._files_without_rows(copy)
        newest = parts.table.newest_sequence()
        sequences = (newest, None if copy is None else copy.sequence, *(entry.sequence for entry in without_rows))
        version = max(sequence for sequence in sequences if sequence is not None)

        def ask(commits: SequenceRange) -> Iterable[LedgerEntry]:
            yield from parts.table.files_of_commits(commits)
            yield from (entry for entry in without_rows if commits.first <= entry.sequence <= commits.last)

        keeper = parts.keeper(ask)
        rules, nothing = parts.settings.rules, Checkpoint(parts.identity.pipeline, parts.identity.source)
        read = FilesRead(parts.table, keeper, FileSizes(parts.files), rules.interval_bytes)
        checkpoint = repair(nothing, version, read, rules.folder_of, parts.log)
        checkpoint = replace(checkpoint, ledger=keeper.refs(checkpoint))
        found = Found(parts.source_id, checkpoint, ["txn_lost"], (), count_files(keeper, checkpoint), commits=True)
        parts.state.delete([info.key for info in parts.state.list(f"{parts.identity.state_prefix}/pending/")])
        return replace(
            found,
            steps=self._steps(commits=True, sweeps=self._has_dates),
            sweeps=self._has_dates,
            without_rows=0 if copy is None else self._count_without_rows(copy, keeper, checkpoint),
        )

    @property
    def _has_dates(self) -> bool:
        """Whether the source's first sweep would take its older folders for closed."""
        return self.parts.settings.sweep_rules.window is not None

    def _count_without_rows(self, copy: Checkpoint, keeper: LedgerKeeper, checkpoint: Checkpoint) -> int:
        ingested = (entry.path for entry in self._former(copy) if entry.rows)
        count = 0
        while paths := [*islice(ingested, _PATHS_AT_ONCE)]:
            count += len(paths) - len(keeper.find(checkpoint, paths))
        return count

    def _files_without_rows(self, copy: Checkpoint) -> list[LedgerEntry]:
        """Those that the former ledger has, as far as it can be read: empty files, and refused ones whose dead letters
        are still there. The other ones are read again, and get their letters again."""
        letters = DeadLetters(self.parts.state, self.parts.identity.state_prefix, self.parts.source_id)

        def is_settled(entry: LedgerEntry) -> bool:
            has_letters = entry.state is FileState.FAILED or entry.rejected > 0
            return not has_letters or letters.has_file(entry.path, entry.etag)

        entries = (entry for entry in self._former(copy) if not entry.rows and not entry.is_in_progress)
        return [entry for entry in entries if is_settled(entry)]

    def _former(self, copy: Checkpoint) -> Iterator[LedgerEntry]:
        """The files of the ledger that the copy names, up to the first that cannot be read."""
        with suppress(UnreadableState):
            yield from open_ledger(self.parts.state, self.parts.identity, copy, with_filters=False).scan()

    def _steps(self, *, commits: bool, sweeps: bool = False) -> list[str]:
        """In words, in their order."""
        prefix = f"{self.parts.identity.state_prefix}/"
        runs = sum(key.startswith(f"{prefix}ledger/") for key in self.parts.state.written)
        segments = sum(key.startswith(f"{prefix}pending/") for key in self.parts.state.deleted)
        steps = [f"write {runs:,} runs of the ledger"] if runs else []
        steps += [f"delete {segments:,} segments of the pending manifest"] if segments else []
        steps += ["list all folders of the source, and announce the files that the table lacks"] if sweeps else []
        if commits:
            steps.append("commit the Txn and the checkpoint, without rows, and write the checkpoint's copy")
        elif self.parts.identity.copy_key in self.parts.state.written:
            steps.append("write the checkpoint's copy")
        elif self.parts.identity.copy_key in self.parts.state.deleted:
            steps.append("delete the checkpoint's copy")
        return steps

    # -- repairing

    def apply(self, found: Found) -> int:
        """Returns the sequence of the state as it is then. May be killed anywhere, and repeated from `find` on.

        Raises LostRace if another process has committed since `find`.
        """
        app_id = self.parts.identity.app_id
        has_txn = "txn_lost" not in found.problems and found.checkpoint.sequence >= 0
        if self.parts.table.txn_version(app_id) != (found.checkpoint.sequence if has_txn else None):
            raise lost_race(self.parts.source_id)
        self.parts.state.release()
        if found.sweeps:
            self._sweep_all(found.checkpoint)
        if not found.commits:
            return found.checkpoint.sequence
        if not self.parts.commit(found.checkpoint):
            raise lost_race(self.parts.source_id)
        return found.checkpoint.sequence + 1

    def _sweep_all(self, checkpoint: Checkpoint) -> None:
        """So that the next sweep closes no folder that has files which the table lacks."""
        rules = replace(self.parts.settings.sweep_rules, window=None)
        sweep = _SweepFrom(
            self.parts.identity,
            self.parts.files,
            self.parts.state,
            rules,
            self.parts.clock,
            self.parts.new_id,
            self.parts.log,
        )
        sweep.known = checkpoint
        sweep.sweep(SweepKind.WATERMARK)


class _SweepFrom(SourceSweep):
    """A sweep that starts from a state that is not committed yet."""

    known: Checkpoint

    def checkpoint(self) -> Checkpoint:
        return self.known


class _NotingLog:
    """Also remembers which events there were."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self.events = set[str]()

    def __call__(self, event: str, /, **fields: Any) -> None:
        self.events.add(event)
        self._log(event, **fields)
