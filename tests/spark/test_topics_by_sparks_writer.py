"""Topics into tables that need Spark's writer: what a source of files gets there, a source of topics gets, too."""

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from blizzard.errors import PermanentError
from infra.local.kafka.cluster import KafkaCluster
from spark_job.engines.spark import transaction
from tests.fixtures_kafka import NewTopic
from tests.kafka.topic_lake import TopicLake
from tests.kafka.topics import Message
from tests.spark.lake import Lake

pytestmark = pytest.mark.spark
SCHEMA = "id STRING, n BIGINT, price DECIMAL(9,2)"
NDJSON = f"format: ndjson\n                    schema: {SCHEMA}"
SOURCE = (
    "_source STRUCT<source: STRING, file: STRING, row: BIGINT, etag: STRING, modified: TIMESTAMP, sequence: BIGINT>"
)
LINES = (
    '{"id": "a", "n": 1, "price": 1.50}',
    '{"id": "below", "n": -1, "price": 2}',
    '{"id": "only Spark judges", "n": 3, "price": 1.0e1}',
    '{"id": "Spark refuses", "n": "1.0e1"}',
    '{"id": ',
    '{"id": "xx", "n": 6}',
    '{"id": "h", "n": 7, "price": 3.25}',
)
KEPT, REFUSED = [0, 2, 6], [1, 3, 4, 5]
"""Of the lines, if the table has CONSTRAINTS."""
CONSTRAINTS = {"above": "n > 0", "of_spark": "soundex(id) <> 'X000'"}


def created(columns: str = SCHEMA, more: str = "", **properties: str) -> Callable[[SparkSession, Path], None]:
    def make(spark: SparkSession, table: Path) -> None:
        listed = ", ".join(f"'{name}' = '{value}'" for name, value in properties.items())
        with_properties = f"TBLPROPERTIES ({listed})" if listed else ""
        spark.sql(f"CREATE TABLE delta.`{table}` ({columns}, {SOURCE}) USING delta {more} {with_properties}")

    return make


def with_identity(spark: SparkSession, table: Path) -> None:
    """And a generated column."""
    tables: Any = spark._jvm.io.delta.tables.DeltaTable  # type: ignore[union-attr]
    made = tables.create(spark._jsparkSession).location(str(table))
    for column in f"{SCHEMA}, {SOURCE}".split(", ", 3):
        name, _, kind = column.partition(" ")
        made = made.addColumn(name, kind)
    twice = tables.columnBuilder(spark._jsparkSession, "twice").dataType("BIGINT").generatedAlwaysAs("n * 2").build()
    k = tables.columnBuilder(spark._jsparkSession, "k").dataType("BIGINT").generatedAlwaysAsIdentity().build()
    made.addColumn(twice).addColumn(k).execute()


def constrain(spark: SparkSession, table: Path) -> None:
    for name, sql in CONSTRAINTS.items():
        spark.sql(f"ALTER TABLE delta.`{table}` ADD CONSTRAINT {name} CHECK ({sql})")


TABLES: Mapping[str, Callable[[SparkSession, Path], None]] = {
    "column mapping (delta.columnMapping.mode)": created(**{"delta.columnMapping.mode": "id"}),
    "column id with __CHAR_VARCHAR_TYPE_STRING": created(SCHEMA.replace("id STRING", "id VARCHAR(30)")),
    "partitions by price of type decimal(9,2)": created(SCHEMA, "PARTITIONED BY (price)"),
    "table feature rowTracking": created(**{"delta.enableRowTracking": "true"}),
    "optimized writes or automatic compaction (delta.autoOptimize.autoCompact)": created(
        **{"delta.autoOptimize.autoCompact": "true"}
    ),
    "column k with delta.identity.allowExplicitInsert": with_identity,
}


@pytest.fixture
def lake(
    tmp_path: Path, kafka: KafkaCluster, new_topic: NewTopic, spark: Callable[[], SparkSession]
) -> Iterator[TopicLake]:
    made = TopicLake(tmp_path / "topics", kafka, new_topic(2))
    made.spark = spark
    yield made
    made.close()


def rows_of(spark: SparkSession, table: Path) -> list[dict[str, Any]]:
    """Without what differs between any two tables."""
    found = spark.read.format("delta").load(str(table)).selectExpr("* EXCEPT (_source)", "_source.row").orderBy("row")
    return [{name: value for name, value in row.asDict().items() if name != "k"} for row in found.collect()]


def newest_commit(lake: TopicLake) -> list[dict[str, Any]]:
    newest = max((lake.table / "_delta_log").glob("*.json"))
    return [json.loads(line) for line in newest.read_text().splitlines()]


