"""What a source of topics plans, and what it asks the brokers for it."""

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blizzard.config.kafka_options import KafkaOptions
from blizzard.errors import RecoveryError, RetryableError
from blizzard.kafka.batch_limits import BatchLimits
from blizzard.kafka.brokers import Cluster, End, Place, Topic
from blizzard.kafka.epochs import cut_logs
from blizzard.kafka.positions import first_positions
from blizzard.log import Log, silent
from blizzard.state.identity import SourceIdentity
from blizzard.state.receipts import ReceiptLine, Receipts
from blizzard.state.topic_checkpoint import Partition, TopicCheckpoint
from blizzard.storage.base import ObjectStore
from spark_job.loop.read_batch import ReadBatch
from spark_job.loop.topics.settings import TopicLoopSettings
from spark_job.loop.topics.source import TopicSource
from spark_job.ports.stopwatch import Stopwatch
from spark_job.ports.table import Txn
from tests.unit.strategies import STATE_PREFIX, memory_store

IDENTITY = SourceIdentity("p", "s", STATE_PREFIX)
LIMITS = BatchLimits(1000, 1 << 30)
READ = cast("ReadBatch", object())
"""A batch whose ranges were read to their ends."""


@dataclass
class FakeBrokers:
    """One topic `t`, whose partitions have the offsets from the first (inclusive) to the second (exclusive). `epochs`:
    where each epoch of a partition's leader began, 0 at offset 0."""

    offsets: dict[int, tuple[int, int]]
    asked: list[tuple[str, list[int]]] = field(default_factory=list)
    is_there: bool = True
    meanwhile: Callable[[], object] = lambda: None
    epochs: dict[int, list[int]] = field(default_factory=dict)
    without_epochs: bool = False
    described: int = 0
    """How often it was asked for its topics."""

    def cluster(self) -> Cluster:
        self.described += 1
        return Cluster("c", {"t": Topic("id", [*self.offsets])} if self.is_there else {})

    def first_offsets(self, partitions: Collection[Partition]) -> Mapping[Partition, int]:
        return self._answer("first", partitions, 0)

    def end_offsets(self, partitions: Collection[Partition]) -> Mapping[Partition, int]:
        return self._answer("end", partitions, 1)

    def high_watermarks(self, partitions: Collection[Partition]) -> Mapping[Partition, int]:
        raise NotImplementedError

    def ends(self, partitions: Collection[Partition]) -> Mapping[Partition, End]:
        offsets = self.end_offsets(partitions)
        return {each: End(at, None if self.without_epochs else self._epoch(each[1])) for each, at in offsets.items()}

    def truncated(self, places: Mapping[Partition, Place]) -> Mapping[Partition, str]:
        self.asked.append(("truncated", sorted(number for _, number in places)))
        ends = {each: self._end_of(each[1], place.leader_epoch) for each, place in places.items()}
        return {each: f"it ended at {end}" for each, end in ends.items() if end < places[each].offset}

    def _epoch(self, number: int) -> int:
        return len(self.epochs.get(number, [0])) - 1

    def _end_of(self, number: int, epoch: int) -> int:
        """Of the epoch, as the log has it now."""
        later = self.epochs.get(number, [0])[epoch + 1 :]
        return min([*later, self.offsets[number][1]])

    def elect(self, number: int, end: int | None = None) -> None:
        """Another leader, whose log ends there; None: with all messages."""
        first, before = self.offsets[number]
        self.offsets[number] = min(first, before if end is None else end), before if end is None else end
        self.epochs.setdefault(number, [0]).append(self.offsets[number][1])

    def offsets_at(self, partitions: Collection[Partition], since_ts: float) -> Mapping[Partition, int]:
        raise NotImplementedError

    def publish(self, group: str, next_offsets: Mapping[Partition, int]) -> None:
        raise NotImplementedError

    def _answer(self, what: str, partitions: Collection[Partition], which: int) -> dict[Partition, int]:
        self.asked.append((what, sorted(number for _, number in partitions)))
        found = {(topic, number): self.offsets[number][which] for topic, number in partitions}
        self.meanwhile()
        return found

    @contextmanager
    def between(self, change: Callable[[], object]) -> Iterator[None]:
        """Lets it happen after each answer."""
        self.meanwhile = change
        yield
        self.meanwhile = lambda: None

    def produce(self, number: int, count: int) -> None:
        first, end = self.offsets.get(number, (0, 0))
        self.offsets[number] = first, end + count

    def forget(self, number: int, count: int) -> None:
        """The oldest messages, as retention does it."""
        first, end = self.offsets.get(number, (0, 0))
        self.offsets[number] = min(first + count, end), end


