"""The consumer group that shows committed offsets: what happens when they cannot be published."""

from collections.abc import Mapping
from typing import Any

import pytest
from confluent_kafka import KafkaError

from blizzard.errors import BlizzardError, NeverAnswered, PermanentError, RetryableError
from blizzard.kafka.errors import group_error
from blizzard.state.topic_checkpoint import Partition
from spark_job.loop.topics.published_group import FIRST_PAUSE_SECS, MAX_PAUSE_SECS, PublishedGroup
from tests.unit.fakes import Clock

OFFSETS: Mapping[Partition, int] = {("t", 0): 5}


class World:
    """`error`: what the brokers say; None: they take the offsets."""

    def __init__(self, group: str | None = "monitor") -> None:
        self.error: BlizzardError | None = None
        self.asked: list[tuple[str, Mapping[Partition, int]]] = []
        self.said: list[dict[str, object]] = []
        self.clock = Clock()
        brokers: Any = self
        self.group = PublishedGroup(group, "p:s", brokers=brokers, clock=self.clock, log=self._log)

    def publish(self, group: str, next_offsets: Mapping[Partition, int]) -> None:
        self.asked.append((group, next_offsets))
        if self.error is not None:
            raise self.error

    def _log(self, event: str, /, **fields: object) -> None:
        self.said.append({"event": event, **fields})


def test_offsets_of_each_commit_are_published() -> None:
    world = World()
    world.group.publish(OFFSETS)
    world.group.publish({("t", 0): 6})
    assert world.asked == [("monitor", OFFSETS), ("monitor", {("t", 0): 6})]
    assert world.said == []


def test_without_a_group_nothing_is_asked() -> None:
    world = World(group=None)
    world.group.publish(OFFSETS)
    assert world.asked == []


@pytest.mark.parametrize("error", [PermanentError("no right."), RetryableError("no answer."), NeverAnswered("no one.")])
def test_after_a_failure_commits_do_not_wait_for_the_group_until_a_pause_is_over(error: BlizzardError) -> None:
    world = World()
    world.error = error
    for _ in range(3):
        world.group.publish(OFFSETS)
    assert len(world.asked) == 1
    again = f"{error} It is tried again with the first commit after {FIRST_PAUSE_SECS:.0f} s."
    assert world.said == [{"event": "publish_failed", "source": "p:s", "error": again}]
    assert pauses(world, 1) == [FIRST_PAUSE_SECS]


def pauses(world: World, count: int) -> list[float]:
    """Seconds from one attempt to the next, with a commit each minute."""
    found: list[float] = []
    while len(found) < count:
        asked, begun_ts = len(world.asked), world.clock.now_ts
        while len(world.asked) == asked:
            world.clock.advance(60)
            world.group.publish(OFFSETS)
        found.append(world.clock.now_ts - begun_ts)
    return found


def test_the_pause_doubles_with_each_failure_up_to_an_hour_and_a_success_ends_it() -> None:
    world = World()
    world.error = RetryableError("no.")
    world.group.publish(OFFSETS)
    assert pauses(world, 8) == [60, 120, 240, 480, 960, 1920, MAX_PAUSE_SECS, MAX_PAUSE_SECS]
    world.error = None
    assert pauses(world, 3) == [MAX_PAUSE_SECS, 60, 60], "each commit publishes again"
    world.error = RetryableError("no.")
    assert pauses(world, 3) == [60, 60, 120]


def test_what_can_be_done_is_said_for_a_right_that_is_missing_and_for_a_group_with_members() -> None:
    for code in (KafkaError.GROUP_AUTHORIZATION_FAILED, KafkaError.TOPIC_AUTHORIZATION_FAILED):
        denied = group_error("monitor", KafkaError(code))
        assert isinstance(denied, PermanentError)
        assert "cannot be published to the consumer group monitor: " in str(denied)
        assert "rights to describe and to read this group" in str(denied)
    for code in (KafkaError.UNKNOWN_MEMBER_ID, KafkaError.NON_EMPTY_GROUP):
        used = group_error("monitor", KafkaError(code))
        assert isinstance(used, PermanentError)
        assert "Let `publish_group` name one that no consumer belongs to" in str(used)
    other = group_error("monitor", KafkaError(KafkaError.NOT_COORDINATOR))
    assert isinstance(other, RetryableError)
    assert str(other).endswith("The rows are committed all the same.")
