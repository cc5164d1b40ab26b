"""`blizzard status` of a source that reads topics."""

import json
import re
import time
from pathlib import Path
from typing import Any, ClassVar

import pytest
from confluent_kafka.admin import AdminClient

from blizzard.cli import main
from tests.kafka.topic_lake import NewLake, TopicLake
from tests.kafka.topics import (
    Message,
    create_topic,
    delete_topic,
    end_offset,
    open_transaction,
    produce_in_transaction,
    until,
)


def status(
    lake: TopicLake, tmp_path: Path, capsys: pytest.CaptureFixture[str], expected: int = 0, kafka: str = ""
) -> dict[str, Any]:
    capsys.readouterr()
    assert main(["status", "--json", str(configuration(lake, tmp_path, kafka))]) == expected
    [found] = json.loads(capsys.readouterr().out)
    return dict(found)


def text(lake: TopicLake, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> str:
    capsys.readouterr()
    assert main(["status", str(configuration(lake, tmp_path))]) == 0
    return " ".join(capsys.readouterr().out.split())


def configuration(lake: TopicLake, tmp_path: Path, kafka: str = "") -> Path:
    file = tmp_path / "pipelines.yaml"
    file.write_text(lake.configuration("format: envelope", kafka))
    return file


def test_it_says_how_far_each_partition_is_behind(
    new_lake: NewLake, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lake = new_lake(partitions=2)
    ago_ms = round(1000 * (time.time() - 3600))
    lake.produce(Message(b"a"), Message(b"b", partition=1))
    lake.run()
    lake.produce(Message(b"c", timestamp_ms=ago_ms), Message(b"d"))
    found = status(lake, tmp_path, capsys)
    assert found["lag"] == 2
    assert 3600 <= found["lag_secs"] < 3700
    shown = [(one["partition"], one["next_offset"], one["end_offset"], one["lag"]) for one in found["partitions"]]
    assert shown == [(0, 1, 3, 2), (1, 1, 1, 0)]
    assert found["partitions"][1]["lag_secs"] == 0
    assert (found["kind"], found["sequence"], found["problem"]) == ("topics", 1, None)
    assert main(["status", str(configuration(lake, tmp_path))]) == 0
    text = capsys.readouterr().out
    assert "2 messages, the first for 3,6" in text
    assert "2 of 3 messages wait" in text


class CountedClient(AdminClient):
    """Notes what it is asked."""

    asked: ClassVar[list[str]] = []

    def describe_cluster(self, **more: Any) -> Any:
        self.asked.append("cluster")
        return super().describe_cluster(**more)

    def describe_topics(self, *given: Any, **more: Any) -> Any:
        self.asked.append("topics")
        return super().describe_topics(*given, **more)

    def list_offsets(self, *given: Any, **more: Any) -> Any:
        self.asked.append(f"offsets {more['isolation_level'].name}")
        return super().list_offsets(*given, **more)


def test_the_brokers_are_asked_for_each_thing_once(
    new_lake: NewLake, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """For the ends by committed messages and by all, and for the first messages."""
    lake = new_lake(partitions=2)
    lake.produce(b"a")
    lake.run()
    lake.produce(b"b", Message(b"c", partition=1))
    monkeypatch.setattr("blizzard.kafka.client.AdminClient", CountedClient)
    CountedClient.asked.clear()
    assert status(lake, tmp_path, capsys)["lag"] == 2
    committed = "offsets READ_COMMITTED"
    assert CountedClient.asked == ["topics", "offsets READ_UNCOMMITTED", committed, committed]


def test_before_the_first_run_everything_waits(
    new_lake: NewLake, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lake = new_lake()
    lake.produce(b"a", b"b")
    found = status(lake, tmp_path, capsys)
    assert (found["sequence"], found["lag"]) == (None, 2)


def test_offsets_without_messages_are_a_lag_without_a_time(
    new_lake: NewLake, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lake = new_lake(partitions=2)
    lake.produce(b"a")
    lake.run()
    produce_in_transaction(lake.settings, lake.topic, [b"no"], commit=False)
    until(lambda: end_offset(lake.settings, lake.topic) == 3, "the end of the transaction")
    found = status(lake, tmp_path, capsys)
    assert (found["lag"], found["partitions"][0]["lag_secs"], found["lag_secs"]) == (2, None, None)
    shown = text(lake, tmp_path, capsys)
    assert "2 messages; it is not known since when those of 1 partitions wait" in shown
    lake.produce(Message(b"a", partition=1))
    found = status(lake, tmp_path, capsys)
    assert (found["lag"], found["partitions"][1]["lag_secs"] < 60, found["lag_secs"]) == (3, True, None)
    shown = text(lake, tmp_path, capsys)
    assert re.search(
        "3 messages, the first for [0-9]+ seconds; it is not known since when those of 1 partitions", shown
    )
    lake.run()
    found = status(lake, tmp_path, capsys)
    assert (found["lag"], found["lag_secs"]) == (0, 0.0)


def test_an_open_transaction_is_told_of_and_is_no_lag(
    new_lake: NewLake, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lake, ago_ms = new_lake(partitions=2), round(1000 * (time.time() - 600))
    lake.produce(b"a")
    lake.run()
    with open_transaction(lake.settings, lake.topic, [Message(b"open", timestamp_ms=ago_ms)]):
        lake.produce(b"behind it", Message(b"in another partition", partition=1))
        found = status(lake, tmp_path, capsys)
        assert [(one["lag"], one["held_back"]) for one in found["partitions"]] == [(0, 2), (1, 0)]
        assert 600 <= found["partitions"][0]["held_back_secs"] < 700
        assert (found["partitions"][1]["held_back_secs"], found["lag"], found["problem"]) == (0, 1, None)
        assert main(["status", str(configuration(lake, tmp_path))]) == 0
        shown = " ".join(capsys.readouterr().out.split())
        assert "held back 2 offsets of 1 partitions behind open transactions, for 6" in shown
        found = status(lake, tmp_path, capsys, kafka="isolation: read_uncommitted")
        assert [(one["lag"], one["held_back"]) for one in found["partitions"]] == [(2, 0), (1, 0)]
    until(lambda: end_offset(lake.settings, lake.topic) == 4, "the end of the transaction")
    found = status(lake, tmp_path, capsys)
    assert [(one["lag"], one["held_back"]) for one in found["partitions"]] == [(3, 0), (1, 0)]


def test_a_topic_that_is_gone_is_shown_as_gone_and_is_no_lag(
    new_lake: NewLake, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lake = new_lake(partitions=3)
    other, pattern = f"{lake.topic}.other", f"topic_pattern: '{lake.topic}.*'"
    create_topic(lake.settings, other)
    lake.produce(b"a")
    lake.run(kafka=pattern)
    assert status(lake, tmp_path, capsys, kafka=pattern)["gone"] == []
    lake.produce(b"b")
    found = status(lake, tmp_path, capsys, kafka=f"topics: [{other}]")
    assert (found["gone"], found["lag"]) == ([{"topic": lake.topic, "partitions": 3, "is_named": False}], 0)
    delete_topic(lake.settings, lake.topic)
    found = status(lake, tmp_path, capsys, 1, kafka=pattern)
    assert found["gone"] == [{"topic": lake.topic, "partitions": 3, "is_named": True}]
    assert (found["lag"], [one["topic"] for one in found["partitions"]]) == (0, [other])
    assert f"topic {lake.topic}, which was read, is not on" in found["problem"]
    excluded = f"topic_pattern: '(?!{lake.topic}$){lake.topic}.*'"
    assert status(lake, tmp_path, capsys, kafka=excluded)["problem"] is None
    assert main(["status", str(configuration(lake, tmp_path, pattern))]) == 1
    shown = " ".join(capsys.readouterr().out.split())
    assert f"not read on {lake.topic}, of which 3 partitions were read: the brokers do not have it" in shown


def test_a_topic_that_was_made_again_is_a_problem_and_has_no_lag(
    new_lake: NewLake, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lake = new_lake()
    lake.produce(*[b"a"] * 5)
    lake.run()
    delete_topic(lake.settings, lake.topic)
    create_topic(lake.settings, lake.topic)
    lake.produce(b"b")
    found = status(lake, tmp_path, capsys, 1)
    assert "was deleted and made again" in found["problem"]
    assert (found["partitions"], found["lag"], found["lag_secs"], found["gone"]) == ([], None, None, [])


def test_brokers_that_do_not_answer_are_a_problem(
    new_lake: NewLake, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lake = new_lake()
    lake.produce(b"a")
    lake.run()
    lake.servers = "127.0.0.1:1"
    found = status(lake, tmp_path, capsys, expected=1)
    assert (found["lag"], found["sequence"]) == (None, 1)
    assert "127.0.0.1:1" in found["problem"]


def test_topics_that_are_not_there_are_a_problem_and_the_others_are_read_on(
    new_lake: NewLake, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lake = new_lake()
    lake.produce(b"a")
    lake.run()
    both = f"topics: [{lake.topic}, not-there]"
    lake.run(kafka=both)
    assert lake.named("topics_missing") == [{"event": "topics_missing", "source": "p:clicks", "topics": ["not-there"]}]
    lake.produce(b"b")
    lake.run(kafka=both)
    assert len(lake.rows()) == 2
    found = status(lake, tmp_path, capsys, expected=1, kafka=both)
    assert "there is no topic not-there on" in found["problem"]
    assert (found["lag"], [one["topic"] for one in found["partitions"]]) == (0, [lake.topic])


def test_a_pattern_that_matches_nothing_is_a_problem(
    new_lake: NewLake, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lake = new_lake()
    pattern = "topic_pattern: 'of-nobody-.*'"
    lake.run(kafka=pattern)
    assert [event["topics"] for event in lake.named("topics_missing")] == [["of-nobody-.*"]]
    assert "matches 'of-nobody-.*'" in status(lake, tmp_path, capsys, expected=1, kafka=pattern)["problem"]


def test_a_run_says_which_topics_its_pattern_has_lost(new_lake: NewLake) -> None:
    lake = new_lake(partitions=2)
    other, pattern = f"{lake.topic}.other", f"topic_pattern: '{lake.topic}.*'"
    create_topic(lake.settings, other)
    lake.produce(b"a")
    lake.run(kafka=pattern)
    lake.produce(b"b", Message(b"c", partition=1))
    event = {"event": "topics_gone", "source": "p:clicks", "topics": [lake.topic]}
    lake.run(kafka=f"topic_pattern: '{other}'")
    assert lake.named("topics_gone") == [{**event, "unread": {lake.topic: 2}}]
    delete_topic(lake.settings, lake.topic)
    lake.run(kafka=pattern)
    lake.run(kafka=f"topic_pattern: '{other}'")
    assert lake.named("topics_gone")[1:] == [{**event, "unread": {lake.topic: None}}] * 2
    lake.run(kafka=f"topics: [{other}]")
    assert len(lake.named("topics_gone")) == 3
    assert lake.places() == [(0, 0)]
