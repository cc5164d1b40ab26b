"""Logs that lose messages which were read, and get others with the same offsets."""

import json
import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from blizzard.cli import main
from blizzard.config.kafka_options import KafkaOptions
from blizzard.errors import RecoveryError, RetryableError
from blizzard.kafka.brokers import Place
from blizzard.kafka.client import KafkaBrokers
from blizzard.kafka.truncation import truncated
from infra.local.kafka.cluster import KafkaCluster
from infra.local.kafka.ports import free_ports
from tests.kafka.topic_lake import TopicLake
from tests.kafka.topics import Message, create_topic, forget_before, until

READ, NEW = 100, 150


class Cluster:
    """One broker, whose topics lose their logs."""

    def __init__(self, folder: Path, brokers: KafkaCluster) -> None:
        self._folder, self._brokers = folder, brokers
        self._lakes: list[TopicLake] = []

    def lake(self, topic: str, partitions: int = 1) -> TopicLake:
        create_topic(self._brokers.client_settings(), topic, partitions)
        self._lakes.append(TopicLake(self._folder / topic, self._brokers, topic))
        return self._lakes[-1]

    def restart(self, *lost: str) -> None:
        """Kills the broker, and starts it without these folders of partitions."""
        self._brokers.kill(1)
        for name in lost:
            shutil.rmtree(self._folder / "brokers" / "broker-1" / "data" / name)
        self._brokers.start(1)

    def close(self) -> None:
        for lake in self._lakes:
            lake.close()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("truncated")
    with KafkaCluster(folder / "brokers") as brokers:
        made = Cluster(folder, brokers)
        yield made
        made.close()


def brokers_of(lake: TopicLake) -> KafkaBrokers:
    return KafkaBrokers(KafkaOptions.model_validate({"bootstrap_servers": lake.servers, "topics": [lake.topic]}))


def epoch_of(lake: TopicLake, number: int = 0) -> int:
    epoch = brokers_of(lake).ends([(lake.topic, number)])[lake.topic, number].leader_epoch
    assert epoch is not None
    return epoch


def elected_since(lake: TopicLake, before: int) -> None:
    """A broker that has just started may know less of epochs than its clients."""

    def is_newer() -> bool:
        with suppress(RetryableError):
            return epoch_of(lake) > before
        return False

    until(is_newer, f"another epoch of {lake.topic}")


def commits(lake: TopicLake) -> int:
    return len([*(lake.table / "_delta_log").glob("*.json")])


def stops(lake: TopicLake) -> None:
    before = commits(lake)
    with pytest.raises(RecoveryError, match=rf"partition {lake.topic}/0 was truncated below offset {READ}, .*") as said:
        lake.run()
    assert "broker end offset is 0" in str(said.value)
    assert commits(lake) == before
    assert lake.places() == [(0, n) for n in range(READ)]


def test_a_lost_log_stops_the_source_also_when_it_is_longer_again(
    cluster: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    lake = cluster.lake("lost")
    lake.produce(*[b"old"] * READ)
    lake.run()
    before = epoch_of(lake)
    cluster.restart("lost-0")
    elected_since(lake, before)
    stops(lake)
    lake.produce(*[b"new"] * NEW)
    stops(lake)
    cluster.restart()
    elected_since(lake, before + 1)
    lake.produce(b"newer")
    stops(lake)
    assert main(["doctor", "--json", str(lake.config_file())]) == 1
    checks = {one["id"]: one for one in json.loads(capsys.readouterr().out)["checks"]}
    assert checks["topics.offsets"]["verdict"] == "problem"
    assert f"truncated below offset {READ}" in checks["topics.offsets"]["found"]
    assert main(["plan", "--json", str(lake.config_file())]) == 1
    assert f"truncated below offset {READ}" in capsys.readouterr().out


def test_a_restart_without_a_loss_stops_nothing(cluster: Cluster) -> None:
    lake = cluster.lake("restarted", partitions=3)
    lake.produce(*[b"a"] * READ, Message(b"b", partition=1))
    lake.run()
    before = epoch_of(lake)
    cluster.restart()
    elected_since(lake, before)
    lake.run()
    lake.produce(b"c", Message(b"d", partition=2))
    lake.run()
    assert lake.places() == [*((0, n) for n in range(READ + 1)), (1, 0), (2, 0)]


def test_a_source_without_epochs_goes_on(cluster: Cluster) -> None:
    lake = cluster.lake("of-a-version-before")
    lake.produce(b"a", b"b")
    lake.run()
    for file in (lake.table / "_delta_log").glob("*.json"):
        actions = [json.loads(line) for line in file.read_text().splitlines()]
        for action in actions:
            if (metadata := action.get("commitInfo", {}).get("userMetadata")) is not None:
                action["commitInfo"]["userMetadata"] = _without_epochs(metadata)
        file.write_text("\n".join(map(json.dumps, actions)))
    before = epoch_of(lake)
    cluster.restart()
    elected_since(lake, before)
    lake.produce(b"c")
    lake.run()
    assert lake.places() == [(0, 0), (0, 1), (0, 2)]


def _without_epochs(metadata: str) -> str:
    checkpoint = json.loads(metadata)
    for topic in checkpoint["topics"].values():
        assert topic.pop("leader_epochs")
    return json.dumps(checkpoint)


def test_messages_that_retention_took_are_no_truncation(cluster: Cluster) -> None:
    lake = cluster.lake("shortened", partitions=2)
    lake.produce(*[b"a"] * 10, *[Message(b"b", partition=1)] * 10)
    before = epoch_of(lake)
    cluster.restart()
    elected_since(lake, before)
    lake.produce(*[b"c"] * 5)
    forget_before(lake.settings, lake.topic, 0, 12)
    places = {(lake.topic, 0): Place(10, before), (lake.topic, 1): Place(10, before)}
    assert brokers_of(lake).truncated(places) == {}
    places = {(lake.topic, 0): Place(12, epoch_of(lake)), (lake.topic, 1): Place(11, before)}
    assert brokers_of(lake).truncated(places).keys() == {(lake.topic, 1)}


def test_a_leader_that_says_nothing_is_not_waited_for_without_end() -> None:
    settings = {"bootstrap.servers": f"127.0.0.1:{free_ports(1)[0]}"}
    with pytest.raises(RetryableError, match=r"the leader of t/0 has changed.* within 1 s .*; the client says: "):
        truncated(settings, {("t", 0): Place(5, 0), ("t", 1): Place(5, 0)}, quiet_secs=1)
