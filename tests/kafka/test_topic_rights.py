"""Topics that the user may not read: which one it is, whoever asks for it."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from blizzard.cli import main
from blizzard.errors import PermanentError
from infra.local.kafka.cluster import KafkaCluster
from tests.kafka.secured import READER, block
from tests.kafka.topic_lake import TopicLake
from tests.kafka.topics import WAIT_SECS, create_topic, produce

FREE, HIDDEN, CLOSED = "free-to-read", "hidden", "closed"
SAID = {
    HIDDEN: f"topic {HIDDEN}: Broker: Topic authorization failed",
    CLOSED: f"{CLOSED}/0: Fetch from broker 1 failed",
}


@pytest.fixture(scope="module")
def topics(secured: KafkaCluster) -> None:
    """Of one the reader may not even know, of another only that it is there."""
    settings = secured.client_settings()
    for name in (FREE, HIDDEN, CLOSED):
        create_topic(settings, name)
        produce(settings, name, [b"a"])
    admin = AdminClient(settings)
    rules = [(HIDDEN, "nobody", AclOperation.ALL), (CLOSED, READER, AclOperation.DESCRIBE)]
    for name, user, operation in rules:
        of_topic = ResourceType.TOPIC, name, ResourcePatternType.LITERAL
        allowed = AclBinding(*of_topic, f"User:{user}", "*", operation, AclPermissionType.ALLOW)
        for future in admin.create_acls([allowed]).values():
            future.result(WAIT_SECS)


@pytest.fixture
def lake(tmp_path: Path, secured: KafkaCluster, topics: None) -> Iterator[TopicLake]:
    made = TopicLake(tmp_path, secured, FREE)
    yield made
    made.close()


@pytest.mark.parametrize("forbidden", [HIDDEN, CLOSED])
def test_a_topic_that_the_user_may_not_read_is_named(
    lake: TopicLake, secured: KafkaCluster, capsys: pytest.CaptureFixture[str], forbidden: str
) -> None:
    kafka = f"{block(secured, 'SASL_SSL', 'SCRAM-SHA-512')}, topics: [{FREE}, {forbidden}]"
    with pytest.raises(PermanentError) as refused:
        lake.run(kafka=kafka)
    assert main(["status", "--json", str(lake.config_file(kafka=kafka))]) == 1
    [status] = json.loads(capsys.readouterr().out)
    for said in (str(refused.value), status["problem"]):
        assert f"the brokers refuse to be read: {SAID[forbidden]}" in said
        assert "or the rights of its user: it needs to read and describe the topics" in said
        assert FREE not in said
    assert not lake.table.exists() or lake.rows() == []