@pytest.mark.parametrize("reason", TABLES)
def test_a_topic_gets_what_files_of_the_same_records_get(
    lake: TopicLake, tmp_path: Path, spark: Callable[[], SparkSession], reason: str
) -> None:
    partition_by = ["price"] if reason.startswith("partitions by price") else []
    settings = {"schema": SCHEMA, "format": "ndjson"}
    files = Lake(tmp_path / "files", spark, settings, {"partition_by": partition_by})
    for table in (files.table, lake.table):
        TABLES[reason](spark(), table)
        constrain(spark(), table)
    files.put("f.ndjson", *LINES)
    files.run()
    lake.produce(*(Message(line.encode(), f"key {row}".encode()) for row, line in enumerate(LINES)))
    lake.run(source=NDJSON, pipeline=f"partition_by: {partition_by}")
    assert [one["reason"] for one in lake.named("rows_written_twice")] == [reason]
    rows = rows_of(spark(), lake.table)
    assert [row["row"] for row in rows] == KEPT
    assert rows == rows_of(spark(), files.table)
    letters = [{(one["row"], one["stage"], one["error"]) for one in each.letters()} for each in (lake, files)]
    assert sorted(row for row, *_ in letters[0]) == REFUSED
    assert letters[0] == letters[1]
    assert [(one["raw"], one["key"]) for one in lake.letters()] == [(LINES[row], f"key {row}") for row in REFUSED]
    assert not [*lake.table.glob("_blizzard/*/staging/**/*.parquet")]


def test_a_message_that_spark_refuses_keeps_its_bytes_in_the_letter(
    lake: TopicLake, spark: Callable[[], SparkSession]
) -> None:
    """Also in a table that takes files as they are."""
    lake.auto = True
    lake.produce(
        Message(b"\xff", b"\xfe", headers=[("h", b"v")]),
        Message(b"plain", b"k"),
        Message(None, b"gone"),
        Message(b"xx"),
    )
    of_spark = "constraints: {of_spark: \"soundex(CAST(message_key AS STRING)) = 'K000'\"}"
    lake.run(source="format: envelope", pipeline=of_spark)
    assert [row["row"] for row in rows_of(spark(), lake.table)] == [1]
    first, tombstone, last = lake.letters()
    assert (first["raw_base64"], first["key_base64"]) == ("/w==", "/g==")
    assert first["headers"] == [{"name": "h", "value": "v"}]
    assert (tombstone["raw"], tombstone["key"]) == ("", "gone")
    assert (last["raw"], last["key"]) == ("xx", None)
    assert lake.txns()[f"blizzard:p:clicks:{lake.topic}:0"] == 3


def test_the_commit_has_the_txns_of_the_source_and_of_its_partitions(
    lake: TopicLake, spark: Callable[[], SparkSession]
) -> None:
    created(**{"delta.columnMapping.mode": "name"})(spark(), lake.table)
    for turn in range(2):
        lake.produce(b'{"id": "a"}', b'{"id": "b"}')
        lake.run(source=NDJSON)
        actions = newest_commit(lake)
        txns = {each["txn"]["appId"]: each["txn"]["version"] for each in actions if "txn" in each}
        assert txns == {"blizzard:p:clicks": turn + 1, f"blizzard:p:clicks:{lake.topic}:0": 2 * turn + 1}
        assert sum(json.loads(each["add"]["stats"])["numRecords"] for each in actions if "add" in each) == 2
        [info] = [each["commitInfo"] for each in actions if "commitInfo" in each]
        assert (info["operation"], info["operationParameters"]["mode"]) == ("WRITE", "Append")
        assert json.loads(info["userMetadata"])["topics"][lake.topic]["next_offsets"] == {"0": 2 * turn + 2, "1": 0}
    before = len([*(lake.table / "_delta_log").glob("*.json")])
    lake.run(source=NDJSON)
    assert len([*(lake.table / "_delta_log").glob("*.json")]) == before
    assert [row["row"] for row in rows_of(spark(), lake.table)] == [0, 1, 2, 3]


def test_of_two_jobs_that_read_the_same_messages_one_loses_and_reads_on(
    lake: TopicLake, spark: Callable[[], SparkSession]
) -> None:
    created(**{"delta.columnMapping.mode": "name"})(spark(), lake.table)
    lake.run(source=NDJSON)
    lake.produce(b'{"id": "a"}', b'{"id": "b"}', b"no record")
    others: list[str] = []

    def another_job(event: str) -> None:
        if event == "batch_read" and not others:
            others.append(event)
            lake.run(source=NDJSON)
            lake.produce(b'{"id": "c"}')

    lake.on_event = another_job
    lake.run(source=NDJSON)
    assert len(lake.named("race_lost")) == 1
    assert [row["row"] for row in rows_of(spark(), lake.table)] == [0, 1, 3]
    assert {letter["row"] for letter in lake.letters()} == {2}


