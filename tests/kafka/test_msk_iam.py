"""Logins with the credentials of AWS, at a broker that verifies the signatures itself (msk/MskTokens.java)."""

import base64
import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import pytest
from aws_msk_iam_sasl_signer import MSKAuthTokenProvider
from confluent_kafka import ConsumerGroupTopicPartitions, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from blizzard.config.load import parse_config
from blizzard.errors import ConfigError, PermanentError
from blizzard.kafka.client import KafkaBrokers
from blizzard.kafka.login import Login
from blizzard.kafka.range_consumer import RangeConsumer
from infra.local.kafka.cluster import KafkaCluster
from infra.local.processes.checkout import CHECKOUT
from tests.kafka.msk.cluster import ACCESS_KEY, GROUP, REGION, SECRET_KEY, accepted, refused
from tests.kafka.topic_lake import TopicLake
from tests.kafka.topics import Message, until

ENVELOPE = "format: envelope"
COMMAND = "import sys; from blizzard.cli import main; sys.exit(main())"
LIFE_SECS = 10
"""Of a token that is to be renewed. A broker does not take another one within a second."""
BOUND_SECS = 8.0
"""Within which a refusal is said, on a machine that does much else."""


@pytest.fixture(autouse=True)
def credentials(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The reader's, and nothing else of this machine or of other tests."""
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    for name, value in environ(tmp_path).items():
        monkeypatch.setenv(name, value)


def environ(folder: Path) -> dict[str, str]:
    return {
        "AWS_ACCESS_KEY_ID": ACCESS_KEY,
        "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
        "AWS_CONFIG_FILE": str(folder / "no-config"),
        "AWS_SHARED_CREDENTIALS_FILE": str(folder / "no-credentials"),
        "AWS_EC2_METADATA_DISABLED": "true",
    }


def iam(lake_or_cluster: TopicLake | KafkaCluster, region: str = f"region: {REGION}, ") -> str:
    settings = lake_or_cluster.settings if isinstance(lake_or_cluster, TopicLake) else lake_or_cluster.client_settings()
    return f"security: {{mechanism: AWS_MSK_IAM, {region}ca_location: {settings['ssl.ca.location']}}}"


def brokers(lake: TopicLake, kafka: str = "") -> KafkaBrokers:
    ((_, source),) = parse_config(lake.configuration(ENVELOPE, kafka or iam(lake)), {}).sources()
    assert source.kafka is not None
    return KafkaBrokers(source.kafka)


def client_settings(lake: TopicLake) -> Mapping[str, str]:
    ((_, source),) = parse_config(lake.configuration(ENVELOPE, iam(lake)), {}).sources()
    assert source.kafka is not None
    return Login(source.kafka).settings()


def stored(lake: TopicLake) -> bytes:
    return b"".join(file.read_bytes() for file in lake.table.rglob("*") if file.is_file())


def test_topics_are_read_with_no_more_rights_than_the_documentation_says(
    msk: KafkaCluster, msk_lake: TopicLake
) -> None:
    before = len(accepted(msk))
    msk_lake.produce(*[Message(b"%d" % n, partition=n % 2) for n in range(10)])
    msk_lake.run(kafka=f"{iam(msk_lake)}, publish_group: {GROUP}")
    assert msk_lake.places() == [(partition, offset) for partition in (0, 1) for offset in range(5)]
    assert len(accepted(msk)) >= before + 2, "the driver's client, and those of tasks"
    asked = ConsumerGroupTopicPartitions(GROUP, [TopicPartition(msk_lake.topic, 0), TopicPartition(msk_lake.topic, 1)])
    admin = AdminClient(msk.client_settings())
    (published,) = admin.list_consumer_group_offsets([asked]).values()
    assert [one.offset for one in published.result(10).topic_partitions] == [5, 5]
    for secret in (SECRET_KEY, "X-Amz-", base64.urlsafe_b64encode(b"https://kafka.").decode()[:12]):
        assert secret.encode() not in stored(msk_lake)
        assert secret not in str(msk_lake.events)


def test_commands_in_processes_of_their_own_log_in_too(msk_lake: TopicLake, tmp_path: Path) -> None:
    file = tmp_path / "pipelines.yaml"
    file.write_text(msk_lake.configuration(ENVELOPE, iam(msk_lake)))

    def blizzard(*arguments: str) -> str:
        done = subprocess.run(
            [sys.executable, "-c", COMMAND, *arguments, str(file)],
            cwd=CHECKOUT, capture_output=True, text=True, check=False,
            env={"PATH": os.environ["PATH"], **environ(tmp_path)},
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        assert SECRET_KEY not in done.stdout + done.stderr
        return done.stdout

    msk_lake.produce(*[Message(b"%d" % n, partition=n % 2) for n in range(10)])
    blizzard("run", "--once")
    assert len(msk_lake.places()) == 10
    msk_lake.produce(b"waits")
    (found,) = json.loads(blizzard("status", "--json"))
    assert (found["problem"], found["lag"]) == (None, 1)
    assert 0 < found["lag_secs"] < 600
    (found,) = json.loads(blizzard("audit", "--json"))
    assert (found["verdict"], found["committed"], found["pending"]) == ("good", 10, 1)


@pytest.mark.parametrize(
    ("change", "region", "reason"),
    [
        ({"AWS_SECRET_ACCESS_KEY": "another"}, REGION, "its signature is another one"),
        ({"AWS_ACCESS_KEY_ID": "AKIAOTHER"}, REGION, "its credential is another one"),
        ({}, "us-east-1", "its host is another one"),
    ],
)
def test_a_login_that_the_brokers_refuse_is_said_at_once(
    msk: KafkaCluster,
    msk_lake: TopicLake,
    monkeypatch: pytest.MonkeyPatch,
    change: dict[str, str],
    region: str,
    reason: str,
) -> None:
    for name, value in change.items():
        monkeypatch.setenv(name, value)
    before, started = len(refused(msk)), time.monotonic()
    with pytest.raises(PermanentError, match=r"refuse to be read.*Correct `kafka.security`") as error:
        brokers(msk_lake, iam(msk_lake, f"region: {region}, ")).cluster()
    assert time.monotonic() - started < BOUND_SECS
    assert {*refused(msk)[before:]} == {reason}
    assert "X-Amz" not in str(error.value)


def test_a_task_that_is_refused_stops_the_source(msk_lake: TopicLake, monkeypatch: pytest.MonkeyPatch) -> None:
    msk_lake.produce(b"a")
    settings = client_settings(msk_lake)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "another")
    started = time.monotonic()
    with pytest.raises(PermanentError, match="refuse to be read"):
        [*RangeConsumer({(msk_lake.topic, 0): (0, 1)}, settings, "read_committed", 1 << 20).messages()]
    assert time.monotonic() - started < BOUND_SECS


def test_without_credentials_the_error_says_where_they_are_expected(
    msk_lake: TopicLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    started = time.monotonic()
    with pytest.raises(
        PermanentError, match=r"there are no credentials of AWS\. Expected credentials where boto3 looks"
    ):
        msk_lake.run(kafka=iam(msk_lake))
    assert time.monotonic() - started < BOUND_SECS
    assert not msk_lake.table.exists()


def test_without_a_region_nothing_is_asked(msk_lake: TopicLake, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match="needs the region of the brokers; add `region`"):
        msk_lake.job(kafka=iam(msk_lake, region=""))
    monkeypatch.setenv("AWS_DEFAULT_REGION", REGION)
    assert brokers(msk_lake, iam(msk_lake, region="")).cluster().topics


def test_credentials_of_a_role_log_in_with_their_session_token(
    msk_lake: TopicLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_SESSION_TOKEN", "of/the+session==")
    assert brokers(msk_lake).cluster().topics


def refused_token(msk: KafkaCluster, token: str) -> str:
    """Why the broker refuses it."""
    settings = {
        "bootstrap.servers": msk.bootstrap_servers,
        "security.protocol": "SASL_SSL",
        "ssl.ca.location": msk.client_settings()["ssl.ca.location"],
        "sasl.mechanisms": "OAUTHBEARER",
        "oauth_cb": lambda _: (token, time.time() + 900),
        "log_level": 0,
    }
    before = len(refused(msk))
    with pytest.raises(KafkaException):
        AdminClient(settings).list_topics(timeout=3)
    (reason,) = {*refused(msk)[before:]}
    return reason


def test_a_token_that_has_expired_is_refused(msk: KafkaCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the broker of these tests: what shows that the last test's token was renewed."""
    monkeypatch.setattr(MSKAuthTokenProvider, "DEFAULT_TOKEN_EXPIRY_SECONDS", 1)
    token, until_ms = MSKAuthTokenProvider.generate_auth_token(REGION)
    until(lambda: time.time() * 1000 > until_ms, "the token has expired")
    assert refused_token(msk, token) == "it has expired"


@pytest.mark.parametrize(
    ("part", "value", "reason"),
    [
        ("ACTION_NAME", "kafka-cluster:DescribeCluster", "its action is another one"),
        ("SIGNING_NAME", "s3", "its credential is another one"),
        ("DEFAULT_TOKEN_EXPIRY_SECONDS", 3600, "its time is wrong"),
    ],
)
def test_a_token_for_something_else_is_refused(
    msk: KafkaCluster, monkeypatch: pytest.MonkeyPatch, part: str, value: object, reason: str
) -> None:
    monkeypatch.setattr(MSKAuthTokenProvider, part, value)
    assert refused_token(msk, MSKAuthTokenProvider.generate_auth_token(REGION)[0]) == reason


def test_a_token_is_renewed_while_its_connection_is_in_use(
    msk: KafkaCluster, msk_lake: TopicLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a task in the middle of a range, and of the driver between two questions."""
    monkeypatch.setattr(MSKAuthTokenProvider, "DEFAULT_TOKEN_EXPIRY_SECONDS", LIFE_SECS)
    msk_lake.produce(*[Message(b"%d" % n * 400_000) for n in range(10)])
    driver = brokers(msk_lake)
    assert driver.cluster().topics
    wanted = {(msk_lake.topic, 0): (0, 10)}
    read, found = RangeConsumer(wanted, client_settings(msk_lake), "read_committed", 1 << 20).messages(), []
    found += next(read)[1]
    before, first_ended_ts = {*accepted(msk)}, time.time() + LIFE_SECS
    assert len(found) < 10, "the rest waits at the broker"
    until(lambda: len({*accepted(msk)} - before) >= 2, "driver and task have a further token each")
    until(lambda: time.time() > first_ended_ts, "what they began with has expired")
    for _, messages in read:
        found += messages
    assert [message.offset() for message in found] == [*range(10)]
    assert driver.end_offsets([(msk_lake.topic, 0)]) == {(msk_lake.topic, 0): 10}
