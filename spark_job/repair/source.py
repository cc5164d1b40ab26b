"""Files that an operator has read once more, as a kind of source: its commits are those of the source itself, under the
same Txn, and leave its position in the manifest as it is."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import floor
from typing import Any

from blizzard.errors import BlizzardError
from blizzard.state.batch import PlannedFile, unmoved_plan
from blizzard.state.checkpoint import Checkpoint
from blizzard.state.dead_letters import DeadLetters
from blizzard.state.receipts import Repair
from blizzard.state.settled_letters import Mark, Scope, SettledLetters, Settlement
from spark_job.loop.files.source import FilePlan, FileSource
from spark_job.loop.read_batch import ReadBatch
from spark_job.ports.reader import FileRows, Outcome, Reader
from spark_job.ports.source import BatchCounts, Receipt
from spark_job.repair.judge import Chosen, Judge
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
    """Implements `SourceKind`. `given_reader`: of the records that are given as JSON texts."""

    def __init__(self, *args: Any, work: Work, given_reader: Reader[FileRows], **more: Any) -> None:
        super().__init__(*args, **more)
        self._work = work
        self._given_reader = given_reader
        self._dead_letters = DeadLetters(self._state, self._identity.state_prefix, self._identity.source_id)
        self._settled = SettledLetters(self._state, self._identity.state_prefix)
        self._new_id: Callable[[], str] = more["new_id"]
        self._waiting: tuple[RepairPlan, RepairBatch] | None = None
        rules = self._settings.rules
        self._judge = Judge(
            table=self._table,
            ledger=self._ledger,
            files=self._files,
            on_overwrite=rules.on_overwrite,
            clock=self._clock,
        )

    def plan(self, checkpoint: Checkpoint) -> FilePlan:
        """The next items that can be read. Those that cannot are ended."""
        self._waiting = None
        unmoved, began_ts = unmoved_plan(checkpoint, self._settings.rules), self._clock()
        while items := self._work.next_batch(self._settings.rules):
            if checkpoint.sequence < 0 and items[0].kind is not Kind.REPLACE:
                self._end_all("the table has no commit of this source")
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
            self._end_all(f"{failed[0].item.path}, which is of the same commit, cannot be read: nothing was replaced")
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
        refused: dict[str, dict[int, str]] = {}
        if any(outcome.dead_records for outcome in rows.outcomes):
            for letter in rows.refused_records():
                refused.setdefault(letter.path, {})[letter.row or 0] = letter.error
        results = [_result_of_records(one, refused.get(one.file.path, {})) for one in plan.chosen]
        if not rows.row_count:
            for result in results:
                self._work.end(result)
            return None
        taken = [outcome for outcome in rows.outcomes if outcome.rows]
        return RepairBatch(rows, results=results, taken=taken)

    def _end_all(self, reason: str) -> None:
        for item in self._work.left:
            self._work.end(Result(item, Fate.HELD, reason))

    # -- the commit

    def record(self, plan: FilePlan, batch: ReadBatch | None) -> Receipt:
        if not isinstance(plan, RepairPlan) or not isinstance(batch, RepairBatch):
            return super().record(plan, batch)
        if not plan.is_of_records and any(outcome.dead_records for outcome in batch.taken):
            with self._watch.part("letters"):
                batch.rows.write_dead_records(f"{plan.base.sequence + 1:020d}-{self._new_id()}")
        self._waiting = plan, batch
        outcomes = [_as_receipt(outcome, plan.repair) for outcome in batch.taken]
        found = batch.rows.unknown_fields.shortened(), batch.rows.misfits.shortened()
        repairs = {one.item.path: one.repairs for one in plan.chosen if one.repairs is not None}
        return self._outputs.write_receipt(plan.base, plan.files, outcomes, *found, plan.repair, repairs)

    def log_committed(self, checkpoint: Checkpoint, counts: BatchCounts, *, version: int, **more: Any) -> None:
        """The commit has landed, so its letters are settled. One that changed the table's schema settles none."""
        super().log_committed(checkpoint, counts, version=version, **more)
        if self._waiting is None:
            return
        (plan, batch), self._waiting = self._waiting, None
        for result in batch.results:
            if result.fate is Fate.DONE or result.rows:
                result.sequence, result.version = checkpoint.sequence, version
            self._work.end(result)
        self._settle(batch.results, plan.began_ts, (checkpoint.sequence, version))

    def settle_rest(self) -> None:
        """The letters of what was in the table already, or has been superseded."""
        self._settle([result for result in self._work.results if result.version is None], self._clock(), (None, None))

    def _settle(self, results: Iterable[Result], before_ts: float, commit: tuple[int | None, int | None]) -> None:
        """If storage refuses it, the letters look open, and the next replay repeats this."""
        results = [*results]
        anew = [one.item.path for one in results if one.fate is Fate.DONE and not one.item.is_of_records]
        etags = self._dead_letters.etags_of(anew)
        marks = tuple(mark for one in results for mark in marks_of(one, before_ts, etags.get(one.item.path, ())))
        if not marks:
            return
        try:
            self._settled.put(Settlement(self._clock(), *commit, marks), self._new_id())
        except BlizzardError as error:
            self._log("publish_failed", source=self._identity.source_id, error=str(error))


def marks_of(result: Result, before_ts: float, etags: Iterable[str]) -> Iterator[Mark]:
    """Of the letters that a result settles, written before this time. Those of a file that was read anew are all that
    there are now, of any content (`etags`); a content that comes later has letters of its own."""
    item, before_ts = result.item, floor(before_ts * 1000) / 1000  # letters have milliseconds
    if item.is_of_records:
        rows = item.records if result.fate is Fate.SUPERSEDED else result.settled
        if rows:
            yield Mark(item.path, Scope.RECORDS, before_ts, item.etag, rows)
    elif result.fate is Fate.DONE:
        for etag in sorted({item.etag, *etags}):
            yield Mark(item.path, Scope.ALL, before_ts, etag)
    elif result.fate in (Fate.IN_ALREADY, Fate.SUPERSEDED):
        yield Mark(item.path, Scope.FILE, before_ts, item.etag)


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


def _result_of_records(one: Chosen, refused: dict[int, str]) -> Result:
    wanted = _numbers(one.file)
    settled = tuple(sorted({*one.present, *wanted} - refused.keys()))
    fate = Fate.DONE if not refused else Fate.REFUSED
    reason = next(iter(refused.values()), None)
    return Result(one.item, fate, reason, rows=len(wanted) - len(refused), settled=settled, refused=refused)


def _numbers(file: PlannedFile) -> tuple[int, ...]:
    return tuple(number for number, _ in file.given) or file.records or ()


def _as_receipt(outcome: Outcome, repair: Repair) -> Outcome:
    """Records that are refused again have been counted as refused before."""
    return outcome if repair is Repair.WHOLE else replace(outcome, dead_records=0)
