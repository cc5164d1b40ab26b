"""Whether the brokers' logs still go up to where a source stands: librdkafka compares the epochs of the leaders."""

import time
from collections.abc import Callable, Mapping, Set
from contextlib import closing
from typing import Any

from confluent_kafka import KafkaError, TopicPartition

from blizzard.errors import RetryableError
from blizzard.kafka.brokers import Place
from blizzard.kafka.connect import Reports, consumer_settings
from blizzard.kafka.errors import read_error
from blizzard.kafka.first_messages import first_messages
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
    wanted = [TopicPartition(*one, at.offset, leader_epoch=at.leader_epoch) for one, at in places.items()]
    found: dict[Partition, str | None] = {}
    heard_ts = monotonic()
    with closing(first_messages({**own, **_A_MESSAGE_EACH}, reports, wanted)) as came:
        for one in came:
            if one is not None:
                found[one[0]] = truncation_said(one[1].error(), one[0])
                heard_ts = monotonic()
            elif monotonic() - heard_ts > quiet_secs:
                raise _silence(places.keys() - found.keys(), quiet_secs, reports)
    return {partition: said for partition, said in found.items() if said is not None}


def truncation_said(error: KafkaError | None, partition: Partition) -> str | None:
    """What the first message of a partition says, if it is an error. None: the log goes up to the place. That messages
    behind it are gone is no truncation, but is said with the same code. Raises as `read_error` for other errors."""
    if error is None or error.code() == KafkaError._PARTITION_EOF:
        return None
    said = error.str()
    if error.code() == KafkaError._AUTO_OFFSET_RESET and _OUT_OF_RANGE in said:
        return None
    if error.code() == KafkaError._AUTO_OFFSET_RESET and _TRUNCATED in said and _WHERE in said:
        return said
    raise read_error(error, path_of(partition))


def _silence(waiting: Set[Partition], secs: float, reports: Reports) -> RetryableError:
    newest = "" if reports.newest is None else f"; the client says: {reports.newest.str()}"
    return RetryableError(
        f"the leader of {path_of(min(waiting))} has changed, and the new one has not said within {secs:.0f} s whether "
        f"it has the messages of before{newest}"
    )
