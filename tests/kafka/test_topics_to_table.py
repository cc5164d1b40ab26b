"""Topics of a real broker into a table, by the local engine."""

from datetime import UTC, datetime

import pytest

from blizzard.cli import main
from tests.kafka.topic_lake import NewLake
from tests.kafka.topics import Message, open_transaction, produce_in_transaction


def test_an_envelope_keeps_every_message_as_it_is(new_lake: NewLake) -> None:
    lake = new_lake(partitions=2)
    when = datetime(2026, 11, 1, 12, 0, 0, 123_000, tzinfo=UTC)
    ms = round(when.timestamp() * 1000)
    lake.produce(
        Message(b"\xff\x00", b"key", 0, [("trace", b"\x01"), ("none", None), ("trace", b"\x02")], ms),
        Message(None, b"gone", 1, timestamp_ms=ms),
        Message(b"", None, 1, timestamp_ms=ms),
    )
    lake.run()
    found = [{name: value for name, value in row.items() if name != "_source"} for row in lake.rows()]
    shared = {"stream_topic": lake.topic, "message_timestamp": when}
    assert found == [
        {
            **shared,
            "stream_partition": 0,
            "stream_offset": 0,
            "message_key": b"key",
            "message_headers": [("trace", b"\x01"), ("none", None), ("trace", b"\x02")],
            "message_payload": b"\xff\x00",
        },
        {
            **shared,
            "stream_partition": 1,
            "stream_offset": 0,
            "message_key": b"gone",
            "message_headers": [],
            "message_payload": None,
        },
        {
            **shared,
            "stream_partition": 1,
            "stream_offset": 1,
            "message_key": None,
            "message_headers": [],
            "message_payload": b"",
        },
    ]
    source = lake.rows()[0]["_source"]
    assert (source["file"], source["row"], source["modified"]) == (f"{lake.topic}/0", 0, when)


def test_each_commit_has_the_position_of_the_partitions_that_it_moved(new_lake: NewLake) -> None:
    lake = new_lake(partitions=3)
    lake.produce(Message(b"a", partition=0), Message(b"b", partition=2))
    lake.run()
    assert lake.txns() == {
        "blizzard:p:clicks": 1,
        f"blizzard:p:clicks:{lake.topic}:0": 0,
        f"blizzard:p:clicks:{lake.topic}:2": 0,
    }
    lake.produce(Message(b"c", partition=2), Message(b"d", partition=1))
    lake.run()
    assert lake.txns() == {
        "blizzard:p:clicks": 2,
        f"blizzard:p:clicks:{lake.topic}:0": 0,
        f"blizzard:p:clicks:{lake.topic}:1": 0,
        f"blizzard:p:clicks:{lake.topic}:2": 1,
    }
    assert lake.places() == [(0, 0), (1, 0), (2, 0), (2, 1)]


def test_a_run_with_nothing_new_commits_nothing(new_lake: NewLake) -> None:
    lake = new_lake()
    lake.produce(b"a")
    lake.run()
    before = lake.txns()
    lake.run()
    assert lake.txns() == before
    assert lake.places() == [(0, 0)]


def test_what_is_no_record_is_a_dead_letter_with_key_and_headers(new_lake: NewLake) -> None:
    lake = new_lake()
    lake.produce(
        Message(b'{"id": 1}'),
        Message(b'{"id": ', b"k", headers=[("h", b"\xff"), ("i", b"text")]),
        Message(None, b"\xfe"),
        Message(b'{\r\n "id": 2\n}'),
        Message(b"\xff"),
        Message(b""),
        Message(b'{"id": 3}\n{"id": 4}'),
        Message(b'{"id": "a\nb"}'),
        Message(b'[\n{"id": 5}]'),
        Message(b'{"id": 6}\n'),
    )
    lake.run(source="format: ndjson\n                    schema: id BIGINT")
    assert [(row["id"], row["_source"]["row"]) for row in lake.rows()] == [(1, 0), (2, 3), (6, 9)]
    letters = lake.letters()
    assert [letter["row"] for letter in letters] == [1, 2, 4, 5, 6, 7, 8]
    assert [letter["path"] for letter in letters] == [f"{lake.topic}/0"] * 7
    first, tombstone, *_ = letters
    assert (first["raw"], first["key"]) == ('{"id": ', "k")
    assert first["headers"] == [{"name": "h", "value_base64": "/w=="}, {"name": "i", "value": "text"}]
    assert (tombstone["key_base64"], tombstone["headers"]) == ("/g==", [])
    assert "tombstone" in tombstone["error"]
    assert letters[2]["raw_base64"] == "/w=="
    assert "found 2 of them" in letters[4]["error"]
    assert letters[4]["raw"] == '{"id": 3}\n{"id": 4}'


