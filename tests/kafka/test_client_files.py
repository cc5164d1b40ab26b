"""A client's certificate and key: files that have to be where tasks run, and to be what they should."""

import shutil
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition

from blizzard.config.kafka_options import KafkaOptions
from blizzard.errors import PermanentError
from blizzard.kafka.client import KafkaBrokers
from blizzard.kafka.connect import Reports, consumer_settings
from blizzard.kafka.first_messages import first_messages
from blizzard.kafka.range_consumer import RangeConsumer
from infra.local.kafka.cluster import KafkaCluster
from infra.local.kafka.security import KEY_PASSWORD, Security
from tests.kafka.secured import block, certificate, security_of, servers
from tests.kafka.topic_lake import TopicLake
from tests.kafka.topics import create_topic, produce

FIELDS = ("certificate_location", "key_location")
CERTIFICATE = "-----BEGIN CERTIFICATE-----\nAA==\n-----END CERTIFICATE-----\n"


@pytest.fixture
def lake(tmp_path: Path, secured: KafkaCluster) -> Iterator[TopicLake]:
    """With one message, where brokers want a client's certificate."""
    topic = tmp_path.name
    create_topic(secured.client_settings(), topic)
    produce(secured.client_settings(), topic, [b"a"])
    made = TopicLake(tmp_path, secured, topic)
    made.servers = servers(secured, "mutual")
    yield made
    made.close()


@pytest.mark.parametrize("field", FIELDS)
def test_a_file_that_is_missing_where_tasks_run_stops_the_source_and_is_named(
    lake: TopicLake, secured: KafkaCluster, tmp_path: Path, field: str
) -> None:
    """The driver has had it."""
    own = certificate(security_of(secured)) | {field: str(tmp_path / "a-file.pem")}
    shutil.copy(str(certificate(security_of(secured))[field]), tmp_path / "a-file.pem")
    lake.on_event = lambda event: (tmp_path / "a-file.pem").unlink() if event == "ranges_planned" else None
    with pytest.raises(PermanentError) as stopped:
        lake.run(kafka=block(secured, "SSL", **own))
    said = str(stopped.value)
    assert "`kafka.security` names a file that cannot be read on " in said
    assert f"({field}: {tmp_path / 'a-file.pem'}). Expected the client's certificate and key on each machine" in said
    assert "a task failed" not in said
    assert not lake.named("retrying")
    assert lake.rows() == []
    lake.on_event = lambda event: None
    lake.run(kafka=block(secured, "SSL", **certificate(security_of(secured))))
    assert lake.places() == [(0, 0)]


def test_clients_of_every_kind_name_a_file_that_is_missing(tmp_path: Path) -> None:
    security = {"protocol": "SSL", **dict.fromkeys(FIELDS, str(tmp_path / "none.pem"))}
    options = KafkaOptions.model_validate({"bootstrap_servers": "127.0.0.1:1", "topics": ["t"], "security": security})
    settings, places = options.client_settings(), [TopicPartition("t", 0, 0)]
    missing = rf"certificate_location: {tmp_path}/none\.pem; key_location: {tmp_path}/none\.pem"
    with pytest.raises(PermanentError, match=missing):
        KafkaBrokers(options).cluster()
    with pytest.raises(PermanentError, match=missing):
        RangeConsumer({("t", 0): (0, 1)}, settings, "read_committed", 1 << 20)
    reports = Reports()
    own = consumer_settings(settings, "read_committed", 1 << 20, reports)
    with closing(first_messages(own, reports, places)) as came, pytest.raises(PermanentError, match=missing):
        next(came)


@pytest.mark.parametrize(
    ("wrong", "setting"),
    [
        ({"key_password": "of-nothing"}, "ssl.key.location"),
        ({"key_password": None}, "ssl.key.location"),
        ({"key_location": "strangers"}, "ssl.key.location"),
        ({"certificate_location": "ca"}, "key"),
        ({"ca_location": None, "ca_pem": CERTIFICATE}, "ssl.ca.pem"),
    ],
)
def test_files_that_a_client_cannot_use_stop_the_source(
    lake: TopicLake, secured: KafkaCluster, tmp_path: Path, wrong: dict[str, str | None], setting: str
) -> None:
    strangers = Security.make(tmp_path / "strangers", {"nobody": "n"})
    files = {"strangers": str(strangers.client_key_file), "ca": str(security_of(secured).ca_file)}
    given = {name: files.get(str(value), value) for name, value in wrong.items()}
    with pytest.raises(PermanentError) as stopped:
        lake.run(kafka=block(secured, "SSL", **{**certificate(security_of(secured)), **given}))
    said = str(stopped.value)
    assert "Kafka's client takes no such settings: " in said
    assert setting in said
    assert "Correct `kafka.security`, the files that it names, or the password of the key" in said
    assert KEY_PASSWORD not in said
    assert "of-nothing" not in said
    assert not lake.table.exists()
