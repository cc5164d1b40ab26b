"""A consumer group that cannot have the committed offsets: the rows come all the same, and soon."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from infra.local.kafka.cluster import KafkaCluster
from tests.kafka.secured import block
from tests.kafka.topic_lake import NewLake, TopicLake
from tests.kafka.topics import WAIT_SECS, create_topic, produce, until

SOON_SECS = 8.0
"""Of a machine that does much else. Each attempt with an answer that does not come takes 15 seconds."""
FIVE_EACH = "format: envelope\n                    checkpoint: {interval_records: 5}"


def check_rows_and_one_failure(lake: TopicLake, security: str, group: str, *expected: str) -> None:
    """Of fifteen messages in three commits, behind the one that says where the source begins."""
    begun = time.monotonic()
    lake.run(source=FIVE_EACH, kafka=f"{security}publish_group: {group}")
    took_secs = time.monotonic() - begun
    assert lake.places() == [(0, offset) for offset in range(15)]
    assert len(lake.named("messages_committed")) == 4
    (failed,) = lake.named("publish_failed")
    said = str(failed["error"])
    for text in (f"cannot be published to the consumer group {group}: ", *expected):
        assert text in said
    assert "It is tried again with the first commit after 60 s." in said
    assert took_secs < SOON_SECS


def test_a_group_that_the_user_has_no_right_to_is_named_and_holds_no_commit_up(
    tmp_path: Path, secured: KafkaCluster
) -> None:
    settings = secured.client_settings()
    create_topic(settings, "watched")
    produce(settings, "watched", [b"x"] * 15)
    keep_for_others(settings, "of-others")
    lake = TopicLake(tmp_path, secured, "watched")
    security = block(secured, "SASL_SSL", "SCRAM-SHA-512")
    advice = "Give the user of `kafka.security` the rights to describe and to read this group"
    check_rows_and_one_failure(lake, f"{security}, ", "of-others", "(GROUP_AUTHORIZATION_FAILED)", advice)
    lake.close()


def keep_for_others(settings: dict[str, object], group: str) -> None:
    """The brokers let everybody use what no rule is about."""
    rule = (AclOperation.ALL, AclPermissionType.ALLOW)
    binding = AclBinding(ResourceType.GROUP, group, ResourcePatternType.LITERAL, "User:nobody", "*", *rule)
    admin = AdminClient(settings)
    for future in admin.create_acls([binding]).values():
        future.result(WAIT_SECS)


def test_a_group_with_members_is_named_and_holds_no_commit_up(new_lake: NewLake) -> None:
    lake = new_lake()
    lake.produce(*[b"x"] * 15)
    group = f"used-{lake.topic}"
    with member_of(lake, group):
        check_rows_and_one_failure(lake, "", group, "(UNKNOWN_MEMBER_ID)", "one that no consumer belongs to")
    asked = ConsumerGroupTopicPartitions(group, [TopicPartition(lake.topic, 0)])
    lake.produce(b"x")
    lake.run(kafka=f"publish_group: {group}")
    admin = AdminClient(lake.settings)
    (found,) = admin.list_consumer_group_offsets([asked]).values()
    assert [one.offset for one in found.result(WAIT_SECS).topic_partitions] == [16], "once its consumers have ended"


@contextmanager
def member_of(lake: TopicLake, group: str) -> Iterator[None]:
    own = {"group.id": group, "enable.auto.commit": False, "auto.offset.reset": "latest", "log_level": 0}
    consumer = Consumer({**lake.settings, **own})
    consumer.subscribe([lake.topic])
    until(lambda: consumer.poll(0.1) is None and consumer.assignment(), "the group has given it the partition")
    yield
    consumer.close()
