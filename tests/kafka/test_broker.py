"""The brokers of the tests are real: they keep what they acknowledged, and refuse whom they do not know."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from infra.local.kafka.cluster import KafkaCluster
from infra.local.kafka.errors import KafkaFailed
from infra.local.kafka.security import Security
from infra.local.processes.checkout import CHECKOUT
from tests.fixtures_kafka import NewTopic
from tests.kafka.secured import security_of
from tests.kafka.topics import (
    Message,
    consume,
    create_topic,
    delete_topic,
    end_offset,
    leaders,
    produce,
    produce_in_transaction,
    until,
)


def test_what_was_produced_is_consumed_as_it_was(kafka: KafkaCluster, new_topic: NewTopic) -> None:
    topic = new_topic(partitions=2)
    sent = [
        Message(b"one", b"key", 0, [("trace", b"\x00\xff"), ("none", None)], timestamp_ms=1_700_000_000_123),
        Message(None, b"key", 1),
        Message(b"", None, 1),
    ]
    settings = kafka.client_settings()
    assert produce(settings, topic, sent) == [(0, 0), (1, 0), (1, 1)]
    found = {(m.partition(), m.offset()): m for m in consume(settings, topic, [0, 1])}
    assert {place: (m.key(), m.value()) for place, m in found.items()} == {
        (0, 0): (b"key", b"one"),
        (1, 0): (b"key", None),
        (1, 1): (None, b""),
    }
    assert found[0, 0].headers() == [("trace", b"\x00\xff"), ("none", None)]
    assert found[0, 0].timestamp()[1] == 1_700_000_000_123


def test_brokers_use_the_archive_of_classes(kafka: KafkaCluster) -> None:
    mapped = [Path(f"/proc/{pid}/maps").read_text() for pid in running_below(kafka.log(1).parent)]
    assert any("/libjvm.so" in maps and "/kafka-classes.jsa" in maps for maps in mapped)


def test_a_topic_is_made_only_when_asked_for(kafka: KafkaCluster) -> None:
    with pytest.raises(KafkaException, match=r"_MSG_TIMED_OUT|_UNKNOWN_TOPIC"):
        produce(kafka.client_settings(), "nobody-made-it", [b"x"], message_timeout_ms=2000)
    assert "nobody-made-it" not in AdminClient(kafka.client_settings()).list_topics(timeout=10).topics


def test_a_topic_that_is_made_again_is_another_one(kafka: KafkaCluster, new_topic: NewTopic) -> None:
    settings, topic = kafka.client_settings(), new_topic()
    produce(settings, topic, [b"old"])
    delete_topic(settings, topic)
    create_topic(settings, topic)
    produce(settings, topic, [b"new"])
    assert [(m.offset(), m.value()) for m in consume(settings, topic)] == [(0, b"new")]


def test_who_reads_committed_does_not_see_an_aborted_transaction(kafka: KafkaCluster, new_topic: NewTopic) -> None:
    settings, topic = kafka.client_settings(), new_topic()
    assert produce(settings, topic, [b"before"]) == [(0, 0)]
    assert produce_in_transaction(settings, topic, [b"aborted", b"too"], commit=False) == [(0, 1), (0, 2)]
    assert produce_in_transaction(settings, topic, [b"committed"], commit=True) == [(0, 4)]
    assert [m.value() for m in consume(settings, topic)] == [b"before", b"committed"]
    dirty = consume(settings, topic, isolation="read_uncommitted")
    assert [m.value() for m in dirty] == [b"before", b"aborted", b"too", b"committed"]
    assert end_offset(settings, topic) == 6, "with a control record after each transaction"


def test_a_broker_that_was_killed_or_stopped_keeps_its_messages(tmp_path: Path) -> None:
    with KafkaCluster(tmp_path / "cluster") as cluster:
        settings, address = cluster.client_settings(), cluster.bootstrap_servers
        create_topic(settings, "kept")
        produce(settings, "kept", [b"first"])
        with pytest.raises(KafkaFailed, match="broker 1 runs already"):
            cluster.start(1)
        cluster.kill(1)
        assert running_below(tmp_path) == []
        cluster.start(1)
        produce(settings, "kept", [b"second"])
        cluster.stop(1)
        assert "shut down completed" in cluster.log(1).read_text()
        cluster.start(1)
        assert [(m.offset(), m.value()) for m in consume(settings, "kept")] == [(0, b"first"), (1, b"second")]
        assert cluster.bootstrap_servers == address


def test_three_brokers_survive_the_kill_of_one(tmp_path: Path) -> None:
    with KafkaCluster(tmp_path / "cluster", brokers=3) as cluster:
        settings = cluster.client_settings()
        create_topic(settings, "replicated", partitions=3)
        before = leaders(settings, "replicated")
        assert {*before.values()} == {*cluster.nodes} == {1, 2, 3}, "each leads one partition"
        messages = [Message(f"{number}".encode(), partition=number % 3) for number in range(30)]
        produce(settings, "replicated", messages)
        killed = before[0]
        cluster.kill(killed)
        produce(settings, "replicated", messages)
        assert killed not in leaders(settings, "replicated").values()
        assert len(consume(settings, "replicated", range(3))) == 60
        cluster.start(killed)
        assert len(AdminClient(settings).list_topics(timeout=10).brokers) == 3


@pytest.fixture(scope="module")
def secret(secured: KafkaCluster) -> None:
    create_topic(secured.client_settings(), "secret")


@pytest.mark.usefixtures("secret")
def test_the_right_password_is_accepted(secured: KafkaCluster) -> None:
    writer = secured.client_settings() | security_of(secured).client_settings("writer")
    produce(writer, "secret", [b"x"])
    assert [m.value() for m in consume(secured.client_settings(), "secret")] == [b"x"]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"sasl.password": "wrong"}, "_AUTHENTICATION"),
        ({"sasl.username": "nobody"}, "_AUTHENTICATION"),
        ({"ssl.ca.location": ""}, "_SSL"),
    ],
)
def test_others_are_refused(secured: KafkaCluster, change: dict[str, str], reason: str) -> None:
    errors: list[str] = []
    settings = {**secured.client_settings(), **change, "log_level": 0, "error_cb": lambda e: errors.append(e.name())}
    client = AdminClient(settings)

    def is_refused() -> bool:
        client.poll(0.1)
        return reason in errors

    until(is_refused, reason)
    with pytest.raises(KafkaException):
        client.list_topics(timeout=1)


@pytest.mark.usefixtures("secret")
def test_nobody_is_served_without_tls(secured: KafkaCluster) -> None:
    plain = {"bootstrap.servers": secured.bootstrap_servers, "log_level": 0}
    with pytest.raises(KafkaException):
        AdminClient(plain).list_topics(timeout=1)
    assert secured.client_settings()["security.protocol"] == "SASL_SSL"
    assert AdminClient(secured.client_settings()).list_topics(timeout=10).topics.keys() >= {"secret"}


def test_a_password_that_the_tool_would_misread_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"reader: expected letters, digits, _, \. and -"):
        Security.make(tmp_path, {"reader": "a,b"})


PROCESS = """
import sys, time
from pathlib import Path
from infra.local.kafka.cluster import KafkaCluster

with KafkaCluster(Path(sys.argv[1])) as cluster:
    print(cluster.bootstrap_servers, flush=True)
    time.sleep(600)
"""


def test_brokers_end_with_the_process_that_started_them(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", PROCESS, str(tmp_path / "cluster")], cwd=CHECKOUT, stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        address = process.stdout.readline().strip()
        pids = running_below(tmp_path)
        assert pids
    finally:
        process.send_signal(signal.SIGKILL)
        process.communicate()
    until(lambda: not running_below(tmp_path), f"the end of {pids} at {address}")


def running_below(folder: Path) -> list[int]:
    """The processes whose command line names the folder."""
    found = []
    for line in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if str(folder).encode() in line.read_bytes():
                found.append(int(line.parent.name))
        except OSError:
            continue
    return found


def test_a_broker_that_does_not_start_is_an_error_with_its_log(tmp_path: Path) -> None:
    wrong = KafkaCluster(tmp_path / "cluster", properties={"num.io.threads": "none"})
    with pytest.raises(KafkaFailed, match=r"(?s)broker 1 .*The end of its log.*num\.io\.threads"):
        wrong.__enter__()
