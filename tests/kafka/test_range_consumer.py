"""Ranges of offsets, read from a real broker."""

import time
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError
from confluent_kafka import Message as KafkaMessage

from blizzard.config.kafka_options import KafkaOptions
from blizzard.errors import RetryableError
from blizzard.kafka import first_messages, range_consumer
from blizzard.kafka.lag import first_times
from blizzard.kafka.range_consumer import RangeConsumer
from infra.local.kafka.cluster import KafkaCluster
from infra.local.kafka.ports import free_ports
from tests.fixtures_kafka import NewTopic
from tests.kafka.topics import Message, produce, produce_in_transaction

MEMORY = 1 << 20


def test_no_call_waits_for_messages_behind_the_ranges(
    kafka: KafkaCluster, new_topic: NewTopic, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The client waits until it has as many messages as it was asked for, and the newest batch has the log's last."""
    left = 8 + 10 + 1
    asked: list[tuple[int, int]] = []

    class Asked(Consumer):
        def consume(self, num_messages: int = 1, timeout: float = -1) -> list[Any]:
            nonlocal left
            asked.append((num_messages, left))
            found = super().consume(num_messages, timeout)
            left -= sum(message.error() is None for message in found)
            return found

    monkeypatch.setattr(range_consumer, "Consumer", Asked)
    settings, topic = kafka.client_settings(), new_topic(3)
    produce(settings, topic, [Message(b"%d" % n, partition=n % 3) for n in range(30)])
    ranges = {(topic, 0): (2, 10), (topic, 1): (0, 10), (topic, 2): (9, 10)}
    found: dict[int, list[int]] = {}
    for (_, number), messages in RangeConsumer(ranges, settings, "read_committed", MEMORY).messages():
        found.setdefault(number, []).extend(message.offset() for message in messages)
    assert found == {0: [*range(2, 10)], 1: [*range(10)], 2: [9]}
    assert asked[0] == (19, 19)
    assert all(number == rest for number, rest in asked)


def test_a_range_ends_before_messages_that_the_client_has_fetched(kafka: KafkaCluster, new_topic: NewTopic) -> None:
    """It is asked for as many as both ranges have together, and has all of the first partition."""
    settings, topic = kafka.client_settings(), new_topic(2)
    produce(settings, topic, [Message(b"%d" % n, partition=n % 2) for n in range(40)])
    for start, end in ((3, 7), (19, 20), (0, 20)):
        found: dict[int, list[int]] = {0: [], 1: []}
        ranges = {(topic, 0): (start, end), (topic, 1): (0, 20)}
        for (_, number), messages in RangeConsumer(ranges, settings, "read_committed", MEMORY).messages():
            found[number] += [message.offset() for message in messages]
        assert found == {0: [*range(start, end)], 1: [*range(20)]}


def test_a_group_that_may_not_be_used_disturbs_nobody(
    kafka: KafkaCluster, new_topic: NewTopic, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The client may say so beside the messages, when it has looked for the group's coordinator."""
    said = KafkaMessage(error=KafkaError(KafkaError.GROUP_AUTHORIZATION_FAILED))
    once = [said]

    class Refused(Consumer):
        def consume(self, num_messages: int = 1, timeout: float = -1) -> list[Any]:
            return [once.pop()] if once else super().consume(num_messages, timeout)

        def poll(self, timeout: float = -1) -> Any:
            return once.pop() if once else super().poll(timeout)

    for module in (range_consumer, first_messages):
        monkeypatch.setattr(module, "Consumer", Refused)
    topic, servers = new_topic(), kafka.bootstrap_servers
    produce(kafka.client_settings(), topic, [Message(b"a", timestamp_ms=5_000), b"b"])
    read = RangeConsumer({(topic, 0): (0, 2)}, kafka.client_settings(), "read_committed", MEMORY).messages()
    assert [message.value() for _, some in read for message in some] == [b"a", b"b"]
    assert not once
    once.append(said)
    options = KafkaOptions.model_validate({"bootstrap_servers": servers, "topics": [topic]})
    assert first_times(options, {(topic, 0): 0}) == {(topic, 0): 5.0}
    assert not once


class ToTheEnd(Consumer):
    """Its first call returns all messages up to the first end of a partition, and that end behind them."""

    has_ended = False

    def consume(self, num_messages: int = 1, timeout: float = -1) -> list[Any]:
        found: list[Any] = super().consume(num_messages, timeout)
        while not self.has_ended and not any(message.error() for message in found):
            found += super().consume(num_messages, timeout)
        self.has_ended = True
        return found


def test_topics_whose_partitions_have_the_same_numbers_are_told_apart(kafka: KafkaCluster, new_topic: NewTopic) -> None:
    settings, topics = kafka.client_settings(), [new_topic(), new_topic()]
    for name in topics:
        produce(settings, name, [name.encode()] * 1_000)
    found: dict[Any, list[tuple[int, bytes]]] = {(name, 0): [] for name in topics}
    ranges = dict.fromkeys(found, (0, 1_000))
    for place, messages in RangeConsumer(ranges, settings, "read_committed", MEMORY).messages():
        found[place] += [(message.offset(), message.value()) for message in messages]
    for (name, _), some in found.items():
        assert some == [(offset, name.encode()) for offset in range(1_000)]


@pytest.mark.parametrize("topics", [1, 2])
def test_a_log_that_has_become_shorter_is_told_behind_its_messages(
    kafka: KafkaCluster, new_topic: NewTopic, monkeypatch: pytest.MonkeyPatch, topics: int
) -> None:
    monkeypatch.setattr(range_consumer, "Consumer", ToTheEnd)
    settings, names = kafka.client_settings(), [new_topic() for _ in range(topics)]
    for name in names:
        produce(settings, name, [b"a", b"b"])
    ranges = {(name, 0): (0, 5) for name in names}
    read = RangeConsumer(ranges, settings, "read_committed", MEMORY, quiet_secs=5).messages()
    found = list[bytes]()

    def read_all() -> None:
        for _, messages in read:
            found.extend(message.value() for message in messages)

    with pytest.raises(RetryableError, match="ends at offset 2; expected messages up to 4"):
        read_all()
    assert {*found} <= {b"a", b"b"}


def test_how_far_the_client_has_fetched_is_known_before_it_gives_a_message(
    kafka: KafkaCluster, new_topic: NewTopic, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Messages of an aborted transaction come, too, and nobody is given them."""
    monkeypatch.setattr(range_consumer, "TOLD_EACH", 60_000)  # each millisecond
    told: list[int] = []

    class Listening(RangeConsumer):
        def _note_fetched(self, statistics: str) -> None:
            super()._note_fetched(statistics)
            told.append(self._fetched.get((topic, 0), 0))

    settings, topic, aborted = kafka.client_settings(), new_topic(), 2_000
    for part in range(5):
        messages = [b"x" * 10_000] * aborted
        produce_in_transaction(settings, topic, messages, commit=False, transactional_id=f"{topic}-{part}")
    (end,) = [offset + 1 for _, offset in produce(settings, topic, [b"end"])]
    before: list[int] = []
    for _, some in Listening({(topic, 0): (0, end)}, settings, "read_committed", MEMORY).messages():
        assert [message.value() for message in some] == [b"end"]
        before += told
    assert len({offset for offset in before if 0 < offset < end}) > 1


def test_brokers_that_give_nothing_are_told_of(kafka: KafkaCluster, new_topic: NewTopic) -> None:
    settings, topic = kafka.client_settings(), new_topic()
    produce(settings, topic, [b"a"])
    nowhere = {**settings, "bootstrap.servers": f"127.0.0.1:{free_ports(1)[0]}"}
    begun = time.monotonic()
    with pytest.raises(RetryableError, match="no broker has answered for 1 s; the client says: "):
        [*RangeConsumer({(topic, 0): (0, 1)}, nowhere, "read_committed", MEMORY, quiet_secs=1).messages()]
    assert 1 <= time.monotonic() - begun < 10
