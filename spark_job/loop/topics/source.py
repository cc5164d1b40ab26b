"""Topics as a source: each plan asks the brokers for the ends of the partitions, the checkpoint has the positions."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from types import MappingProxyType
from typing import Any

from blizzard.config.kafka_options import NOTHING
from blizzard.errors import BlizzardError, PermanentError, RetryableError
from blizzard.kafka.brokers import Brokers, Cluster, End, Place
from blizzard.kafka.epochs import check_logs, with_epochs, with_other_leaders
from blizzard.kafka.former_sources import check_not_renamed, former_topics
from blizzard.kafka.positions import (
    Gap,
    check_ends,
    check_topics,
    first_positions,
    lags,
    lost_before,
    refuse_gaps,
    with_new_partitions,
    with_offsets,
)
from blizzard.kafka.takeover import TakeoverWatch, taken_over
from blizzard.log import Log
from blizzard.state.dead_letters import DeadLetter, DeadLetters, Stage
from blizzard.state.identity import SourceIdentity
from blizzard.state.receipts import ReceiptLine, Receipts
from blizzard.state.topic_checkpoint import Partition, TopicCheckpoint, encode, further_txns, path_of
from blizzard.storage.base import ObjectStore
from spark_job.loop.evolution import Evolution
from spark_job.loop.read_batch import ReadBatch, log_odd_fields, odd_fields_of, stamped
from spark_job.loop.topics.absent_topics import AbsentTopics
from spark_job.loop.topics.lag_log import LagLog
from spark_job.loop.topics.message_size import after, bytes_each
from spark_job.loop.topics.plan_ranges import shares
from spark_job.loop.topics.published_group import PublishedGroup
from spark_job.loop.topics.range_plan import RangePlan
from spark_job.loop.topics.recovery import recover
from spark_job.loop.topics.run_goal import RunGoal
from spark_job.loop.topics.settings import TopicLoopSettings
from spark_job.ports.offset_range import OffsetRange
from spark_job.ports.reader import FailureKind, FileRows, Outcome, RangesReader
from spark_job.ports.source import BatchCounts, Receipt, Recovered, Resolved
from spark_job.ports.stopwatch import Stopwatch, TurnSecs
from spark_job.ports.table import FileTable, Txn, Txns


class TopicSource:
    """One source of topics, as the loop drives it (`SourceKind`). `clock` gives Unix seconds, `new_id` a short unique
    text; `state` is the table's store."""

    def __init__(
        self,
        identity: SourceIdentity,
        settings: TopicLoopSettings,
        *,
        brokers: Brokers,
        table: FileTable[Any],
        reader: RangesReader[FileRows],
        state: ObjectStore,
        clock: Callable[[], float],
        watch: Stopwatch,
        new_id: Callable[[], str],
        log: Log,
    ) -> None:
        self._identity = identity
        self._settings = settings
        self._options = settings.options
        self._brokers = brokers
        self._table = table
        self._reader = reader
        self._state = state
        self._clock, self._watch, self._new_id, self._log = clock, watch, new_id, log
        self._receipts = Receipts(state, identity.state_prefix)
        self._dead_letters = DeadLetters(state, identity.state_prefix, identity.source_id)
        self._evolution = Evolution(identity, table=table, state=state, clock=clock, new_id=new_id, log=log)
        self._group = PublishedGroup(
            settings.options.publish_group, identity.source_id, brokers=brokers, clock=clock, log=log
        )
        self._bytes_each: float | None = None
        self._compared: dict[Partition, tuple[Place, int | None]] = {}
        """Logs that go up to where the source stands, by the places and the epochs of the leaders that said so."""
        self._absent = AbsentTopics(identity.source_id, settings.options, brokers, log)
        self._lag = LagLog(identity.source_id, clock, log)
        self._said, self._goal = set[tuple[Partition, int]](), RunGoal()
        self._takeover = TakeoverWatch(identity.source_id, settings.options, state, clock)
        self._begins_with_rows = False
        self._ends: Mapping[Partition, int] = {}
        """As of the last plan."""
        self._hollow = dict[Partition, int]()
        """Partitions without a message up to these ends, while messages have to show the columns of the table."""

    # -- the position

    def recover(self) -> Recovered[TopicCheckpoint]:
        self._evolution.forget()
        self._hollow.clear()
        self._goal.forget()
        found = recover(self._table, self._state, self._identity, self._brokers, self._log)
        if found is not None:
            return found
        fresh = TopicCheckpoint(self._identity.pipeline, self._identity.source)
        txns = self._table.txns()
        known = taken_over(self._state, txns, self._options, self._identity.source_id)
        cluster = self._brokers.cluster()
        self._check_not_renamed(txns, cluster)
        begun = first_positions(self._brokers, cluster, self._options, fresh, known)
        begun = replace(begun, moved=MappingProxyType(_all_offsets(begun)))
        self._begins_with_rows = self._settings.begins_with_rows and self._table.newest_version() < 0
        if self._begins_with_rows:
            return Recovered(begun)
        # Committed at once: the next run would find other offsets under the same `start`.
        return Recovered(begun, repaired=True, unpublished=True)

    def _check_not_renamed(self, txns: Sequence[Txn], cluster: Cluster) -> None:
        if self._options.take_over == NOTHING:
            return
        rows = ((one.source, one.path, one.etag) for one in self._table.files_of_others())
        if former := former_topics(self._state, txns, rows, self._settings.configured):
            check_not_renamed(former, cluster, self._identity.source_id)

    def stamp(self, checkpoint: TopicCheckpoint, *, delta_version: int, receipt: Receipt) -> TopicCheckpoint:
        return stamped(checkpoint, delta_version=delta_version, receipt=receipt)

    def encode(self, checkpoint: TopicCheckpoint) -> str:
        return encode(checkpoint)

    def further_txns(self, checkpoint: TopicCheckpoint) -> Txns:
        return further_txns(self._identity, checkpoint)

    # -- planning

    def plan(self, checkpoint: TopicCheckpoint) -> RangePlan:
        if checkpoint.sequence < 0 and not self._begins_with_rows:
            return RangePlan(checkpoint, checkpoint)  # where the source begins is committed before anything is read
        cluster = self._brokers.cluster()
        check_topics(checkpoint, cluster)
        self._takeover.check(checkpoint, self._table.txns)
        self._absent.note(checkpoint, cluster, self._ends)
        found = with_new_partitions(checkpoint, self._brokers, cluster)
        told = self._brokers.ends(cluster.partitions())
        self._check_logs(found, told)
        found, ends = with_epochs(found, told), {partition: end.offset for partition, end in told.items()}
        gaps = lost_before(found, self._brokers, ends)
        if gaps and self._options.on_lost_offsets == "stop":
            refuse_gaps(gaps, self._identity.source_id)
        behind = with_offsets(found, {gap.partition: gap.end for gap in gaps})
        check_ends(behind, ends)
        behind_by = lags(behind, ends)
        waits = {each: lag for each, lag in behind_by.items() if self._hollow.get(each) != ends[each]}
        self._ends = ends
        most, waiting = self._most_messages(checkpoint), sum(waits.values())
        ranges = [_range(behind, partition, count) for partition, count in sorted(shares(waits, most).items())]
        if not ranges:
            self._note_gaps(gaps)
        caught_up = not gaps and self._goal.is_reached(ends, waits)
        return RangePlan(
            checkpoint, behind, ranges, gaps, waiting, full=waiting >= most, lags=behind_by, caught_up=caught_up
        )

    def _most_messages(self, checkpoint: TopicCheckpoint) -> int:
        """In one batch, by the size of those of the newest commit."""
        if self._bytes_each is None:
            self._bytes_each = bytes_each(self._receipts, checkpoint)
        limits = self._settings.limits
        return limits.first if self._bytes_each is None else limits.messages_of(self._bytes_each)

    def _check_logs(self, checkpoint: TopicCheckpoint, ends: Mapping[Partition, End]) -> None:
        """Once for each election: an idle source keeps the epochs of its last commit. Raises RecoveryError."""
        places = with_other_leaders(checkpoint, ends)
        asked = {partition: (place, ends[partition].leader_epoch) for partition, place in places.items()}
        other = {each: places[each] for each, log in asked.items() if self._compared.get(each) != log}
        check_logs(self._brokers, other)
        self._compared = asked

    def _note_gaps(self, gaps: Sequence[Gap]) -> None:
        """Of those that wait for the next messages, each once in a process: their letters come with these."""
        for gap in gaps:
            if (gap.partition, gap.start) not in self._said:
                self._said.add((gap.partition, gap.start))
                self._log_lost(path_of(gap.partition), f"{gap}; the dead letter comes with the source's next messages")

    def _log_lost(self, path: str, error: str) -> None:
        self._log("offsets_lost", source=self._identity.source_id, partition=path, error=error)

    def resolve(self, plan: RangePlan) -> Resolved[RangePlan]:
        return Resolved(plan)

    def start(self, plan: RangePlan) -> RangePlan:
        self._log(
            "ranges_planned",
            source=self._identity.source_id,
            sequence=plan.base.sequence + 1,
            partitions=len(plan.ranges),
            offsets=sum(one.length for one in plan.ranges),
            waiting=plan.waiting,
        )
        return plan

    # -- reading

    def read(self, plan: RangePlan) -> ReadBatch | None:
        began_ts = self._clock()
        with self._watch.part("read"):
            rows = self._reader_for(plan).read_ranges(plan.ranges, sequence=plan.base.sequence + 1)
        if rows is None:
            partitions = [(one.topic, one.partition) for one in plan.ranges]
            self._hollow |= {partition: self._ends[partition] for partition in partitions}
            return None
        self._hollow.clear()
        self._watch.move_share(rows.write_share, source="read", target="write")
        whole = False
        try:
            self._check(plan, rows)
            check_topics(plan.found, self._brokers.cluster())  # a topic may have been made again meanwhile
            whole = True
        finally:
            if not whole:
                rows.discard()
                rows.release()
        self._learn_size(plan, rows.outcomes)
        self._lag.read(plan.lags, rows.outcomes, began_ts)
        return ReadBatch(rows)

    def _reader_for(self, plan: RangePlan) -> RangesReader[FileRows]:
        return self._reader

    def _check(self, plan: RangePlan, rows: FileRows) -> None:
        """Every range was read to its end. Raises RetryableError or PermanentError otherwise."""
        by_path = {outcome.path: outcome for outcome in rows.outcomes}
        for one in plan.ranges:
            outcome = by_path.get(one.path)
            if outcome is not None and outcome.error is not None:
                transient = outcome.failure_kind is FailureKind.TRANSIENT
                raise RetryableError(outcome.error) if transient else PermanentError(outcome.error)
            if outcome is None or outcome.records_read != one.end:
                raise PermanentError(
                    f"the reader reported for {one.path}: {outcome or 'nothing'}; expected an outcome up to offset "
                    f"{one.end}. Nothing was committed; this is a bug in the reader, please report it."
                )
        expected = sum(outcome.rows for outcome in rows.outcomes)
        if expected != rows.row_count:
            raise PermanentError(
                f"the reader reported {expected} rows, and holds {rows.row_count}. Nothing was committed; this is a "
                "bug in the reader, please report it."
            )

    def _learn_size(self, plan: RangePlan, outcomes: Sequence[Outcome]) -> None:
        if offsets := sum(one.length for one in plan.ranges):
            self._bytes_each = after(self._bytes_each, offsets, outcomes)

    # -- the table's schema

    def change_schema(self, plan: RangePlan, batch: ReadBatch) -> RangePlan | None:
        change = self._evolution.change_for(batch.rows)
        return None if change is None else replace(plan, ranges=(), gaps=(), schema_change=change)

    # -- what is settled

    def has_caught_up(self, plan: RangePlan) -> bool:
        return plan.caught_up

    def is_busy(self) -> bool:
        return False

    def owes_commit(self, checkpoint: TopicCheckpoint) -> bool:
        return False

    def skip(self, plan: RangePlan) -> TopicCheckpoint:
        """New partitions stay to be found again: so they are in no commit before their first messages are."""
        self._lag.idle(plan.lags)
        return plan.base

    def settle(self, plan: RangePlan, batch: ReadBatch | None) -> TopicCheckpoint:
        left = plan.waiting - sum(one.length for one in plan.ranges)
        if batch is None:
            return plan.base if plan.base.sequence < 0 else replace(plan.base, waiting=left, moved=MappingProxyType({}))
        ends: dict[Partition, int] = {(one.topic, one.partition): one.end for one in plan.ranges}
        known = plan.base if plan.base.sequence >= 0 else replace(plan.base, topics=MappingProxyType({}))
        begun = {each: at for each, at in _all_offsets(plan.found).items() if known.next_offset(each) is None}
        moved = {**begun, **{gap.partition: gap.end for gap in plan.gaps}, **ends}
        return replace(with_offsets(plan.found, ends), waiting=left, moved=MappingProxyType(moved))

    def record(self, plan: RangePlan, batch: ReadBatch | None) -> Receipt:
        attempt = self._new_id()
        with self._watch.part("letters"):
            self._write_gaps(plan.gaps, attempt)
            if batch is not None and batch.counts.dead_records:
                # Under names of their own: a slower job with another range must not take the letters of this one away.
                batch.rows.write_dead_records(attempt)
        unknown_fields, misfits = odd_fields_of(batch)
        log_odd_fields(self._log, self._identity.source_id, unknown_fields, misfits)
        now_ts = self._clock()
        with self._watch.part("receipt"):
            receipt = self._receipts.put(
                sequence=plan.base.sequence + 1,
                attempt=attempt,
                previous=plan.base.receipt,
                now_ts=now_ts,
                lines=[_line_of(outcome, now_ts) for outcome in (batch.outcomes if batch else ())],
                unknown_fields=unknown_fields,
                misfits=misfits,
                offsets={one.path: (one.start, one.end) for one in plan.ranges},
            )
        return Receipt(receipt.name, now_ts, self._evolution.record(plan.schema_change, plan.base))

    def _write_gaps(self, gaps: Sequence[Gap], attempt: str) -> None:
        letters = [
            DeadLetter(path_of(gap.partition), gap.topic_id, Stage.DOWNLOAD, str(gap), gap.start, about=gap.about())
            for gap in gaps
        ]
        self._dead_letters.write_records(letters, self._clock(), attempt)
        for letter in letters:
            self._log_lost(letter.path, letter.error)

    def publish(self, checkpoint: TopicCheckpoint, *, copy: bool) -> None:
        """None of this is needed to continue: a later commit repeats what fails."""
        self._evolution.publish(checkpoint)
        if copy:
            try:
                with self._watch.part("copy"):
                    self._state.put(self._identity.copy_key, encode(checkpoint).encode())
            except BlizzardError as error:
                self._log("publish_failed", source=self._identity.source_id, error=str(error))
        if checkpoint.sequence >= 0:
            offsets = _all_offsets(checkpoint)
            self._group.publish({each: at for each, at in offsets.items() if self._options.matches(each[0])})

    # -- the log

    def log_recovered(self, checkpoint: TopicCheckpoint, secs: TurnSecs) -> None:
        self._log(
            "positions_recovered",
            source=self._identity.source_id,
            sequence=checkpoint.sequence,
            topics=len(checkpoint.topics),
            partitions=sum(len(topic.next_offsets) for topic in checkpoint.topics.values()),
            secs=asdict(secs),
        )

    def log_committed(
        self, checkpoint: TopicCheckpoint, counts: BatchCounts, *, version: int, delta_checkpoint: bool, secs: TurnSecs
    ) -> None:
        self._log(
            "messages_committed",
            source=self._identity.source_id,
            sequence=checkpoint.sequence,
            version=version,
            partitions=counts.files,
            rows=counts.rows,
            dead_records=counts.dead_records,
            delta_checkpoint=delta_checkpoint,
            secs=asdict(secs),
        )
        self._lag.committed()


class NothingToDiscover:
    """Every plan sees all messages (`InputDiscovery`)."""

    def discover_due(self, now_ts: float) -> None: ...

    def discover_all(self) -> None: ...


def _range(checkpoint: TopicCheckpoint, partition: Partition, count: int) -> OffsetRange:
    name, number = partition
    position = checkpoint.topics[name]
    at = position.next_offsets[number]
    return OffsetRange(name, number, position.topic_id, at, at + count)


def _line_of(outcome: Outcome, now_ts: float) -> ReceiptLine:
    return ReceiptLine(
        path=outcome.path,
        etag=outcome.etag,
        size=outcome.size,
        rows=outcome.rows,
        dead_records=outcome.dead_records,
        event_ts=now_ts,
        finished=False,
    )


def _all_offsets(checkpoint: TopicCheckpoint) -> Mapping[Partition, int]:
    return {(name, n): at for name, topic in checkpoint.topics.items() for n, at in topic.next_offsets.items()}
