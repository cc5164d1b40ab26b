"""What a source of topics logs in with: secrets of AWS Secrets Manager, and tokens for Amazon MSK."""

import json
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaError

from blizzard.config.kafka_options import KafkaOptions
from blizzard.config.load import parse_config
from blizzard.config.publish import to_published
from blizzard.errors import ConfigError, PermanentError, RetryableError
from blizzard.kafka import msk_token, secret
from blizzard.kafka.connect import Reports
from blizzard.kafka.login import Login
from blizzard.kafka.secret import UsedSecret, login_of

CONFIG = "region=eu-west-1"
IAM = "security: {mechanism: AWS_MSK_IAM"
OF_MSK = "b-1.clicks.abc123.c2.kafka.eu-west-1.amazonaws.com:9098"
ARN = "arn:aws:secretsmanager:ap-south-1:123456789012:secret:AmazonMSK_reader-AbCdEf"
VALUE = {"username": "u", "password": "secret-password"}


def options(kafka: str, servers: str = "b1:9098") -> KafkaOptions:
    found: KafkaOptions = document(kafka, servers).kafka
    return found


def document(kafka: str, servers: str = "b1:9098", more: str = "format: envelope") -> Any:
    ((_, found),) = parse_config(text(kafka, servers, more), {}).sources()
    return found


def text(kafka: str, servers: str = "b1:9098", more: str = "format: envelope") -> str:
    return f"""
        pipelines:
          p:
            table_uri: s3://lake/t
            sources:
              s:
                kafka: {{bootstrap_servers: "{servers}", topics: [a], {kafka}}}
                {more}
    """


# --- Regions ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("region", "servers", "environ", "expected"),
    [
        ("", OF_MSK, {}, "eu-west-1"),
        ("", f"{OF_MSK},{OF_MSK.replace('b-1', 'b-2')}", {"AWS_REGION": "us-east-1"}, "eu-west-1"),
        ("", "boot-x1.c3.kafka-serverless.us-east-2.amazonaws.com:9098", {}, "us-east-2"),
        ("", "b-1.c.x.c4.kafka.cn-north-1.amazonaws.com.cn:9098", {}, "cn-north-1"),
        (", region: us-gov-west-1", OF_MSK, {"AWS_REGION": "us-east-1"}, "us-gov-west-1"),
        ("", "b1:9098", {"AWS_REGION": "us-east-1", "AWS_DEFAULT_REGION": "us-east-2"}, "us-east-1"),
        ("", f"b1:9098,{OF_MSK}", {"AWS_DEFAULT_REGION": "us-east-2"}, "us-east-2"),
        ("", "kafka.eu-west-1.amazonaws.com.example.org:9098", {"AWS_REGION": "us-east-1"}, "us-east-1"),
    ],
)
def test_the_region_is_the_given_one_or_that_of_the_brokers_or_that_of_the_process(
    region: str, servers: str, environ: dict[str, str], expected: str
) -> None:
    found = Login(options(f"{IAM}{region}}}", servers), lambda: environ).settings()
    assert found == {
        "bootstrap.servers": servers,
        "security.protocol": "SASL_SSL",
        "sasl.mechanisms": "OAUTHBEARER",
        "sasl.oauthbearer.config": f"region={expected}",
    }


def test_without_any_region_the_error_names_the_option() -> None:
    with pytest.raises(ConfigError, match="add `region`, or set AWS_REGION"):
        Login(options(f"{IAM}}}"), dict).settings()


# --- Configurations ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("security", "expected"),
    [
        ("mechanism: AWS_MSK_IAM, username: u, password: p", "username has no effect with AWS_MSK_IAM"),
        ("mechanism: AWS_MSK_IAM, password: p", "password has no effect with AWS_MSK_IAM"),
        ("mechanism: AWS_MSK_IAM, secret: s", "secret has no effect with AWS_MSK_IAM"),
        ("mechanism: AWS_MSK_IAM, protocol: SASL_PLAINTEXT", "AWS_MSK_IAM needs `protocol: SASL_SSL`"),
        ("mechanism: AWS_MSK_IAM, protocol: SSL", "AWS_MSK_IAM needs `protocol: SASL_SSL`"),
        ("mechanism: AWS_MSK_IAM, region: Ireland", "region: found 'Ireland', expected a region of AWS"),
        (
            "mechanism: PLAIN, region: eu-west-1, username: u, password: p",
            "region has no effect without `mechanism: AWS",
        ),
        ("mechanism: PLAIN, secret: s, username: u", "secret takes the place of username and password"),
        ("mechanism: PLAIN, secret: s, password: p", "secret takes the place of username and password"),
        ("protocol: SSL, secret: s", "secret has no effect with SSL"),
        ("secret: s", "mechanism is missing"),
        ("mechanism: PLAIN, username: u", "password is missing"),
        ("mechanism: PLAIN, secret: 'a secret'", "secret: found 'a secret', expected the name of a secret"),
        (
            "mechanism: PLAIN, secret: 'arn:aws:s3:::b'",
            "expected the name of a secret of AWS Secrets Manager, or its ARN",
        ),
    ],
)
def test_a_login_that_is_wrong_is_reported_with_its_place(security: str, expected: str) -> None:
    with pytest.raises(ConfigError) as refused:
        parse_config(text(f"security: {{{security}}}"), {})
    (problem,) = refused.value.problems
    assert "pipelines.p.sources.s.kafka.security" in problem
    assert expected in problem


