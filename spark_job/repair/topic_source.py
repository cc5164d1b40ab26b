"""Messages that an operator has read once more, as a kind of source: its commits are those of the source itself, under
the same Txn, and leave its positions as they are."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

from blizzard.errors import PermanentError, RetryableError
from blizzard.kafka.epochs import check_logs, with_other_leaders
from blizzard.state.batch import BatchRules
from blizzard.state.receipts import ReceiptLine, Repair
from blizzard.state.settled_letters import letters_with_settlements
from blizzard.state.topic_checkpoint import Partition, TopicCheckpoint
from blizzard.state.watermark import no_folder
from spark_job.loop.read_batch import ReadBatch
from spark_job.loop.topics.range_plan import RangePlan
from spark_job.loop.topics.recovery import recover
from spark_job.loop.topics.source import TopicSource
from spark_job.ports.offset_range import OffsetRange
from spark_job.ports.reader import FileRows, RangesReader
from spark_job.ports.source import BatchCounts, Receipt, Recovered
from spark_job.repair.settler import NO_COMMIT, Settler, refused_of, result_of_records
from spark_job.repair.topic_judge import ChosenMessages, TopicJudge, near, shown
from spark_job.repair.topic_whole import WholePartitions
from spark_job.repair.work import Fate, Kind, Result, Work

Offsets = Callable[[Mapping[Partition, tuple[int, int]]], Iterator[tuple[Partition, Sequence[int]]]]
"""The offsets of the messages of some ranges."""

_ONE_COMMIT = BatchRules(no_folder, interval_files=1 << 62, interval_bytes=1 << 62)


@dataclass(frozen=True, slots=True)
class RepairRanges(RangePlan):
    """`chosen`: what is read, all of one kind. `began_ts`: when this was planned, in Unix seconds."""

    chosen: Sequence[ChosenMessages] = ()
    began_ts: float = 0.0

    @property
    def kind(self) -> Kind:
        return self.chosen[0].item.kind

    @property
    def repair(self) -> Repair:
        return {Kind.GIVEN: Repair.GIVEN, Kind.OFFSETS: Repair.WHOLE}.get(self.kind, Repair.RECORDS)


@dataclass(frozen=True, slots=True)
class RepairedMessages(ReadBatch):
    """Of `results`, one for each chosen item, the commit makes true what they say."""

    results: Sequence[Result] = ()


class RepairTopicSource(TopicSource):
    """Implements `SourceKind`. `settler`: of the results of `work`. `given_reader`: of messages whose payloads are
    given as JSON texts; `replacing_reader`: of those whose rows take the place of others. `offsets`: reads which
    messages the brokers have. `whole`: which partitions can be replaced; None: none is."""

    def __init__(
        self,
        *args: Any,
        work: Work,
        settler: Settler,
        given_reader: RangesReader[FileRows],
        replacing_reader: RangesReader[FileRows],
        offsets: Offsets,
        whole: WholePartitions | None = None,
        **more: Any,
    ) -> None:
        super().__init__(*args, **more)
        self._work = work
        self._settler = settler
        self._readers = {Kind.GIVEN: given_reader, Kind.OFFSETS: replacing_reader}
        self._whole = whole
        self._offsets = offsets
        self._judge = TopicJudge(
            table=self._table, brokers=self._brokers, letters=self._dead_letters, receipts=self._receipts
        )

    # -- planning

    def recover(self) -> Recovered[TopicCheckpoint]:
        """A source that has not begun does not begin here."""
        self._evolution.forget()
        found = recover(self._table, self._state, self._identity, self._brokers, self._log)
        return found or Recovered(TopicCheckpoint(self._identity.pipeline, self._identity.source))

    def plan(self, checkpoint: TopicCheckpoint) -> RangePlan:
        """The next messages that can be read. Those that cannot are ended."""
        began_ts = self._clock()
        self._settler.expect((), began_ts)
        while items := self._work.next_batch(_ONE_COMMIT):
            if checkpoint.sequence < 0:
                self._work.hold_all(NO_COMMIT)
                break
            replaced = items[0].kind is Kind.OFFSETS
            chosen = self._whole_ones(checkpoint) if replaced else self._judge.choose(checkpoint, items, self._work)
            if chosen:
                ranges = [one for each in chosen for one in each.ranges]
                found = _only(checkpoint, {one.topic for one in ranges if one.length})
                return RepairRanges(checkpoint, found, ranges, full=True, chosen=chosen, began_ts=began_ts)
        return RangePlan(checkpoint, checkpoint)

    def _whole_ones(self, checkpoint: TopicCheckpoint) -> Sequence[ChosenMessages]:
        """All partitions that are replaced, or none: then their items are ended."""
        assert self._whole is not None
        known, chosen = self._whole.at(checkpoint), list[ChosenMessages]()
        for item in self._work.left:
            one = known.get(item.path, "there is nothing of it any more")
            if isinstance(one, str):
                self._work.hold_all(f"{item.path} cannot be read again whole: {one}. Nothing was replaced.")
                return []
            ranges = [OffsetRange(one.topic, one.number, one.topic_id, one.first, one.end)]
            chosen.append(ChosenMessages(item, ranges, (), (), one.messages))
        return chosen

    def start(self, plan: RangePlan) -> RangePlan:
        assert isinstance(plan, RepairRanges)
        self._log(
            "replay_planned",
            source=self._identity.source_id,
            sequence=plan.base.sequence + 1,
            partitions=len(plan.chosen),
            messages=sum(one.count for one in plan.chosen),
        )
        return plan

    # -- reading

    def _reader_for(self, plan: RangePlan) -> RangesReader[FileRows]:
        assert isinstance(plan, RepairRanges)
        return self._readers.get(plan.kind, self._reader)

    def _check(self, plan: RangePlan, rows: FileRows) -> None:
        super()._check(replace(plan, ranges=_last_of_each(plan.ranges)), rows)

    def read(self, plan: RangePlan) -> ReadBatch | None:
        try:
            batch = super().read(plan)
        except RetryableError:
            if self._whole is not None:
                self._whole.forget()  # messages may have gone meanwhile
            raise
        assert isinstance(plan, RepairRanges)
        if batch is None:
            raise PermanentError(
                f"source {self._identity.source_id}: its table has no columns yet, and these offsets have no message "
                "that could decide on them. Nothing was changed; repair it after a run has ingested messages."
            )
        found = None
        try:
            self._check_logs_again(plan)
            found = self._batch_of(plan, batch.rows)
        finally:
            if found is None:
                batch.rows.discard()
                batch.rows.release()
        return found

    def _check_logs_again(self, plan: RepairRanges) -> None:
        """Raises RecoveryError for a log that was truncated while it was read."""
        ends = self._brokers.ends({(one.topic, one.partition) for one in plan.ranges if one.length})
        check_logs(self._brokers, with_other_leaders(plan.found, ends))

    def _batch_of(self, plan: RepairRanges, rows: FileRows) -> RepairedMessages | None:
        """None: some are not there after all, and have been ended, or all were refused again."""
        counts = {outcome.path: outcome.rows + outcome.dead_records for outcome in rows.outcomes}
        short = [one for one in plan.chosen if counts[one.item.path] != one.count]
        if plan.kind is Kind.OFFSETS:
            return self._replacing(plan, rows, changed=[one.item.path for one in short])
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

    def _replacing(self, plan: RepairRanges, rows: FileRows, *, changed: Sequence[str]) -> RepairedMessages:
        """Raises RetryableError if the brokers have other messages than when the partitions were looked at."""
        assert self._whole is not None
        if changed:
            self._whole.forget()
            raise RetryableError(f"messages of {changed[0]} have gone while it was read, by retention or compaction")
        letters, by_path = self._letters_of(plan.ranges), {outcome.path: outcome for outcome in rows.outcomes}
        results = [
            Result(
                one.item,
                Fate.DONE,
                rows=by_path[one.item.path].rows,
                settled=tuple(sorted(letters.get(one.item.path, ()))),
            )
            for one in plan.chosen
        ]
        return RepairedMessages(rows, replaced=[one.item.path for one in plan.chosen], results=results)

    def _letters_of(self, ranges: Sequence[OffsetRange]) -> Mapping[str, set[int]]:
        """The messages of the ranges that have open letters. A letter whose message is gone stays open."""
        by_place = {(one.path, one.topic_id): one for one in ranges}
        found: dict[str, set[int]] = {}
        stored = self._identity.state_prefix, self._identity.source_id
        for letter, settlement in letters_with_settlements(self._state, *stored, []):
            one, row = by_place.get((str(letter.get("path")), str(letter.get("etag")))), letter.get("row")
            if one is not None and settlement is None and isinstance(row, int) and one.start <= row < one.end:
                found.setdefault(one.path, set()).add(row)
        there = {one.path: self._existing(near(one, found[one.path])) for one in ranges if one.path in found}
        return {path: offsets & there[path] for path, offsets in found.items()}

    def _existing(self, ranges: Iterable[OffsetRange]) -> set[int]:
        found = set[int]()
        for each in ranges:
            if each.length:
                for _, offsets in self._offsets({(each.topic, each.partition): (each.start, each.end)}):
                    found.update(offsets)
        return found

    def _hold_missing(self, one: ChosenMessages, found: int) -> None:
        """Compaction has taken them, or `isolation` leaves them out today. Raises PermanentError if all are there."""
        missing = {*one.wanted} - self._existing(one.ranges)
        if not missing or one.item.kind is Kind.GIVEN:
            raise PermanentError(
                f"the reader reported {found} messages of {one.item.path}; expected {len(one.wanted)}. Nothing was "
                "committed; this is a bug in the reader, please report it."
            )
        self._work.hold(one.item, missing, f"offsets {shown(missing)}: the brokers have no such messages any more")

    # -- the commit

    def settle(self, plan: RangePlan, batch: ReadBatch | None) -> TopicCheckpoint:
        return replace(plan.base, moved=MappingProxyType({}))

    def record(self, plan: RangePlan, batch: ReadBatch | None) -> Receipt:
        if not isinstance(plan, RepairRanges) or not isinstance(batch, RepairedMessages):
            return super().record(plan, batch)
        self._settler.expect(batch.results, plan.began_ts)
        attempt, now_ts, whole = self._new_id(), self._clock(), plan.kind is Kind.OFFSETS
        if whole and batch.counts.dead_records:
            batch.rows.write_dead_records(f"{plan.base.sequence + 1:020d}-{attempt}")
        lines = [
            ReceiptLine(
                one.path,
                one.etag,
                one.size,
                one.rows,
                one.dead_records if whole else 0,  # others have been counted before
                now_ts,
                finished=False,
                repair=plan.repair,
            )
            for one in batch.outcomes
            if one.rows or whole
        ]
        receipt = self._receipts.put(
            sequence=plan.base.sequence + 1,
            attempt=attempt,
            previous=plan.base.receipt,
            now_ts=now_ts,
            lines=lines,
            unknown_fields=batch.rows.unknown_fields.shortened(),
            misfits=batch.rows.misfits.shortened(),
            settles={one.item.path: one.settled for one in batch.results if one.settled and (one.rows or whole)},
        )
        return Receipt(receipt.name, now_ts)

    def log_committed(self, checkpoint: TopicCheckpoint, counts: BatchCounts, *, version: int, **more: Any) -> None:
        """The commit has landed, so its letters are settled."""
        super().log_committed(checkpoint, counts, version=version, **more)
        self._settler.committed(sequence=checkpoint.sequence, version=version)


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
