"""The probe's look at brokers, from where the job runs."""

from typing import Any

from blizzard.config.kafka_options import KafkaOptions
from infra.local.kafka.cluster import KafkaCluster
from spark_job.probe.rights import Rights, try_to_consume
from tests.fixtures_kafka import NewTopic
from tests.kafka.secured import READER, security_of
from tests.kafka.topics import forget_before, produce


def tried(servers: str, topic: str, **security: Any) -> Rights:
    rights, more = Rights(), {"security": security} if security else {}
    try_to_consume(rights, KafkaOptions(bootstrap_servers=servers, topics=[topic], **more))
    return rights


def test_topics_that_can_be_read_are_two_rights(kafka: KafkaCluster, new_topic: NewTopic) -> None:
    topic = new_topic(2)
    assert tried(kafka.bootstrap_servers, topic) == Rights(1, [])  # without a message there is nothing to read
    produce(kafka.client_settings(), topic, [b"a", b"b"])
    assert tried(kafka.bootstrap_servers, topic) == Rights(2, [])
    forget_before(kafka.client_settings(), topic, 0, 1)
    assert tried(kafka.bootstrap_servers, topic) == Rights(2, [])


def test_brokers_that_do_not_answer_are_tried_once() -> None:
    found = tried("127.0.0.1:1", "a")
    (denied,) = found.denied
    assert (found.tried, denied["action"], denied["resource"]) == (
        1,
        "kafka-cluster:DescribeTopic",
        "a of 127.0.0.1:1",
    )


def test_a_login_that_is_refused_is_named(secured: KafkaCluster) -> None:
    login = {"mechanism": "SCRAM-SHA-512", "username": READER, "ca_pem": security_of(secured).ca_file.read_text()}
    (denied,) = tried(secured.bootstrap_servers, "a", password="wrong-password", **login).denied
    assert "the brokers refuse to be read" in denied["error"]
    assert "wrong-password" not in str(denied)
