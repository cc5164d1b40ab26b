"""Topics, and messages into and out of them, with confluent_kafka. `settings`: `KafkaCluster.client_settings()`."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

WAIT_SECS = 60.0


@dataclass(frozen=True, slots=True)
class Message:
    """`value` None is a tombstone. `timestamp_ms` None is the time of sending."""

    value: bytes | None
    key: bytes | None = None
    partition: int = 0
    headers: Sequence[tuple[str, bytes | None]] = ()
    timestamp_ms: int | None = None


def until(condition: Callable[[], object], what: str, secs: float = WAIT_SECS) -> None:
    """Waits for the condition. Raises AssertionError after `secs`."""
    deadline = time.monotonic() + secs
    while not condition():
        assert time.monotonic() < deadline, f"not within {secs:g} s: {what}"
        time.sleep(0.05)


def create_topic(settings: Mapping[str, Any], topic: str, partitions: int = 1, **config: str) -> None:
    """Waits until each partition has a leader. `config`: the topic's, with underscores for dots, such as
    `cleanup_policy="compact"`."""
    named = {name.replace("_", "."): value for name, value in config.items()}
    client = AdminClient(dict(settings))
    wanted = NewTopic(topic, partitions, -1, config=named)
    client.create_topics([wanted], operation_timeout=WAIT_SECS)[topic].result(WAIT_SECS)
    until(lambda: len(leaders(settings, topic)) == partitions, f"leaders of {topic}")


def delete_topic(settings: Mapping[str, Any], topic: str) -> None:
    """Waits until it is gone, so that it can be made again."""
    client = AdminClient(dict(settings))
    client.delete_topics([topic], operation_timeout=WAIT_SECS)[topic].result(WAIT_SECS)
    until(lambda: topic not in client.list_topics(timeout=WAIT_SECS).topics, f"the end of {topic}")


def forget_before(settings: Mapping[str, Any], topic: str, partition: int, offset: int) -> None:
    """Takes the messages before this offset, as retention does it."""
    client = AdminClient(dict(settings))
    for future in client.delete_records([TopicPartition(topic, partition, offset)]).values():
        future.result(WAIT_SECS)


def leaders(settings: Mapping[str, Any], topic: str) -> dict[int, int]:
    """The broker that leads each partition. Partitions without a leader are left out."""
    found = AdminClient(dict(settings)).list_topics(topic, timeout=WAIT_SECS).topics[topic]
    return {number: one.leader for number, one in found.partitions.items() if one.leader >= 0 and one.error is None}


def produce(
    settings: Mapping[str, Any], topic: str, messages: Iterable[bytes | Message], **more: object
) -> list[tuple[int, int]]:
    """Partition and offset of each message, in their order, once all are acknowledged by the replicas in sync. Bytes
    are a message without key in partition 0. `more`: librdkafka's settings, with underscores for dots. Raises
    KafkaException for a message that was not acknowledged."""
    producer = Producer(_with(settings, {"acks": "all", **more}))
    places = _send(producer, topic, messages)
    producer.flush(WAIT_SECS)
    return _acknowledged(places)


def produce_in_transaction(
    settings: Mapping[str, Any],
    topic: str,
    messages: Iterable[bytes | Message],
    *,
    commit: bool,
    transactional_id: str = "a-producer",
) -> list[tuple[int, int]]:
    """As `produce`, in one transaction that is committed or aborted. An aborted one's messages have offsets, too."""
    producer = Producer(_with(settings, {"transactional_id": transactional_id}))
    producer.init_transactions(WAIT_SECS)
    producer.begin_transaction()
    places = _send(producer, topic, messages)
    producer.flush(WAIT_SECS)
    (producer.commit_transaction if commit else producer.abort_transaction)(WAIT_SECS)
    return _acknowledged(places)


@contextmanager
def open_transaction(settings: Mapping[str, Any], topic: str, messages: Iterable[bytes | Message]) -> Iterator[None]:
    """The messages are stored, and neither committed nor aborted within the block; after it they are aborted."""
    producer = Producer(_with(settings, {"transactional_id": "an-open-one"}))
    producer.init_transactions(WAIT_SECS)
    producer.begin_transaction()
    places = _send(producer, topic, messages)
    producer.flush(WAIT_SECS)
    _acknowledged(places)
    yield
    producer.abort_transaction(WAIT_SECS)


def end_offset(
    settings: Mapping[str, Any], topic: str, partition: int = 0, *, isolation: str = "read_committed"
) -> int:
    """Exclusive. With `read_committed` it is the last stable offset, with `read_uncommitted` the high watermark."""
    consumer = Consumer(_with(settings, {"group_id": "none", "isolation_level": isolation}))
    try:
        end: int = consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=WAIT_SECS)[1]
        return end
    finally:
        consumer.close()


def consume(
    settings: Mapping[str, Any], topic: str, partitions: Iterable[int] = (0,), *, isolation: str = "read_committed"
) -> list[Any]:
    """All messages of the partitions, as confluent_kafka has them, from the beginning to the end that the partitions
    have now. No consumer group is used. Raises KafkaException, and AssertionError after WAIT_SECS."""
    own = {"group_id": "none", "enable_auto_commit": False, "enable_partition_eof": True, "isolation_level": isolation}
    consumer = Consumer(_with(settings, own))
    try:
        waiting = {*partitions}
        consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING) for partition in waiting])
        found = []
        deadline = time.monotonic() + WAIT_SECS
        while waiting:
            assert time.monotonic() < deadline, f"no end of {topic}, partitions {waiting}, within {WAIT_SECS:g} s"
            message = consumer.poll(1)
            if message is None:
                continue
            if (error := message.error()) is None:
                found.append(message)
            elif error.code() == KafkaError._PARTITION_EOF:
                waiting.discard(message.partition())
            else:
                raise KafkaException(error)
        return found
    finally:
        consumer.close()


def _send(producer: Producer, topic: str, messages: Iterable[bytes | Message]) -> list[Any]:
    """A place for the report of each message, filled while the producer is flushed."""
    places: list[Any] = []

    def reported(index: int) -> Callable[[Any, Any], None]:
        def report(error: KafkaError | None, message: Any) -> None:
            places[index] = (message.partition(), message.offset()) if error is None else error

        return report

    for given in messages:
        message = given if isinstance(given, Message) else Message(given)
        places.append(None)
        when = {} if message.timestamp_ms is None else {"timestamp": message.timestamp_ms}
        producer.produce(
            topic,
            message.value,
            message.key,
            message.partition,
            on_delivery=reported(len(places) - 1),
            headers=[*message.headers],
            **when,
        )
        producer.poll(0)
    return places


def _acknowledged(places: Sequence[Any]) -> list[tuple[int, int]]:
    # Not `None in places`: comparing a KafkaError with None leaves an exception behind.
    unknown = sum(place is None for place in places)
    assert unknown == 0, f"{unknown} messages were not acknowledged within {WAIT_SECS:g} s"
    for place in places:
        if isinstance(place, KafkaError):
            raise KafkaException(place)
    return [*places]


def _with(settings: Mapping[str, Any], more: Mapping[str, object]) -> dict[str, Any]:
    return {**settings, **{name.replace("_", "."): value for name, value in more.items()}}
