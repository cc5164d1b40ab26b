"""`blizzard plan` of a source that reads topics: what its next run then does, and without a side effect."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient

from blizzard.cli import main
from tests.kafka.test_topic_faults import add_partitions, forget_before
from tests.kafka.test_topic_takeover import filled_by_another
from tests.kafka.topic_lake import NewLake, TopicLake
from tests.kafka.topics import WAIT_SECS, Message, create_topic, delete_topic, produce_in_transaction

ENVELOPE = "format: envelope"
NDJSON = "format: ndjson\n                    schema: id BIGINT"
TENS = "\n                    checkpoint: {interval_records: 10}"
Capsys = pytest.CaptureFixture[str]


def plan(lake: TopicLake, capsys: Capsys, source: str = ENVELOPE, kafka: str = "", *, code: int = 0) -> dict[str, Any]:
    """Of the only source. What is shown to people is made as well."""
    file = lake.config_file(source, kafka)
    capsys.readouterr()
    assert main(["plan", "--json", str(file)]) == code
    [pipeline] = json.loads(capsys.readouterr().out)
    [found] = pipeline["sources"]
    assert main(["plan", str(file)]) == code
    assert f" reads       {found['lag']:,} offsets" in capsys.readouterr().out
    return {"minutes": pipeline["minutes"], "dollars": pipeline["dollars"], **found}


def places(found: dict[str, Any]) -> list[tuple[int, int, int, int]]:
    """Of each partition its number, and from where to where it would be read; and what is lost before."""
    return [(one["partition"], one["next_offset"], one["end_offset"], one["lost"]) for one in found["partitions"]]


def commits(lake: TopicLake) -> int:
    return len([*(lake.table / "_delta_log").glob("*.json")])


def test_a_new_source_is_planned_from_its_start_and_nothing_is_written(new_lake: NewLake, capsys: Capsys) -> None:
    lake = new_lake(partitions=2)
    old_ms = round(datetime(2026, 10, 31, tzinfo=UTC).timestamp() * 1000)
    lake.produce(Message(b"old", timestamp_ms=old_ms), Message(b"a"), Message(b"b", partition=1))
    found = plan(lake, capsys)
    assert (found["kind"], found["is_new"], found["lag"], found["messages_expected"]) == ("topics", True, 3, 3)
    assert (found["bytes_expected"], found["rows_expected"], found["expected_from_commits"]) == (None, None, 0)
    assert places(found) == [(0, 0, 2, 0), (1, 0, 1, 0)]
    assert found["minutes"] > 0
    assert plan(lake, capsys, kafka="start: latest")["lag"] == 0
    assert places(plan(lake, capsys, kafka="start: '2026-11-01T00:00:00Z'")) == [(0, 1, 2, 0), (1, 0, 1, 0)]
    assert not lake.table.exists()
    client = AdminClient(lake.settings)  # Kept while it answers: a client that is freed takes its questions with it.
    groups = client.list_consumer_groups().result(WAIT_SECS).valid
    assert [group.group_id for group in groups if group.group_id.startswith("blizzard")] == []


def test_a_run_has_the_commits_and_messages_that_were_planned(new_lake: NewLake, capsys: Capsys) -> None:
    lake = new_lake(partitions=3)
    lake.produce(*[Message(b'{"id": %d}' % n, partition=n % 2) for n in range(25)])
    found = plan(lake, capsys, NDJSON + TENS)
    assert found["commits"] == 4
    lake.run(source=NDJSON + TENS)
    assert commits(lake) == 4
    found = plan(lake, capsys, NDJSON + TENS)
    assert (found["is_new"], found["lag"], found["commits"], found["minutes"]) == (False, 0, 0, 0)
    lake.produce(*[Message(b'{"id": %d}' % n, partition=2) for n in range(21)])
    found = plan(lake, capsys, NDJSON + TENS)
    assert places(found) == [(0, 13, 13, 0), (1, 12, 12, 0), (2, 0, 21, 0)]
    lake.run(source=NDJSON + TENS)
    assert (found["commits"], commits(lake)) == (3, 7)


def test_rows_refused_messages_and_bytes_are_expected_as_the_newest_commits_had_them(
    new_lake: NewLake, capsys: Capsys
) -> None:
    lake = new_lake()
    four = [b'{"id": 1}', b'{"id": 2}', b'{"id": 3}', b"broken!!!"]
    lake.produce(*four)
    lake.run(source=NDJSON)
    lake.produce(*four, *four)
    found = plan(lake, capsys, NDJSON)
    expected = ("messages_expected", "bytes_expected", "rows_expected", "rejected_expected", "expected_from_commits")
    assert [found[name] for name in expected] == [8, 72, 6, 2, 1]
    limited = NDJSON + "\n                    checkpoint: {interval_bytes: 30B}"
    assert plan(lake, capsys, limited)["commits"] == 3
    before = commits(lake)
    lake.run(source=limited)
    assert (len(lake.rows()), commits(lake)) == (9, before + 3)


def test_offsets_without_messages_are_counted_as_receipts_had_them(new_lake: NewLake, capsys: Capsys) -> None:
    lake = new_lake()
    for _ in range(3):
        produce_in_transaction(lake.settings, lake.topic, [b"a", b"b"], commit=True)
    lake.run()
    for _ in range(4):
        produce_in_transaction(lake.settings, lake.topic, [b"a", b"b"], commit=True)
    found = plan(lake, capsys)
    assert (found["lag"], found["messages_expected"], found["rows_expected"]) == (12, 8, 8)


def test_what_retention_has_taken_is_named_and_would_stop_the_run(new_lake: NewLake, capsys: Capsys) -> None:
    lake = new_lake()
    lake.produce(b"0", b"1")
    lake.run()
    lake.produce(*[b"x"] * 4)
    forget_before(lake, 5)
    found = plan(lake, capsys, code=1)
    assert "offsets 2 to 4" in found["problem"]
    assert places(found) == [(0, 5, 6, 3)]
    found = plan(lake, capsys, kafka="on_lost_offsets: continue")
    assert (found["problem"], found["lag"], places(found)) == (None, 1, [(0, 5, 6, 3)])


def test_a_topic_that_was_made_again_would_stop_the_run(new_lake: NewLake, capsys: Capsys) -> None:
    lake = new_lake()
    lake.produce(b"old")
    lake.run()
    delete_topic(lake.settings, lake.topic)
    create_topic(lake.settings, lake.topic)
    assert "was deleted and made again" in plan(lake, capsys, code=1)["problem"]


def test_topics_that_are_not_there_are_named_as_a_run_names_them(new_lake: NewLake, capsys: Capsys) -> None:
    lake = new_lake()
    lake.produce(b"a")
    both = f"topics: [{lake.topic}, not-there]"
    assert main(["plan", str(lake.config_file(kafka=both))]) == 1  # a new source stops
    assert "there is no topic not-there on" in capsys.readouterr().out
    lake.run()
    lake.produce(b"b")
    found = plan(lake, capsys, kafka=both)
    assert (found["missing"], found["problem"], found["lag"]) == (["not-there"], None, 1)
    assert main(["plan", str(lake.config_file(kafka=both))]) == 0
    assert f"misses      there is no topic not-there on {lake.servers}" in capsys.readouterr().out
    assert plan(lake, capsys)["missing"] == []
    delete_topic(lake.settings, lake.topic)
    found = plan(lake, capsys)
    assert (found["missing"], found["problem"], found["lag"]) == ([lake.topic], None, 0)
    lake.run()
    assert lake.named("topics_missing")[-1]["topics"] == found["missing"]
    pattern = "topic_pattern: 'of-nobody-.*'"
    assert plan(lake, capsys, kafka=pattern)["missing"] == ["of-nobody-.*"]


def test_new_partitions_are_planned_from_their_beginning(new_lake: NewLake, capsys: Capsys) -> None:
    lake = new_lake()
    lake.produce(b"a")
    lake.run(kafka="start: latest")
    add_partitions(lake, 2)
    lake.produce(Message(b"b", partition=1))
    assert places(plan(lake, capsys, kafka="start: latest")) == [(0, 1, 1, 0), (1, 0, 1, 0)]


def test_a_table_that_is_taken_over_is_planned_behind_the_offsets_that_it_has(
    new_lake: NewLake, capsys: Capsys
) -> None:
    lake = new_lake(partitions=2)
    filled_by_another(lake, "kdi", {0: 2})
    lake.produce(Message(b'{"id": 200}', partition=1))
    found = plan(lake, capsys, NDJSON, "take_over: kdi")
    assert (places(found), found["is_new"]) == ([(0, 3, 5, 0), (1, 0, 1, 0)], True)
    assert main(["plan", str(lake.config_file(NDJSON))]) == 1
    assert "take_over: kdi" in capsys.readouterr().out


def test_a_lost_log_of_the_source_is_read_from_the_copy(new_lake: NewLake, capsys: Capsys) -> None:
    """The files of the log before its checkpoint are cleaned up one day, those of a quiet source too."""
    from deltalake import DeltaTable

    lake = new_lake()
    lake.produce(b"a")
    lake.run()
    table = DeltaTable(lake.table)
    table.create_checkpoint()
    for file in (lake.table / "_delta_log").glob("*.json"):
        file.unlink()
    lake.produce(b"b")
    assert places(plan(lake, capsys)) == [(0, 1, 2, 0)]
    (lake.table / "_blizzard" / "p_clicks_checkpoint.json").unlink()
    assert main(["plan", str(lake.config_file())]) == 1
    assert "reads the positions from the table's Txns" in capsys.readouterr().out


def test_a_pipeline_of_files_and_topics_is_one_estimate(new_lake: NewLake, tmp_path: Path, capsys: Capsys) -> None:
    lake = new_lake()
    lake.produce(b"a")
    (tmp_path / "landing").mkdir()
    (tmp_path / "landing" / "a.txt").write_text("one\n")
    files = f"\n                  files: {{uri: {tmp_path}/landing, pattern: '*.txt', format: text}}"
    file = lake.config_file(ENVELOPE + files)
    assert main(["plan", "--json", str(file)]) == 0
    [found] = json.loads(capsys.readouterr().out)
    assert [(one["kind"], one.get("files"), one.get("lag")) for one in found["sources"]] == [
        ("topics", None, 1),
        ("files", 1, None),
    ]
    assert (found["runs"], found["dollars"]) == (1, None)
    assert main(["plan", "--since", "1h", str(file)]) == 2
    assert "--since is about files, and source p:clicks reads topics" in capsys.readouterr().err
