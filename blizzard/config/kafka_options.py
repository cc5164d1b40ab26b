"""The block `kafka` of a source: which topics it reads, from where, and how it reaches the brokers."""

import re
from datetime import datetime
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, Field, SecretStr, ValidationInfo, model_validator

from blizzard.config.certificates import certificates, file_name, with_certificates
from blizzard.config.secret_name import secret_name
from blizzard.config.section import Section
from blizzard.config.source_sections import PositiveSecs

EARLIEST, LATEST = "earliest", "latest"
NOTHING = "nothing"
INTERNAL_PREFIX = "__"
"""Of the names of topics that brokers and their tools keep for themselves, such as __consumer_offsets."""
OFFSETS_OF_GROUPS = "__consumer_offsets"
MAX_PORT = 65_535
_SERVER = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^\s:,/\[\]]+):[0-9]{1,5}\Z")
_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}\Z")
_REGION = re.compile(r"[a-z]{2,4}(-[a-z]+)+-[0-9]{1,2}\Z")
_BROKER_OF_MSK = re.compile(r"\.kafka(?:-serverless)?\.([a-z0-9-]+)\.amazonaws\.com(?:\.cn)?:[0-9]+\Z")
MSK_IAM = "AWS_MSK_IAM"


def _servers(text: str) -> str:
    servers = [server.strip() for server in text.split(",")]
    for server in servers:
        if not _SERVER.match(server) or not 0 < int(server.rpartition(":")[2]) <= MAX_PORT:
            raise ValueError(f"found {server!r:.100}, expected a host and its port, such as broker-1:9092")
    return ",".join(servers)


def _topic(name: str) -> str:
    if not _TOPIC.match(name) or name in (".", ".."):
        raise ValueError(
            f"found {name!r:.100}, expected the name of a topic: letters, digits, `.`, `_` and `-`, at most 249"
        )
    return name


def _topic_pattern(text: str) -> str:
    try:
        re.compile(text)
    except re.error as error:
        raise ValueError(f"found {text!r:.100}, which is no regular expression: {error}") from error
    return text


def _start(text: str) -> str:
    if text in (EARLIEST, LATEST):
        return text
    try:
        when = datetime.fromisoformat(text)
    except ValueError:
        when = None
    if when is None or when.tzinfo is None:
        raise ValueError(
            f"found {text!r:.60}, expected earliest, latest or a time with its zone, such as 2026-11-01T00:00:00Z"
        )
    return text


def _region(text: str) -> str:
    if not _REGION.match(text):
        raise ValueError(f"found {text!r:.60}, expected a region of AWS, such as eu-west-1")
    return text