class TableWithoutTxns:
    def txns(self) -> list[Txn]:
        return []


def source_of(
    brokers: FakeBrokers,
    on_lost_offsets: str = "continue",
    limits: BatchLimits = LIMITS,
    log: Log = silent,
    state: ObjectStore | None = None,
    pattern: str | None = None,
) -> TopicSource:
    named = {"topics": ["t"]} if pattern is None else {"topic_pattern": pattern}
    options = KafkaOptions.model_validate({"bootstrap_servers": "b:9092", **named, "on_lost_offsets": on_lost_offsets})
    nothing: Any = None
    table: Any = TableWithoutTxns()
    return TopicSource(
        IDENTITY,
        TopicLoopSettings(options=options, limits=limits),
        brokers=brokers,
        table=table,
        reader=nothing,
        state=memory_store() if state is None else state,
        clock=lambda: 0.0,
        watch=Stopwatch(lambda: 0.0),
        new_id=lambda: "id",
        log=log,
    )


def begun(brokers: FakeBrokers) -> TopicCheckpoint:
    """After the first commit."""
    options = KafkaOptions.model_validate({"bootstrap_servers": "b:9092", "topics": ["t"]})
    found = first_positions(brokers, brokers.cluster(), options, TopicCheckpoint("p", "s", sequence=0), {})
    brokers.asked.clear()
    return found


def test_the_first_batch_holds_its_bytes_however_large_the_messages_are() -> None:
    brokers = FakeBrokers({0: (0, 500), 1: (0, 500)})
    source = source_of(brokers, limits=BatchLimits(1000, 64 << 20))
    plan = source.plan(begun(brokers))
    assert [one.length for one in plan.ranges] == [32, 32]
    assert plan.full


def test_a_job_that_starts_knows_the_size_of_messages_from_the_newest_commit_that_read_some() -> None:
    brokers, state = FakeBrokers({0: (0, 5000)}), memory_store()
    receipts, checkpoint = Receipts(state, STATE_PREFIX), begun(brokers)
    attempt: dict[str, Any] = {"attempt": "a", "now_ts": 0.0}
    lines = [ReceiptLine("t/0", "id", 4000, 3, 1, 0.0), ReceiptLine("t/1", "id", 10**9, 1, 0, 0.0, repair="whole")]
    old = receipts.put(sequence=1, previous=None, lines=[lines[0]._replace(size=1)], offsets={"t/0": (0, 1)}, **attempt)
    read = receipts.put(sequence=2, previous=old.name, lines=lines, offsets={"t/0": (0, 4), "t/1": (0, 1)}, **attempt)
    newest = receipts.put(sequence=3, previous=read.name, lines=[], **attempt)
    for name, count in ((newest.name, 8), (None, 1), ("00000000000000000004-lost.json.gz", 1)):
        source = source_of(brokers, limits=BatchLimits(1000, 8000), state=state)
        [planned] = source.plan(replace(checkpoint, receipt=name)).ranges
        assert planned.length == count


def test_an_idle_source_asks_for_ends_alone() -> None:
    brokers = FakeBrokers({0: (0, 5), 1: (3, 9)})
    source, checkpoint = source_of(brokers), begun(brokers)
    checkpoint = source.settle(source.plan(checkpoint), READ)
    brokers.asked.clear()
    assert source.plan(checkpoint).empty
    assert [(what, numbers) for what, numbers in brokers.asked if numbers] == [("end", [0, 1])]


def test_first_offsets_are_asked_of_partitions_that_have_messages_to_read() -> None:
    brokers = FakeBrokers({0: (0, 5), 1: (3, 9), 2: (0, 0)})
    source, checkpoint = source_of(brokers), begun(brokers)
    checkpoint = source.settle(source.plan(checkpoint), READ)
    brokers.produce(1, 1)
    brokers.asked.clear()
    source.plan(checkpoint)
    assert brokers.asked == [("end", [0, 1, 2]), ("first", [1])]


def test_a_gap_that_opens_while_a_partition_is_idle_is_found_before_it_is_read_again() -> None:
    brokers = FakeBrokers({0: (0, 2), 1: (0, 2)})
    source, checkpoint = source_of(brokers), begun(brokers)
    checkpoint = source.settle(source.plan(checkpoint), READ)
    assert source.plan(checkpoint).empty
    brokers.produce(0, 3)
    brokers.forget(0, 4)
    plan = source.plan(checkpoint)
    assert [(gap.partition, gap.start, gap.end) for gap in plan.gaps] == [(("t", 0), 2, 4)]
    assert [(one.partition, one.start, one.end) for one in plan.ranges] == [(0, 4, 5)]
    with pytest.raises(RecoveryError, match="offsets 2 to 3 of t/0 are gone"):
        source_of(brokers, on_lost_offsets="stop").plan(checkpoint)


