"""Topics of a real broker into a table, by Spark."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from deltalake import DeltaTable
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from blizzard.errors import RecoveryError
from blizzard.state.identity import SourceIdentity
from blizzard.state.schema_history import table_history
from blizzard.storage.local import LocalStore
from infra.local.kafka.cluster import KafkaCluster
from tests.fixtures_kafka import NewTopic
from tests.kafka.topic_lake import TopicLake
from tests.kafka.topics import Message
from tests.unit.documents import fences
from tests.unit.rebuild_lake import become_table_of
from tests.unit.schema_registry import Registry, framed, record_of

pytestmark = pytest.mark.spark
NDJSON = "format: ndjson\n                    schema: id BIGINT, price DECIMAL(9,2)"


@pytest.fixture
def lake(
    tmp_path: Path, kafka: KafkaCluster, new_topic: NewTopic, spark: Callable[[], SparkSession]
) -> Iterator[TopicLake]:
    made = TopicLake(tmp_path, kafka, new_topic(3))
    made.spark = spark
    yield made
    made.close()


def query_of_page(beginning: str) -> str:
    """Of the page about topics."""
    [found] = [one.body for one in fences("sql") if one.document == "docs/kafka.md" and one.body.startswith(beginning)]
    return found


def test_a_header_that_a_message_has_twice_is_read_as_the_page_says(lake: TopicLake) -> None:
    spark = lake.spark()
    lake.produce(Message(b"a", headers=[("trace", b"1"), ("other", b"x"), ("trace", b"2")]))
    lake.run()
    table = f"delta.`{lake.table}`"
    spark.sql(f"UPDATE {table} SET message_key = X'01'")
    pairs = [("trace", b"1"), ("other", b"x"), ("trace", b"2")]
    assert [row["message_headers"] for row in lake.rows()] == [pairs]
    [row] = spark.sql(query_of_page("SELECT filter(").replace("s3://lake/clicks", str(lake.table))).collect()
    assert row[0] == [b"1", b"2"]
    asked = "message_headers['trace'], map_entries(message_headers), size(message_headers), to_json(message_headers)"
    filtered = "map_entries(map_filter(message_headers, (name, value) -> name = 'trace'))"
    [row] = spark.sql(f"SELECT {asked}, {filtered}, map_keys(message_headers), message_headers FROM {table}").collect()
    first, entries, count, as_json, some, keys, in_python = row
    assert (first, [(*each,) for each in entries], count, keys) == (b"1", pairs, 3, [name for name, _ in pairs])
    assert ([(*each,) for each in some], as_json) == (
        [pairs[0], pairs[2]],
        '{"trace":"MQ==","other":"eA==","trace":"Mg=="}',
    )
    assert in_python == {"trace": b"2", "other": b"x"}
    assert len(spark.sql(f"SELECT explode(message_headers) FROM {table}").collect()) == 3
    again = f"SELECT map_from_entries(map_entries(message_headers))['trace'] FROM {table}"
    for refused in (again, f"SELECT map_concat(message_headers, map('a', X'00')) FROM {table}"):
        with pytest.raises(PySparkException, match="DUPLICATED_MAP_KEY"):
            spark.sql(refused).collect()
    spark.conf.set("spark.sql.mapKeyDedupPolicy", "LAST_WIN")
    try:
        assert spark.sql(again).collect()[0][0] == b"2"
    finally:
        spark.conf.unset("spark.sql.mapKeyDedupPolicy")


def test_both_engines_read_one_topic_in_turn(lake: TopicLake) -> None:
    spark = lake.spark
    for turn in range(4):
        lake.spark = spark if turn % 2 else None
        lake.produce(*[Message(f"{turn}".encode(), partition=number) for number in range(3)])
        lake.run()
    assert lake.places() == [(partition, offset) for partition in range(3) for offset in range(4)]
    assert lake.txns() == {
        "blizzard:p:clicks": 4,
        **{f"blizzard:p:clicks:{lake.topic}:{number}": 3 for number in range(3)},
    }


def test_messages_that_only_sparks_parser_can_judge_keep_their_places(lake: TopicLake) -> None:
    lake.produce(
        Message(b'{"id": 1, "price": 1.50}'),
        Message(b'{"id": 2, "price": 1.0e1}', b"key"),
        Message(b'{"id": "1.0e1"}', b"key", headers=[("h", b"v")]),
    )
    lake.run(source=NDJSON)
    rows = {row["_source"]["row"]: row["id"] for row in lake.rows()}
    letters = lake.letters()
    assert rows.keys() | {letter["row"] for letter in letters} == {0, 1, 2}
    assert all((letter["key"], letter["path"]) == ("key", f"{lake.topic}/0") for letter in letters)
    assert letters[-1]["headers"] == [{"name": "h", "value": "v"}]
    assert rows[0] == 1


def test_a_large_partition_is_divided_between_tasks(lake: TopicLake) -> None:
    lake.produce(*[Message(b"x" * 10, partition=1)] * 60_000, *[Message(b"y", partition=2)] * 3)
    lake.run()
    assert lake.places() == [*((1, n) for n in range(60_000)), *((2, n) for n in range(3))]


def test_messages_of_avro_by_the_schemas_of_a_registry(lake: TopicLake) -> None:
    old, new = record_of({"id": "int"}), record_of({"name": "string", "id": "long"})
    with Registry(("u", "secret-password")) as registry:
        first, second = registry.add(old), registry.add(new)
        lake.produce(
            Message(framed(first, old, {"id": 1}), partition=1),
            Message(framed(second, new, {"id": 2, "name": "n"})),
            Message(framed(first, old, {"id": 3}) + b"x", b"key"),
        )
        login = "username: u, password: secret-password"
        lake.run(
            source=f"""format: avro
                    schema: id BIGINT, name STRING
                    new_fields: rescue
                    derive: {{word: "soundex(name)"}}
                    avro: {{registry: {{url: "{registry.url}", {login}}}}}"""
        )
    assert [(row["id"], row["name"], row["word"]) for row in lake.rows()] == [(2, "n", "N000"), (1, None, None)]
    [letter] = lake.letters()
    assert (letter["row"], letter["key"]) == (1, "key")


@pytest.mark.parametrize("first", ["local", "spark"])
def test_both_engines_go_on_with_the_columns_that_one_of_them_inferred(lake: TopicLake, first: str) -> None:
    spark, source = lake.spark, "format: ndjson\n                    schema: infer"
    for turn in range(3):
        lake.spark = spark if (turn % 2 == 0) == (first == "spark") else None
        lake.produce(*[Message(b'{"id": %d, "n": {"x": 1.5}}' % turn, partition=number) for number in range(2)])
        lake.run(source)
    assert lake.places() == [(partition, offset) for partition in range(2) for offset in range(3)]
    assert [(row["id"], row["n"]) for row in lake.rows()] == [(turn, {"x": 1.5}) for turn in range(3)] * 2
    assert len(lake.named("schema_inferred")) == 1
    assert lake.txns() == {
        "blizzard:p:clicks": 2,
        **{f"blizzard:p:clicks:{lake.topic}:{number}": 2 for number in range(2)},
    }


def test_a_table_that_only_spark_can_make_is_made_with_the_columns_that_messages_show(lake: TopicLake) -> None:
    lake.produce(Message(b'{"id": 1, "day": "2026-11-21"}'), Message(b'{"id": 2, "day": "2026-11-22"}', partition=2))
    source = "format: ndjson\n                    schema: infer"
    lake.run(source, pipeline="cluster_by: [day]")
    lake.run(source, pipeline="cluster_by: [day]")
    assert [(row["id"], str(row["day"])) for row in lake.rows()] == [(1, "2026-11-21"), (2, "2026-11-22")]
    expected = {f"blizzard:p:clicks:{lake.topic}:{number}": 0 for number in (0, 2)}
    assert lake.txns() == {"blizzard:p:clicks": 0, **expected}


def test_a_source_that_begins_before_there_is_a_message_gets_its_columns_from_spark(lake: TopicLake) -> None:
    source, kafka = "format: ndjson\n                    schema: infer", "start: latest"
    lake.run(source, kafka)
    lake.produce(Message(b'{"id": 1}', partition=1))
    lake.run(source, kafka)
    assert [(row["id"], row["_source"]["file"]) for row in lake.rows()] == [(1, f"{lake.topic}/1")]
    made, added = table_history(LocalStore(lake.table), [SourceIdentity("p", "clicks", "_blizzard/p_clicks")])
    assert [(one.source, len(one.fields or ())) for one in (made, added)] == [("p:clicks", 1)] * 2
    (field,) = added.fields or ()
    assert (field.path, field.origin, field.file, field.records) == ("id", "inferred", f"{lake.topic}/1", 1)


def test_a_renamed_source_is_refused_by_its_txns_and_by_its_rows(lake: TopicLake) -> None:
    lake.produce(b"a")
    lake.run()
    lake.source = "visits"
    for _ in range(2):
        with pytest.raises(RecoveryError, match=rf"topic {lake.topic} \(id \S{{22}}\) by source p:clicks.*former name"):
            lake.run()
        become_table_of(lake.table, DeltaTable(lake.table).to_pyarrow_table())  # without a Txn
    lake.run(kafka="take_over: nothing")
    assert lake.places() == [(0, 0), (0, 0)]


def test_the_query_of_the_page_says_which_offsets_are_there_and_doubled(
    lake: TopicLake, spark: Callable[[], SparkSession]
) -> None:
    query = re.sub(r"delta\.`s3://[^`]+`", f"delta.`{lake.table}`", query_of_page("SELECT _source.file"))
    lake.produce(*[b"a"] * 5, *[Message(b"b", partition=2)] * 3)
    lake.run()
    first, third = f"{lake.topic}/0", f"{lake.topic}/2"
    assert [tuple(row) for row in spark().sql(query).collect()] == [(first, 0, 4, 5, 0), (third, 0, 2, 3, 0)]
    table = f"delta.`{lake.table}`"
    spark().sql(f"INSERT INTO {table} SELECT * FROM {table} WHERE stream_offset = 1")
    assert [tuple(row) for row in spark().sql(query).collect()] == [(first, 0, 4, 6, 1), (third, 0, 2, 4, 1)]
