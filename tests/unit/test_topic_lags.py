"""What the lag of a source of topics asks the brokers for."""

from functools import partial

import pytest

from blizzard.config.kafka_options import KafkaOptions
from blizzard.errors import RecoveryError
from blizzard.kafka.lag import lags
from tests.unit.test_topic_plans import READ, FakeBrokers, begun, source_of


def test_the_lag_of_who_reads_uncommitted_takes_no_question_about_open_transactions() -> None:
    brokers = FakeBrokers({0: (0, 5), 1: (0, 0)})
    source, checkpoint = source_of(brokers), begun(brokers)
    checkpoint = source.settle(source.plan(checkpoint), READ)
    brokers.asked.clear()
    options = {"bootstrap_servers": "b:9092", "topics": ["t"], "isolation": "read_uncommitted"}
    found = lags(brokers, KafkaOptions.model_validate(options), checkpoint)
    assert [(one.lag, one.held_back) for one in found] == [(0, 0), (0, 0)]
    assert brokers.asked == [("end", [0, 1]), ("first", [0, 1])]


def test_a_lag_that_is_checked_takes_no_question_twice_and_sees_a_truncated_log() -> None:
    brokers = FakeBrokers({0: (0, 5), 1: (0, 3)})
    source, checkpoint = source_of(brokers), begun(brokers)
    checkpoint = source.settle(source.plan(checkpoint), READ)
    brokers.elect(0)
    brokers.asked.clear()
    brokers.described = 0
    options = {"bootstrap_servers": "b:9092", "topics": ["t"], "isolation": "read_uncommitted"}
    asked = partial(lags, brokers, KafkaOptions.model_validate(options), checkpoint, checked=True)
    assert [one.lag for one in asked()] == [0, 0]
    assert (brokers.described, brokers.asked) == (1, [("end", [0, 1]), ("truncated", [0]), ("first", [0, 1])])
    brokers.elect(1, end=2)
    with pytest.raises(RecoveryError, match="partition t/1 was truncated below offset 3"):
        asked()
