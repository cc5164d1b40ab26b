"""Which errors of librdkafka say that a log was truncated."""

import pytest
from confluent_kafka import KafkaError

from blizzard.errors import PermanentError, RetryableError
from blizzard.kafka.truncation import truncation_said

PARTITION = ("t", 3)
RESET = KafkaError._AUTO_OFFSET_RESET
TRUNCATED = "Local: Partition log truncation detected (broker 1)"


@pytest.mark.parametrize(
    "said",
    [
        f"Partition log truncation detected at offset 9 (leader epoch 2): broker end offset is 0. {TRUNCATED}",
        f"No epoch found less or equal to offset 9 (leader epoch 2): broker end offset is -1. {TRUNCATED}",
    ],
)
def test_a_truncation_is_told_in_the_words_of_the_client(said: str) -> None:
    assert truncation_said(KafkaError(RESET, said), PARTITION) == said


def test_a_message_the_end_and_messages_that_are_gone_are_no_truncation() -> None:
    gone = "fetch failed due to requested offset not available on the broker: Broker: Offset out of range (broker 1)"
    assert truncation_said(None, PARTITION) is None
    assert truncation_said(KafkaError(KafkaError._PARTITION_EOF), PARTITION) is None
    assert truncation_said(KafkaError(RESET, gone), PARTITION) is None


def test_an_answer_that_did_not_come_is_no_truncation_and_no_whole_log() -> None:
    for said in (f"the leader did not answer: {TRUNCATED}", "another reason"):
        with pytest.raises(RetryableError, match=f"cannot be read: t/3: {said.partition(':')[0]}"):
            truncation_said(KafkaError(RESET, said), PARTITION)
    with pytest.raises(PermanentError, match="refuse to be read: t/3: "):
        truncation_said(KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED), PARTITION)
