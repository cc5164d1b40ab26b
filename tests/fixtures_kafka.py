"""One broker for all tests that need no more; they run in one worker (tests/workers.py)."""

import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from infra.local.kafka.cluster import KafkaCluster

NewTopic = Callable[..., str]
"""`new_topic(partitions=1, **settings)`: see `tests.kafka.topics.create_topic`, whose other arguments it fills in."""


@pytest.fixture(scope="session")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> "Iterator[KafkaCluster]":
    """A running cluster of one broker without security. Tests share it: they neither stop nor kill it."""
    # Imported here: most tests need no Kafka.
    from infra.local.kafka.cluster import KafkaCluster

    with KafkaCluster(tmp_path_factory.mktemp("kafka") / "cluster") as cluster:
        yield cluster


@pytest.fixture
def new_topic(kafka: "KafkaCluster", request: pytest.FixtureRequest) -> NewTopic:
    """Makes a topic of this test alone, and returns its name."""
    from tests.kafka.topics import create_topic

    test = re.sub(r"[^\w.-]", "-", request.node.name)[:150]
    made: list[str] = []

    def make(partitions: int = 1, **settings: str) -> str:
        made.append(f"{test}-{len(made)}")
        create_topic(kafka.client_settings(), made[-1], partitions, **settings)
        return made[-1]

    return make
