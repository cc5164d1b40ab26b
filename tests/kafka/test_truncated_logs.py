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
from tests.kafka.test_topic_audit import audit
from tests.kafka.test_topic_replay import LENIENT, Replay, fates, ids, open_letters, replay
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
    assert main(["status", "--json", str(lake.config_file())]) == 1
    [found] = json.loads(capsys.readouterr().out)
    assert f"truncated below offset {READ}" in found["problem"]
    assert (found["partitions"], found["lag"]) == ([], None)
    lake.source = "anew"
    with pytest.raises(RecoveryError, match=r"by source p:clicks.*as after a log that was truncated: .*take_over: n"):
        lake.run()
    lake.run(kafka="take_over: nothing")
    assert [offset for _, offset in lake.places()] == sorted([*range(READ), *range(NEW + 1)])


def test_other_messages_are_not_taken_for_those_that_were_lost(
    cluster: Cluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Neither by an audit, nor by a replay or a replace."""
    lake = cluster.lake("other-messages", partitions=2)
    lake.produce(b"broken", *[b'{"id": 1}'] * 4, Message(b"broken", partition=1))
    lake.run(LENIENT)
    before, version = epoch_of(lake), commits(lake)
    cluster.restart("other-messages-0")
    elected_since(lake, before)
    for count in (3, 10):  # at first the log is shorter than it was
        lake.produce(*[b'{"id": 2}'] * count)
        found = audit(lake, capsys, LENIENT)
        assert [notice["kind"] for notice in found["notices"]] == ["log_truncated"]
        assert "other-messages/0 was truncated below offset 5" in found["notices"][0]["text"]
        assert (found["verdict"], [one["partition"] for one in found["partitions"]]) == ("notes", [1])
        assert (found["committed"], found["dead_lettered"]) == (0, 1)
    found = replay(lake, capsys, code=1)
    assert fates(found) == [("0", "held", 1, 0), ("1", "refused", 1, 0)]
    assert "other-messages/0 was truncated below offset 5" in found["files"][0]["reason"]
    file = str(lake.config_file(LENIENT, pipeline="engine: auto"))
    assert main(["replace", "--path", "other-messages/0", file]) == 2
    assert "its log was truncated" in capsys.readouterr().err
    assert commits(lake) == version
    assert open_letters(lake, capsys) == 2
    repaired = tmp_path / "repaired.ndjson"
    repaired.write_text(json.dumps({"path": "other-messages/0", "row": 0, "record": {"id": 7}}))
    assert fates(replay(lake, capsys, "--records", str(repaired))) == [("0", "done", 1, 1)]
    assert ids(lake) == [(0, 0, 7), *((0, n, 1) for n in range(1, 5))]


def test_a_log_that_is_truncated_while_a_replay_reads_brings_no_row(cluster: Cluster) -> None:
    lake = cluster.lake("truncated-meanwhile")
    lake.produce(b"broken", b'{"id": 1}')
    lake.run(LENIENT)
    before = epoch_of(lake)

    def lose(event: str) -> None:
        if event == "replay_planned":
            cluster.restart("truncated-meanwhile-0")
            elected_since(lake, before)
            lake.produce(*[b'{"id": 2}'] * 3)

    one = Replay(lake, lose)
    with pytest.raises(RecoveryError, match="truncated-meanwhile/0 was truncated below offset 2"):
        one.run()
    assert "batch_read" not in one.events
    assert ids(lake) == [(0, 1, 1)]


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
