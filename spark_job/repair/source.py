"""Files that an operator has read once more, as a kind of source: its commits are those of the source itself, under the
same Txn, and leave its position in the manifest as it is."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from blizzard.state.batch import PlannedFile, unmoved_plan
from blizzard.state.checkpoint import Checkpoint
from blizzard.state.receipts import Repair
from spark_job.loop.files.source import FilePlan, FileSource
from spark_job.loop.read_batch import ReadBatch
from spark_job.ports.reader import FileRows, Outcome, Reader
from spark_job.ports.source import BatchCounts, Receipt
from spark_job.repair.judge import Chosen, Judge
from spark_job.repair.put_back import PutBack
from spark_job.repair.settler import NO_COMMIT, Settler, refused_of, result_of_records
from spark_job.repair.work import Fate, Kind, Result, Work


@dataclass(frozen=True, slots=True)
class RepairPlan(FilePlan):
    """`chosen`: the items that are read, all of one kind. `began_ts`: when this was planned, in Unix seconds."""

    chosen: Sequence[Chosen] = ()
    began_ts: float = 0.0

    @property
    def kind(self) -> Kind:
        return self.chosen[0].item.kind

    @property
    def replaces(self) -> bool:
        return self.chosen[0].replaces

    @property
    def is_of_records(self) -> bool:
        return self.chosen[0].item.is_of_records

    @property
    def repair(self) -> Repair:
        if self.kind is Kind.GIVEN:
            return Repair.GIVEN
        return Repair.RECORDS if self.is_of_records else Repair.WHOLE


@dataclass(frozen=True, slots=True)
class RepairBatch(ReadBatch):
    """Of `results`, one for each chosen item, the commit makes true what they say. `taken`: the outcomes that the
    receipt has."""

    results: Sequence[Result] = ()
    taken: Sequence[Outcome] = ()


class RepairSource(FileSource):
    """Implements `SourceKind`. `settler`: of the results of `work`. `given_reader`: of the records that are given as
    JSON texts."""

    def __init__(self, *args: Any, work: Work, settler: Settler, given_reader: Reader[FileRows], **more: Any) -> None:
        super().__init__(*args, **more)
        self._work = work
        self._given_reader = given_reader
        self._settler = settler
        self._new_id: Callable[[], str] = more["new_id"]
        rules = self._settings.rules
        self._judge = Judge(
            table=self._table,
            ledger=self._ledger,
            files=self._files,
            on_overwrite=rules.on_overwrite,
            put_back=PutBack(self._table, self._state, self._identity),
            clock=self._clock,
        )

    def plan(self, checkpoint: Checkpoint) -> FilePlan:
        """The next items that can be read. Those that cannot are ended."""
        unmoved, began_ts = unmoved_plan(checkpoint, self._settings.rules), self._clock()
        self._settler.expect((), began_ts)
        while items := self._work.next_batch(self._settings.rules):
            if checkpoint.sequence < 0 and items[0].kind is not Kind.REPLACE:
                self._work.hold_all(NO_COMMIT)
                break
            chosen = self._judge.choose(checkpoint, items, self._work)
            chosen = [one for one in chosen if one.replaces == chosen[0].replaces]
            if chosen:
                return RepairPlan(unmoved, [one.file for one in chosen], chosen=chosen, began_ts=began_ts)
        return FilePlan(unmoved, ())

    def start(self, plan: FilePlan) -> FilePlan:
        self._log(
            "repair_planned",
            source=self._identity.source_id,
            sequence=plan.base.sequence + 1,
            files=len(plan.files),
            bytes=sum(file.size for file in plan.files),
        )
        return plan

    # -- reading

    def _reader_for(self, plan: FilePlan) -> Reader[FileRows]:
        assert isinstance(plan, RepairPlan)
        return self._given_reader if plan.kind is Kind.GIVEN else self._reader

    def _abandon(self, rows: FileRows) -> None:
        rows.discard()
        super()._abandon(rows)

    def _batch_of(self, plan: FilePlan, rows: FileRows) -> ReadBatch | None:
        assert isinstance(plan, RepairPlan)
        return self._records_batch(plan, rows) if plan.is_of_records else self._whole_batch(plan, rows)

    def _whole_batch(self, plan: RepairPlan, rows: FileRows) -> RepairBatch | None:
        by_path = {outcome.path: outcome for outcome in rows.outcomes}
        results = [_result_of_file(one, by_path[one.file.path]) for one in plan.chosen]
        failed = [result for result in results if result.fate is not Fate.DONE]
        if failed and plan.kind is Kind.REPLACE:  # all or nothing
            for result in failed:
                self._work.end(result)
            self._work.hold_all(
                f"{failed[0].item.path}, which is of the same commit, cannot be read: nothing was replaced"
            )
            return None
        if len(failed) == len(results):
            for result in failed:
                self._work.end(result)
            return None
        taken = [outcome for outcome in rows.outcomes if outcome.error is None]
        replaced = [outcome.path for outcome in taken] if plan.replaces else ()
        return RepairBatch(rows, replaced=replaced, results=results, taken=taken)

    def _records_batch(self, plan: RepairPlan, rows: FileRows) -> RepairBatch | None:
        by_path = {outcome.path: outcome for outcome in rows.outcomes}
        unlike = [result for one in plan.chosen if (result := _unlike(one, by_path[one.file.path]))]
        if unlike:
            for result in unlike:
                self._work.end(result)
            return None
        refused = refused_of(rows)
        results = [
            result_of_records(one.item, _numbers(one.file), one.present, refused.get(one.file.path, {}))
            for one in plan.chosen
        ]
        if not rows.row_count:
            for result in results:
                self._work.end(result)
            return None
        taken = [outcome for outcome in rows.outcomes if outcome.rows]
        return RepairBatch(rows, results=results, taken=taken)

    # -- the commit

    def record(self, plan: FilePlan, batch: ReadBatch | None) -> Receipt:
        if not isinstance(plan, RepairPlan) or not isinstance(batch, RepairBatch):
            return super().record(plan, batch)
        if not plan.is_of_records and any(outcome.dead_records for outcome in batch.taken):
            with self._watch.part("letters"):
                batch.rows.write_dead_records(f"{plan.base.sequence + 1:020d}-{self._new_id()}")
        self._settler.expect(batch.results, plan.began_ts)
        outcomes = [_as_receipt(outcome, plan.repair) for outcome in batch.taken]
        found = batch.rows.unknown_fields.shortened(), batch.rows.misfits.shortened()
        repairs = {one.item.path: one.repairs for one in plan.chosen if one.repairs is not None}
        return self._outputs.write_receipt(plan.base, plan.files, outcomes, *found, plan.repair, repairs)

    def log_committed(self, checkpoint: Checkpoint, counts: BatchCounts, *, version: int, **more: Any) -> None:
        """The commit has landed, so its letters are settled."""
        super().log_committed(checkpoint, counts, version=version, **more)
        self._settler.committed(sequence=checkpoint.sequence, version=version)


def _result_of_file(one: Chosen, outcome: Outcome) -> Result:
    if outcome.error is not None:
        return Result(one.item, Fate.REFUSED, outcome.error)
    return Result(one.item, Fate.DONE, rows=outcome.rows)


def _unlike(one: Chosen, outcome: Outcome) -> Result | None:
    """Of a file of which the records cannot be taken as they were numbered; None: they can."""
    if outcome.error is not None:
        return Result(one.item, Fate.HELD, outcome.error)
    if one.item.kind is Kind.GIVEN:
        return None
    had = "nobody knows how many" if one.expected_records is None else f"{one.expected_records:,}"
    if outcome.records_read != one.expected_records or outcome.rows + outcome.dead_records != len(_numbers(one.file)):
        return Result(
            one.item,
            Fate.HELD,
            f"it has {outcome.records_read:,} records as it is read today, and had {had} when it was ingested, so "
            "their numbers may be others: `blizzard replace --path` reads all of it anew",
        )
    return None


def _numbers(file: PlannedFile) -> tuple[int, ...]:
    return tuple(number for number, _ in file.given) or file.records or ()


def _as_receipt(outcome: Outcome, repair: Repair) -> Outcome:
    """Records that are refused again have been counted as refused before."""
    return outcome if repair is Repair.WHOLE else replace(outcome, dead_records=0)
