"""`schema: infer` of topics: the first messages decide on the table's columns, and the table on all later ones."""

import json
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from blizzard.cli import main
from blizzard.errors import ConfigError, PermanentError
from blizzard.state.identity import SourceIdentity
from blizzard.state.schema_history import table_history
from blizzard.storage.local import LocalStore
from infra.local.kafka.cluster import KafkaCluster
from tests.kafka.test_topic_plan import plan
from tests.kafka.topic_lake import NewLake, TopicLake
from tests.kafka.topics import Message
from tests.unit.interruptions import crash_at
from tests.unit.schema_registry import Answer, Registry, encoded, framed, record_of

NDJSON = "format: ndjson\n                    schema: infer"


def infer(*more: str) -> str:
    """A source with further lines."""
    return "\n                    ".join((NDJSON, *more))


def columns(lake: TopicLake) -> dict[str, str]:
    fields = DeltaTable(lake.table).schema().fields
    return {field.name: getattr(field.type, "type", str(field.type)) for field in fields if field.name != "_source"}


def has_table(lake: TopicLake) -> bool:
    return lake.table.joinpath("_delta_log").exists()


def record(partition: int = 0, **fields: Any) -> Message:
    return Message(json.dumps(fields).encode(), partition=partition)


def origins(lake: TopicLake) -> dict[str, tuple[str | None, str | None]]:
    """By column, as the history of the table has it."""
    history = table_history(LocalStore(lake.table), [SourceIdentity("p", "clicks", "_blizzard/p_clicks")])
    assert {entry.source for entry in history} == {"p:clicks"}
    return {field.path: (field.origin, field.file) for entry in history for field in entry.fields or ()}


def test_the_first_messages_decide_and_the_commit_of_the_first_rows_makes_the_table(new_lake: NewLake) -> None:
    lake = new_lake(partitions=3)
    lake.produce(
        record(id=1, at="2026-11-21T10:00:00Z"),
        Message(None, b"gone"),
        Message(b'{"id": 2,\r\n "n": {"x": null}}'),
        record(1, id=3, n={"x": 1.5}, **{"bad name": 1}),
        Message(b"no json", partition=1),
    )
    lake.run(NDJSON)
    assert [*columns(lake)] == ["id", "at", "n"]
    assert sorted(row["id"] for row in lake.rows()) == [1, 2, 3]
    assert [(letter["path"][-1], letter["row"]) for letter in lake.letters()] == [("0", 1), ("1", 1)]
    [said] = lake.named("schema_inferred")
    assert said["schema"] == "id BIGINT, at TIMESTAMP, n STRUCT<x: DOUBLE>"
    assert (said["partitions"], said["records"]) == (2, 3)
    assert said["left_out"] == ["column `bad name` has ' ' in its name, which Delta cannot store without mapping"]
    assert DeltaTable(lake.table).version() == 0
    assert {origin for origin, _ in origins(lake).values()} == {"inferred", "configuration"}
    assert origins(lake)["id"] == ("inferred", f"{lake.topic}/0")
    ends = {f"blizzard:p:clicks:{lake.topic}:{number}": end for number, end in ((0, 2), (1, 1))}
    assert lake.txns() == {"blizzard:p:clicks": 0, **ends}


def test_later_runs_use_the_columns_of_the_table(new_lake: NewLake) -> None:
    lake = new_lake()
    job = lake.job(NDJSON)
    lake.produce(record(id=1))
    job.ingest.drain()
    lake.produce(record(id=2, more="x"))
    job.ingest.drain()
    lake.produce(record(id="text"), record(id=3, more="y"))
    lake.run(NDJSON)
    assert [*columns(lake)] == ["id"]
    assert [row["id"] for row in lake.rows()] == [1, 2, 3]
    assert len(lake.named("schema_inferred")) == 1
    assert [field["name"] for one in lake.named("unknown_fields") for field in one["fields"]] == ["more", "more"]
    assert [letter["row"] for letter in lake.letters()] == [2]
    assert not lake.named("race_lost") + lake.named("retrying")


def test_without_a_message_no_table_is_made_and_none_is_passed_by(new_lake: NewLake) -> None:
    lake = new_lake()
    lake.run(NDJSON)
    assert not has_table(lake)
    job = lake.job(NDJSON)
    job.ingest.drain()
    lake.produce(record(id=1))
    job.ingest.drain()
    lake.produce(record(id=2))
    lake.run(NDJSON)
    assert lake.places() == [(0, 0), (0, 1)]


