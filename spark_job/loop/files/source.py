"""Files as a source: the pending manifest lists files that may be new, the checkpoint covers those that are settled."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

from blizzard.errors import UnreadableState
from blizzard.history.keeper import HistoryKeeper
from blizzard.ledger.keeper import LedgerKeeper
from blizzard.log import Log
from blizzard.manifest.pending_manifest import Manifest
from blizzard.manifest.segments import Entry
from blizzard.state.batch import (
    BatchPlan,
    OnOverwrite,
    PlannedFile,
    add_late_files,
    next_checkpoint,
    plan_batch,
    planned_file,
    unmoved_plan,
)
from blizzard.state.checkpoint import Checkpoint
from blizzard.state.dead_letters import DeadLetters
from blizzard.state.delta_log import WHOLE_LOG
from blizzard.state.identity import SourceIdentity
from blizzard.state.schema_changes import SchemaChange
from blizzard.state.watermark import split_path
from blizzard.storage.base import ObjectStore
from blizzard.sweep.folders import without_quiet_partitions
from spark_job.loop.evolution import Evolution
from spark_job.loop.files.batch_checks import check_complete, records_read, refuse_if_systemic
from spark_job.loop.files.file_sizes import FileSizes
from spark_job.loop.files.recovery import recover
from spark_job.loop.files.settings import FileSettings
from spark_job.loop.files.side_outputs import SideOutputs
from spark_job.loop.files.suspects import Suspects
from spark_job.loop.read_batch import ReadBatch, odd_fields_of, stamped
from spark_job.ports.reader import FileRows, Reader
from spark_job.ports.source import BatchCounts, Receipt, Recovered, Resolved
from spark_job.ports.stopwatch import Stopwatch, TurnSecs
from spark_job.ports.table import NO_TXNS, FileTable, Txns

FORGET_EVERY_COMMITS = 100
"""How often the watermarks of quiet partitions are removed from the state of a source with many of them."""


@dataclass(frozen=True, slots=True)
class FilePlan:
    """What the next commit does. `files`: the files to read. If any files were `overwritten`, `files` are only these:
    their new rows replace the old ones in a separate commit, which does not move the position in the manifest."""

    batch: BatchPlan
    files: Sequence[PlannedFile]
    overwritten: Sequence[Entry] = ()
    schema_change: SchemaChange | None = None

    @property
    def base(self) -> Checkpoint:
        return self.batch.base

    @property
    def replaces(self) -> bool:
        """Whether the rows take the place of those that the table has of these files."""
        return bool(self.overwritten)

    @property
    def empty(self) -> bool:
        return not self.files and not self.batch.suspects

    @property
    def full(self) -> bool:
        return self.batch.full

    @property
    def moved(self) -> bool:
        return self.batch.position != self.base.position

    @property
    def unresolved(self) -> bool:
        return bool(self.batch.suspects)

    @property
    def segments(self) -> int:
        return self.batch.segments

    @property
    def duplicates(self) -> int:
        return self.batch.duplicates + self.batch.settled


def _as_plan(batch: BatchPlan) -> FilePlan:
    return FilePlan(batch, batch.files)


class FileSource:
    """One source of files, as the loop drives it (`SourceKind`). `clock` gives Unix seconds, `new_id` a short unique
    text; `files` holds the source's files, `state` its manifest and other state."""

    def __init__(
        self,
        identity: SourceIdentity,
        settings: FileSettings,
        *,
        table: FileTable[Any],
        reader: Reader[FileRows],
        state: ObjectStore,
        files: ObjectStore,
        clock: Callable[[], float],
        watch: Stopwatch,
        new_id: Callable[[], str],
        log: Log,
    ) -> None:
        self._identity = identity
        self._settings = settings
        self._table = table
        self._reader = reader
        self._state, self._files = state, files
        self._clock, self._watch, self._log = clock, watch, log
        self._unreadable_segments: set[str] = set()
        self._manifest = Manifest(state, identity.state_prefix, identity.source_id, prefetch=settings.segments_ahead)
        dead_letters = DeadLetters(state, identity.state_prefix, identity.source_id)
        self._ledger = _ledger(identity, settings, table, state, clock, new_id, log)
        commits = partial(table.commits, WHOLE_LOG)
        self._history = HistoryKeeper(state, identity, commits, clock=clock, log=log, settings=settings.history)
        self._suspects = Suspects(ledger=self._ledger, files=files, dead_letters=dead_letters, clock=clock)
        self._evolution = Evolution(identity, table=table, state=state, clock=clock, new_id=new_id, log=log)
        self._outputs = SideOutputs(
            identity,
            state=state,
            bases=settings.bases,
            manifest=self._manifest,
            ledger=self._ledger,
            dead_letters=dead_letters,
            clock=clock,
            new_id=new_id,
            log=log,
            watch=watch,
        )

    # -- the position

    def recover(self) -> Recovered[Checkpoint]:
        self._outputs.forget()
        self._ledger.forget()
        self._history.forget()
        self._evolution.forget()
        return recover(
            self._table,
            self._state,
            self._identity,
            rules=self._settings.rules,
            sizes=FileSizes(self._files),
            log=self._log,
            codec=self._outputs.codec,
            ledger=self._ledger,
        )

    def stamp(self, checkpoint: Checkpoint, *, delta_version: int, receipt: Receipt) -> Checkpoint:
        return stamped(checkpoint, delta_version=delta_version, receipt=receipt)

    def encode(self, checkpoint: Checkpoint) -> str:
        return self._outputs.codec.encode(checkpoint)

    # -- planning

    def plan(self, checkpoint: Checkpoint) -> FilePlan:
        unreadable: list[UnreadableState] = []
        batch = plan_batch(checkpoint, self._manifest.unconsumed(checkpoint.position, unreadable), self._settings.rules)
        for error in unreadable:
            if str(error) not in self._unreadable_segments:
                self._unreadable_segments.add(str(error))
                self._log("segment_unreadable", source=self._identity.source_id, error=str(error))
        return _as_plan(batch)

    def resolve(self, plan: FilePlan) -> Resolved[FilePlan]:
        """Look the suspects up in the ledger. Overwritten files whose rows are replaced come first, in a plan without
        other files."""
        with self._watch.part("suspects"):
            found = self._suspects.resolve(plan.base, plan.batch.suspects)
        self._log(
            "suspects_judged",
            source=self._identity.source_id,
            late=len(found.late),
            known=found.known,
            overwritten=len(found.overwritten),
        )
        rules, overwritten = self._settings.rules, found.overwritten
        if overwritten and rules.on_overwrite is OnOverwrite.REPLACE:
            files = [replace(planned_file(entry, rules), slice_bytes=None) for entry in overwritten]
            resolved = FilePlan(unmoved_plan(plan.base, rules), files, overwritten)
        else:
            if overwritten and rules.on_overwrite is OnOverwrite.DEAD_LETTER:
                with self._watch.part("letters"):
                    self._suspects.write_dead_letters(overwritten)
            resolved = _as_plan(add_late_files(plan.batch, found.late, rules))
        return Resolved(resolved, duplicates=found.known, overwritten=len(overwritten))

    # -- reading

    def start(self, plan: FilePlan) -> FilePlan:
        """The plan with the etags that files in progress are expected to have."""
        self._history.begin(plan.base)
        if plan.overwritten:
            return plan
        with self._watch.part("suspects"):
            files = self._suspects.with_expected_etags(plan.batch)
        self._log(
            "batch_planned",
            source=self._identity.source_id,
            sequence=plan.base.sequence + 1,
            files=len(files),
            bytes=plan.batch.bytes,
            duplicates=plan.batch.duplicates,
        )
        return replace(plan, files=files)

    def read(self, plan: FilePlan) -> ReadBatch | None:
        with self._watch.part("read"):
            rows = self._reader_for(plan).read(plan.files, sequence=plan.base.sequence + 1, replacing=plan.replaces)
        self._watch.move_share(rows.write_share, source="read", target="write")
        batch = None
        try:
            check_complete(plan.files, rows.outcomes, rows.row_count)
            min_denied_files = self._settings.min_denied_files
            refuse_if_systemic(rows.outcomes, self._identity.source_id, min_denied_files=min_denied_files)
            batch = self._batch_of(plan, rows)
        finally:
            if batch is None:
                self._abandon(rows)
        return batch

    def _reader_for(self, plan: FilePlan) -> Reader[FileRows]:
        return self._reader

    def _abandon(self, rows: FileRows) -> None:
        rows.release()

    def _batch_of(self, plan: FilePlan, rows: FileRows) -> ReadBatch | None:
        """The batch to commit; None if there is nothing to commit."""
        return self._replacing(plan, rows) if plan.replaces else ReadBatch(rows)

    def _replacing(self, plan: FilePlan, rows: FileRows) -> ReadBatch | None:
        """The batch of the overwritten files that can be read; None if there are none. A file that cannot be read keeps
        its old rows and becomes a dead letter."""
        readable = [outcome.path for outcome in rows.outcomes if outcome.error is None]
        self._suspects.refuse([entry for entry in plan.overwritten if entry.path not in readable])
        if readable:
            return ReadBatch(rows, replaced=readable)
        self._outputs.write_dead_letters(None, rows.outcomes)
        return None

    # -- the table's schema

    def change_schema(self, plan: FilePlan, batch: ReadBatch) -> FilePlan | None:
        change = self._evolution.change_for(batch.rows)
        return None if change is None else replace(plan, files=(), overwritten=(), schema_change=change)

    # -- what is settled

    def has_caught_up(self, plan: FilePlan) -> bool:
        return False

    def is_busy(self) -> bool:
        return self._ledger.is_merging_runs() or self._history.is_packing()

    def owes_commit(self, checkpoint: Checkpoint) -> bool:
        return self._ledger.owes_commit(checkpoint) or self._history.owes_commit(checkpoint)

    def skip(self, plan: FilePlan) -> Checkpoint:
        return next_checkpoint(plan.batch, {})

    def settle(self, plan: FilePlan, batch: ReadBatch | None) -> Checkpoint:
        if plan.schema_change is not None:
            return self._outputs.write_base(self._with_derived(plan.base, plan.base))
        settled = next_checkpoint(plan.batch, records_read(batch.outcomes if batch else ()))
        rules = self._settings.sweep_rules
        is_due = settled.sequence % FORGET_EVERY_COMMITS == FORGET_EVERY_COMMITS - 1
        if is_due and len(settled.partition_watermarks) > rules.many_folders:
            partitions = self._ledger.partitions(plan.base)
            active = {split_path(file.path)[0] for file in plan.files}
            settled = without_quiet_partitions(settled, partitions, active, rules, self._clock())
        return self._outputs.write_base(self._with_derived(settled, plan.base))

    def _with_derived(self, settled: Checkpoint, base: Checkpoint) -> Checkpoint:
        """With what is named by the commit after `base`, and derived from receipts."""
        return replace(settled, ledger=self._ledger.refs(base), history=self._history.ref(base))

    def record(self, plan: FilePlan, batch: ReadBatch | None) -> Receipt:
        outcomes = batch.outcomes if batch else ()
        self._outputs.write_dead_letters(batch.rows if batch else None, outcomes)
        if plan.overwritten:  # of those that cannot be read the table has the content before, and so has the ledger
            outcomes = [outcome for outcome in outcomes if outcome.error is None]
        files = plan.files if batch else ()
        receipt = self._outputs.write_receipt(plan.base, files, outcomes, *odd_fields_of(batch))
        return replace(receipt, schema_change=self._evolution.record(plan.schema_change, plan.base))

    def further_txns(self, checkpoint: Checkpoint) -> Txns:
        return NO_TXNS

    def publish(self, checkpoint: Checkpoint, *, copy: bool) -> None:
        self._outputs.publish(checkpoint, copy=copy)
        self._evolution.publish(checkpoint)

    # -- the log

    def log_recovered(self, checkpoint: Checkpoint, secs: TurnSecs) -> None:
        self._log(
            "recovered",
            source=self._identity.source_id,
            sequence=checkpoint.sequence,
            segment=checkpoint.position.segment,
            watermark=checkpoint.watermark,
            tracked_files=len(checkpoint.files),
            secs=asdict(secs),
        )

    def log_committed(
        self, checkpoint: Checkpoint, counts: BatchCounts, *, version: int, delta_checkpoint: bool, secs: TurnSecs
    ) -> None:
        self._log(
            "batch_committed",
            source=self._identity.source_id,
            sequence=checkpoint.sequence,
            version=version,
            files=counts.files,
            rows=counts.rows,
            dead_files=counts.dead_files,
            dead_records=counts.dead_records,
            tracked_files=len(checkpoint.files),
            watermark=checkpoint.watermark,
            delta_checkpoint=delta_checkpoint,
            secs=asdict(secs),
        )


def _ledger(
    identity: SourceIdentity,
    settings: FileSettings,
    table: FileTable[Any],
    state: ObjectStore,
    clock: Callable[[], float],
    new_id: Callable[[], str],
    log: Log,
) -> LedgerKeeper:
    return LedgerKeeper(
        state,
        identity,
        ask_table=table.files_of_commits,
        commits=lambda: table.commits(WHOLE_LOG),
        clock=clock,
        new_id=new_id,
        log=log,
        settings=settings.ledger,
    )
