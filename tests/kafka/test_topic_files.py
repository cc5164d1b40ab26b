"""`blizzard files` of a source that reads topics: which offsets each commit brought, and which wait."""

import json
from typing import Any

import pytest
from deltalake import DeltaTable

from blizzard.cli import main
from tests.kafka.test_topic_faults import forget_before
from tests.kafka.topic_lake import NewLake, TopicLake
from tests.kafka.topics import Message

ENVELOPE = "format: envelope"
NDJSON = "format: ndjson\n                    schema: id BIGINT"
GOING_ON = "on_lost_offsets: continue"
Capsys = pytest.CaptureFixture[str]


def files(
    lake: TopicLake, capsys: Capsys, *options: str, source: str = ENVELOPE, kafka: str = "", code: int = 0
) -> list[dict[str, Any]]:
    file = str(lake.config_file(source, kafka))
    capsys.readouterr()
    assert main(["files", file, "--json", *options]) == code
    found: list[dict[str, Any]] = json.loads(capsys.readouterr().out)
    return found


def ranges(found: list[dict[str, Any]], *more: str) -> list[tuple[Any, ...]]:
    names = ("path", "first_offset", "next_offset", "state", *more)
    return [tuple(life[name] for name in names) for life in found]


def test_each_commit_and_what_waits_are_shown_by_partition(new_lake: NewLake, capsys: Capsys) -> None:
    lake = new_lake(partitions=2)
    first, second = f"{lake.topic}/0", f"{lake.topic}/1"
    lake.produce(Message(b'{"id": 1}'), Message(b"broken"), Message(b"broken", partition=1))
    lake.run(source=NDJSON)
    lake.produce(Message(b'{"id": 2}'))
    lake.run(source=NDJSON)
    lake.produce(Message(b'{"id": 3}'), Message(b'{"id": 4}'), Message(b'{"id": 5}', partition=1))
    found = files(lake, capsys, source=NDJSON)
    of_commit = ("rows", "rejected", "sequence", "table_version")
    assert ranges(found, *of_commit) == [
        (first, 0, 2, "committed", 1, 1, 1, 1),
        (first, 2, 3, "committed", 1, 0, 2, 2),
        (first, 3, 5, "pending", None, None, None, None),
        (second, 0, 1, "dead_lettered", 0, 1, 1, 1),
        (second, 1, 2, "pending", None, None, None, None),
    ]
    assert {life["kind"] for life in found} == {"topics"}
    times = [commit["timestamp"] / 1000 for commit in DeltaTable(lake.table).history()]
    assert found[1]["committed_ts"] == times[0]
    assert ranges(files(lake, capsys, second, source=NDJSON)) == ranges(found)[3:]
    assert ranges(files(lake, capsys, f"{lake.topic}/*", "--state", "pending", source=NDJSON)) == [
        (first, 3, 5, "pending"),
        (second, 1, 2, "pending"),
    ]
    assert ranges(files(lake, capsys, "--since", "2200-01-01", source=NDJSON)) == [
        (first, 3, 5, "pending"),
        (second, 1, 2, "pending"),
    ]


def test_the_newest_are_shown_and_the_others_are_mentioned(new_lake: NewLake, capsys: Capsys) -> None:
    lake = new_lake()
    for _ in range(3):
        lake.produce(b"a")
        lake.run()
    assert ranges(files(lake, capsys, "--limit", "2"))[0][1:3] == (1, 2)
    assert main(["files", str(lake.config_file()), "--limit", "2"]) == 0
    said = capsys.readouterr()
    assert "there are older commits: --limit 0 shows all" in said.err
    assert (
        f"p:clicks: {lake.topic}/0\n offsets        1 to 1\n state          committed\n commit         2 " in said.out
    )
    assert len(files(lake, capsys, "--limit", "0")) == 3


def test_a_partition_that_there_is_not_is_nowhere(new_lake: NewLake, capsys: Capsys) -> None:
    lake = new_lake(partitions=2)
    lake.produce(b"a")
    assert files(lake, capsys, f"{lake.topic}/1") == []
    [nowhere] = files(lake, capsys, f"{lake.topic}/2", code=1)
    assert (nowhere["path"], nowhere["state"]) == (f"{lake.topic}/2", "absent")


def test_before_the_first_run_all_is_pending_and_nothing_is_made(new_lake: NewLake, capsys: Capsys) -> None:
    lake = new_lake()
    lake.produce(b"a", b"b")
    assert ranges(files(lake, capsys)) == [(f"{lake.topic}/0", 0, 2, "pending")]
    assert files(lake, capsys, kafka="start: latest") == []
    assert not lake.table.exists()


def test_offsets_that_were_gone_are_between_the_commits(new_lake: NewLake, capsys: Capsys) -> None:
    lake = new_lake()
    path = f"{lake.topic}/0"
    lake.produce(b"0", b"1")
    lake.run(kafka=GOING_ON)
    lake.produce(*[b"x"] * 4)
    forget_before(lake, 5)
    waits = [(path, 0, 2, "committed"), (path, 2, 5, "missing"), (path, 5, 6, "pending")]
    assert ranges(files(lake, capsys, kafka=GOING_ON)) == waits
    lake.run(kafka=GOING_ON)
    found = files(lake, capsys, kafka=GOING_ON)
    assert ranges(found) == [(path, 0, 2, "committed"), (path, 2, 5, "dead_lettered"), (path, 5, 6, "committed")]
    assert "gone before they were read" in found[1]["reason"]


def test_receipts_that_are_lost_are_named_and_nothing_is_made_up(new_lake: NewLake, capsys: Capsys) -> None:
    lake = new_lake()
    for _ in range(3):
        lake.produce(b"a")
        lake.run()
    (lost,) = (lake.table / "_blizzard" / "p_clicks" / "receipts").glob(f"{2:020d}-*")
    lost.unlink()
    path = f"{lake.topic}/0"
    assert main(["files", str(lake.config_file()), "--json"]) == 0
    said = capsys.readouterr()
    assert "the receipts of the commits" in said.err
    assert ranges(json.loads(said.out)) == [(path, 2, 3, "committed")]
