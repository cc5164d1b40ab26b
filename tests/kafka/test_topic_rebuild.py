"""`blizzard rebuild` of a source that reads topics: the state from the table, and nothing lost or doubled by it."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable, write_deltalake

from blizzard.cli import main
from blizzard.errors import RecoveryError, TxnLost
from blizzard.table.lost_txn import TXN_LOST
from tests.kafka.test_topic_audit import audit, counts
from tests.kafka.test_topic_faults import unreadable
from tests.kafka.test_topic_plan import plan
from tests.kafka.topic_lake import NewLake, TopicLake
from tests.kafka.topics import Message, create_topic, delete_topic

ENVELOPE = "format: envelope"
NDJSON = "format: ndjson\n                    schema: id BIGINT"
Capsys = pytest.CaptureFixture[str]


def rebuild(
    lake: TopicLake, capsys: Capsys, *options: str, source: str = ENVELOPE, kafka: str = "", code: int = 0
) -> dict[str, Any]:
    capsys.readouterr()
    assert main(["rebuild", str(lake.config_file(source, kafka)), "--json", *options]) == code
    [found] = json.loads(capsys.readouterr().out)["sources"]
    return dict(found)


def without_log(lake: TopicLake, *, with_state: bool) -> None:
    """A copy of the table's rows, as somebody makes it who does not know of the log."""
    rows = DeltaTable(lake.table).to_pyarrow_table()
    state = lake.table / "_blizzard"
    kept = lake.table.parent / "state"
    shutil.move(state, kept)
    shutil.rmtree(lake.table)
    write_deltalake(lake.table, rows)
    if with_state:
        shutil.move(kept, state)


def kinds(found: dict[str, Any]) -> list[str]:
    return [problem["kind"] for problem in found["problems"]]


def test_nothing_is_done_if_nothing_is_wrong(new_lake: NewLake, capsys: Capsys) -> None:
    lake = new_lake(partitions=2)
    assert rebuild(lake, capsys)["verdict"] == "well"
    assert not lake.table.exists()
    lake.produce(b"a")
    lake.run()
    found = rebuild(lake, capsys, "--yes")
    assert (found["verdict"], found["kind"], found["sequence"], found["files"]) == ("well", "topics", 1, 2)
    assert DeltaTable(lake.table).version() == 1


def test_a_lost_checkpoint_is_committed_anew_from_the_txns(new_lake: NewLake, capsys: Capsys) -> None:
    lake = new_lake(partitions=2)
    lake.produce(b"a", b"b")
    lake.run()
    unreadable(lake, newest=2)
    found = rebuild(lake, capsys, code=2)
    assert (found["verdict"], kinds(found)) == ("planned", ["checkpoint_unreadable"])
    assert DeltaTable(lake.table).version() == 1
    assert main(["rebuild", str(lake.config_file()), "--yes"]) == 0
    assert "p:clicks: rebuilt, 2 partitions, sequence 2; well" in capsys.readouterr().out
    assert json.loads((lake.table / "_blizzard" / "p_clicks_checkpoint.json").read_text())["sequence"] == 2
    lake.produce(b"c")
    lake.run()
    assert lake.places() == [(0, 0), (0, 1), (0, 2)]
    assert lake.named("state_rebuilt_from_txns") == []


def test_a_lost_copy_is_written(new_lake: NewLake, capsys: Capsys) -> None:
    lake = new_lake()
    lake.produce(b"a")
    lake.run()
    copy = lake.table / "_blizzard" / "p_clicks_checkpoint.json"
    text = copy.read_text()
    copy.unlink()
    assert kinds(rebuild(lake, capsys, code=2)) == ["copy_lost"]
    assert rebuild(lake, capsys, "--yes")["verdict"] == "rebuilt"
    assert copy.read_text() == text
    assert DeltaTable(lake.table).version() == 1


