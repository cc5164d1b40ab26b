"""A run that ends reads what its topics had when it began, although they are written to all the time."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blizzard.kafka.batch_limits import BatchLimits
from blizzard.state.topic_checkpoint import Partition
from spark_job.loop.ingest import Step
from spark_job.loop.topics.run_goal import RunGoal
from spark_job.ports.source import Recovered
from tests.unit.offset_log import LogWorld, OffsetLogSource, Offsets, RangePlan
from tests.unit.test_topic_plans import READ, FakeBrokers, begun, source_of


def test_a_plan_has_caught_up_when_all_is_read_that_the_first_one_saw() -> None:
    brokers = FakeBrokers({0: (0, 5), 1: (0, 3)})
    source, checkpoint = source_of(brokers, limits=BatchLimits(6, 1 << 40)), begun(brokers)
    found = []
    for _ in range(5):
        plan = source.plan(checkpoint)
        found.append((plan.caught_up, sum(one.length for one in plan.ranges)))
        brokers.produce(0, 2)
        brokers.produce(2, 1)  # a partition that is new
        checkpoint = checkpoint if plan.caught_up else source.settle(plan, READ)
    assert found == [(False, 6), (False, 5), (True, 3), (False, 6), (True, 3)]


def test_a_topic_that_was_quiet_has_no_goal_of_before() -> None:
    brokers = FakeBrokers({0: (0, 0)})
    source, checkpoint = source_of(brokers), begun(brokers)
    assert source.plan(checkpoint).empty
    brokers.produce(0, 1)
    plan = source.plan(checkpoint)
    assert (plan.caught_up, len(plan.ranges)) == (False, 1)


def test_a_gap_is_committed_before_a_run_has_caught_up() -> None:
    brokers = FakeBrokers({0: (0, 5)})
    source, checkpoint = source_of(brokers, limits=BatchLimits(3, 1 << 40)), begun(brokers)
    checkpoint = source.settle(source.plan(checkpoint), READ)
    brokers.produce(0, 5)
    brokers.forget(0, 6)
    plan = source.plan(checkpoint)
    assert ([gap.end for gap in plan.gaps], plan.caught_up) == ([6], False)
    assert source.plan(source.settle(plan, READ)).caught_up


@given(st.lists(st.dictionaries(st.integers(0, 2), st.integers(0, 4)), max_size=6), st.integers(1, 5))
def test_a_goal_is_reached_with_its_last_offset_and_not_before(rounds: list[dict[int, int]], most: int) -> None:
    """`rounds`: how much each partition gets before a plan. Each plan that has not caught up reads some of what waits,
    the partitions with the lowest numbers first."""
    goal, ends, at = RunGoal(), dict[Partition, int](), dict[Partition, int]()
    expected: Mapping[Partition, int] = {}
    for more in [*rounds, *[{}] * 200]:
        for number, count in more.items():
            ends["t", number] = ends.get(("t", number), 0) + count
        waits = {each: end - at.get(each, 0) for each, end in ends.items()}
        is_reached = goal.is_reached(ends, waits)
        left = any(at.get(each, 0) < end for each, end in expected.items())
        assert is_reached is (bool(expected) and not left)
        if not expected and any(waits.values()):
            expected = dict(ends)
        elif not left:
            expected = {}
        room = 0 if is_reached else most
        for each in sorted(ends):
            taken = min(room, waits[each])
            at[each], room = at.get(each, 0) + taken, room - taken
    assert at == ends or not ends


class Endless(OffsetLogSource):
    """Gets a record with each plan. `wanted`: how many a run has to read."""

    wanted = 4

    def __init__(self, world: LogWorld, *more: Any) -> None:
        super().__init__(world, *more)
        self._log = world

    def plan(self, checkpoint: Offsets) -> RangePlan:
        self._log.produce(0, "x")
        return super().plan(checkpoint)

    def has_caught_up(self, plan: RangePlan) -> bool:
        return plan.base.next_offsets.get(0, 0) >= self.wanted


class Repaired(Endless):
    """Has to commit the state that it has recovered."""

    def recover(self) -> Recovered[Offsets]:
        return replace(super().recover(), repaired=True)


@pytest.fixture
def world() -> LogWorld:
    return LogWorld(batch_records=1)


def job_of(world: LogWorld, kind: type[OffsetLogSource]) -> Any:
    job = world.job()
    job._source = job._committer._source = kind(world, job._table)
    return job


def test_a_draining_run_ends_once_its_source_has_caught_up(world: LogWorld) -> None:
    totals = job_of(world, Endless).drain()
    assert (totals.commits, len(world.rows()), len(world.partitions[0])) == (4, 4, 5)


def test_a_run_that_goes_on_never_has_enough(world: LogWorld) -> None:
    job = job_of(world, Endless)
    assert [job.step(draining=False) for _ in range(6)] == [Step.COMMITTED] * 6
    assert len(world.rows()) == 6


def test_a_state_that_was_repaired_is_committed_with_what_is_read(world: LogWorld) -> None:
    """Not without it, by a plan that has ranges."""
    job_of(world, Endless).drain()
    before = len(world.rows())
    assert job_of(world, Repaired).drain().rows == 1
    assert len(world.rows()) == before + 1
    assert world.rows() == world.good_records()[: before + 1]
