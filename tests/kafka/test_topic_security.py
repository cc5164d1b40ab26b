"""Topics behind TLS and logins, at a broker with a listener for each protocol: what is read, and what is refused."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from blizzard.errors import NeverAnswered, PermanentError
from infra.local.kafka.cluster import KafkaCluster
from infra.local.kafka.security import MECHANISMS, Security
from tests.kafka.secured import PASSWORD, block, certificate, security_of, servers
from tests.kafka.topic_lake import TopicLake
from tests.kafka.topics import create_topic, produce

SOON_SECS = 8.0
"""Within which a refusal is said, on a machine that does much else."""
OTHER_PASSWORD = "another-password"
WITH_LOGIN = [(protocol, mechanism) for protocol in ("SASL_PLAINTEXT", "SASL_SSL") for mechanism in MECHANISMS]

NewLake = Callable[[str], TopicLake]


@pytest.fixture(scope="module")
def topic(secured: KafkaCluster) -> str:
    create_topic(secured.client_settings(), "behind-locks")
    produce(secured.client_settings(), "behind-locks", [b"a", b"b"])
    return "behind-locks"


@pytest.fixture
def lake_at(tmp_path: Path, secured: KafkaCluster, topic: str) -> Iterator[NewLake]:
    """`lake_at("SSL")`: of this listener."""
    made: list[TopicLake] = []

    def make(listener: str) -> TopicLake:
        made.append(TopicLake(tmp_path, secured, topic))
        made[-1].servers = servers(secured, listener)
        return made[-1]

    yield make
    for lake in made:
        lake.close()


@pytest.fixture(scope="module")
def strangers(tmp_path_factory: pytest.TempPathFactory) -> Security:
    """Of another authority."""
    return Security.make(tmp_path_factory.mktemp("strangers"), {"nobody": "n"})


def check_read(lake: TopicLake, security: str) -> None:
    lake.run(kafka=security)
    assert [row["message_payload"] for row in lake.rows()] == [b"a", b"b"]
    stored = b"".join(file.read_bytes() for file in lake.table.rglob("*") if file.is_file())
    assert PASSWORD.encode() not in stored
    assert PASSWORD not in str(lake.events)


def check_refused(lake: TopicLake, security: str, *expected: str) -> None:
    """At once, by the first attempt, and before there is a table."""
    begun = time.monotonic()
    with pytest.raises(PermanentError, match="the brokers refuse to be read") as refused:
        lake.run(kafka=security)
    said = str(refused.value)
    assert time.monotonic() - begun < SOON_SECS
    for text in (f"bootstrap_servers: {lake.servers}", "Correct `kafka.security`", *expected):
        assert text in said
    assert PASSWORD not in said
    assert OTHER_PASSWORD not in said
    assert not lake.named("retrying")
    assert not lake.table.exists()


@pytest.mark.parametrize(("protocol", "mechanism"), [("SSL", None), *WITH_LOGIN])
def test_messages_land_over_each_protocol_with_each_login(
    lake_at: NewLake, secured: KafkaCluster, protocol: str, mechanism: str | None
) -> None:
    check_read(lake_at(protocol), block(secured, protocol, mechanism))


def test_messages_land_where_brokers_want_a_clients_certificate(lake_at: NewLake, secured: KafkaCluster) -> None:
    check_read(lake_at("mutual"), block(secured, "SSL", **certificate(security_of(secured))))


@pytest.mark.parametrize(("protocol", "mechanism"), WITH_LOGIN)
def test_a_wrong_password_is_refused(lake_at: NewLake, secured: KafkaCluster, protocol: str, mechanism: str) -> None:
    wrong = block(secured, protocol, mechanism, password=OTHER_PASSWORD)
    check_refused(lake_at(protocol), wrong, "(_AUTHENTICATION)", "SASL", "Authentication failed")


@pytest.mark.parametrize(("protocol", "mechanism"), [("SSL", None), ("SASL_SSL", "PLAIN")])
def test_brokers_with_a_certificate_of_another_authority_are_refused(
    lake_at: NewLake, secured: KafkaCluster, strangers: Security, protocol: str, mechanism: str | None
) -> None:
    for ca in (str(strangers.ca_file), None):
        wrong = block(secured, protocol, mechanism, ca_location=ca)
        check_refused(lake_at(protocol), wrong, "(_SSL)", "certificate verify failed", "`ca_location`")


def test_brokers_with_a_certificate_of_another_host_are_refused(lake_at: NewLake, secured: KafkaCluster) -> None:
    check_refused(lake_at("elsewhere"), block(secured, "SSL"), "(_SSL)", "certificate verify failed", "host name")


def test_a_client_without_a_certificate_is_refused_where_one_is_wanted(lake_at: NewLake, secured: KafkaCluster) -> None:
    check_refused(lake_at("mutual"), block(secured, "SSL"), "SSL alert number", "certificate_location")


def test_a_client_with_a_certificate_of_another_authority_is_refused(
    lake_at: NewLake, secured: KafkaCluster, strangers: Security
) -> None:
    wrong = block(secured, "SSL", **certificate(strangers))
    check_refused(lake_at("mutual"), wrong, "SSL alert number", "certificate_location")


@pytest.mark.parametrize(
    ("listener", "protocol", "said"),
    [
        ("SASL_PLAINTEXT", "SSL", "connecting to a PLAINTEXT broker listener?"),
        ("SSL", "PLAINTEXT", "each connection ended without an answer"),
        ("SASL_PLAINTEXT", "PLAINTEXT", "each connection ended without an answer"),
    ],
)
def test_a_listener_for_another_protocol_is_tried_again_as_a_broker_that_is_stopping(
    lake_at: NewLake, secured: KafkaCluster, listener: str, protocol: str, said: str
) -> None:
    """Both end the connection, and nothing else shows. A run that ends gives up after half of its attempts."""
    lake = lake_at(listener)
    with pytest.raises(NeverAnswered) as given_up:
        lake.run(
            source="format: envelope\n                    retries: {max_attempts: 1}", kafka=block(secured, protocol)
        )
    expected = "if the listener is for another protocol, `kafka.security`"
    for text in (f"bootstrap_servers: {lake.servers}", f"a listener for {protocol}", said, expected):
        assert text in str(given_up.value)


@pytest.mark.parametrize("listener", ["SSL", "mutual"])
def test_a_login_where_there_is_none_is_refused(lake_at: NewLake, secured: KafkaCluster, listener: str) -> None:
    own = certificate(security_of(secured)) if listener == "mutual" else {}
    check_refused(lake_at(listener), block(secured, "SASL_SSL", "PLAIN", **own), "(_AUTHENTICATION)", "SASL")


def test_a_mechanism_that_the_brokers_do_not_have_is_refused(tmp_path: Path, secured: KafkaCluster, topic: str) -> None:
    lake = TopicLake(tmp_path, secured, topic)
    check_refused(lake, block(secured, "SASL_SSL", "PLAIN"), "(_AUTHENTICATION)", "SCRAM-SHA-512")
    lake.close()
