"""What is asked of Kafka's client, and what it answers."""

from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import Consumer, Uuid

from blizzard.config.kafka_options import KafkaOptions
from blizzard.errors import PermanentError
from blizzard.kafka import client
from blizzard.kafka.client import KafkaBrokers
from blizzard.kafka.connect import Reports, consumer_settings, made


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