def test_at_latest_where_it_begins_is_committed_before_there_is_a_message(new_lake: NewLake) -> None:
    lake = new_lake()
    lake.produce(record(old=1))
    lake.run(NDJSON, kafka="start: latest")
    assert columns(lake) == {}
    lake.produce(record(id=2))
    lake.run(NDJSON, kafka="start: latest")
    assert columns(lake) == {"id": "long"}
    assert lake.places() == [(0, 1)]
    assert not lake.named("race_lost") + lake.named("retrying")
    assert origins(lake) == {"_source": ("configuration", None), "id": ("inferred", f"{lake.topic}/0")}


def test_a_process_that_has_committed_where_it_begins_goes_on_with_the_first_messages(new_lake: NewLake) -> None:
    lake = new_lake()
    job = lake.job(NDJSON, kafka="start: latest")
    job.ingest.drain()
    lake.produce(record(id=2))
    job.ingest.drain()
    assert lake.places() == [(0, 0)]
    assert not lake.named("race_lost") + lake.named("retrying")


def test_where_it_begins_by_a_time_is_in_the_txns_of_the_first_rows(new_lake: NewLake) -> None:
    lake = new_lake(partitions=2)
    old, new = 1_761_955_200_000, 1_762_041_600_000
    lake.produce(
        *[Message(b'{"old": 1}', partition=number, timestamp_ms=old) for number in (0, 1)],
        Message(b'{"id": 1}', timestamp_ms=new),
    )
    source = "start: '2025-11-01T12:00:00Z'"
    lake.run(NDJSON, kafka=source)
    assert lake.places() == [(0, 1)]
    assert columns(lake) == {"id": "long"}
    expected = {f"blizzard:p:clicks:{lake.topic}:{number}": end for number, end in ((0, 1), (1, 0))}
    assert lake.txns() == {"blizzard:p:clicks": 0, **expected}


