"""Tables of kafka-delta-ingest: the first run goes on behind its offsets, and never begins afresh in silence."""

import re
from pathlib import Path

import deltalake
import pyarrow as pa
import pytest
from deltalake import CommitProperties, write_deltalake

from blizzard.cli import main
from blizzard.errors import RecoveryError
from tests.kafka.test_topic_audit import audit, counts
from tests.kafka.topic_lake import NewLake, TopicLake
from tests.kafka.topics import Message

KAFKA_PAGE = Path(__file__).parents[2] / "docs" / "kafka.md"
NDJSON = "format: ndjson\n                    schema: id BIGINT"


def filled_by_another(lake: TopicLake, app_id: str, last: dict[int, int]) -> None:
    """As kafka-delta-ingest does it: a Txn for each partition, whose version is the last offset that it wrote."""
    lake.produce(*[Message(b'{"id": %d}' % (100 * p + n), partition=p) for p in last for n in range(5)])
    ids = [100 * partition + n for partition, end in last.items() for n in range(end + 1)]
    txns = [deltalake.Transaction(f"{app_id}-{partition}", end) for partition, end in last.items()]
    rows = pa.table({"id": pa.array(ids, pa.int64())})
    write_deltalake(lake.table, rows, commit_properties=CommitProperties(app_transactions=txns))


def test_the_first_run_goes_on_behind_its_offsets(new_lake: NewLake) -> None:
    lake = new_lake(partitions=3)
    filled_by_another(lake, "kdi", {0: 2, 1: 4})
    lake.produce(Message(b'{"id": 200}', partition=2))
    lake.run(source=NDJSON, kafka="take_over: kdi")
    ids = sorted(row["id"] for row in deltalake.DeltaTable(lake.table).to_pyarrow_table().to_pylist())
    assert ids == [*range(5), *range(100, 105), 200]
    assert lake.txns()[f"blizzard:p:clicks:{lake.topic}:1"] == 4
    lake.produce(Message(b'{"id": 5}'))
    lake.run(source=NDJSON, kafka="take_over: kdi")
    assert len(deltalake.DeltaTable(lake.table).to_pyarrow_table()) == 12


@pytest.mark.parametrize(
    ("block", "expected"),
    [("", "take_over: kdi-app"), ("take_over: kdi", "no Txn of that app id .*found app ids: kdi-app")],
)
def test_without_the_right_app_id_nothing_is_read(new_lake: NewLake, block: str, expected: str) -> None:
    lake = new_lake()
    filled_by_another(lake, "kdi-app", {0: 2})
    with pytest.raises(RecoveryError, match=expected):
        lake.run(source=NDJSON, kafka=block)
    assert len(deltalake.DeltaTable(lake.table).to_pyarrow_table()) == 3


def test_txns_of_something_else_are_left_alone_if_the_source_says_so(new_lake: NewLake) -> None:
    lake = new_lake()
    filled_by_another(lake, "other", {0: 2})
    lake.run(source=NDJSON, kafka="take_over: nothing")
    assert len(deltalake.DeltaTable(lake.table).to_pyarrow_table()) == 3 + 5


@pytest.mark.parametrize(
    ("partitions", "messages", "expected"),
    [
        (1, 5, r"Txn kdi-1, and topic .* has no partition 1 .*found 1 partitions, 0 to 0"),
        (2, 2, "gets offset 2 .*3 or"),
    ],
)
def test_offsets_that_cannot_be_of_the_topic_are_not_taken_over(
    new_lake: NewLake, partitions: int, messages: int, expected: str
) -> None:
    lake, other = new_lake(partitions=2), new_lake(partitions=partitions)
    filled_by_another(lake, "kdi", {0: 2, 1: 4})
    other.produce(*[Message(b'{"id": 1}', partition=p) for p in range(partitions) for _ in range(messages)])
    right, lake.topic = lake.topic, other.topic
    with pytest.raises(RecoveryError, match=expected):
        lake.run(source=NDJSON, kafka="take_over: kdi")
    assert deltalake.DeltaTable(lake.table).version() == 0
    lake.topic = right
    lake.run(source=NDJSON, kafka="take_over: kdi")
    ids = sorted(row["id"] for row in deltalake.DeltaTable(lake.table).to_pyarrow_table().to_pylist())
    assert ids == [*range(5), *range(100, 105)]


def test_offsets_are_not_taken_over_for_a_second_topic(new_lake: NewLake) -> None:
    lake, other = new_lake(), new_lake()
    filled_by_another(lake, "kdi", {0: 2})
    other.produce(*[b'{"id": 7}'] * 3)
    right, lake.topic = lake.topic, other.topic
    lake.run(source=NDJSON, kafka="take_over: kdi")
    lake.topic = right
    with pytest.raises(RecoveryError, match=r"has taken over these offsets for topic .*#an-app-id-that-the-wrong"):
        lake.run(source=NDJSON, kafka="take_over: kdi")
    assert len(deltalake.DeltaTable(lake.table).to_pyarrow_table()) == 3
    lake.run(source=NDJSON)
    assert len(deltalake.DeltaTable(lake.table).to_pyarrow_table()) == 3 + 5


