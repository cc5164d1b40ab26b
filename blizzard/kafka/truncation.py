"""Whether the brokers' logs still go up to where a source stands: librdkafka compares the epochs of the leaders."""

import time
from collections.abc import Callable, Mapping
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from blizzard.errors import RetryableError
from blizzard.kafka.brokers import Place
from blizzard.kafka.connect import Reports, consumer_settings
from blizzard.kafka.errors import OF_NO_GROUP, read_error
from blizzard.state.topic_checkpoint import Partition, path_of

QUIET_SECS = 10.0
_FETCHED_BYTES = 1 << 20
_A_MESSAGE_EACH: Mapping[str, Any] = {"fetch.message.max.bytes": 1 << 16}
_OUT_OF_RANGE = KafkaError(KafkaError.OFFSET_OUT_OF_RANGE).str()
_TRUNCATED = KafkaError(KafkaError._LOG_TRUNCATION).str()
_WHERE = "broker end offset is"
"""A truncation without it would be an answer that the client did not get."""


def truncated(
    settings: Mapping[str, str],
    places: Mapping[Partition, Place],
    quiet_secs: float = QUIET_SECS,
    monotonic: Callable[[], float] = time.monotonic,
) -> dict[Partition, str]:
    """As `Brokers.truncated`. `settings`: of `Login`. `quiet_secs`: for how long none of the partitions may answer. A
    consumer that is told an epoch asks the leader where that epoch ended, before it reads."""
    reports = Reports()
    # Whatever message comes first is good: those of transactions that are open too.
    own = consumer_settings(settings, "read_uncommitted", _FETCHED_BYTES, reports)
    consumer = Consumer({**own, **_A_MESSAGE_EACH})
    found: dict[Partition, str] = {}
    waiting = {*places}
    try:
        consumer.assign([TopicPartition(*one, at.offset, leader_epoch=at.leader_epoch) for one, at in places.items()])
        heard_ts = monotonic()
        while waiting:
            message = consumer.poll(0.2)
            partition = None if message is None else (message.topic(), message.partition())
            if message is None or partition not in waiting or _is_of_no_partition(message.error()):
                if (refusal := reports.refusal()) is not None:
                    raise refusal
                if monotonic() - heard_ts > quiet_secs:
                    raise _silence(waiting, quiet_secs, reports)
                continue
            said = truncation_said(message.error())
            if said is not None:
                found[partition] = said
            heard_ts = monotonic()
            waiting.discard(partition)
            consumer.incremental_unassign([TopicPartition(*partition)])
    except KafkaException as failed:
        raise read_error(failed.args[0]) from failed
    finally:
        consumer.close()
    return found


def _is_of_no_partition(error: KafkaError | None) -> bool:
    return error is not None and error.code() == OF_NO_GROUP


def truncation_said(error: KafkaError | None) -> str | None:
    """What the first message of a partition says, if it is an error. None: the log goes up to the place. That messages
    behind it are gone is no truncation, but is said with the same code. Raises as `read_error` for other errors."""
    if error is None or error.code() == KafkaError._PARTITION_EOF:
        return None
    said = error.str()
    if error.code() == KafkaError._AUTO_OFFSET_RESET and _OUT_OF_RANGE in said:
        return None
    if error.code() == KafkaError._AUTO_OFFSET_RESET and _TRUNCATED in said and _WHERE in said:
        return said
    raise read_error(error)


def _silence(waiting: set[Partition], secs: float, reports: Reports) -> RetryableError:
    newest = "" if reports.newest is None else f"; the client says: {reports.newest.str()}"
    return RetryableError(
        f"the leader of {path_of(min(waiting))} has changed, and the new one has not said within {secs:.0f} s whether "
        f"it has the messages of before{newest}"
    )