def registry(login: str) -> str:
    return f"""format: avro
                schema: a STRING
                avro: {{registry: {{url: "https://r", {login}}}}}"""


@pytest.mark.parametrize("login", ["username: u, password: p, secret: s", "secret: 'a secret'"])
def test_a_registrys_login_is_a_secret_or_a_password(login: str) -> None:
    with pytest.raises(ConfigError, match=r"avro\.registry.*secret"):
        parse_config(text("start: latest", more=registry(login)), {})


@pytest.mark.parametrize(
    ("kafka", "more"),
    [
        (f"{IAM}, region: eu-west-1}}", "format: envelope"),
        (f"{IAM}}}", "format: envelope"),
        (f'security: {{mechanism: SCRAM-SHA-512, secret: "{ARN}"}}', "format: envelope"),
        (f"{IAM}}}", registry("secret: schema-registry")),
    ],
)
def test_a_published_configuration_has_the_same_login(kafka: str, more: str) -> None:
    config = parse_config(text(kafka, more=more), {})
    assert parse_config(to_published(config), {}) == config


@pytest.mark.parametrize(
    ("kafka", "more", "place"),
    [
        (
            "security: {mechanism: PLAIN, username: u, password: secret-password}",
            "format: envelope",
            "kafka.security.password",
        ),
        (
            "security: {protocol: SSL, certificate_location: /c, key_location: /k, key_password: secret-password}",
            "format: envelope",
            "kafka.security.key_password",
        ),
        ("start: latest", registry("username: u, password: secret-password"), "avro.registry.password"),
    ],
)
def test_a_password_is_not_published_and_the_error_says_what_is(kafka: str, more: str, place: str) -> None:
    with pytest.raises(ConfigError) as refused:
        to_published(parse_config(text(kafka, more=more), {}))
    (problem,) = refused.value.problems
    assert f"cannot be published: pipelines.p.sources.s.{place}: found a password" in problem
    assert "`secret`" in problem
    assert "AWS_MSK_IAM" in problem
    assert "secret-password" not in problem


# --- Secrets ----------------------------------------------------------------------------------------------------------


class SecretsManager:
    """Answers as Secrets Manager does. `answer`: a status and a document."""

    def __init__(self) -> None:
        self.answer: tuple[int, dict[str, Any]] = (200, {"SecretString": json.dumps(VALUE)})
        self.asked: list[tuple[str, str]] = []
        """The secret and the region of each request."""
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_port}"


def _handler(manager: SecretsManager) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            scope = self.headers["Authorization"].partition("Credential=")[2]
            manager.asked.append((asked["SecretId"], scope.split("/")[2]))
            code, document = manager.answer
            body = json.dumps(document).encode()
            self.send_response(code)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args: Any) -> None:
            """Nothing."""

    return Handler


@pytest.fixture
def manager(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[SecretsManager]:
    made = SecretsManager()
    thread = threading.Thread(target=made.server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    for name, value in {**no_credentials(tmp_path), "AWS_ENDPOINT_URL": made.url, "AWS_REGION": "eu-west-1"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "a")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "b")
    monkeypatch.setattr(secret, "_known", {})
    yield made
    made.server.shutdown()
    thread.join()
    made.server.server_close()


def no_credentials(folder: Path) -> dict[str, str]:
    return {
        "AWS_CONFIG_FILE": str(folder / "none"),
        "AWS_SHARED_CREDENTIALS_FILE": str(folder / "none"),
        "AWS_EC2_METADATA_DISABLED": "true",
    }


def test_a_secret_is_read_once_for_all_sources_of_a_process_in_the_region_of_its_arn(manager: SecretsManager) -> None:
    named = f'security: {{mechanism: SCRAM-SHA-512, secret: "{ARN}"}}'
    for _ in range(2):
        found = Login(options(named)).settings()
        assert (found["sasl.username"], found["sasl.password"]) == ("u", "secret-password")
    assert manager.asked == [(ARN, "ap-south-1")]
    assert "secret-password" not in repr(UsedSecret(ARN).login())


def test_each_source_that_is_refused_finds_out_that_its_secret_has_changed(manager: SecretsManager) -> None:
    one, other = UsedSecret("s"), UsedSecret("s")
    assert one.login() == other.login()
    assert not one.is_changed()
    manager.answer = (200, {"SecretString": json.dumps({**VALUE, "password": "new"})})
    assert one.is_changed()
    assert other.is_changed(), "also once the other source has read it"
    assert (one.login(), other.login()) == (login_of("s"), login_of("s"))
    assert not one.is_changed()
    assert manager.asked[0] == ("s", "eu-west-1")
    assert not UsedSecret(None).is_changed()


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ((400, {"__type": "ResourceNotFoundException"}), "the secret s does not exist"),
        ((400, {"__type": "AccessDeniedException", "message": "not you"}), "not you. The job needs secretsmanager:Get"),
        ((200, {"SecretBinary": "c2VjcmV0"}), "the secret s holds no JSON object"),
        ((200, {"SecretString": "secret-password"}), "the secret s holds no JSON object"),
        ((200, {"SecretString": '["secret-password"]'}), "the secret s holds no JSON object"),
        ((200, {"SecretString": '{"user": "secret-password"}'}), 'the secret s has no text under "username"'),
        ((200, {"SecretString": '{"username": "u", "password": 5}'}), 'the secret s has no text under "password"'),
    ],
)
def test_a_secret_without_a_login_is_a_permanent_error(
    manager: SecretsManager, answer: tuple[int, dict[str, Any]], expected: str
) -> None:
    manager.answer = answer
    with pytest.raises(PermanentError) as refused:
        login_of("s")
    assert expected in str(refused.value)
    assert "secret-password" not in str(refused.value)