def test_settling_moves_the_partitions_that_were_read_and_no_other() -> None:
    brokers = FakeBrokers({0: (0, 5), 1: (3, 9), 2: (0, 0)})
    source, checkpoint = source_of(brokers), begun(brokers)
    settled = source.settle(source.plan(checkpoint), READ)
    assert settled.topics["t"].next_offsets == {0: 5, 1: 9, 2: 0}
    assert settled.topics["t"].first_offsets == {0: 0, 1: 3, 2: 0}
    assert settled.moved == {("t", 0): 5, ("t", 1): 9}


def test_a_topic_that_is_gone_is_said_once_and_again_after_each_change() -> None:
    brokers, said = FakeBrokers({0: (0, 0)}), list[dict[str, object]]()
    source, checkpoint = source_of(brokers, log=lambda event, /, **fields: said.append({event: fields})), begun(brokers)
    for is_there in (True, False, False, True, False, False):
        brokers.is_there = is_there
        assert source.plan(checkpoint).empty
    assert said == [{"topics_missing": {"source": "p:s", "topics": ["t"]}}] * 2


def test_a_gap_that_waits_for_messages_is_said_once() -> None:
    brokers, said = FakeBrokers({0: (0, 2)}), list[tuple[str, str]]()
    source = source_of(brokers, log=lambda event, /, **fields: said.append((event, str(fields["error"]))))
    checkpoint = source.settle(source.plan(begun(brokers)), READ)
    brokers.produce(0, 3)
    brokers.forget(0, 5)
    assert [source.plan(checkpoint).empty for _ in range(3)] == [True] * 3
    [(event, error)] = said
    assert event == "offsets_lost"
    assert error.startswith("offsets 2 to 4 of t/0 are gone")


def test_a_log_that_was_truncated_stops_the_source_and_keeps_it_stopped() -> None:
    brokers = FakeBrokers({0: (0, 100), 1: (0, 5)})
    source, checkpoint = source_of(brokers), begun(brokers)
    checkpoint = source.settle(source.plan(checkpoint), READ)
    brokers.elect(0, end=40)
    for produced in (0, 30, 80):
        brokers.produce(0, produced)
        for asking in (source, source_of(brokers)):
            with pytest.raises(RecoveryError, match=r"partition t/0 was truncated below offset 100.*under a new name"):
                asking.plan(checkpoint)
        brokers.elect(0)


def test_a_log_is_compared_once_for_each_election_and_commit() -> None:
    brokers = FakeBrokers({0: (0, 100), 1: (0, 5), 2: (0, 0)})
    source, checkpoint = source_of(brokers), begun(brokers)
    checkpoint = source.settle(source.plan(checkpoint), READ)
    for number in (0, 1, 2):
        brokers.elect(number)
    brokers.asked.clear()
    assert source.plan(checkpoint).empty
    assert source.plan(checkpoint).empty
    assert [numbers for what, numbers in brokers.asked if what == "truncated"] == [[0, 1]]
    brokers.elect(1)
    brokers.produce(0, 1)
    brokers.asked.clear()
    checkpoint = source.settle(source.plan(checkpoint), READ)
    assert checkpoint.topics["t"].leader_epochs == {0: 1, 1: 2, 2: 1}
    source_of(brokers).plan(checkpoint)
    assert [numbers for what, numbers in brokers.asked if what == "truncated"] == [[1]]


def test_a_log_that_is_truncated_again_while_it_is_idle_is_noticed() -> None:
    brokers = FakeBrokers({0: (0, 100)})
    source, checkpoint = source_of(brokers), begun(brokers)
    checkpoint = source.settle(source.plan(checkpoint), READ)
    brokers.elect(0)
    assert source.plan(checkpoint).empty
    brokers.elect(0, end=0)
    brokers.produce(0, 150)
    with pytest.raises(RecoveryError, match="truncated below offset 100"):
        source.plan(checkpoint)


def test_a_log_that_is_truncated_before_the_first_message_is_read_is_noticed() -> None:
    brokers = FakeBrokers({0: (3, 9)})
    source, checkpoint = source_of(brokers), begun(brokers)
    brokers.elect(0, end=0)
    brokers.produce(0, 20)
    with pytest.raises(RecoveryError, match="truncated below offset 3"):
        source.plan(checkpoint)