def test_text_is_the_payload_as_it_is(new_lake: NewLake) -> None:
    lake = new_lake()
    lake.produce(Message("ä\nb".encode()), Message(None), Message(b"\xff"))
    lake.run(source="format: text")
    assert [row["value"] for row in lake.rows()] == ["ä\nb", None]
    assert [letter["row"] for letter in lake.letters()] == [2]


def test_aborted_messages_and_markers_leave_gaps_and_hold_nothing_up(new_lake: NewLake) -> None:
    lake = new_lake()
    lake.produce(b"a")
    produce_in_transaction(lake.settings, lake.topic, [b"no", b"no"], commit=False)
    produce_in_transaction(lake.settings, lake.topic, [b"b"], commit=True)
    lake.run()
    assert lake.places() == [(0, 0), (0, 4)]
    assert lake.txns()[f"blizzard:p:clicks:{lake.topic}:0"] == 5
    produce_in_transaction(lake.settings, lake.topic, [b"no"], commit=False)
    lake.run()
    lake.produce(b"c")
    lake.run()
    assert lake.places() == [(0, 0), (0, 4), (0, 8)]


@pytest.mark.parametrize("start", ["latest", "2026-11-01T00:00:00Z"])
def test_where_a_source_begins_is_committed_before_anything_is_read(new_lake: NewLake, start: str) -> None:
    lake = new_lake(partitions=2)
    old = round(datetime(2026, 10, 31, tzinfo=UTC).timestamp() * 1000)
    lake.produce(Message(b"old", timestamp_ms=old), Message(b"old", timestamp_ms=old))
    lake.run(kafka=f"start: '{start}'")
    lake.produce(Message(b"new"), Message(b"new", partition=1))
    lake.run(kafka=f"start: '{start}'")
    assert lake.places() == [(0, 2), (1, 0)]


@pytest.mark.parametrize("isolation", ["read_committed", "read_uncommitted"])
def test_messages_of_aborted_transactions_are_rows_only_if_the_source_reads_uncommitted_ones(
    new_lake: NewLake, isolation: str
) -> None:
    lake = new_lake()
    lake.produce(b"before")
    produce_in_transaction(lake.settings, lake.topic, [b"aborted", b"too"], commit=False)
    produce_in_transaction(lake.settings, lake.topic, [b"committed"], commit=True)
    lake.run(kafka=f"isolation: {isolation}")
    found = {row["_source"]["row"]: row["message_payload"] for row in lake.rows()}
    aborted = {1: b"aborted", 2: b"too"} if isolation == "read_uncommitted" else {}
    assert found == {0: b"before", **aborted, 4: b"committed"}
    assert main(["audit", str(lake.config_file(kafka=f"isolation: {isolation}"))]) == 0
    lake.run(kafka=f"isolation: {isolation}")
    assert len(lake.rows()) == len(found)


def test_messages_of_a_transaction_that_is_open_wait_unless_the_source_reads_uncommitted_ones(
    new_lake: NewLake,
) -> None:
    lake = new_lake()
    with open_transaction(lake.settings, lake.topic, [b"open"]):
        lake.run()
        assert lake.rows() == []
        lake.run(kafka="isolation: read_uncommitted")
        assert [row["message_payload"] for row in lake.rows()] == [b"open"]
    lake.run(kafka="isolation: read_uncommitted")
    assert len(lake.rows()) == 1, "also once it is aborted"