def test_a_secrets_manager_that_does_not_answer_may_answer_later(
    manager: SecretsManager, monkeypatch: pytest.MonkeyPatch
) -> None:
    manager.answer = (500, {"__type": "InternalServiceError"})
    with pytest.raises(RetryableError, match="the secret s cannot be read"):
        login_of("s")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    with pytest.raises(RetryableError, match="EndpointConnectionError"):
        login_of("s")


def test_without_credentials_a_secret_says_where_they_are_expected(
    manager: SecretsManager, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    with pytest.raises(PermanentError, match="where boto3 looks for them"):
        login_of("s")
    assert manager.asked == []


# --- Tokens -----------------------------------------------------------------------------------------------------------


class Role:
    """A program that gives credentials as a role does: some more seconds of life each time that it is asked."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._given = folder / "given.json"
        self._asked = folder / "asked"
        program = folder / "role"
        program.write_text(f"#!/bin/sh\necho asked >> {self._asked}\nexec cat {self._given}\n")
        program.chmod(0o755)
        (folder / "config").write_text(f"[default]\ncredential_process = {program}\n")
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE"):
            monkeypatch.delenv(name, raising=False)
        for name, value in {**no_credentials(folder), "AWS_CONFIG_FILE": str(folder / "config")}.items():
            monkeypatch.setenv(name, value)
        monkeypatch.setattr(msk_token, "_renewing", [])

    @property
    def asked(self) -> int:
        return len(self._asked.read_text().splitlines()) if self._asked.exists() else 0

    def give(self, secs: float) -> float:
        """Returns until when they are good."""
        until_ts = float(int(time.time() + secs))
        stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(until_ts))
        given = {"Version": 1, "AccessKeyId": "A", "SecretAccessKey": "s", "SessionToken": "t", "Expiration": stamp}
        self._given.write_text(json.dumps(given))
        return until_ts


@pytest.fixture
def role(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Role:
    return Role(tmp_path, monkeypatch)


def test_a_token_ends_with_the_credentials_that_signed_it(role: Role) -> None:
    """Of a role that gives them for eleven minutes; tokens are otherwise good for fifteen."""
    until_ts = role.give(660)
    assert msk_token.new_token(CONFIG)[1] == until_ts
    role.give(3600)
    now_ts = time.time()
    assert now_ts + 890 < msk_token.new_token(CONFIG)[1] < now_ts + 910, "the credentials are renewed"


def test_a_role_is_asked_once_for_all_clients_until_its_credentials_end(role: Role) -> None:
    role.give(3600)
    for _ in range(3):
        msk_token.new_token(CONFIG)
    assert role.asked == 1


def test_credentials_that_cannot_be_had_just_now_may_be_had_later(role: Role) -> None:
    with pytest.raises(RetryableError, match=r"no token for Amazon MSK: .*Expected credentials where boto3 looks"):
        msk_token.new_token(CONFIG)
    role.give(3600)
    assert msk_token.new_token(CONFIG)[0]


def test_a_client_is_refused_until_it_has_another_token(role: Role) -> None:
    reports, refusal = Reports(), KafkaError(KafkaError._AUTHENTICATION)
    with pytest.raises(RetryableError):
        reports.token(CONFIG)
    reports.note(refusal)
    assert isinstance(reports.refusal(), RetryableError), "what says more than the client does"
    role.give(3600)
    assert reports.token(CONFIG)
    assert reports.refusal() is None
    reports.note(refusal)
    assert isinstance(reports.refusal(), PermanentError)


def test_settings_of_another_version_make_no_token() -> None:
    with pytest.raises(PermanentError, match=r"expected region=…; the job and its tasks are of two versions"):
        msk_token.new_token("scope=a")