def test_where_it_begins_is_in_a_first_commit_that_adds_columns(
    new_lake: NewLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sample has one message, and the first batch another field."""
    monkeypatch.setattr("spark_job.infer.message_sample.SAMPLE_BYTES", 1)
    lake = new_lake(partitions=2)
    lake.produce(Message(b"{}", partition=1, timestamp_ms=1_761_955_200_000))
    lake.produce(record(id=1), record(id=2, more="x"))
    lake.run(infer("new_fields: add"), kafka="start: '2025-11-01T12:00:00Z'")
    assert [*columns(lake)] == ["id", "_rescued", "more"]
    assert [(row["id"], row["more"]) for row in lake.rows()] == [(1, None), (2, "x")]
    expected = {f"blizzard:p:clicks:{lake.topic}:{number}": end for number, end in ((0, 1), (1, 0))}
    assert lake.txns() == {"blizzard:p:clicks": 1, **expected}


def test_messages_behind_the_first_batch_are_looked_at_if_that_holds_no_record(new_lake: NewLake) -> None:
    lake = new_lake()
    lake.produce(Message(None, b"k"), b"no json", Message(b""), b"[1]", record(id=1), record(id=2))
    lake.run(infer("checkpoint: {interval_records: 2}"))
    assert [row["id"] for row in lake.rows()] == [1, 2]
    assert [letter["row"] for letter in lake.letters()] == [0, 1, 2, 3]


def test_without_a_record_the_source_fails_with_a_sentence_and_goes_on_when_there_is_one(new_lake: NewLake) -> None:
    lake = new_lake()
    lake.produce(Message(None, b"k"), b"no json")
    with pytest.raises(
        PermanentError, match=r"none of the first 2 messages holds a record .* such as offset 0 of .*tomb"
    ):
        lake.run(NDJSON)
    assert not has_table(lake)
    lake.produce(record(id=1))
    lake.run(NDJSON)
    assert lake.places() == [(0, 2)]
    assert [letter["row"] for letter in lake.letters()] == [0, 1]


def test_records_without_a_name_that_a_column_can_have_are_refused(new_lake: NewLake) -> None:
    lake = new_lake()
    lake.produce(record(**{"a b": 1}))
    with pytest.raises(PermanentError, match=r"none of the 1 fields of the records can be a column \(column `a b` has"):
        lake.run(NDJSON)
    assert not has_table(lake)


@pytest.mark.parametrize("when", ["schema_inferred", "batch_read", "messages_committed"])
@pytest.mark.parametrize("start", ["earliest", "latest"])
def test_a_run_after_a_crash_ends_with_each_record_once(new_lake: NewLake, when: str, start: str) -> None:
    lake, kafka = new_lake(partitions=2), f"start: {start}"
    if start == "latest":
        lake.run(NDJSON, kafka)
    lake.produce(record(id=1), record(1, id=2, more=True))

    crash_at(lake, when)
    with pytest.raises(SystemExit):
        lake.run(NDJSON, kafka)
    assert has_table(lake) == (when == "messages_committed" or start == "latest")
    lake.produce(record(id=3))
    lake.run(NDJSON, kafka)
    assert columns(lake).keys() == {"id", "more"}
    assert lake.places() == [(0, 0), (0, 1), (1, 0)]


@pytest.mark.parametrize("when", ["schema_inferred", "batch_read"])
@pytest.mark.parametrize("start", ["earliest", "latest"])
def test_a_job_that_lost_the_race_takes_the_columns_of_the_winner(new_lake: NewLake, when: str, start: str) -> None:
    """Both infer, the winner from more messages: with another type, and another field."""
    lake, kafka = new_lake(partitions=2), f"start: {start}"
    if start == "latest":
        lake.run(NDJSON, kafka)
    lake.produce(record(id=1))
    ours, theirs = lake.job(NDJSON, kafka), lake.job(NDJSON, kafka)

    def overtake(event: str) -> None:
        if event == when:
            lake.on_event = lambda event: None
            lake.produce(record(1, id=2.5, theirs=True))
            theirs.ingest.drain()

    lake.on_event = overtake
    ours.ingest.drain()
    if start == "latest" and when == "batch_read":
        assert columns(lake).keys() == {"id"}  # ours had given the table its columns by then
        assert [letter["path"][-1] for letter in lake.letters()] == ["1"]
        assert lake.places() == [(0, 0)]
    else:
        assert columns(lake) == {"id": "double", "theirs": "boolean"}
        assert lake.letters() == []
        assert sorted(row["id"] for row in lake.rows()) == [1.0, 2.5]
    assert len(lake.places()) + len(lake.letters()) == 2


def test_a_source_that_gives_the_table_its_columns_first_decides(
    new_lake: NewLake, kafka: KafkaCluster, tmp_path: Path
) -> None:
    """Where both begin is committed, so that the table is there without columns."""
    lake = new_lake()
    other = TopicLake(tmp_path / "other", kafka, lake.topic)
    other.table, other.source = lake.table, "others"
    job = lake.job(NDJSON, "start: latest")
    job.ingest.drain()
    lake.produce(record(id=1, ours=1))

    def overtake(event: str) -> None:
        if event == "schema_inferred":
            lake.on_event = lambda event: None
            other.run("format: ndjson\n                    schema: id BIGINT, other STRING")

    lake.on_event = overtake
    job.ingest.drain()
    assert [*columns(lake)] == ["id", "other"]
    assert sorted(row["_source"]["source"] for row in lake.rows()) == ["p:clicks", "p:others"]
    other.close()


def test_a_table_that_another_source_makes_meanwhile_is_found_by_a_process_that_waits(
    new_lake: NewLake, kafka: KafkaCluster, tmp_path: Path
) -> None:
    lake = new_lake()
    job = lake.job(NDJSON)
    job.ingest.drain()
    other = TopicLake(tmp_path / "other", kafka, lake.topic)
    other.table, other.source = lake.table, "others"
    other.produce(record(id=1))
    other.run("format: ndjson\n                    schema: id BIGINT, other STRING")
    job.ingest.drain()
    assert sorted(row["_source"]["source"] for row in lake.rows()) == ["p:clicks", "p:others"]
    assert [*columns(lake)] == ["id", "other"]
    assert not lake.named("schema_inferred")
    other.close()


def test_a_table_is_partitioned_by_what_the_messages_show(new_lake: NewLake) -> None:
    lake = new_lake()
    lake.produce(record(id=1, day="2026-11-21"))
    with pytest.raises(ConfigError, match=r"partition_by\[0\]: found 'city', which source clicks does not have"):
        lake.run(NDJSON, pipeline="partition_by: [city]")
    assert not has_table(lake)
    with pytest.raises(PermanentError, match="has `schema: infer` and `start: latest`, and table"):
        lake.run(NDJSON, "start: latest", "partition_by: [day]")
    assert not has_table(lake)
    lake.run(NDJSON, pipeline="partition_by: [day]")
    assert DeltaTable(lake.table).metadata().partition_columns == ["day"]
    lake.produce(record(id=2, day="2026-11-22"))
    lake.run(NDJSON, "start: latest", "partition_by: [day]")
    assert lake.places() == [(0, 0), (0, 1)]


def test_what_the_first_messages_did_not_show_is_rescued_or_widened_or_added(new_lake: NewLake) -> None:
    lake = new_lake()
    lake.produce(record(id=1))
    lake.run(infer("misfits: rescue"))
    lake.produce(record(id="x"))
    lake.run(infer("misfits: rescue"))
    assert [row["_rescued"] for row in lake.rows()] == [None, '{"id":"x"}']
    lake.produce(record(id=2, more=1.5))
    lake.run(infer("new_fields: add"))
    assert [row["more"] for row in lake.rows()] == [None, None, 1.5]


def test_letters_are_read_once_more_into_the_columns_of_the_table(
    new_lake: NewLake, capsys: pytest.CaptureFixture[str]
) -> None:
    lake, small = new_lake(), infer("limits: {max_record_bytes: 20}")
    lake.produce(record(id=1), record(id=2, text="x" * 20))
    lake.run(small)
    assert [*columns(lake)] == ["id"]  # what is refused says nothing about the columns
    assert main(["replay", "--json", str(lake.config_file(NDJSON))]) == 0
    capsys.readouterr()
    assert lake.places() == [(0, 0), (0, 1)]
    assert main(["audit", "--json", str(lake.config_file(NDJSON))]) == 0


def test_a_plan_counts_no_commit_for_where_the_source_begins(
    new_lake: NewLake, capsys: pytest.CaptureFixture[str]
) -> None:
    lake = new_lake()
    lake.produce(record(id=1))
    assert plan(lake, capsys, "format: ndjson\n                    schema: id BIGINT")["commits"] == 2
    assert plan(lake, capsys, NDJSON, "start: latest")["commits"] == 1
    assert plan(lake, capsys, NDJSON)["commits"] == 1
    lake.run(NDJSON)
    assert len([*lake.table.glob("_delta_log/*.json")]) == 1


CLICK = record_of({"id": "int", "name": "string"}, "click")
NEWER = record_of({"id": "long", "page": ["null", "string"], "day": {"type": "int", "logicalType": "date"}}, "click")


def test_the_schemas_of_a_registry_decide(new_lake: NewLake) -> None:
    """The registry fails at first, and knows more schemas than messages have."""
    failed = list[str]()

    def fail_once() -> Answer:
        failed.append(registry.asked[-1])
        registry.answer = None
        return 503, b"{}"

    lake = new_lake(partitions=2)
    with Registry(("u", "secret-password")) as registry:
        old, new, other = registry.add(CLICK), registry.add(NEWER), registry.add(record_of({"other": "int"}))
        registry.answer = fail_once
        lake.produce(
            Message(framed(old, CLICK, {"id": 1, "name": "a"})),
            Message(framed(new, NEWER, {"id": 2, "page": None, "day": 7}), partition=1),
            Message(framed(other, CLICK, {"id": 1, "name": "of no such schema"})),
            Message(b"{}", b"k"),
        )
        login = "username: u, password: secret-password"
        source = f"""format: avro
                    schema: infer
                    retries: {{max_backoff_secs: 0.1}}
                    avro: {{registry: {{url: "{registry.url}", {login}}}}}"""
        lake.run(source)
        assert failed
        lake.produce(Message(framed(old, CLICK, {"id": 3, "name": "c"})))
        lake.run(source)
    assert columns(lake) == {"id": "long", "name": "string", "page": "string", "day": "date"}
    assert [(row["id"], row["name"]) for row in lake.rows()] == [(1, "a"), (3, "c"), (2, None)]
    assert [letter["row"] for letter in lake.letters()] == [1, 2]
    assert len(lake.named("schema_inferred")) == 1
    assert "secret-password" not in str(lake.events)


def test_a_given_schema_decides_once_a_message_can_be_read_by_it(new_lake: NewLake) -> None:
    lake = new_lake()
    source = f"""format: avro
                    schema: infer
                    avro: {{schema: '{json.dumps(NEWER)}'}}"""
    lake.produce(b"\xff")
    with pytest.raises(PermanentError, match="none of the first 1 messages holds a record that can be read as avro"):
        lake.run(source)
    lake.produce(encoded(NEWER, {"id": 2, "page": "p", "day": 7}))
    lake.run(source)
    assert columns(lake) == {"id": "long", "page": "string", "day": "date"}
    assert [row["page"] for row in lake.rows()] == ["p"]


def test_a_given_schema_without_columns_is_an_error_before_anything_is_read(new_lake: NewLake) -> None:
    lake = new_lake()
    nothing = json.dumps({"type": "record", "name": "r", "fields": 7})
    with pytest.raises(PermanentError, match="no schema can be inferred from the schema in `avro`"):
        lake.job(f"format: avro\n                    schema: infer\n                    avro: {{schema: '{nothing}'}}")
