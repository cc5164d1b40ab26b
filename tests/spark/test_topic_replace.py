"""`blizzard replace` of a source that reads topics: the rows of partitions out, and their messages read anew."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from blizzard.cli import main
from blizzard.config.load import parse_config
from blizzard.state.settled_letters import SettledLetters
from blizzard.storage.local import LocalStore
from blizzard.storage.s3_connection import S3Settings
from infra.local.kafka.cluster import KafkaCluster
from spark_job.engines.spark.engine import SparkEngine
from spark_job.repair.repair_topics import topic_repair_of, whole_partitions
from spark_job.repair.wishes import from_partitions
from spark_job.repair.work import Fate, Result, Work
from spark_job.topic_wiring import topic_parts
from tests.fixtures_kafka import NewTopic
from tests.kafka.test_topic_audit import audit, counts, kinds
from tests.kafka.test_topic_audit_rows import append
from tests.kafka.test_topic_faults import forget_before
from tests.kafka.topic_lake import TopicLake
from tests.kafka.topics import Message

pytestmark = pytest.mark.spark
WRONG = "format: ndjson\n                    schema: id BIGINT, n STRING"
RIGHT = "format: ndjson\n                    schema: id BIGINT, n STRING, more STRING"
STRICT = "format: ndjson\n                    schema: id BIGINT NOT NULL, n STRING, more STRING"
Capsys = pytest.CaptureFixture[str]


@pytest.fixture
def lake(
    tmp_path: Path, kafka: KafkaCluster, new_topic: NewTopic, spark: Callable[[], SparkSession]
) -> Iterator[TopicLake]:
    made = TopicLake(tmp_path / "of", kafka, new_topic(2))
    made.replay_spark = spark  # type: ignore[attr-defined]
    yield made
    made.close()


class Replace:
    """Of the partitions with these numbers, in this process. `on_event` sees each event."""

    def __init__(
        self, lake: TopicLake, *numbers: int, source: str = RIGHT, on_event: Callable[[str], None] = lambda event: None
    ) -> None:
        self.events: list[str] = []

        def log(event: str, /, **fields: object) -> None:
            self.events.append(event)
            on_event(event)

        ((pipeline, found),) = parse_config(lake.configuration(source), {}, folder="/").sources()
        parts = topic_parts(
            pipeline,
            found,
            engine=SparkEngine(lake.replay_spark),  # type: ignore[attr-defined]
            s3=S3Settings(),
            log=log,
        )
        assert found.kafka is not None
        paths = {f"{lake.topic}/{number}" for number in numbers}
        whole = whole_partitions(parts, found.kafka, lambda path: path in paths)
        self.work = Work(from_partitions(parts.identity.source_id, whole).items)
        self.repair = topic_repair_of(parts, found.kafka, self.work, whole)

    def run(self) -> list[Result]:
        self.repair.run()
        assert self.work.left == []
        return self.work.results


def values(lake: TopicLake) -> list[tuple[int, int, Any]]:
    return [(int(r["_source"]["file"].rpartition("/")[2]), r["_source"]["row"], r.get("more")) for r in lake.rows()]


def open_letters(lake: TopicLake) -> list[tuple[str, int]]:
    settled = SettledLetters(LocalStore(lake.table), "_blizzard/p_clicks").read()
    return [(one["path"], one["row"]) for one in lake.letters() if settled.of(one) is None]


def with_rows(lake: TopicLake) -> None:
    """Three messages in each partition; the second of each is broken. The column `more` is not known yet."""
    for number in (0, 1):
        lake.produce(
            Message(b'{"id": 1, "more": "a"}', partition=number),
            Message(b"broken", partition=number),
            Message(b'{"id": 3, "more": "c"}', partition=number),
        )
    lake.run(source=WRONG)
    assert values(lake) == [(0, 0, None), (0, 2, None), (1, 0, None), (1, 2, None)]


def test_the_rows_of_a_partition_are_replaced_in_one_commit(lake: TopicLake, capsys: Capsys) -> None:
    with_rows(lake)
    before, version = lake.txns(), DeltaTable(lake.table).version()
    [result] = Replace(lake, 0).run()
    assert (result.fate, result.rows, result.sequence) == (Fate.DONE, 2, 2)
    assert values(lake) == [(0, 0, "a"), (0, 2, "c"), (1, 0, None), (1, 2, None)]
    assert {row["_source"]["sequence"] for row in lake.rows() if row["_source"]["file"].endswith("/0")} == {2}
    assert lake.txns() == {**before, "blizzard:p:clicks": 2}
    history = DeltaTable(lake.table).history()
    assert [one["version"] for one in history if one["version"] > version and one["operation"] == "WRITE"] != []
    assert open_letters(lake) == [(f"{lake.topic}/0", 1), (f"{lake.topic}/1", 1)]
    assert len(lake.letters()) == 3  # the first one is settled, and another one stands for it
    assert counts(audit(lake, capsys, RIGHT)) == {"objects": 6, "committed": 4, "dead_lettered": 2}
    lake.produce(b'{"id": 4, "more": "d"}')
    lake.run(source=RIGHT)
    assert values(lake)[2] == (0, 3, "d")


def test_what_is_missing_comes_back_and_what_was_refused_becomes_rows(lake: TopicLake, capsys: Capsys) -> None:
    lake.produce(b'{"more": "a"}', b'{"id": 2, "more": "b"}', b'{"id": 3, "more": "c"}')
    lake.run(source=STRICT)
    assert open_letters(lake) == [(f"{lake.topic}/0", 0)]
    DeltaTable(lake.table).delete("id = 3")
    assert counts(audit(lake, capsys, STRICT, code=1))["missing"] == 1
    Replace(lake, 0).run()
    assert values(lake) == [(0, 0, "a"), (0, 1, "b"), (0, 2, "c")]
    assert open_letters(lake) == []
    assert counts(audit(lake, capsys, RIGHT)) == {"objects": 3, "committed": 3}


def test_rows_that_no_commit_brought_go(lake: TopicLake, capsys: Capsys) -> None:
    """And the receipts say of all rows that are left who brought them, once retention takes their messages."""
    with_rows(lake)
    append(lake, {"row": 99}, {})
    assert counts(audit(lake, capsys, RIGHT, code=1))["added"] == 1
    Replace(lake, 0, 1).run()
    lake.produce(b'{"id": 4, "more": "d"}')
    lake.run(source=RIGHT)
    forget_before(lake, 3)
    found = audit(lake, capsys, RIGHT)
    assert (found["added"], found["doubled"], found["gone"], kinds(found)) == (0, 0, 0, [])


def test_a_partition_of_which_retention_took_some_is_refused(lake: TopicLake, capsys: Capsys) -> None:
    with_rows(lake)
    forget_before(lake, 1)
    version = DeltaTable(lake.table).version()
    assert main(["replace", "--path", f"{lake.topic}/*", str(lake.config_file(RIGHT))]) == 2
    said = capsys.readouterr().err
    assert f"{lake.topic}/0: of 1 of its rows the brokers no longer have the messages" in said
    assert "the first offset that they have is 1" in said
    assert DeltaTable(lake.table).version() == version
    [result] = Replace(lake, 1).run()
    assert (result.fate, result.rows) == (Fate.DONE, 2)


def test_what_matches_nothing_and_options_of_files_are_refused(lake: TopicLake, capsys: Capsys) -> None:
    with_rows(lake)
    file = str(lake.config_file(RIGHT))
    assert main(["replace", "--path", "other/*", file]) == 2
    assert "nothing of p:clicks matches" in capsys.readouterr().err
    assert main(["replace", "--partition", "0", file]) == 2
    assert "--partition is about files" in capsys.readouterr().err
    assert main(["replace", "--path", f"{lake.topic}/0", "--dry-run", "--json", file]) == 0
    [found] = json.loads(capsys.readouterr().out)
    assert [(one["path"], one["kind"]) for one in found["planned"]] == [(f"{lake.topic}/0", "offsets")]


def test_the_command_starts_spark_for_it(lake: TopicLake, capsys: Capsys) -> None:
    with_rows(lake)
    assert main(["replace", "--path", f"{lake.topic}/1", "--json", str(lake.config_file(RIGHT))]) == 0
    [found] = json.loads(capsys.readouterr().out)
    [one] = found["files"]
    assert (one["path"], one["fate"], one["rows"], one["records"]) == (f"{lake.topic}/1", "done", 2, None)
    assert values(lake) == [(0, 0, None), (0, 2, None), (1, 0, "a"), (1, 2, "c")]


@pytest.mark.parametrize("step", ["replay_planned", "batch_read", "messages_committed"])
def test_a_replace_may_be_killed_at_every_step_and_repeated(lake: TopicLake, capsys: Capsys, step: str) -> None:
    with_rows(lake)

    def dies(event: str) -> None:
        if event == step:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Replace(lake, 0, on_event=dies).run()
    Replace(lake, 0).run()
    assert values(lake) == [(0, 0, "a"), (0, 2, "c"), (1, 0, None), (1, 2, None)]
    assert sorted({*open_letters(lake)}) == [(f"{lake.topic}/0", 1), (f"{lake.topic}/1", 1)]
    assert counts(audit(lake, capsys, RIGHT)) == {"objects": 6, "committed": 4, "dead_lettered": 2}


ONE_ROW = {"objects": 2, "committed": 1, "dead_lettered": 1}
TWO_ROWS = {"objects": 2, "committed": 2}


@pytest.mark.parametrize("step", ["batch_read", "messages_committed"])
@pytest.mark.parametrize(
    ("first", "then", "before", "after"),
    [(STRICT, RIGHT, ONE_ROW, TWO_ROWS), (RIGHT, STRICT, TWO_ROWS, ONE_ROW)],
    ids=["takes more", "takes less"],
)
def test_the_audit_of_a_replacement_that_died(
    lake: TopicLake, capsys: Capsys, step: str, first: str, then: str, before: dict[str, int], after: dict[str, int]
) -> None:
    """It has new letters before its commit, and those of before are settled after it."""
    lake.produce(b'{"more": "a"}', b'{"id": 2, "more": "b"}')
    lake.run(source=first)

    def dies(event: str) -> None:
        if event == step:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Replace(lake, 0, source=then, on_event=dies).run()
    assert counts(audit(lake, capsys, then)) == (before if step == "batch_read" else after)


def test_a_row_of_a_message_that_was_settled_and_refused_again_is_doubled(lake: TopicLake, capsys: Capsys) -> None:
    lake.produce(b'{"more": "a"}', b'{"id": 2, "more": "b"}')
    lake.run(source=STRICT)
    for source in (RIGHT, STRICT):
        Replace(lake, 0, source=source).run()
    for mark in lake.table.glob("_blizzard/*/settled_letters/*.json"):
        mark.unlink()
    assert counts(audit(lake, capsys, RIGHT)) == ONE_ROW
    append(lake, {"row": 0})
    assert counts(audit(lake, capsys, RIGHT, code=1)) == TWO_ROWS | {"doubled": 1}


def test_a_job_that_commits_meanwhile_keeps_its_rows(lake: TopicLake, capsys: Capsys) -> None:
    with_rows(lake)
    lake.produce(b'{"id": 4, "more": "d"}')
    done: list[str] = []

    def race(event: str) -> None:
        if event == "batch_read" and not done:
            done.append(event)
            lake.run(source=RIGHT)

    replace = Replace(lake, 0, on_event=race)
    [result] = replace.run()
    assert "race_lost" in replace.events
    assert (result.fate, result.rows) == (Fate.DONE, 3)
    assert values(lake) == [(0, 0, "a"), (0, 2, "c"), (0, 3, "d"), (1, 0, None), (1, 2, None)]
    assert counts(audit(lake, capsys, RIGHT)) == {"objects": 7, "committed": 5, "dead_lettered": 2}


def test_messages_that_go_while_it_reads_end_it_without_a_change(lake: TopicLake) -> None:
    with_rows(lake)

    def forget(event: str) -> None:
        if event == "replay_planned":
            forget_before(lake, 2)

    replace = Replace(lake, 0, on_event=forget)
    [result] = replace.run()
    assert result.fate is Fate.HELD
    assert "cannot be read again whole" in (result.reason or "")
    assert values(lake) == [(0, 0, None), (0, 2, None), (1, 0, None), (1, 2, None)]
