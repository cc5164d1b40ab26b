"""Addresses at which no broker answers: what is said about them, how soon, and for how long a run goes on to try."""

import socket
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from confluent_kafka import KafkaError

from blizzard.cli import main
from blizzard.config.kafka_options import KafkaOptions
from blizzard.errors import NeverAnswered, PermanentError, RetryableError
from blizzard.kafka.client import DOWN_SECS, KafkaBrokers
from blizzard.kafka.connect import Reports
from blizzard.kafka.errors import read_error
from infra.local.kafka.cluster import KafkaCluster
from infra.local.kafka.errors import KafkaFailed
from infra.local.kafka.ports import free_ports
from infra.local.processes.child_process import ChildProcess
from tests.kafka.topic_lake import TopicLake
from tests.kafka.topics import create_topic, until

SOON_SECS = 3 * DOWN_SECS
"""Of a machine with other work, too."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaCluster]:
    with KafkaCluster(tmp_path_factory.mktemp("unreachable") / "brokers") as brokers:
        yield brokers


@pytest.fixture
def down(cluster: KafkaCluster) -> Iterator[Callable[[int], None]]:
    """`down(1)` kills the broker; if the test has not started it again, this does."""
    yield cluster.kill
    with suppress(KafkaFailed):  # it runs already
        cluster.start(1)


@pytest.fixture
def lake(tmp_path: Path, cluster: KafkaCluster) -> Iterator[TopicLake]:
    """A topic of its own, at an address where nobody is."""
    made = TopicLake(tmp_path, cluster, tmp_path.name)
    made.servers = f"127.0.0.1:{free_ports(1)[0]}"
    yield made
    made.close()


def options(servers: str) -> KafkaOptions:
    return KafkaOptions.model_validate({"bootstrap_servers": servers, "topics": ["t"]})


def is_clear(said: str, servers: str) -> bool:
    return (
        f"(bootstrap_servers: {servers}) no broker has answered, tried for 5 s: {servers}: Connect to " in said
        and "Connection refused" in said
        and "Expected a Kafka broker there with a listener for PLAINTEXT. Start it, or correct `kafka.boot" in said
        and "/bootstrap" not in said
    )


@pytest.mark.parametrize("command", [["status"], ["plan"], ["doctor"], ["validate", "--against-table"]])
def test_each_command_says_soon_that_nobody_is_there(
    lake: TopicLake, capsys: pytest.CaptureFixture[str], command: list[str]
) -> None:
    begun = time.monotonic()
    assert main([*command, str(lake.config_file())]) == 1
    assert time.monotonic() - begun < SOON_SECS
    said = capsys.readouterr()
    assert is_clear(" ".join((said.out + said.err).split()), lake.servers)


def test_a_run_that_ends_says_it_soon_and_gives_up_after_half_of_its_attempts(lake: TopicLake) -> None:
    begun = time.monotonic()
    with pytest.raises(NeverAnswered) as given_up:
        lake.run(source="format: envelope\n                    retries: {max_attempts: 4, max_backoff_secs: 1}")
    assert time.monotonic() - begun < 2 * SOON_SECS
    (said,) = lake.named("retrying")
    assert is_clear(str(said["error"]), lake.servers)
    assert is_clear(str(given_up.value), lake.servers)


def test_a_job_that_ends_fails_with_1_and_one_that_goes_on_tries_until_somebody_is_there(
    lake: TopicLake, cluster: KafkaCluster, down: Callable[[int], None], tmp_path: Path
) -> None:
    create_topic(cluster.client_settings(), lake.topic)
    lake.produce(b"a")
    lake.servers = cluster.bootstrap_servers
    source = """format: envelope
                    retries: {max_attempts: 5, max_backoff_secs: 1}
                    checkpoint: {interval_secs: 1}"""
    words = ["spark_job", "--engine", "local", "--config", str(lake.config_file(source))]
    down(1)
    with ChildProcess([*words, "--once"], {}, tmp_path / "once.log") as job:
        until(lambda: job.exit_status is not None, "the end of a job")
        assert job.exit_status == 1
    assert not lake.table.exists()
    with ChildProcess(words, {}, tmp_path / "on.log") as job:
        until(lambda: '"attempt": 3' in (tmp_path / "on.log").read_text(), "an attempt more than a run that ends has")
        cluster.start(1)
        until(lambda: '"rows": 1' in (tmp_path / "on.log").read_text(), "a commit", secs=120)
    assert lake.places() == [(0, 0)]


def test_a_broker_that_starts_meanwhile_is_waited_for(
    lake: TopicLake, cluster: KafkaCluster, down: Callable[[int], None]
) -> None:
    create_topic(cluster.client_settings(), lake.topic)
    lake.produce(b"a")
    lake.servers = cluster.bootstrap_servers
    down(1)
    tried: list[str] = []

    def start(event: str) -> None:
        tried.append(event)
        if tried == ["retrying"]:
            cluster.start(1)

    lake.on_event = start
    lake.run()
    assert tried[0] == "retrying"
    assert lake.places() == [(0, 0)]


def test_a_broker_that_has_answered_has_the_whole_time_to_come_back(
    cluster: KafkaCluster, down: Callable[[int], None]
) -> None:
    brokers = KafkaBrokers(options(cluster.bootstrap_servers), timeout_secs=DOWN_SECS + 3)
    brokers.cluster()
    down(1)
    for question in range(3):  # from the second on of a new client; the first may be told at once that it was cut off
        begun = time.monotonic()
        with pytest.raises(RetryableError) as failed:
            brokers.cluster()
        assert not isinstance(failed.value, NeverAnswered)
        assert question == 0 or time.monotonic() - begun > DOWN_SECS + 2
    cluster.start(1)
    brokers.cluster()


def test_a_name_that_is_not_known_is_said_soon(lake: TopicLake, capsys: pytest.CaptureFixture[str]) -> None:
    """A label of a name has 63 characters at most, so that nobody needs to be asked for this one."""
    lake.servers = f"{'a' * 64}.example:9092"
    begun = time.monotonic()
    with pytest.raises(NeverAnswered) as failed:
        lake.run(source="format: envelope\n                    retries: {max_attempts: 1}")
    assert time.monotonic() - begun < SOON_SECS
    for text in (
        "no broker has answered, tried for 5 s",
        f"Failed to resolve '{lake.servers}'",
        "Start it, or correct",
    ):
        assert text in str(failed.value)
    assert main(["status", str(lake.config_file())]) == 1
    assert "Failed to resolve" in " ".join(capsys.readouterr().out.split())


def test_a_listener_that_says_nothing_has_the_whole_time() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        servers = f"127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(NeverAnswered, match="no broker has answered, tried for 7 s"):
            KafkaBrokers(options(servers), timeout_secs=7).cluster()


def test_a_login_in_the_middle_of_which_a_broker_goes_down_is_not_refused() -> None:
    """As the client has said of brokers that were killed again and again."""
    lost = (
        "SASL PLAIN mechanism handshake failed: Local: Broker transport failure: broker's supported mechanisms: (n/a)"
    )
    assert isinstance(read_error(KafkaError(KafkaError._AUTHENTICATION, lost)), RetryableError)
    reports = Reports()
    reports.note(KafkaError(KafkaError._AUTHENTICATION, lost))
    assert reports.refusal() is None
    refused = "SASL authentication error: Authentication failed: Invalid username or password"
    reports.note(KafkaError(KafkaError._AUTHENTICATION, refused))
    assert isinstance(reports.refusal(), PermanentError)


def test_an_address_that_the_brokers_have_told_is_named_as_one() -> None:
    told = KafkaError(KafkaError._RESOLVE, "inside:9092/1: Failed to resolve 'inside:9092'")
    assert "one that the brokers have told (`advertised.listeners`)" in str(read_error(told))
    own = KafkaError(KafkaError._RESOLVE, "outside:9092/bootstrap: Failed to resolve 'outside:9092'")
    assert "advertised" not in str(read_error(own))