@pytest.mark.parametrize("with_state", [True, False])
def test_a_table_without_its_txns_goes_on_behind_its_rows(
    new_lake: NewLake, capsys: Capsys, *, with_state: bool
) -> None:
    lake = new_lake(partitions=3)
    lake.produce(Message(b'{"id": 1}'), Message(b"broken"), Message(b'{"id": 2}'), Message(b'{"id": 3}', partition=1))
    lake.run(source=NDJSON)
    lake.produce(b'{"id": 4}')
    lake.run(source=NDJSON)
    without_log(lake, with_state=with_state)
    lake.produce(Message(b'{"id": 5}'), Message(b'{"id": 6}', partition=2))
    with pytest.raises(TxnLost):
        lake.run(source=NDJSON)
    found = rebuild(lake, capsys, source=NDJSON, code=2)
    assert (kinds(found), found["files"]) == (["txn_lost"], 3)
    assert "2 Txns of partitions" in found["steps"][0]
    found = rebuild(lake, capsys, "--yes", source=NDJSON)
    assert (found["verdict"], found["sequence"]) == ("rebuilt", 2)
    txns = lake.txns()
    assert [txns.get(f"blizzard:p:clicks:{lake.topic}:{number}") for number in range(3)] == [3, 0, None]
    unreadable(lake)  # the Txns alone tell the position, too
    lake.run(source=NDJSON)
    assert lake.places() == [(0, 0), (0, 2), (0, 3), (0, 4), (1, 0), (2, 0)]


@pytest.mark.parametrize("with_state", [True, False])
def test_a_table_without_its_txns_is_called_that(new_lake: NewLake, capsys: Capsys, *, with_state: bool) -> None:
    lake = new_lake()
    lake.produce(b"a", b"b")
    lake.run()
    assert (plan(lake, capsys)["is_new"], plan(lake, capsys)["problem"]) == (False, None)
    without_log(lake, with_state=with_state)
    found = audit(lake, capsys, code=1)
    assert (counts(found), found["verdict"]) == ({"objects": 2, "pending": 2}, "bad")
    assert [notice["kind"] for notice in found["notices"]] == ["txn_lost"]
    planned = plan(lake, capsys, code=1)
    assert (planned["is_new"], planned["lag"], planned["problem"]) == (False, 2, TXN_LOST)
    assert main(["files", str(lake.config_file())]) == 0
    assert TXN_LOST in capsys.readouterr().err


def test_where_the_source_began_is_kept_if_the_copy_says_so(new_lake: NewLake, capsys: Capsys) -> None:
    lake = new_lake(partitions=2)
    lake.produce(*[Message(b"old", partition=number) for number in (0, 0, 1, 1)])
    lake.run(kafka="start: latest")
    lake.produce(b"a")
    lake.run(kafka="start: latest")
    without_log(lake, with_state=True)
    lake.produce(Message(b"b", partition=1))
    assert rebuild(lake, capsys, "--yes", kafka="start: latest")["verdict"] == "rebuilt"
    lake.run(kafka="start: latest")
    assert lake.places() == [(0, 2), (1, 2)]
    assert counts(audit(lake, capsys, kafka="start: latest")) == {"objects": 2, "committed": 2}


def test_without_a_copy_a_partition_without_rows_is_read_from_its_first_message(
    new_lake: NewLake, capsys: Capsys
) -> None:
    lake = new_lake(partitions=2)
    lake.run(kafka="start: latest")
    lake.produce(b"a")
    lake.run(kafka="start: latest")
    without_log(lake, with_state=False)
    lake.produce(Message(b"b", partition=1))
    rebuild(lake, capsys, "--yes", kafka="start: latest")
    lake.run(kafka="start: latest")
    assert lake.places() == [(0, 0), (1, 0)]


def test_rows_of_another_topic_are_refused(new_lake: NewLake, capsys: Capsys) -> None:
    lake = new_lake()
    lake.produce(b"old")
    lake.run()
    without_log(lake, with_state=False)
    delete_topic(lake.settings, lake.topic)
    create_topic(lake.settings, lake.topic)
    lake.produce(b"new", b"new")
    found = rebuild(lake, capsys, "--yes", code=1)
    assert found["verdict"] == "refused"
    assert "was deleted and made again" in found["error"]
    assert DeltaTable(lake.table).version() == 0


