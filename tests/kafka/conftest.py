"""A lake for each test that wants one."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from infra.local.kafka.cluster import KafkaCluster
from tests.fixtures_kafka import NewTopic
from tests.kafka import secured as secured_broker
from tests.kafka.msk.cluster import allow, start_cluster
from tests.kafka.topic_lake import NewLake, TopicLake
from tests.kafka.topics import create_topic


@pytest.fixture
def new_lake(tmp_path: Path, kafka: KafkaCluster, new_topic: NewTopic) -> Iterator[NewLake]:
    """`new_lake(partitions=1, **settings)`: with a topic of its own, as `new_topic` makes it."""
    made: list[TopicLake] = []

    def make(partitions: int = 1, **settings: str) -> TopicLake:
        made.append(TopicLake(tmp_path / str(len(made)), kafka, new_topic(partitions, **settings)))
        return made[-1]

    yield make
    for lake in made:
        lake.close()


@pytest.fixture(scope="session")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaCluster]:
    """A running broker with a listener for each protocol. Tests share it: they neither stop nor kill it."""
    with secured_broker.start_cluster(tmp_path_factory.mktemp("secured")) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def msk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaCluster]:
    """A running broker that logs clients in as Amazon MSK does. Tests share it: they neither stop nor kill it."""
    with start_cluster(tmp_path_factory.mktemp("msk"), reader_password="first-password") as cluster:
        allow(cluster)
        yield cluster


@pytest.fixture
def msk_lake(tmp_path: Path, msk: KafkaCluster, request: pytest.FixtureRequest) -> Iterator[TopicLake]:
    """With a topic of two partitions of its own, on the broker that logs in as Amazon MSK does."""
    topic = re.sub(r"[^\w.-]", "-", request.node.name)[:150]
    create_topic(msk.client_settings(), topic, 2)
    lake = TopicLake(tmp_path, msk, topic)
    yield lake
    lake.close()
