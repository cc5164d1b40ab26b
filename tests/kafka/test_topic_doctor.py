"""`blizzard doctor` of a source that reads topics."""

import json
import time
from pathlib import Path
from typing import Any

import pytest

from blizzard.cli import main
from blizzard.doctor import topics as checks
from tests.kafka.topic_lake import NewLake, TopicLake
from tests.kafka.topics import (
    Message,
    create_topic,
    delete_topic,
    end_offset,
    forget_before,
    open_transaction,
    produce_in_transaction,
    until,
)

Verdicts = dict[str, str]


class Doctor:
    """Of the source of a lake. `kafka`: further options of its block."""

    def __init__(self, lake: TopicLake, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.lake, self.file, self.capsys = lake, folder / "pipelines.yaml", capsys
        self.found: dict[str, Any] = {}

    def verdicts(self, kafka: str = "", source: str = "format: envelope") -> Verdicts:
        self.file.write_text(self.lake.configuration(source, kafka))
        self.capsys.readouterr()
        status = main(["doctor", "--json", str(self.file)])
        checked = json.loads(self.capsys.readouterr().out)["checks"]
        self.found = {one["id"]: one for one in checked if one["id"].startswith("topics.")}
        assert {*self.found} == {check.id for check in checks.CHECKS}
        assert status == any(one["verdict"] == "problem" for one in checked)
        return {name: one["verdict"] for name, one in self.found.items()}

    def wrong(self, **options: str) -> Verdicts:
        return {name: verdict for name, verdict in self.verdicts(**options).items() if verdict != "ok"}


def test_of_a_source_that_is_well_all_is_well(
    new_lake: NewLake, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lake = new_lake(partitions=2)
    doctor = Doctor(lake, tmp_path, capsys)
    lake.produce(b"a")
    assert doctor.wrong() == {"topics.state": "skipped", "topics.offsets": "skipped"}
    lake.run()
    assert doctor.wrong() == {}
    assert doctor.found["topics.topics"]["found"] == "1 topics with 2 partitions"


def test_messages_that_wait_for_long_are_named(
    new_lake: NewLake, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lake, ago_ms = new_lake(), round(1000 * (time.time() - 7300))
    doctor = Doctor(lake, tmp_path, capsys)
    lake.produce(Message(b"a", timestamp_ms=ago_ms))
    lake.run()
    assert doctor.wrong() == {}
    lake.produce(Message(b"b", timestamp_ms=ago_ms), b"c")
    assert doctor.wrong() == {"topics.lag": "warning"}
    assert doctor.found["topics.lag"]["found"] == "2 messages wait, the oldest for 2 hours"
    lake.produce(Message(b"d", timestamp_ms=ago_ms - 2 * 86_400_000))
    lake.run()
    lake.produce(Message(b"e", timestamp_ms=ago_ms - 2 * 86_400_000))
    assert doctor.wrong() == {"topics.lag": "problem"}


def test_offsets_without_a_message_wait_nobody_knows_since_when(
    new_lake: NewLake, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lake = new_lake(partitions=2)
    doctor = Doctor(lake, tmp_path, capsys)
    lake.produce(b"a")
    lake.run()
    produce_in_transaction(lake.settings, lake.topic, [b"no"], commit=False)
    until(lambda: end_offset(lake.settings, lake.topic) == 3, "the end of the transaction")
    unknown = f"; it is not known since when those of {lake.topic}/0 wait, which may be offsets without a message"
    assert doctor.wrong() == {}
    assert doctor.found["topics.lag"]["found"] == f"2 messages wait{unknown}"
    lake.produce(Message(b"b", partition=1, timestamp_ms=round(1000 * (time.time() - 7300))))
    assert doctor.wrong() == {"topics.lag": "warning"}
    assert doctor.found["topics.lag"]["found"] == f"3 messages wait, the oldest for 2 hours{unknown}"


def test_a_transaction_that_is_open_for_long_is_a_warning(
    new_lake: NewLake, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lake, ago_ms = new_lake(), round(1000 * (time.time() - 7300))
    doctor = Doctor(lake, tmp_path, capsys)
    lake.produce(b"a")
    lake.run()
    with open_transaction(lake.settings, lake.topic, [b"not for long"]):
        assert doctor.wrong() == {}
    lake.run()
    with open_transaction(lake.settings, lake.topic, [Message(b"open", timestamp_ms=ago_ms)]):
        assert doctor.wrong() == {"topics.lag": "warning"}
        said = doctor.found["topics.lag"]["found"]
        assert (
            said
            == f"1 offsets of {lake.topic}/0 are behind a transaction that is open for 2 hours, and no run reads them"
        )


def test_messages_that_are_gone_stop_the_source_or_not(
    new_lake: NewLake, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lake = new_lake()
    doctor = Doctor(lake, tmp_path, capsys)
    lake.produce(b"a")
    lake.run()
    lake.produce(b"b", b"c", b"d")
    forget_before(lake.settings, lake.topic, 0, 3)
    assert doctor.wrong() == {"topics.offsets": "problem"}
    assert doctor.wrong(kafka="on_lost_offsets: continue") == {"topics.offsets": "warning"}
    assert "2 offsets of" in doctor.found["topics.offsets"]["found"]
    lake.run(kafka="on_lost_offsets: continue")
    assert doctor.wrong() == {"topics.dead-letters": "warning"}


def test_a_topic_that_is_another_or_none_is_a_problem(
    new_lake: NewLake, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lake = new_lake()
    doctor = Doctor(lake, tmp_path, capsys)
    lake.produce(b"a")
    lake.run()
    other, either = new_lake(), f"topic_pattern: '{lake.topic}|OTHER'"
    either = either.replace("OTHER", other.topic)
    delete_topic(lake.settings, lake.topic)
    assert doctor.wrong(kafka=either)["topics.topics"] == "warning"
    assert f"{lake.topic}, which was read, is gone" in doctor.found["topics.topics"]["found"]
    skipped = {"topics.offsets": "skipped", "topics.lag": "skipped"}
    assert doctor.wrong() == {"topics.topics": "problem", **skipped}
    create_topic(lake.settings, lake.topic)
    assert doctor.wrong() == {"topics.topics": "problem", **skipped}
    assert "was deleted and made again" in doctor.found["topics.topics"]["found"]
    assert doctor.wrong(kafka='topic_pattern: "nothing.*"') == {"topics.topics": "problem", **skipped}


def test_brokers_that_do_not_answer_are_a_problem_beside_which_the_state_is_looked_at(
    new_lake: NewLake, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lake = new_lake()
    doctor = Doctor(lake, tmp_path, capsys)
    lake.produce(b"{torn")
    lake.run("format: ndjson\n                    schema: id STRING")
    lake.servers = "127.0.0.1:1"
    assert doctor.wrong() == {
        "topics.dead-letters": "warning",
        "topics.brokers": "problem",
        **dict.fromkeys(("topics.topics", "topics.offsets", "topics.lag"), "skipped"),
    }


def test_brokers_of_another_cluster_are_a_problem(
    new_lake: NewLake, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lake = new_lake()
    lake.produce(b"a")
    lake.run()
    for file in (lake.table / "_delta_log").glob("*.json"):
        file.write_text(file.read_text().replace('\\"cluster_id\\":\\"', '\\"cluster_id\\":\\"other'))
    doctor = Doctor(lake, tmp_path, capsys)
    assert doctor.verdicts()["topics.brokers"] == "problem"
    assert "cluster other" in doctor.found["topics.brokers"]["found"]


def test_a_torn_checkpoint_is_a_problem(new_lake: NewLake, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lake = new_lake()
    lake.produce(b"a")
    lake.run()
    for file in (lake.table / "_delta_log").glob("*.json"):
        file.write_text(file.read_text().replace('\\"cluster_id\\"', '\\"torn\\"'))
    assert Doctor(lake, tmp_path, capsys).verdicts()["topics.state"] == "problem"


def test_without_the_client_the_brokers_are_not_asked(
    new_lake: NewLake, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = new_lake()
    lake.produce(b"a")
    lake.run()
    monkeypatch.setitem(__import__("sys").modules, "confluent_kafka", None)
    doctor = Doctor(lake, tmp_path, capsys)
    assert doctor.wrong() == {
        "topics.client": "problem",
        **dict.fromkeys(("topics.brokers", "topics.topics", "topics.offsets", "topics.lag"), "skipped"),
    }