def test_rows_of_topics_that_are_not_named_are_refused(new_lake: NewLake, capsys: Capsys) -> None:
    lake, other = new_lake(), new_lake()
    lake.produce(b"a")
    lake.run()
    without_log(lake, with_state=False)
    gone, lake.topic = lake.topic, other.topic
    found = rebuild(lake, capsys, "--yes", code=1)
    assert f"the table has rows of topic {gone}" in found["error"]


def test_rows_of_a_topic_that_is_gone_keep_its_position(new_lake: NewLake, capsys: Capsys) -> None:
    lake, other = new_lake(), new_lake()
    both, rest = f"topics: [{lake.topic}, {other.topic}]", f"topics: [{other.topic}]"
    lake.produce(b"a", b"b")
    other.produce(b"c")
    lake.run(kafka=both)
    without_log(lake, with_state=False)
    delete_topic(lake.settings, lake.topic)
    found = rebuild(lake, capsys, "--yes", kafka=rest)
    assert (found["verdict"], found["files"]) == ("rebuilt", 2)
    other.produce(b"d")
    lake.run(kafka=rest)
    assert sorted(row["message_payload"] for row in lake.rows()) == [b"a", b"b", b"c", b"d"]
    assert lake.txns()[f"blizzard:p:clicks:{lake.topic}:0"] == 1
    create_topic(lake.settings, lake.topic)
    with pytest.raises(RecoveryError, match="was deleted and made again"):
        lake.run(kafka=both)


def test_rows_of_nobody_are_refused(new_lake: NewLake, capsys: Capsys) -> None:
    lake = new_lake()
    lake.produce(b'{"id": 1}')
    lake.run(source=NDJSON)
    rows = DeltaTable(lake.table).to_pyarrow_table()
    without_log(lake, with_state=False)
    write_deltalake(lake.table, rows.drop_columns(["_source"]), mode="append", schema_mode="merge")
    found = rebuild(lake, capsys, "--yes", source=NDJSON, code=1)
    assert "rows that name no source" in found["error"]


def test_a_job_that_commits_meanwhile_wins(new_lake: NewLake) -> None:
    from blizzard.config.load import parse_config
    from blizzard.errors import LostRace
    from blizzard.log import silent
    from blizzard.storage.s3_connection import S3Settings
    from spark_job.engines.local.engine import LocalEngine
    from spark_job.rebuild.topic_parts import rebuilt_topics
    from spark_job.rebuild.topic_state import TopicStateRebuild

    lake = new_lake()
    lake.produce(b"a")
    lake.run()
    unreadable(lake, newest=2)
    ((pipeline, source),) = parse_config(lake.configuration(ENVELOPE), {}, folder="/").sources()
    assert source.kafka is not None
    engine = LocalEngine(S3Settings(), dict, silent, cores=1)
    parts = rebuilt_topics(
        pipeline, source, source.kafka, engine=engine, s3=S3Settings(), log=silent, known={source.id}
    )
    try:
        one = TopicStateRebuild(parts)
        found = one.find()
        lake.produce(b"b")
        lake.run()
        with pytest.raises(LostRace):
            one.apply(found)
    finally:
        engine.close()
    assert lake.places() == [(0, 0), (0, 1)]


def test_a_new_table_is_refused_with_what_to_do(new_lake: NewLake, tmp_path: Path, capsys: Capsys) -> None:
    lake = new_lake()
    lake.produce(b"a")
    lake.run()
    assert main(["rebuild", str(lake.config_file()), "--to", str(tmp_path / "new")]) == 2
    said = capsys.readouterr().err
    assert "give the pipeline another `table_uri`" in said
    assert "start `blizzard rebuild FILE` without --to" in said
    assert "docs/kafka.md#another-table" in said
    assert not (tmp_path / "new").exists()
