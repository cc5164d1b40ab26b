"""Brokers that are asked while they stop: whoever asks is told so, and is not ended by Kafka's client.

A broker that is about to stop answers that it knows of no broker. librdkafka aborts the whole process at some of these
answers, so each that asks here has a process of its own.
"""

import signal
import subprocess
import sys
from pathlib import Path

from infra.local.kafka.cluster import KafkaCluster
from infra.local.processes.checkout import CHECKOUT
from tests.kafka.topics import WAIT_SECS, create_topic, produce

STOPS = 4
TOLD = 9
"""The exit code of who was told."""
ASKING = """
import sys, time
from blizzard.config.kafka_options import KafkaOptions
from blizzard.errors import RetryableError
from blizzard.kafka.client import KafkaBrokers

servers, field, named, patient = sys.argv[1:]
options = {"bootstrap_servers": servers, field: [named] if field == "topics" else named}
brokers = KafkaBrokers(KafkaOptions.model_validate(options), timeout_secs=5)


def ask():
    partitions = brokers.cluster().partitions()
    brokers.first_offsets(partitions)
    brokers.high_watermarks(partitions)
    return brokers.ends(partitions)


expected = ask()
print("asking", flush=True)
try:
    while True:
        ask()
except RetryableError as error:
    print(error, flush=True)
while patient == "patient":
    try:
        if ask().keys() == expected.keys():
            break
    except RetryableError:
        time.sleep(0.1)
sys.exit(9)
"""


def asking(cluster: KafkaCluster, *words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", ASKING, cluster.bootstrap_servers, *words],
        cwd=CHECKOUT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def end(process: subprocess.Popen[str]) -> str:
    """How it has ended, and what it has said."""
    said = process.communicate(timeout=WAIT_SECS)[0]
    code = process.returncode
    return "told" if code == TOLD else f"{signal.Signals(-code).name if code < 0 else code}: {said}"


def test_nobody_who_asks_a_broker_that_stops_is_ended_by_it(tmp_path: Path) -> None:
    with KafkaCluster(tmp_path / "brokers") as cluster:
        create_topic(cluster.client_settings(), "t", 2)
        produce(cluster.client_settings(), "t", [b"a"])
        for _ in range(STOPS):
            once = [asking(cluster, "topics", "t", "once") for _ in range(2)]
            once += [asking(cluster, "topic_pattern", "t.*", "once") for _ in range(2)]
            patient = [asking(cluster, *words, "patient") for words in (("topics", "t"), ("topic_pattern", "t.*"))]
            try:
                for process in (*once, *patient):
                    assert process.stdout is not None
                    assert process.stdout.readline() == "asking\n"
                cluster.stop(1)
                assert [end(process) for process in once] == ["told"] * len(once)
                cluster.start(1)
                assert [end(process) for process in patient] == ["told"] * len(patient)
            finally:
                for process in (*once, *patient):
                    process.kill()
                    process.wait()
