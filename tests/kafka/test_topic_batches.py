"""What is in a topic beside its messages, how they are stored, and when a run ends: seen in the table."""

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import AdminClient

from blizzard.cli import main
from tests.kafka import topics
from tests.kafka.topic_lake import NewLake, TopicLake
from tests.kafka.topics import WAIT_SECS, Message, consume, delete_topic, end_offset, until

OFFSETS_AT_ONCE = "format: envelope\n                    checkpoint: {interval_records: 7}"
KEYS, EACH = 3, 40


def compacted(new_lake: NewLake) -> TopicLake:
    """A topic of many offsets and few messages: each key has its newest one, and one has a tombstone that is gone."""
    lake = new_lake(
        cleanup_policy="compact", segment_ms="100", min_cleanable_dirty_ratio="0.001", delete_retention_ms="100"
    )
    for number in range(EACH):
        lake.produce(*[Message(b"%d" % number, b"k%d" % key) for key in range(KEYS)])
    lake.produce(Message(None, b"k0"))

    def is_compacted() -> bool:
        lake.produce(Message(b"rolls the segment", b"other"))
        return sum(offset <= KEYS * EACH for offset in offsets(lake)) <= KEYS

    until(is_compacted, "compaction")
    return lake


def offsets(lake: TopicLake) -> set[int]:
    """Of all messages that are there."""
    return {message.offset() for message in consume(lake.settings, lake.topic)}


def test_gaps_of_compaction_hold_no_range_up_and_are_no_loss(new_lake: NewLake) -> None:
    """Ranges begin, end and lie in them."""
    lake = compacted(new_lake)
    end, before = end_offset(lake.settings, lake.topic), offsets(lake)
    lake.run(source=OFFSETS_AT_ONCE)
    found = [offset for _, offset in lake.places()]
    assert len({*found}) == len(found)
    assert offsets(lake) <= {*found} <= before, "compaction may go on meanwhile"
    assert lake.txns()[f"blizzard:p:clicks:{lake.topic}:0"] == end - 1
    assert len(lake.named("ranges_planned")) == -(-end // 7)
    assert (lake.named("offsets_lost"), lake.letters()) == ([], [])
    assert main(["audit", str(lake.config_file())]) == 0


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_messages_of_each_compression_are_read(new_lake: NewLake, codec: str) -> None:
    lake = new_lake()
    payloads = [b"%d" % number * 50 for number in range(200)]
    topics.produce(lake.settings, lake.topic, payloads, compression_type=codec, linger_ms=100)
    lake.run()
    assert [row["message_payload"] for row in lake.rows()] == payloads


def produces_with_each_commit(lake: TopicLake) -> None:
    def produce(event: str) -> None:
        if event == "messages_committed":
            assert len(lake.named("messages_committed")) < 10, "it does not end"
            lake.produce(b"meanwhile")

    lake.on_event = produce


def test_a_run_that_ends_does_so_although_the_topic_is_written_to_all_the_time(new_lake: NewLake) -> None:
    lake = new_lake(partitions=2)
    lake.produce(*[b"a"] * 20)
    produces_with_each_commit(lake)
    lake.run(source=OFFSETS_AT_ONCE)
    sent = end_offset(lake.settings, lake.topic)
    assert (len(lake.named("messages_committed")), len(lake.rows()), sent) == (1 + 3, 21, 24)
    lake.on_event = lambda event: None
    lake.run(source=OFFSETS_AT_ONCE)
    assert lake.places() == [(0, number) for number in range(sent)]


def published(lake: TopicLake, group: str) -> dict[int, int]:
    """By partition of the topic."""
    admin = AdminClient(lake.settings)
    places = [TopicPartition(lake.topic, number) for number in range(2)]
    (asked,) = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group, places)]).values()
    return {one.partition: one.offset for one in asked.result(WAIT_SECS).topic_partitions if one.offset >= 0}


@pytest.mark.parametrize("is_named", [False, True])
def test_a_topic_that_is_gone_keeps_no_group_from_the_offsets_of_the_others(new_lake: NewLake, is_named: bool) -> None:
    lake, other = new_lake(partitions=2), new_lake()
    group, both = f"of-{lake.topic}", f"topics: [{lake.topic}, {other.topic}]"
    lake.produce(b"a", Message(b"b", partition=1))
    other.produce(b"c")
    lake.run(kafka=f"{both}, publish_group: {group}")
    assert published(lake, group) == {0: 1, 1: 1}
    delete_topic(lake.settings, other.topic)
    lake.produce(b"d")
    lake.run(kafka=f"{both if is_named else f'topics: [{lake.topic}]'}, publish_group: {group}")
    assert lake.named("publish_failed") == []
    assert published(lake, group) == {0: 2, 1: 1}
