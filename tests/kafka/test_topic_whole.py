"""Which partitions can be read again whole, and what is read to know it."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from blizzard.config.load import parse_config
from blizzard.storage.s3_connection import S3Settings
from spark_job.engines.local.engine import LocalEngine
from spark_job.repair.repair_topics import whole_partitions
from spark_job.repair.topic_whole import WholePartition, WholePartitions
from spark_job.topic_wiring import topic_parts
from tests.kafka.test_topic_faults import forget_before
from tests.kafka.topic_lake import NewLake, TopicLake
from tests.kafka.topics import Message, produce_in_transaction
from tests.unit.watched_calls import Calls, WatchedStore


@pytest.fixture
def engine() -> Iterator[LocalEngine]:
    made = LocalEngine(S3Settings(), dict, lambda event, /, **fields: None, cores=2)
    yield made
    made.close()


def whole_of(lake: TopicLake, engine: LocalEngine, calls: Calls) -> WholePartitions:
    """`calls`: of the table's storage."""
    (found,) = parse_config(lake.configuration("format: envelope"), {}, folder="/").sources()
    parts = topic_parts(*found, engine=engine, s3=S3Settings(), log=lambda event, /, **fields: None)
    assert parts.source.kafka is not None
    return whole_partitions(replace(parts, state=WatchedStore(parts.state, calls)), parts.source.kafka, lambda _: True)


def test_partitions_are_looked_at_without_receipts(new_lake: NewLake, engine: LocalEngine) -> None:
    """An offset has no message, and of the other partition some are gone: receipts would say what was there."""
    lake, calls = new_lake(partitions=2), Calls()
    produce_in_transaction(lake.settings, lake.topic, [b"a", b"b"], commit=True)
    lake.produce(b"c", *[Message(b"d", partition=1)] * 3)
    lake.run()
    forget_before(lake, 2, partition=1)
    known = whole_of(lake, engine, calls).newest()
    first, second = known[f"{lake.topic}/0"], known[f"{lake.topic}/1"]
    assert isinstance(first, WholePartition)
    assert (first.first, first.end, first.messages) == (0, 4, 3)
    assert "of 2 of its rows the brokers no longer have the messages" in str(second)
    assert calls.count
    assert [name for name in calls.names if "/receipts/" in name] == []
