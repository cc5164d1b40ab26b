"""What is asked of Kafka's client, and what it answers."""

import json
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import Consumer, Uuid

from blizzard.config.kafka_options import KafkaOptions
from blizzard.errors import PermanentError, RetryableError
from blizzard.kafka import client, range_consumer
from blizzard.kafka.client import KafkaBrokers
from blizzard.kafka.connect import Reports, consumer_settings, made
from blizzard.kafka.range_consumer import QUIET_SECS, RangeConsumer
from tests.unit.fakes import Clock


@pytest.mark.parametrize(
    ("memory_bytes", "expected"), [(1, 1024), (64 << 20, 64 << 10), (2 << 30, (2 << 20) - 1), (1 << 50, (2 << 20) - 1)]
)
def test_memory_for_messages_that_are_fetched_ahead_is_what_the_client_takes(memory_bytes: int, expected: int) -> None:
    settings = consumer_settings({"bootstrap.servers": "127.0.0.1:1"}, "read_committed", memory_bytes, Reports())
    assert settings["queued.max.messages.kbytes"] == expected
    made(Consumer, settings).close()


class Answering:
    """An admin client. Its brokers have one topic `t`, with this id."""

    topic_id = Uuid(0, 0)

    def __init__(self, settings: object) -> None: ...

    def describe_topics(self, *asked: object, **more: object) -> dict[str, Future[Any]]:
        answer: Future[Any] = Future()
        answer.set_result(SimpleNamespace(topic_id=self.topic_id, partitions=[SimpleNamespace(id=0)]))
        return {"t": answer}

    def cluster_id(self, timeout: float) -> str:
        return "c"


def test_brokers_that_know_no_ids_of_topics_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "AdminClient", Answering)
    brokers = KafkaBrokers(KafkaOptions.model_validate({"bootstrap_servers": "b:9092", "topics": ["t"]}))
    with pytest.raises(
        PermanentError, match=r"\(bootstrap_servers: b:9092\) the brokers do not tell .* Expected Kafka 2\.8"
    ):
        brokers.cluster()
    monkeypatch.setattr(Answering, "topic_id", Uuid(0, 7))
    assert brokers.cluster().topics["t"].topic_id == str(Uuid(0, 7))


POLLS = 8
"""Without a message."""
PART_SECS = QUIET_SECS * 0.4


class Fetching:
    """A consumer that has got `part` offsets more with each call, and gives the message after the last one. `lost`:
    from which call on the broker of the partition is not there, with the offset that the client says then."""

    part, lost = 100, POLLS
    clock: Clock

    def __init__(self, settings: dict[str, Any]) -> None:
        self._told, self._calls = settings["stats_cb"], 0

    def assign(self, places: object) -> None: ...

    def close(self) -> None: ...

    def consume(self, count: int, secs: float) -> list[Any]:
        self.clock.advance(PART_SECS)
        self._calls += 1
        fetched = self.part * self._calls if self._calls <= self.lost else (-1001, self.part)[self._calls % 2]
        self._told(
            json.dumps({"topics": {"t": {"partitions": {"0": {"next_offset": fetched}, "-1": {"next_offset": 0}}}}})
        )
        return [Given()] if self._calls > POLLS else []


class Given:
    error = staticmethod(lambda: None)
    topic = staticmethod(lambda: "t")
    partition = staticmethod(lambda: 0)
    offset = staticmethod(lambda: 999)


def read_all(monkeypatch: pytest.MonkeyPatch, **consumer: int) -> int:
    """How many messages came."""
    clock = Clock()
    kind = type("Consumer", (Fetching,), {"clock": clock, **consumer})
    monkeypatch.setattr(range_consumer, "Consumer", kind)
    monkeypatch.setattr(range_consumer, "_PARTITION", lambda message: message.partition())
    monkeypatch.setattr(range_consumer, "_ERROR", lambda message: message.error())
    reader = RangeConsumer({("t", 0): (0, 1000)}, {}, "read_committed", 1 << 20, monotonic=lambda: clock.now_ts)
    return sum(len(some) for _, some in reader.messages())


def test_messages_that_do_not_count_are_an_answer_of_the_brokers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of an aborted transaction, which may be of gigabytes."""
    assert read_all(monkeypatch) == 1


@pytest.mark.parametrize("consumer", [{"part": 0}, {"lost": 3}])
def test_brokers_that_give_nothing_are_waited_for_a_while(
    monkeypatch: pytest.MonkeyPatch, consumer: dict[str, int]
) -> None:
    with pytest.raises(RetryableError, match="no broker has answered for 60 s"):
        read_all(monkeypatch, **consumer)
