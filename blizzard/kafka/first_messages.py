"""The first message of some partitions, each from an offset on."""

from collections.abc import Generator, Mapping, Sequence
from typing import Any

from confluent_kafka import Consumer, KafkaException, TopicPartition

from blizzard.kafka.connect import Reports, made
from blizzard.kafka.errors import OF_NO_GROUP, read_error
from blizzard.state.topic_checkpoint import Partition

_POLL_SECS = 0.2


def first_messages(
    settings: Mapping[str, Any], reports: Reports, places: Sequence[TopicPartition]
) -> Generator[tuple[Partition, Any] | None]:
    """By partition the first message as confluent_kafka has it, which may be an error or the end; None each time that
    nothing has come for a moment, so that whoever asks can give up. To be closed. `settings`: of `consumer_settings`,
    with these reports. Raises PermanentError if the brokers refuse, and RetryableError."""
    consumer = made(Consumer, settings)
    waiting = {(one.topic, one.partition) for one in places}
    try:
        consumer.assign([*places])
        while waiting:
            message = consumer.poll(_POLL_SECS)
            partition = None if message is None else (str(message.topic()), int(message.partition() or 0))
            if message is None or partition not in waiting or _is_of_no_partition(message):
                if (refusal := reports.refusal()) is not None:
                    raise refusal
                yield None
                continue
            waiting.discard(partition)
            consumer.incremental_unassign([TopicPartition(*partition)])
            yield partition, message
    except KafkaException as failed:
        raise read_error(failed.args[0]) from failed
    finally:
        consumer.close()


def _is_of_no_partition(message: Any) -> bool:
    error = message.error()
    return error is not None and error.code() == OF_NO_GROUP
