"""`blizzard audit` of a source that reads topics: worlds whose truth is known."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from blizzard.cli import main
from tests.kafka.test_topic_faults import forget_before, unreadable
from tests.kafka.topic_lake import NewLake, TopicLake
from tests.kafka.topics import Message, create_topic, delete_topic, produce_in_transaction

NDJSON = "format: ndjson\n                    schema: id BIGINT"
ONLY_SHORT = f"{NDJSON}\n                    limits: {{max_record_bytes: 20B}}"
LONG = b'{"id": 1, "more": "0123456789"}'
ENVELOPE = "format: envelope"
Capsys = pytest.CaptureFixture[str]


def audit(lake: TopicLake, capsys: Capsys, source: str = ENVELOPE, kafka: str = "", *, code: int = 0) -> dict[str, Any]:
    file = lake.table.parent / "pipelines.yaml"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(lake.configuration(source, kafka))
    capsys.readouterr()
    assert main(["audit", "--json", str(file)]) == code
    [found] = json.loads(capsys.readouterr().out)
    assert main(["audit", str(file)]) == code
    assert f"verdict        {found['verdict']}" in capsys.readouterr().out
    return dict(found)


def counts(found: dict[str, Any]) -> dict[str, int]:
    names = ("objects", "committed", "dead_lettered", "pending", "missing", "doubled", "changed", "added", "lost")
    return {name: found[name] for name in names if found[name]}


def kinds(found: dict[str, Any]) -> list[str]:
    return [notice["kind"] for notice in found["notices"]]


def test_every_message_of_a_healthy_source_is_accounted_for(new_lake: NewLake, capsys: Capsys) -> None:
    lake = new_lake(partitions=3)
    lake.produce(*[Message(b'{"id": %d}' % n, partition=n % 2) for n in range(20)], Message(b"broken", partition=1))
    produce_in_transaction(lake.settings, lake.topic, [b"no"], commit=False)
    produce_in_transaction(lake.settings, lake.topic, [b'{"id": 99}'], commit=True)
    lake.run(source=NDJSON)
    lake.produce(b'{"id": 100}', b'{"id": 101}')
    found = audit(lake, capsys, NDJSON)
    assert counts(found) == {"objects": 24, "committed": 21, "dead_lettered": 1, "pending": 2}
    assert (found["verdict"], found["kind"], found["table_version"]) == ("good", "topics", 1)
    again = audit(lake, capsys, NDJSON)
    assert again["digest"] == found["digest"]


def test_messages_in_a_data_file_that_is_lost_are_missing(new_lake: NewLake, capsys: Capsys) -> None:
    lake = new_lake()
    lake.produce(b'{"id": 0}', b'{"id": 1}')
    lake.run(source=NDJSON)
    lake.produce(b'{"id": 2}')
    lake.run(source=NDJSON)
    commits = [file.read_text().splitlines() for file in sorted((lake.table / "_delta_log").glob("*.json"))]
    added = [json.loads(line)["add"]["path"] for commit in commits for line in commit if line.startswith('{"add"')]
    (lake.table / added[0]).unlink()
    found = audit(lake, capsys, NDJSON, code=1)
    assert counts(found) == {"objects": 3, "committed": 1, "missing": 2}
    assert kinds(found) == ["data_files_lost"]
    forget_before(lake, 3)
    found = audit(lake, capsys, NDJSON, code=1)
    assert (counts(found), found["verdict"], found["unexplained"]) == ({}, "bad", 2)
    assert kinds(found) == ["data_files_lost", "rows_deleted", "rows_gone"]


def test_letters_that_cannot_be_read_are_bad_also_without_their_messages(new_lake: NewLake, capsys: Capsys) -> None:
    lake = new_lake()
    lake.produce(b"broken", b'{"id": 1}')
    lake.run(source=NDJSON)
    [letters] = lake.table.glob("_blizzard/*/dead_letters/*/records-*.ndjson")
    letters.write_bytes(b"no letter")
    found = audit(lake, capsys, NDJSON, code=1)
    assert counts(found) == {"objects": 2, "committed": 1, "missing": 1}
    forget_before(lake, 2)
    found = audit(lake, capsys, NDJSON, code=1)
    assert (counts(found), found["verdict"]) == ({}, "bad")
    assert [notice["kind"] for notice in found["notices"]] == ["letters_unreadable"]


def test_letters_of_an_attempt_that_died_are_not_shown_and_counted_once_more(new_lake: NewLake, capsys: Capsys) -> None:
    """Both of a message that is no record, and of messages that were gone before they were read."""
    lake, kafka = new_lake(), "on_lost_offsets: continue"
    lake.produce(b'{"id": 0}')
    lake.run(NDJSON, kafka)
    lake.produce(*[b"gone"] * 4, b"broken", b'{"id": 1}')
    forget_before(lake, 5)

    def die(event: str) -> None:
        if event == "batch_read":
            raise KeyboardInterrupt

    lake.on_event = die
    with pytest.raises(KeyboardInterrupt):
        lake.run(NDJSON, kafka)
    lake.on_event = lambda event: None
    lake.run(NDJSON, kafka)
    assert len([*lake.table.glob("_blizzard/*/dead_letters/*/records-*.ndjson")]) == 4
    found = audit(lake, capsys, NDJSON, kafka)
    assert counts(found) == {"objects": 2, "committed": 1, "dead_lettered": 1, "lost": 4}
    assert main(["letters", "--json", "--details", str(lake.table.parent / "pipelines.yaml")]) == 0
    [letters] = json.loads(capsys.readouterr().out)
    assert (letters["files"], letters["records"]) == (1, 2)
    assert [letter["row"] for letter in letters["letters"]] == [1, 5]


def die_before_the_commit(lake: TopicLake, source: str) -> None:
    """Letters and receipt are stored by then."""

    def die(event: str) -> None:
        if event == "batch_read":
            raise KeyboardInterrupt

    lake.on_event = die
    with pytest.raises(KeyboardInterrupt):
        lake.run(source)
    lake.on_event = lambda event: None


def test_a_message_that_only_an_attempt_which_died_has_refused_is_its_row_alone(
    new_lake: NewLake, capsys: Capsys
) -> None:
    lake = new_lake(partitions=2)
    lake.produce(b'{"id": 0}')
    lake.run(NDJSON)
    lake.produce(LONG, Message(LONG, partition=1), b"broken", b'{"id": 2}')
    die_before_the_commit(lake, ONLY_SHORT)
    die_before_the_commit(lake, ONLY_SHORT)
    lake.run(NDJSON)
    assert {(letter["path"][-1], letter["row"]) for letter in lake.letters()} == {("0", 1), ("0", 2), ("1", 0)}
    found = audit(lake, capsys, NDJSON)
    assert counts(found) == {"objects": 5, "committed": 4, "dead_lettered": 1}
    lake.produce(b'{"id": 3}')
    lake.run(NDJSON)  # not the newest commit any more
    assert counts(audit(lake, capsys, NDJSON)) == {"objects": 6, "committed": 5, "dead_lettered": 1}


def test_a_letter_that_is_lost_is_not_replaced_by_that_of_an_attempt_which_died(
    new_lake: NewLake, capsys: Capsys
) -> None:
    lake = new_lake()
    lake.produce(b'{"id": 0}')
    lake.run(NDJSON)
    lake.produce(b"broken", b'{"id": 2}')
    die_before_the_commit(lake, NDJSON)
    before = {*lake.table.glob("_blizzard/*/dead_letters/*/records-*.ndjson")}
    lake.run(NDJSON)
    assert counts(audit(lake, capsys, NDJSON)) == {"objects": 3, "committed": 2, "dead_lettered": 1}
    for stored in {*lake.table.glob("_blizzard/*/dead_letters/*/records-*.ndjson")} - before:
        stored.unlink()
    assert [letter["row"] for letter in lake.letters()] == [1]
    found = audit(lake, capsys, NDJSON, code=1)
    assert counts(found) == {"objects": 3, "committed": 2, "missing": 1}


def test_a_message_that_the_loser_of_a_race_has_refused_is_its_row_alone(new_lake: NewLake, capsys: Capsys) -> None:
    lake = new_lake()
    lake.produce(b'{"id": 0}')
    lake.run(NDJSON)
    lake.produce(LONG)

    def other(event: str) -> None:
        if event == "batch_read":
            lake.on_event = lambda event: None
            lake.run(NDJSON)

    lake.on_event = other
    lake.run(ONLY_SHORT)
    assert (len(lake.named("race_lost")), [letter["row"] for letter in lake.letters()]) == (1, [1])
    assert counts(audit(lake, capsys, NDJSON)) == {"objects": 2, "committed": 2}


@pytest.mark.parametrize("later", [False, True])
def test_a_message_that_a_commit_has_refused_and_that_is_a_row_is_doubled(
    new_lake: NewLake, capsys: Capsys, later: bool
) -> None:
    """Also if an attempt that died has refused it, too."""
    lake = new_lake()
    lake.produce(b'{"id": 0}')
    lake.run(ONLY_SHORT)
    lake.produce(LONG)
    die_before_the_commit(lake, ONLY_SHORT)
    lake.run(ONLY_SHORT)
    assert len([*lake.table.glob("_blizzard/*/dead_letters/*/records-*.ndjson")]) == 2
    if later:
        lake.produce(b'{"id": 2}')
        lake.run(ONLY_SHORT)
    table = DeltaTable(lake.table).to_pyarrow_table()
    row = min(table.to_pylist(), key=lambda row: row["id"])
    row["_source"]["row"] = 1
    write_deltalake(lake.table, pa.Table.from_pylist([row], schema=table.schema), mode="append")
    found = audit(lake, capsys, ONLY_SHORT, code=1)
    assert found["found"]["doubled"] == [{"path": f"{lake.topic}/0", "first": 1, "last": 1}]


def test_before_the_first_run_everything_is_pending(new_lake: NewLake, capsys: Capsys) -> None:
    lake = new_lake(partitions=2)
    lake.produce(b"a", b"b")
    assert counts(audit(lake, capsys)) == {"objects": 2, "pending": 2}


def test_a_deleted_row_is_missing_and_named(new_lake: NewLake, capsys: Capsys) -> None:
    lake = new_lake()
    lake.produce(*[b"x"] * 10)
    lake.run()
    DeltaTable(lake.table).delete("stream_offset IN (3, 4, 7)")
    found = audit(lake, capsys, code=1)
    assert counts(found) == {"objects": 10, "committed": 7, "missing": 3}
    path = f"{lake.topic}/0"
    assert found["found"]["missing"] == [{"path": path, "first": 3, "last": 4}, {"path": path, "first": 7, "last": 7}]


def test_rows_that_somebody_has_doubled_are_named(new_lake: NewLake, capsys: Capsys) -> None:
    lake = new_lake()
    lake.produce(*[b"x"] * 5)
    lake.run()
    table = DeltaTable(lake.table).to_pyarrow_table()
    write_deltalake(lake.table, table.slice(1, 2), mode="append")
    found = audit(lake, capsys, code=1)
    assert counts(found) == {"objects": 5, "committed": 5, "doubled": 2}
    assert len(found["found"]["doubled"]) == 1


def test_a_vanished_letter_is_a_missing_message(new_lake: NewLake, capsys: Capsys) -> None:
    lake = new_lake()
    lake.produce(b"broken", b'{"id": 1}')
    lake.run(source=NDJSON)
    for letter in lake.table.glob("_blizzard/*/dead_letters/*/*"):
        letter.unlink()
    found = audit(lake, capsys, NDJSON, code=1)
    assert found["found"]["missing"] == [{"path": f"{lake.topic}/0", "first": 0, "last": 0}]


def test_messages_before_the_start_are_not_missing(new_lake: NewLake, capsys: Capsys) -> None:
    lake = new_lake(partitions=2)
    lake.produce(Message(b"old"), Message(b"old", partition=1))
    lake.run(kafka="start: latest")
    lake.produce(b"new")
    lake.run(kafka="start: latest")
    assert counts(audit(lake, capsys, kafka="start: latest")) == {"objects": 1, "committed": 1}


def test_a_state_that_was_rebuilt_does_not_say_where_the_source_began(new_lake: NewLake, capsys: Capsys) -> None:
    lake = new_lake(partitions=2)
    lake.produce(Message(b"old"), Message(b"old", partition=1))
    lake.run(kafka="start: latest")
    lake.produce(b"new", b"new")
    lake.run(kafka="start: latest")
    unreadable(lake, newest=3)
    lake.produce(b"newer")
    lake.run(kafka="start: latest")
    found = audit(lake, capsys, kafka="start: latest")
    assert counts(found) == {"objects": 3, "committed": 3}
    assert [notice["kind"] for notice in found["notices"]] == ["start_unknown"]


def test_what_retention_has_taken_is_neither_missing_nor_forgotten(new_lake: NewLake, capsys: Capsys) -> None:
    lake = new_lake()
    going_on = "on_lost_offsets: continue"
    lake.produce(*[b"x"] * 4)
    lake.run(kafka=going_on)
    lake.produce(*[b"y"] * 4)
    forget_before(lake, 6)
    lake.run(kafka=going_on)
    found = audit(lake, capsys, kafka=going_on)
    assert counts(found) == {"objects": 2, "committed": 2, "lost": 2}
    [partition] = found["partitions"]
    assert (partition["older_rows"], partition["first_offset"], partition["next_offset"]) == (4, 6, 8)


def test_what_is_gone_is_lost_and_does_not_wait_before_and_after_its_commit(new_lake: NewLake, capsys: Capsys) -> None:
    """Neither twice because of the letter of an attempt that died."""
    lake, going_on = new_lake(), "on_lost_offsets: continue"
    lake.produce(b"x")
    lake.run(kafka=going_on)
    lake.produce(*[b"y"] * 3)
    forget_before(lake, 4)
    assert counts(audit(lake, capsys, kafka=going_on)) == {"lost": 3}
    lake.produce(b"z")

    def die(event: str) -> None:
        if event == "offsets_lost":
            raise KeyboardInterrupt

    lake.on_event = die
    with pytest.raises(KeyboardInterrupt):
        lake.run(kafka=going_on)
    lake.on_event = lambda event: None
    assert len(lake.letters()) == 1
    assert counts(audit(lake, capsys, kafka=going_on)) == {"objects": 1, "pending": 1, "lost": 3}
    lake.run(kafka=going_on)
    assert counts(audit(lake, capsys, kafka=going_on)) == {"objects": 1, "committed": 1, "lost": 3}


def test_rows_of_another_topic_of_the_same_name_are_noted(new_lake: NewLake, capsys: Capsys) -> None:
    lake = new_lake()
    lake.produce(b"old")
    lake.run()
    delete_topic(lake.settings, lake.topic)
    create_topic(lake.settings, lake.topic)
    found = audit(lake, capsys)
    assert [notice["kind"] for notice in found["notices"]] == ["topic_gone"]
    assert found["verdict"] != "good"


def test_options_of_files_are_refused(new_lake: NewLake, tmp_path: Path, capsys: Capsys) -> None:
    lake = new_lake()
    file = tmp_path / "pipelines.yaml"
    file.write_text(lake.configuration(ENVELOPE))
    assert main(["audit", "--repair", str(file)]) == 2
    assert "--repair is about files, and source p:clicks reads topics" in capsys.readouterr().err
