"""The loop drives a source of another kind than files: a log with offsets, which ride in the same commit."""

from collections.abc import Callable
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blizzard.errors import StorageUnavailable
from spark_job.loop.continuous import ContinuousSource, run_continuously
from spark_job.loop.drain import DrainedSource, drain_all
from spark_job.loop.ingest import Step
from spark_job.ports.source import SourceKind
from tests.unit.fakes import Crash, crash
from tests.unit.offset_log import CONTROL, LogJob, LogWorld, OffsetLogSource, Offsets, RangeBatch, RangePlan


def two_partitions() -> LogWorld:
    world = LogWorld()
    world.produce(0, "a", "b", "c", "d")
    world.produce(1, "x", "!broken", "y")
    return world


def as_kind(source: OffsetLogSource) -> SourceKind[Offsets, RangePlan, RangeBatch]:
    """For the type checker: a log fits the Protocol."""
    return source


def test_rows_and_offsets_are_in_the_same_commit() -> None:
    world = two_partitions()
    job = world.job()
    assert [job.step(draining=True) for _ in range(4)] == [Step.COMMITTED] * 3 + [Step.IDLE]
    assert world.rows() == world.good_records()
    assert world.committed_offsets() == {0: 4, 1: 3}
    assert [commit.txns for commit in world.delta.commits[1:]] == [{world.identity.app_id: n} for n in range(3)]


def test_dead_letters_and_receipt_are_written_before_the_commit_and_the_copy_after_it() -> None:
    world = LogWorld()
    world.produce(0, "!broken", "a")
    world.job().drain()
    kinds = {"dead_letters": "letters", "receipts": "receipt", "append": "commit", "_checkpoint.json": "copy"}
    order = [kind for name in world.calls.names for part, kind in kinds.items() if part in name]
    assert order == ["letters", "receipt", "commit", "copy"]
    assert world.dead_records() == [("0", 0)]


def test_a_restarted_job_resumes_at_the_committed_offsets() -> None:
    world = two_partitions()
    assert world.job().step(draining=True) is Step.COMMITTED
    world.produce(0, "e")
    totals = world.job().drain()
    assert (totals.rows, totals.dead_records) == (7 - 3, 1)
    assert world.rows() == world.good_records()


def test_a_job_that_loses_a_race_discards_its_batch_and_plans_again() -> None:
    world = two_partitions()
    loser = world.job()
    world.before_commit(lambda: world.job().step(draining=True))
    assert loser.step(draining=True) is Step.LOST
    assert world.rows() == world.good_records()[:3]
    world.produce(1, "z")
    loser.drain()
    assert (loser.totals.lost_races, world.rows()) == (1, world.good_records())


@pytest.mark.parametrize("fault", ["lost", "answer lost"])
def test_a_commit_without_an_answer_is_looked_up_before_it_is_repeated(fault: str) -> None:
    world = two_partitions()
    world.delta.faults = [fault]
    world.job().drain()
    assert world.rows() == world.good_records()
    assert len(world.delta.ever_committed) == 3


def test_a_position_that_moves_without_rows_needs_no_commit() -> None:
    world = LogWorld()
    world.produce(0, CONTROL, CONTROL)
    job = world.job()
    assert [job.step(draining=True), job.step(draining=True)] == [Step.MOVED, Step.IDLE]
    assert world.delta.commits == []


def test_a_batch_that_is_not_full_waits_for_its_interval() -> None:
    world = LogWorld()
    world.produce(0, "a")
    job = world.job()
    assert job.step(draining=False) is Step.WAITING
    world.clock.advance(61.0)
    assert job.step(draining=False) is Step.COMMITTED


def test_a_transient_failure_is_retried_and_rows_are_always_released() -> None:
    world = two_partitions()
    world.calls.before_named("append", fail)
    world.job().drain()
    assert world.rows() == world.good_records()
    assert [rows.released for rows in world.batches] == [True] * 4


def fail() -> None:
    raise StorageUnavailable("503")


def test_a_draining_run_needs_no_sweeps() -> None:
    world = two_partitions()
    world.calls.before_named("append", fail)
    job: DrainedSource = LogJob(world.job(), linger_secs=10.0)
    arrivals = iter(["late"])
    ended = drain_all(
        [job],
        discover=True,
        log=world.note,
        stopping=lambda: False,
        clock=world.clock,
        wait=lambda secs: (world.clock.advance(secs), [world.produce(2, record) for record in arrivals]),
    )
    assert ended == (False, False)
    assert world.rows() == world.good_records()
    assert [event for event, _ in world.log][-1] == "drained"


def test_a_continuous_run_needs_no_sweeps() -> None:
    world = two_partitions()
    world.calls.before_named("append", fail)
    job: ContinuousSource = LogJob(world.job())
    ends_ts = world.clock.now_ts + 200.0
    arrivals = iter(["later"])
    failed = run_continuously(
        [job],
        discover=True,
        log=world.note,
        stopping=lambda: world.clock.now_ts >= ends_ts,
        clock=world.clock,
        wait=lambda secs: (world.clock.advance(secs), [world.produce(2, record) for record in arrivals]),
    )
    assert failed is False
    assert world.rows() == world.good_records()
    assert [event for event, _ in world.log][-1] == "stopped"


RECORDS = st.lists(st.tuples(st.integers(0, 2), st.sampled_from(["good", "!bad", CONTROL])), max_size=12)
HARM: list[Callable[[LogWorld], object]] = [
    lambda world: None,
    lambda world: world.before_commit(lambda: world.job().drain()),
    lambda world: world.delta.faults.append("lost"),
    lambda world: world.delta.faults.append("answer lost"),
]


@given(rounds=st.lists(st.tuples(RECORDS, st.sampled_from(HARM), st.integers(0, 40)), max_size=5))
def test_nothing_is_lost_or_doubled_whatever_happens(
    rounds: list[tuple[list[tuple[int, str]], Callable[[LogWorld], object], int]],
) -> None:
    """In each round, records arrive and a job dies before its n-th call (0: not at all)."""
    world = LogWorld(batch_records=2)
    for records, harm, dies_at in rounds:
        for partition, value in records:
            world.produce(partition, value)
        harm(world)
        if dies_at:
            world.calls.before(dies_at, crash)
        with suppress(Crash):
            world.job().drain()
        world.calls.forget()
    world.delta.before_commit = None
    world.job().drain()
    assert world.rows() == world.good_records()