class KafkaSecurity(Section):
    """How the connection to the brokers is protected."""

    protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"] = Field(
        default="SASL_SSL", description="The brokers' listener: with or without TLS (SSL), with or without a login."
    )
    mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "AWS_MSK_IAM"] | None = Field(
        default=None,
        description="How to log in. Needed with SASL_PLAINTEXT and SASL_SSL. AWS_MSK_IAM: at Amazon MSK, with the "
        "credentials of AWS that the job has.",
    )
    region: Annotated[str, AfterValidator(_region)] | None = Field(
        default=None,
        description="With AWS_MSK_IAM: the region of the brokers. Without it: the one in their host names, or else "
        "AWS_REGION or AWS_DEFAULT_REGION of the job.",
        examples=["eu-west-1"],
    )
    secret: Annotated[str, AfterValidator(secret_name)] | None = Field(
        default=None,
        description="Instead of username and password: a secret of AWS Secrets Manager, by its name or ARN, which "
        'holds the JSON {"username": …, "password": …}. The job reads it with its credentials of AWS.',
        examples=["AmazonMSK_reader"],
    )
    username: str | None = Field(default=None, description="The user that logs in.", examples=["${KAFKA_USER}"])
    password: SecretStr | None = Field(
        default=None,
        description="The user's password. Take it from a variable of the job's environment.",
        examples=["${KAFKA_PASSWORD}"],
    )
    ca_location: str | None = Field(
        default=None,
        description="A file with the certificates of the authorities that sign the brokers' certificates (PEM). It is "
        "read with the configuration. Without it: those of the system.",
        examples=["ca.pem"],
    )
    ca_pem: Annotated[str, AfterValidator(certificates)] | None = Field(
        default=None, description="The text of that file, instead of its path."
    )
    certificate_location: Annotated[str, AfterValidator(file_name)] | None = Field(
        default=None,
        description="With SSL, for brokers that want one: the file with the client's certificate (PEM). It has to be "
        "there wherever tasks run, and so has the next one.",
    )
    key_location: Annotated[str, AfterValidator(file_name)] | None = Field(
        default=None, description="The file with its private key (PEM)."
    )
    key_password: SecretStr | None = Field(default=None, description="The password of that file.")

    @model_validator(mode="before")
    @classmethod
    def _with_the_files_text(cls, value: Any, info: ValidationInfo) -> Any:
        return with_certificates(value, info)

    @model_validator(mode="after")
    def _complete(self) -> Self:
        if self.region is not None and self.mechanism != MSK_IAM:
            raise ValueError(f"region has no effect without `mechanism: {MSK_IAM}`; remove it")
        if self.mechanism == MSK_IAM:
            self._check_iam()
        else:
            self._check_login()
        if (self.certificate_location is None) != (self.key_location is None):
            raise ValueError("certificate_location and key_location go together; add the other one, or remove both")
        return self

    def _check_iam(self) -> None:
        if self.protocol != "SASL_SSL":
            raise ValueError(f"{MSK_IAM} needs `protocol: SASL_SSL`, found {self.protocol}; change it")
        for name in ("username", "password", "secret"):
            if getattr(self, name) is not None:
                raise ValueError(
                    f"{name} has no effect with {MSK_IAM}, which logs in with the job's credentials of AWS; remove it"
                )

    def _check_login(self) -> None:
        with_login = self.protocol.startswith("SASL")
        parts = ("secret",) if self.secret is not None else ("username", "password")
        for name in ("mechanism", *parts):
            if with_login and getattr(self, name) is None:
                raise ValueError(
                    f"{name} is missing; {self.protocol} logs in with mechanism, username and password, or with a "
                    f"secret that holds these two, or with `mechanism: {MSK_IAM}`"
                )
        for name in ("mechanism", "username", "password", "secret"):
            if not with_login and getattr(self, name) is not None:
                raise ValueError(f"{name} has no effect with {self.protocol}; remove it, or choose a SASL protocol")
        if self.secret is not None and (self.username is not None or self.password is not None):
            raise ValueError("secret takes the place of username and password; remove these, or remove secret")

    def client_settings(self) -> dict[str, str]:
        """For librdkafka, with the passwords that the configuration has."""
        password, key_password = (
            None if secret is None else secret.get_secret_value() for secret in (self.password, self.key_password)
        )
        found = {
            "security.protocol": self.protocol,
            "sasl.mechanisms": "OAUTHBEARER" if self.mechanism == MSK_IAM else self.mechanism,
            "sasl.username": self.username,
            "sasl.password": password,
            "ssl.ca.pem": self.ca_pem,
            "ssl.certificate.location": self.certificate_location,
            "ssl.key.location": self.key_location,
            "ssl.key.password": key_password,
        }
        return {name: value for name, value in found.items() if value is not None}


