"""Brokers that die and come back."""

import threading
from pathlib import Path

from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from blizzard.kafka.connect import REFRESH_MS, Reports, client_settings
from infra.local.kafka.cluster import KafkaCluster
from tests.kafka.topic_lake import TopicLake
from tests.kafka.topics import WAIT_SECS, Message, create_topic, leaders, produce, until

PATIENT = "format: envelope\n                    retries: {max_attempts: 30, max_backoff_secs: 1}"
PARTITIONS, EACH = 4, 500


def lake_of(folder: Path, cluster: KafkaCluster) -> TopicLake:
    create_topic(cluster.client_settings(), "t", PARTITIONS)
    return TopicLake(folder, cluster, "t")


def fill(lake: TopicLake, *, first: int = 0) -> None:
    lake.produce(*[Message(b"%d" % (first + n), partition=p) for p in range(PARTITIONS) for n in range(EACH)])


def expected(each: int) -> list[tuple[int, int]]:
    return [(partition, offset) for partition in range(PARTITIONS) for offset in range(each)]


def test_the_leader_of_a_partition_dies_while_it_is_read(tmp_path: Path) -> None:
    with KafkaCluster(tmp_path / "brokers", brokers=3) as cluster:
        lake = lake_of(tmp_path, cluster)
        fill(lake)
        lake.run(source=PATIENT)
        fill(lake, first=EACH)
        killed: list[int] = []

        def kill_a_leader(event: str) -> None:
            if event == "ranges_planned" and not killed:
                killed.append(leaders(lake.settings, "t")[0])
                cluster.kill(killed[0])

        lake.on_event = kill_a_leader
        lake.run(source=PATIENT)
        assert killed
        assert lake.places() == expected(2 * EACH)
        cluster.start(killed[0])
        fill(lake, first=2 * EACH)
        lake.run(source=PATIENT)
        assert lake.places() == expected(3 * EACH)
        lake.close()


def test_a_client_that_knows_the_leader_of_before_soon_asks_the_new_one(tmp_path: Path) -> None:
    """The one of before is there again, and refuses to answer for a partition that it does not lead."""
    with KafkaCluster(tmp_path / "brokers", brokers=3) as cluster:
        settings = cluster.client_settings()
        create_topic(settings, "t")
        produce(settings, "t", [b"a"] * 3)
        client = AdminClient(client_settings(settings, Reports()))
        assert end_by(client) == 3
        before = leaders(settings, "t")[0]
        cluster.stop(before)
        until(lambda: leaders(settings, "t").get(0, before) != before, "another leader")
        cluster.start(before)
        until(lambda: end_by(client) == 3, "an answer of the new leader", 5 * REFRESH_MS / 1000)


def end_by(client: AdminClient) -> int | None:
    """Of the first partition, by this client, which is asked for nothing else. None: it has no answer."""
    asked = TopicPartition("t", 0)
    try:
        offset: int = client.list_offsets({asked: OffsetSpec.latest()})[asked].result(WAIT_SECS).offset  # type: ignore[no-untyped-call]
    except KafkaException:
        return None
    return offset


def test_a_broker_that_is_gone_for_a_while_is_waited_for(tmp_path: Path) -> None:
    with KafkaCluster(tmp_path / "brokers") as cluster:
        lake = lake_of(tmp_path, cluster)
        fill(lake)
        lake.run(source=PATIENT)
        fill(lake, first=EACH)
        again: list[threading.Thread] = []

        def restart(event: str) -> None:
            if event == "ranges_planned" and not again:
                cluster.kill(1)
                again.append(threading.Thread(target=cluster.start, args=[1]))
                again[0].start()

        lake.on_event = restart
        lake.run(source=PATIENT)
        again[0].join()
        assert lake.places() == expected(2 * EACH)
        lake.close()