def test_a_second_source_does_not_take_an_app_id_over_and_needs_no_take_over(
    new_lake: NewLake, capsys: pytest.CaptureFixture[str]
) -> None:
    lake, other = new_lake(), new_lake()
    filled_by_another(lake, "kdi", {0: 2})
    lake.run(source=NDJSON, kafka="take_over: kdi")
    other.produce(*[b'{"id": 7}'] * 5)
    first, lake.topic, lake.source = lake.topic, other.topic, "visits"
    before = lake.txns()
    with pytest.raises(RecoveryError, match=rf"p:clicks of the table has taken over its offsets for topic {first} "):
        lake.run(source=NDJSON, kafka="take_over: kdi")
    for command in ("plan", "validate --against-table"):
        assert main([*command.split(), str(lake.config_file(NDJSON, "take_over: kdi"))]) == 1
        assert "p:clicks of the table has taken over" in " ".join(capsys.readouterr().out.split())
    assert lake.txns() == before
    lake.run(source=NDJSON)
    assert len(deltalake.DeltaTable(lake.table).to_pyarrow_table()) == 5 + 5


def test_an_app_id_that_the_wrong_source_has_taken_over_is_given_to_another_one(new_lake: NewLake) -> None:
    lake, wrong = new_lake(partitions=2), new_lake(partitions=2)
    filled_by_another(lake, "kdi", {0: 2, 1: 1})
    wrong.produce(*[Message(b'{"id": 7}', partition=p) for p in (0, 1) for _ in range(4)])
    right, lake.topic = lake.topic, wrong.topic
    lake.run(source=NDJSON, kafka="take_over: kdi")
    exec(snippet("from deltalake import CommitProperties", lake), {})
    lake.source, lake.topic = "others", right
    lake.run(source=NDJSON, kafka="take_over: again")
    lake.source, lake.topic = "wrong", wrong.topic
    lake.run(source=NDJSON, kafka="take_over: nothing")
    found = [row["id"] for row in deltalake.DeltaTable(lake.table).to_pyarrow_table().to_pylist()]
    assert sorted(found) == [*range(5), *[7] * 8, *range(100, 105)]


def write_on(lake: TopicLake, partition: int, first: int, end: int) -> None:
    """As kafka-delta-ingest does if nobody stops it."""
    rows = pa.table({"id": pa.array([100 * partition + n for n in range(first, end + 1)], pa.int64())})
    txns = [deltalake.Transaction(f"kdi-{partition}", end)]
    write_deltalake(
        lake.table, rows, mode="append", schema_mode="merge", commit_properties=CommitProperties(app_transactions=txns)
    )


def ids(lake: TopicLake) -> list[int]:
    return sorted(row["id"] for row in deltalake.DeltaTable(lake.table).to_pyarrow_table().to_pylist())


def snippet(beginning: str, lake: TopicLake) -> str:
    """A block of Python of the page, about the table and the topic of the lake."""
    blocks = re.findall(r"```python\n(.*?)```", KAFKA_PAGE.read_text(), re.DOTALL)
    [code] = [block for block in blocks if block.startswith(beginning)]
    return code.replace("lake/clicks", str(lake.table)).replace("clicks/1", f"{lake.topic}/1")


def test_the_first_commit_does_not_hide_what_is_written_on_beside_it(new_lake: NewLake) -> None:
    lake = new_lake(partitions=3)
    filled_by_another(lake, "kdi", {0: 2, 1: 1})
    events = []

    def beside(event: str) -> None:
        if event == "positions_recovered" and not events:
            write_on(lake, 1, 2, 3)
        events.append(event)

    lake.on_event = beside
    expected = r"Txn kdi-1 has offset 3 \(expected at most 1\), so that offsets 2 to 3 of \S+/1 are of both\. "
    with pytest.raises(RecoveryError, match=expected):
        lake.run(source=NDJSON, kafka="take_over: kdi")
    assert ids(lake) == [0, 1, 2, 100, 101, 102, 103]
    lake.run(source=NDJSON)
    assert ids(lake) == [*range(5), 100, 101, 102, 102, 103, 103, 104]
    exec(snippet("from deltalake import DeltaTable\n", lake).replace("5 <= row <= 9", "2 <= row <= 3"), {})
    assert ids(lake) == [*range(5), *range(100, 105)]
    assert [row["_source"] is None for row in deltalake.DeltaTable(lake.table).to_pyarrow_table().to_pylist()].count(
        True
    ) == 5


def test_each_process_looks_once_whether_it_is_written_on(
    new_lake: NewLake, capsys: pytest.CaptureFixture[str]
) -> None:
    lake = new_lake(partitions=2)
    filled_by_another(lake, "kdi", {0: 2})
    job = lake.job(NDJSON, "take_over: kdi")
    job.ingest.drain()
    write_on(lake, 1, 0, 1)  # a partition of which it had read nothing
    lake.produce(Message(b'{"id": 100}', partition=1), Message(b'{"id": 101}', partition=1))
    expected = r"offsets 0 to 1 of \S+/1 are of both\."
    with pytest.raises(RecoveryError, match=expected):
        lake.run(source=NDJSON, kafka="take_over: kdi")
    assert ids(lake) == [*range(5), 100, 101]
    assert main(["plan", str(lake.config_file(NDJSON, "take_over: kdi"))]) == 1
    assert re.search(expected, " ".join(capsys.readouterr().out.split()))
    lake.run(source=NDJSON)
    assert ids(lake) == [*range(5), 100, 100, 101, 101]


def test_rows_of_before_are_no_news_to_an_audit(new_lake: NewLake, capsys: pytest.CaptureFixture[str]) -> None:
    lake = new_lake()
    filled_by_another(lake, "kdi", {0: 2})
    lake.run(source=NDJSON, kafka="take_over: kdi")
    found = audit(lake, capsys, NDJSON, "take_over: kdi")
    assert (counts(found), found["verdict"], found["notices"]) == ({"objects": 2, "committed": 2}, "good", [])
    assert [(each["source"], each["rows"]) for each in found["others"]] == [(None, 3)]