def test_the_automatic_engine_starts_spark_for_what_needs_it(
    lake: TopicLake, spark: Callable[[], SparkSession]
) -> None:
    """The commit, records that its parser judges, and constraints that it evaluates."""
    created(SCHEMA.replace("id STRING", "id VARCHAR(30)"))(spark(), lake.table)
    constrain(spark(), lake.table)
    lake.auto = True
    lake.produce(*map(str.encode, LINES))
    lake.run(source=NDJSON)
    assert [line["reason"] for line in lake.named("spark_needed")] == [
        f"writing to table file://{lake.table}, because of column id with __CHAR_VARCHAR_TYPE_STRING",
        "evaluating constraint of_spark (soundex ( id ) <> 'X000')",
    ]
    assert [row["row"] for row in rows_of(spark(), lake.table)] == KEPT
    assert [letter["row"] for letter in lake.letters()] == REFUSED
    assert lake.txns() == {"blizzard:p:clicks": 1, f"blizzard:p:clicks:{lake.topic}:0": len(LINES) - 1}


FEATURES = {
    "delta.enableDeletionVectors": "true",
    "delta.enableChangeDataFeed": "true",
    "delta.enableInCommitTimestamps": "true",
    "delta.checkpointPolicy": "v2",
}


def test_a_table_with_features_of_which_deltalake_knows_nothing(
    lake: TopicLake, spark: Callable[[], SparkSession]
) -> None:
    created(**FEATURES)(spark(), lake.table)
    lake.auto = True
    for turn in range(2):
        lake.produce(b'{"id": "a", "n": 1}', b'{"id": "b", "n": 2}')
        lake.run(source=NDJSON)
        spark().sql(f"DELETE FROM delta.`{lake.table}` WHERE id = 'a'")
        assert lake.txns()[f"blizzard:p:clicks:{lake.topic}:0"] == 2 * turn + 1
    assert [(row["id"], row["row"]) for row in rows_of(spark(), lake.table)] == [("b", 1), ("b", 3)]


def test_a_column_is_widened_for_a_message(lake: TopicLake, spark: Callable[[], SparkSession]) -> None:
    source = "format: ndjson\n                    misfits: widen\n                    schema: n INT"
    lake.auto = True
    lake.produce(b'{"n": 1}')
    lake.run(source=source)
    lake.produce(b'{"n": 5000000000}', b'{"n": 2}')
    lake.run(source=source)
    assert [(row["n"], row["row"]) for row in rows_of(spark(), lake.table)] == [(1, 0), (5_000_000_000, 1), (2, 2)]
    assert lake.letters() == []
    assert lake.txns()[f"blizzard:p:clicks:{lake.topic}:0"] == 2


def test_a_new_table_that_needs_sparks_writer_is_made_by_the_first_commit(
    lake: TopicLake, spark: Callable[[], SparkSession]
) -> None:
    lake.produce(b'{"a b": 1, "c": 2}')
    lake.run(source='format: ndjson\n                    schema: "`a b` BIGINT, c BIGINT"')
    [row] = rows_of(spark(), lake.table)
    assert row == {"a b": 1, "c": 2, "row": 0}
    assert lake.txns() == {"blizzard:p:clicks": 1, f"blizzard:p:clicks:{lake.topic}:0": 0}


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("_DELTA_PACKAGE", r"another\.build.*Source p:clicks reads topics"),
        ("_WRITER_PACKAGE", r"does not write them into a commit with more than one Txn"),
    ],
)
def test_a_build_of_delta_without_a_class_is_an_error_that_says_so(
    lake: TopicLake, spark: Callable[[], SparkSession], monkeypatch: pytest.MonkeyPatch, name: str, says: str
) -> None:
    created(**{"delta.columnMapping.mode": "name"})(spark(), lake.table)
    lake.produce(b'{"id": "a"}')
    with monkeypatch.context() as other_build:
        other_build.setattr(transaction, name, "org.apache.spark.sql.delta.of.another.build.")
        with pytest.raises(PermanentError, match=says):
            lake.run(source=NDJSON)
    assert rows_of(spark(), lake.table) == []
    lake.run(source=NDJSON)
    assert [row["id"] for row in rows_of(spark(), lake.table)] == ["a"]