class KafkaOptions(Section):
    """The topics of a source, instead of a folder."""

    bootstrap_servers: Annotated[str, AfterValidator(_servers)] = Field(
        description="Some of the brokers, with commas between them. The others are found from these.",
        examples=["broker-1:9092,broker-2:9092"],
    )
    topics: Annotated[list[Annotated[str, AfterValidator(_topic)]], Field(min_length=1)] | None = Field(
        default=None, description="The topics. A source has either `topics` or `topic_pattern`.", examples=[["clicks"]]
    )
    topic_pattern: Annotated[str, AfterValidator(_topic_pattern)] | None = Field(
        default=None,
        description="A regular expression, which has to match the whole name of a topic. Topics that are made later "
        "are read from their beginning. No pattern matches a name that begins with `__`, as those of internal topics "
        "do.",
        examples=["clicks-.*"],
    )
    start: Annotated[str, AfterValidator(_start)] = Field(
        default=EARLIEST,
        description="Where the first run begins: earliest, latest, or the first messages with this time or a later "
        "one. It has no effect once the source has a state.",
        examples=["latest", "2026-11-01T00:00:00Z"],
    )
    isolation: Literal["read_committed", "read_uncommitted"] = Field(
        default="read_committed", description="Whether messages of transactions count only once they are committed."
    )
    security: KafkaSecurity = Field(
        default=KafkaSecurity(protocol="PLAINTEXT"),
        description="TLS and login of the connection to the brokers. Without the block there is neither.",
    )
    on_lost_offsets: Literal["stop", "continue"] = Field(
        default="stop",
        description="What to do when messages are gone before they were read. stop: the source fails, until somebody "
        "decides. continue: the gap is a dead letter, and reading goes on behind it.",
    )
    take_over: Annotated[str, Field(min_length=1)] | None = Field(
        default=None,
        description="The app id of kafka-delta-ingest, if it has filled the table with the source's only topic: the "
        "first run goes on behind its offsets. nothing: it begins at `start`, whatever that program, or a source that "
        "the pipeline does not have, has put into the table.",
    )
    run_interval_secs: PositiveSecs = Field(
        default=900,
        description="On AWS: a run starts so many seconds after the last one did, if none is active. What it finds, it "
        "reads to the end. Less means that messages wait for less time, and more starts of Spark to pay. `linger_secs` "
        "lets a run go on. `blizzard run` without `--once` asks the brokers all the time.",
    )
    publish_group: Annotated[str, Field(min_length=1)] | None = Field(
        default=None,
        description="A consumer group to which committed offsets are published, for monitors of its lag. Nothing is "
        "ever read from it.",
    )

    @model_validator(mode="after")
    def _one_way_to_name_topics(self) -> Self:
        if (self.topics is None) == (self.topic_pattern is None):
            raise ValueError("expected either topics or topic_pattern; add one, or remove one")
        if self.topics is not None and len({*self.topics}) < len(self.topics):
            raise ValueError("a topic is there twice in topics; remove one")
        if self.take_over not in (None, NOTHING) and len(self.topics or ()) != 1:
            raise ValueError("take_over is about one topic; name it alone in topics")
        if self.publish_group is not None and OFFSETS_OF_GROUPS in (self.topics or ()):
            raise ValueError(
                f"with publish_group each commit writes to {OFFSETS_OF_GROUPS}, which the source reads: it would never "
                "be done. Remove publish_group, or read that topic by another source"
            )
        return self

    @property
    def start_ts(self) -> float | None:
        """Unix seconds, 0 for a time before; None: `start` is no time."""
        return None if self.start in (EARLIEST, LATEST) else max(0.0, datetime.fromisoformat(self.start).timestamp())

    @property
    def app_id_to_take_over(self) -> str | None:
        return None if self.take_over == NOTHING else self.take_over

    @property
    def region_of_brokers(self) -> str | None:
        """The region of AWS in the host names of Amazon MSK's brokers; None: there is none, or not only one."""
        found = {match and match[1] for match in map(_BROKER_OF_MSK.search, self.bootstrap_servers.split(","))}
        return found.pop() if len(found) == 1 else None

    def matches(self, topic: str) -> bool:
        if self.topics is not None:
            return topic in self.topics
        is_internal = topic.startswith(INTERNAL_PREFIX)
        return not is_internal and re.fullmatch(self.topic_pattern or "", topic) is not None

    def client_settings(self) -> dict[str, str]:
        """For librdkafka's clients of any kind, with the passwords that the configuration has. What only the place
        of the job has, `blizzard.kafka.login` adds."""
        return {"bootstrap.servers": self.bootstrap_servers, **self.security.client_settings()}
