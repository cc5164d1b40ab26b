"""A lake for each test that wants one."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from infra.local.kafka.cluster import KafkaCluster
from tests.fixtures_kafka import NewTopic
from tests.kafka.topic_lake import NewLake, TopicLake


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
