"""What the log says of the lag of topics, and how often."""

from dataclasses import dataclass, field
from typing import Any

from blizzard.state.topic_checkpoint import Partition, path_of
from spark_job.loop.topics.lag_log import MAX_PARTITIONS, MAX_TOPICS, PAUSE_SECS, LagLog
from spark_job.ports.reader import Outcome
from spark_job.tasks.reader import _by_path

NOW = 1000.0


@dataclass
class World:
    now_ts: float = NOW
    said: list[dict[str, Any]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.log = LagLog("p:s", lambda: self.now_ts, self._note)

    def _note(self, event: str, /, **fields: object) -> None:
        assert event == "lag_measured"
        self.said.append(fields)

    def commit(self, lags: dict[Partition, int], first_ts: dict[Partition, float] | None = None) -> None:
        times = first_ts or {}
        outcomes = [Outcome(path_of(each), "id", 1, first_ts=times.get(each)) for each, lag in lags.items() if lag]
        self.log.read(lags, outcomes, self.now_ts)
        self.log.committed()

    def lags(self) -> dict[str, tuple[int, float | None]]:
        """What was said since this was last asked, by topic."""
        found = {one["topic"]: (one["lag"], one["lag_secs"]) for one in self.said}
        self.said.clear()
        return found


def test_a_commit_says_how_many_messages_of_each_topic_had_waited_and_how_long() -> None:
    world = World()
    world.commit({("a", 0): 5, ("a", 1): 0, ("a", 2): 7, ("b", 0): 2}, {("a", 0): NOW - 30, ("a", 2): NOW - 10})
    assert world.said == [
        {
            "source": "p:s",
            "topic": "a",
            "lag": 12,
            "lag_secs": 30.0,
            "partitions": [
                {"partition": 2, "lag": 7, "lag_secs": 10.0},
                {"partition": 0, "lag": 5, "lag_secs": 30.0},
            ],
            "more": 0,
        },
        {
            "source": "p:s",
            "topic": "b",
            "lag": 2,
            "lag_secs": None,
            "partitions": [{"partition": 0, "lag": 2, "lag_secs": None}],
            "more": 0,
        },
    ]


def test_a_message_of_the_future_has_not_waited() -> None:
    world = World()
    world.commit({("a", 0): 1}, {("a", 0): NOW + 3600})
    assert world.lags() == {"a": (1, 0.0)}


def test_it_is_said_once_a_minute_and_at_once_when_nothing_waits_any_more() -> None:
    world = World()
    world.commit({("a", 0): 5})
    world.commit({("a", 0): 4})
    assert world.lags() == {"a": (5, None)}
    for _ in range(3):
        world.log.idle({("a", 0): 0})
    assert world.lags() == {"a": (0, 0.0)}
    world.commit({("a", 0): 3})
    world.log.idle({("a", 0): 0})
    assert world.lags() == {}
    world.now_ts += PAUSE_SECS
    world.commit({("a", 0): 2})
    assert world.lags() == {"a": (2, None)}
    world.now_ts += PAUSE_SECS
    for _ in range(3):
        world.log.idle({("a", 0): 0})
    assert world.lags() == {"a": (0, 0.0)}


def test_what_waits_and_cannot_be_read_is_said_once_a_minute() -> None:
    world = World()
    for _ in range(3):
        world.log.idle({("a", 0): 2})
    assert len(world.said) == 1
    assert world.lags() == {"a": (2, None)}


def test_a_batch_that_lost_its_race_says_nothing() -> None:
    world = World()
    world.log.read({("a", 0): 5}, [Outcome("a/0", "id", 1)], NOW)
    world.log.idle({("a", 0): 0})
    world.log.committed()
    assert world.lags() == {"a": (0, 0.0)}


def test_who_has_not_asked_the_brokers_says_nothing() -> None:
    world = World()
    world.commit({})
    world.log.idle({})
    assert world.said == []


def test_topics_and_partitions_that_lag_most_are_said() -> None:
    world = World()
    topics = [f"t{number:02d}" for number in range(MAX_TOPICS + 5)]
    world.commit({(topic, 0): at for at, topic in enumerate(topics)})
    assert [*world.lags()] == topics[:4:-1]
    world.log.idle(dict.fromkeys([(topic, 0) for topic in topics], 0))
    assert [*world.lags()] == topics[5:], "those of which a lag was said"
    world.now_ts += PAUSE_SECS
    world.commit({("a", number): 1 + number for number in range(MAX_PARTITIONS + 3)})
    [said] = world.said
    assert (said["lag"], said["more"]) == (sum(range(1, MAX_PARTITIONS + 4)), 3)
    assert [one["partition"] for one in said["partitions"]] == [*range(MAX_PARTITIONS + 2, 2, -1)]


def test_of_a_range_that_was_divided_the_oldest_first_message_counts() -> None:
    pieces = [Outcome("a/0", "id", 1, records_read=end, first_ts=ts) for end, ts in ((30, 5.0), (10, 3.0), (20, None))]
    assert [(one.records_read, one.first_ts) for one in _by_path(pieces)] == [(30, 3.0)]
