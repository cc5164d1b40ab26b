"""Logins that secrets of AWS Secrets Manager hold, at a broker and a schema registry that know them."""

import json
import uuid

import pytest
from confluent_kafka.admin import AdminClient, ScramCredentialInfo, ScramMechanism, UserScramCredentialUpsertion

from blizzard.errors import PermanentError
from infra.local.kafka.cluster import KafkaCluster
from infra.local.processes.server_process import REGION, LocalAws
from tests.kafka.msk.cluster import READER
from tests.kafka.test_topic_replay import Replay
from tests.kafka.topic_lake import NewLake, TopicLake
from tests.unit.schema_registry import Registry, framed, record_of

ITERATIONS = 4096
SCHEMA = record_of({"id": "long"}, "click")


@pytest.fixture(autouse=True)
def of_the_local_aws(aws: LocalAws, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", aws.endpoint)
    monkeypatch.setenv("AWS_REGION", REGION)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "reader")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "of-the-local-aws")


class Secret:
    def __init__(self, aws: LocalAws, username: str, password: str) -> None:
        self.name = f"AmazonMSK_{uuid.uuid4().hex}"
        self._client = aws.client("secretsmanager")
        text = json.dumps({"username": username, "password": password})
        self.arn: str = self._client.create_secret(Name=self.name, SecretString=text)["ARN"]

    def change(self, username: str, password: str) -> None:
        text = json.dumps({"username": username, "password": password})
        self._client.put_secret_value(SecretId=self.name, SecretString=text)


def security(lake: TopicLake, secret: str) -> str:
    ca = lake.settings["ssl.ca.location"]
    return f'security: {{mechanism: SCRAM-SHA-512, secret: "{secret}", ca_location: {ca}}}'


def set_password(cluster: KafkaCluster, password: str) -> None:
    known = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, ITERATIONS)
    admin = AdminClient(cluster.client_settings())
    changed = admin.alter_user_scram_credentials([UserScramCredentialUpsertion(READER, known, password.encode())])
    changed[READER].result(10)


@pytest.mark.parametrize("named", ["name", "arn"])
def test_the_brokers_login_is_the_secrets_and_is_kept_nowhere(
    aws: LocalAws, msk: KafkaCluster, msk_lake: TopicLake, named: str
) -> None:
    set_password(msk, "kept-password")
    secret = Secret(aws, READER, "kept-password")
    msk_lake.produce(b"a", b"b")
    msk_lake.run(kafka=security(msk_lake, getattr(secret, named)))
    assert [row["message_payload"] for row in msk_lake.rows()] == [b"a", b"b"]
    stored = b"".join(file.read_bytes() for file in msk_lake.table.rglob("*") if file.is_file())
    assert b"kept-password" not in stored
    assert "kept-password" not in str(msk_lake.events)


def test_a_running_job_goes_on_when_password_and_secret_are_changed(
    aws: LocalAws, msk: KafkaCluster, msk_lake: TopicLake
) -> None:
    """Its driver is still connected; what is refused is a task."""
    set_password(msk, "old-password")
    secret = Secret(aws, READER, "old-password")
    job = msk_lake.job(
        "format: envelope\n                    retries: {max_backoff_secs: 0.1}", security(msk_lake, secret.name)
    )
    msk_lake.produce(b"a")
    job.ingest.drain()
    set_password(msk, "new-password")
    secret.change(READER, "new-password")
    msk_lake.produce(b"b")
    job.ingest.drain()
    assert [row["message_payload"] for row in msk_lake.rows()] == [b"a", b"b"]


def test_a_new_client_of_the_driver_has_the_changed_login(
    aws: LocalAws, msk: KafkaCluster, msk_lake: TopicLake
) -> None:
    set_password(msk, "first-password")
    secret = Secret(aws, READER, "stale-password")
    source = "format: envelope\n                    retries: {max_backoff_secs: 0.1}"
    msk_lake.produce(b"a")
    with pytest.raises(PermanentError, match="refuse to be read") as refused:
        msk_lake.run(source, security(msk_lake, secret.name))
    assert "stale-password" not in str(refused.value)
    secret.change(READER, "first-password")
    msk_lake.run(source, security(msk_lake, secret.name))
    assert len(msk_lake.rows()) == 1


def test_a_secret_that_is_not_there_stops_the_source_and_is_named(msk_lake: TopicLake) -> None:
    with pytest.raises(PermanentError, match=r"the secret AmazonMSK_nobody does not exist.*Correct `secret`"):
        msk_lake.run(kafka=security(msk_lake, "AmazonMSK_nobody"))
    assert not msk_lake.table.exists()


def test_a_schema_registrys_login_is_a_secret_that_may_change(aws: LocalAws, new_lake: NewLake) -> None:
    secret, lake = Secret(aws, "u", "registry-password"), new_lake()
    with Registry(("u", "registry-password")) as registry:
        source = f"""format: avro
                    schema: id BIGINT
                    retries: {{max_backoff_secs: 0.1}}
                    avro: {{registry: {{url: "{registry.url}", secret: {secret.name}}}}}"""
        lake.produce(framed(registry.add(SCHEMA), SCHEMA, {"id": 1}))
        lake.run(source)
    with Registry(("u", "changed-password")) as registry:
        secret.change("u", "changed-password")
        lake.produce(framed(registry.add(SCHEMA), SCHEMA, {"id": 2}))
        lake.run(source.replace(source.split('"')[1], registry.url))
    assert [row["id"] for row in lake.rows()] == [1, 2]
    assert "-password" not in str(lake.events)


def test_a_given_record_needs_no_schema_registry(aws: LocalAws, new_lake: NewLake) -> None:
    secret, lake = Secret(aws, "u", "registry-password"), new_lake()
    with Registry(("u", "registry-password")) as registry:
        source = f"""format: avro
                    schema: id BIGINT
                    avro: {{registry: {{url: "{registry.url}", secret: {secret.name}}}}}"""
        lake.produce(framed(registry.add(SCHEMA), SCHEMA, {"id": 1}), b"no record")
        lake.run(source)
    Replay(lake, configured=source, given={1: '{"id": 2}'}).run()
    assert [row["id"] for row in lake.rows()] == [1, 2]