def test_a_log_that_is_truncated_between_a_plan_and_its_reading_is_noticed_by_the_next_plan() -> None:
    brokers = FakeBrokers({0: (0, 100)})
    source, checkpoint = source_of(brokers), begun(brokers)
    plan = source.plan(checkpoint)
    brokers.elect(0, end=20)
    brokers.produce(0, 200)
    checkpoint = source.settle(plan, READ)
    with pytest.raises(RecoveryError, match="truncated below offset 100"):
        source.plan(checkpoint)


def test_a_partition_that_ends_before_what_was_read_is_waited_for() -> None:
    brokers = FakeBrokers({0: (0, 100)}, without_epochs=True)
    source, checkpoint = source_of(brokers), begun(brokers)
    checkpoint = source.settle(source.plan(checkpoint), READ)
    brokers.offsets[0] = 0, 40
    with pytest.raises(RetryableError, match="t/0 ends with offset 39, and the table has its messages up to 99"):
        source.plan(checkpoint)
    brokers.produce(0, 60)
    assert source.plan(checkpoint).empty


def test_logs_that_no_longer_have_what_was_read_are_named_with_what_is_known() -> None:
    brokers = FakeBrokers(dict.fromkeys(range(5), (0, 100)))
    source, checkpoint = source_of(brokers), begun(brokers)
    checkpoint = source.settle(source.plan(checkpoint), READ)
    brokers.elect(0)
    for number, produced in ((1, 0), (2, 200), (3, 0)):
        brokers.elect(number, end=40)
        brokers.produce(number, produced)
    brokers.offsets[5] = (0, 9)  # which the checkpoint does not know
    ends = {**brokers.ends([("t", number) for number in range(6)]), ("t", 3): End(40)}
    found = cut_logs(brokers, checkpoint, ends)
    assert found == {
        ("t", 1): "the log of t/1 was truncated below offset 100, where the source stands (it ended at 40)",
        ("t", 2): "the log of t/2 was truncated below offset 100, where the source stands (it ended at 40)",
        ("t", 3): "the log of t/3 ends before offset 40; expected 100 or more",
    }


def test_without_epochs_a_source_goes_on_as_before() -> None:
    brokers = FakeBrokers({0: (0, 100)}, without_epochs=True)
    source, checkpoint = source_of(brokers), begun(brokers)
    checkpoint = source.settle(source.plan(checkpoint), READ)
    assert checkpoint.topics["t"].leader_epochs == {}
    brokers.without_epochs = False
    brokers.elect(0)
    brokers.produce(0, 1)
    checkpoint = source.settle(source.plan(checkpoint), READ)
    assert (checkpoint.topics["t"].next_offsets, checkpoint.topics["t"].leader_epochs) == ({0: 101}, {0: 1})
    brokers.without_epochs = True
    assert source.plan(checkpoint).empty
    assert [what for what, _ in brokers.asked if what == "truncated"] == []


@dataclass
class _Changes:
    """One after each answer, as long as there are some left."""

    brokers: FakeBrokers
    left: Iterator[tuple[str, int, int]]
    some: bool = False

    def __call__(self) -> None:
        for what, number, count in islice(self.left, 1):
            getattr(self.brokers, what)(number, count)
            self.some = True


CHANGES = st.tuples(st.sampled_from(["produce", "forget"]), st.integers(0, 2), st.integers(1, 4))


@given(st.lists(st.lists(CHANGES, max_size=5), max_size=12), st.integers(1, 9), st.lists(CHANGES, max_size=30))
def test_no_offset_is_passed_in_silence(turns: list[list[Any]], most: int, between: list[Any]) -> None:
    """Whatever is produced and forgotten before a plan, and between its questions: an offset that the source stands
    behind was read, or is in a gap that it said."""
    brokers = FakeBrokers({0: (0, 0), 1: (2, 4)})
    checkpoint, source = begun(brokers), source_of(brokers, limits=BatchLimits(most, 1 << 30))
    left, passed = iter(between), {number: {*()} for number in range(3)}
    for turn in turns:
        for what, number, count in turn:
            getattr(brokers, what)(number, count)
        changed, plan = _Changes(brokers, left), None
        with brokers.between(changed), suppress(RetryableError):  # the ends were asked for before messages were gone
            plan = source.plan(checkpoint)
        if plan is None or plan.empty:
            continue
        if not all(one.start >= brokers.offsets[one.partition][0] for one in plan.ranges):
            assert changed.some  # what is gone since makes the consumer fail
            continue
        checkpoint = source.settle(plan, READ)
        for one in plan.ranges:
            passed[one.partition] |= {*range(one.start, one.end)}
        for gap in plan.gaps:
            passed[gap.partition[1]] |= {*range(gap.start, gap.end)}
        for number, offset in checkpoint.topics["t"].next_offsets.items():
            assert passed[number] == {*range(checkpoint.topics["t"].first_offsets[number], offset)}
