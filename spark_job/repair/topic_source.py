"""Messages that an operator has read once more, as a kind of source: its commits are those of the source itself, under
the same Txn, and leave its positions as they are."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

from blizzard.errors import PermanentError
from blizzard.state.batch import BatchRules
from blizzard.state.receipts import ReceiptLine, Repair
from blizzard.state.topic_checkpoint import Partition, TopicCheckpoint
from blizzard.state.watermark import no_folder
from spark_job.loop.topics.recovery import recover
from spark_job.loop.topics.source import RangeBatch, RangePlan, TopicSource
from spark_job.ports.offset_range import OffsetRange
from spark_job.ports.reader import FileRows, RangesReader
from spark_job.ports.source import BatchCounts, Receipt, Recovered
from spark_job.repair.settler import NO_COMMIT, Settler, refused_of, result_of_records
from spark_job.repair.topic_judge import ChosenMessages, TopicJudge, shown
from spark_job.repair.work import Kind, Result, Work

Offsets = Callable[[Mapping[Partition, tuple[int, int]]], Iterator[tuple[Partition, Sequence[int]]]]
"""The offsets of the messages of some ranges."""

_ONE_COMMIT = BatchRules(no_folder, interval_files=1 << 62, interval_bytes=1 << 62)


@dataclass(frozen=True, slots=True)
class RepairRanges(RangePlan):
    """`chosen`: what is read, all of one kind. `began_ts`: when this was planned, in Unix seconds."""

    chosen: Sequence[ChosenMessages] = ()
    began_ts: float = 0.0

    @property
    def is_given(self) -> bool:
        return self.chosen[0].item.kind is Kind.GIVEN


@dataclass(frozen=True, slots=True)
class RepairedMessages(RangeBatch):
    """Of `results`, one for each chosen item, the commit makes true what they say."""

    results: Sequence[Result] = ()


class RepairTopicSource(TopicSource):
    """Implements `SourceKind`. `settler`: of the results of `work`. `given_reader`: of messages whose payloads are
    given as JSON texts. `offsets`: reads which messages the brokers have."""

    def __init__(
        self,
        *args: Any,
        work: Work,
        settler: Settler,
        given_reader: RangesReader[FileRows],
        offsets: Offsets,
        **more: Any,
    ) -> None:
        super().__init__(*args, **more)
        self._work = work
        self._settler = settler
        self._given_reader = given_reader
        self._offsets = offsets
        self._judge = TopicJudge(table=self._table, brokers=self._brokers)
        self._waiting: tuple[RepairRanges, RepairedMessages] | None = None

    # -- planning

    def recover(self) -> Recovered[TopicCheckpoint]:
        """A source that has not begun does not begin here."""
        self._evolution.forget()
        found = recover(self._table, self._state, self._identity, self._brokers, self._log)
        return found or Recovered(TopicCheckpoint(self._identity.pipeline, self._identity.source))

    def plan(self, checkpoint: TopicCheckpoint) -> RangePlan:
        """The next messages that can be read. Those that cannot are ended."""
        self._waiting, began_ts = None, self._clock()
        while items := self._work.next_batch(_ONE_COMMIT):
            if checkpoint.sequence < 0:
                self._work.hold_all(NO_COMMIT)
                break
            chosen = self._judge.choose(checkpoint, items, self._work)
            if chosen:
                ranges = [one for each in chosen for one in each.ranges]
                found = _only(checkpoint, {one.topic for one in ranges if one.length})
                return RepairRanges(checkpoint, found, ranges, full=True, chosen=chosen, began_ts=began_ts)
        return RangePlan(checkpoint, checkpoint)

    def start(self, plan: RangePlan) -> RangePlan:
        assert isinstance(plan, RepairRanges)
        self._log(
            "replay_planned",
            source=self._identity.source_id,
            sequence=plan.base.sequence + 1,
            partitions=len(plan.chosen),
            messages=sum(len(one.wanted) for one in plan.chosen),
        )
        return plan

    # -- reading

    def _reader_for(self, plan: RangePlan) -> RangesReader[FileRows]:
        assert isinstance(plan, RepairRanges)
        return self._given_reader if plan.is_given else self._reader

    def _check(self, plan: RangePlan, rows: FileRows) -> None:
        super()._check(replace(plan, ranges=_last_of_each(plan.ranges)), rows)

    def read(self, plan: RangePlan) -> RangeBatch | None:
        batch = super().read(plan)
        assert isinstance(plan, RepairRanges)
        assert batch is not None
        found = None
        try:
            found = self._batch_of(plan, batch.rows)
        finally:
            if found is None:
                batch.rows.discard()
                batch.rows.release()
        return found

    def _batch_of(self, plan: RepairRanges, rows: FileRows) -> RepairedMessages | None:
        """None: some are not there after all, and have been ended, or all were refused again."""
        counts = {outcome.path: outcome.rows + outcome.dead_records for outcome in rows.outcomes}
        short = [one for one in plan.chosen if counts[one.item.path] != len(one.wanted)]
        for one in short:
            self._hold_missing(one, counts[one.item.path])
        if short:
            return None
        refused = refused_of(rows)
        results = [
            result_of_records(one.item, one.wanted, one.present, refused.get(one.item.path, {})) for one in plan.chosen
        ]
        if not rows.row_count:
            for result in results:
                self._work.end(result)
            return None
        return RepairedMessages(rows, results=results)

    def _hold_missing(self, one: ChosenMessages, found: int) -> None:
        """Compaction has taken them, or `isolation` leaves them out today. Raises PermanentError if all are there."""
        there = set[int]()
        for each in one.ranges:
            if each.length:
                for _, offsets in self._offsets({(each.topic, each.partition): (each.start, each.end)}):
                    there.update(offsets)
        missing = {*one.wanted} - there
        if not missing or one.item.kind is Kind.GIVEN:
            raise PermanentError(
                f"the reader reported {found} messages of {one.item.path}; expected {len(one.wanted)}. Nothing was "
                "committed; this is a bug in the reader, please report it."
            )
        self._work.hold(one.item, missing, f"offsets {shown(missing)}: the brokers have no such messages any more")

    # -- the commit

    def settle(self, plan: RangePlan, batch: RangeBatch | None) -> TopicCheckpoint:
        return replace(plan.base, moved=MappingProxyType({}))

    def record(self, plan: RangePlan, batch: RangeBatch | None) -> Receipt:
        if not isinstance(plan, RepairRanges) or not isinstance(batch, RepairedMessages):
            return super().record(plan, batch)
        self._waiting = plan, batch
        repair, now_ts = Repair.GIVEN if plan.is_given else Repair.RECORDS, self._clock()
        lines = [
            ReceiptLine(one.path, one.etag, one.size, one.rows, 0, now_ts, finished=False, repair=repair)
            for one in batch.outcomes
            if one.rows
        ]
        receipt = self._receipts.put(
            sequence=plan.base.sequence + 1,
            attempt=self._new_id(),
            previous=plan.base.receipt,
            now_ts=now_ts,
            lines=lines,
            unknown_fields=batch.rows.unknown_fields.shortened(),
            misfits=batch.rows.misfits.shortened(),
        )
        return Receipt(receipt.name, now_ts)

    def log_committed(self, checkpoint: TopicCheckpoint, counts: BatchCounts, *, version: int, **more: Any) -> None:
        """The commit has landed, so its letters are settled. One that changed the table's schema settles none."""
        super().log_committed(checkpoint, counts, version=version, **more)
        if self._waiting is not None:
            (plan, batch), self._waiting = self._waiting, None
            self._settler.committed(batch.results, plan.began_ts, sequence=checkpoint.sequence, version=version)


def _only(checkpoint: TopicCheckpoint, topics: set[str]) -> TopicCheckpoint:
    """With the topics that are read: whether the others are still the same does not matter."""
    known = {name: position for name, position in checkpoint.topics.items() if name in topics}
    return replace(checkpoint, topics=MappingProxyType(known))


def _last_of_each(ranges: Sequence[OffsetRange]) -> Sequence[OffsetRange]:
    """Of each partition the range that ends last."""
    last: dict[str, OffsetRange] = {}
    for one in ranges:
        if one.path not in last or last[one.path].end < one.end:
            last[one.path] = one
    return [*last.values()]
