"""`blizzard audit` of a source that reads topics: rows that no commit brought, and what the brokers no longer have."""

from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from tests.kafka.test_topic_audit import (
    LONG,
    NDJSON,
    ONLY_SHORT,
    Capsys,
    audit,
    counts,
    die_before_the_commit,
    kinds,
)
from tests.kafka.test_topic_faults import forget_before
from tests.kafka.topic_lake import NewLake, TopicLake
from tests.kafka.topics import delete_topic, produce_in_transaction


def append(lake: TopicLake, *sources: dict[str, Any] | None) -> None:
    """The first row once more for each of these, with other values in `_source`; None: without it."""
    rows = DeltaTable(lake.table).to_pyarrow_table()
    row = min(rows.to_pylist(), key=lambda row: (row["_source"] or {"row": 1_000})["row"])
    forged = [row | {"_source": None if values is None else row["_source"] | values} for values in sources]
    write_deltalake(lake.table, pa.Table.from_pylist(forged, schema=rows.schema), mode="append")


def take_out(lake: TopicLake, *offsets: int) -> None:
    """Another program writes the table anew without the rows of these."""
    rows = DeltaTable(lake.table).to_pyarrow_table()
    kept = [row for row in rows.to_pylist() if row["_source"]["row"] not in offsets]
    write_deltalake(lake.table, pa.Table.from_pylist(kept, schema=rows.schema), mode="overwrite")


def six_messages(new_lake: NewLake) -> TopicLake:
    lake = new_lake()
    lake.produce(*[b'{"id": %d}' % n for n in range(6)])
    lake.run(source=NDJSON)
    return lake


@pytest.mark.parametrize("taken", [0, 4])
def test_a_row_that_no_commit_can_have_brought_is_added(new_lake: NewLake, capsys: Capsys, taken: int) -> None:
    lake = six_messages(new_lake)
    healthy = audit(lake, capsys, NDJSON)
    if taken:
        forget_before(lake, taken)
    append(lake, {"row": 999}, {"row": 6}, {"row": None})
    found = audit(lake, capsys, NDJSON, code=1)
    assert counts(found) == {"objects": 6 - taken, "committed": 6 - taken, "added": 3}
    path = f"{lake.topic}/0"
    assert found["found"]["added"] == [{"path": path, "first": at, "last": at} for at in (-1, 6, 999)]
    assert (kinds(found), found["digest"] == healthy["digest"]) == (["rows_added"], False)


def test_rows_before_the_start_of_the_source_are_added(new_lake: NewLake, capsys: Capsys) -> None:
    lake = new_lake()
    lake.produce(b"old")
    lake.run(kafka="start: latest")
    lake.produce(b"new")
    lake.run(kafka="start: latest")
    append(lake, {"row": 0})
    found = audit(lake, capsys, kafka="start: latest", code=1)
    assert counts(found) == {"objects": 1, "committed": 1, "added": 1}


def test_rows_that_are_doubled_are_found_without_their_messages(new_lake: NewLake, capsys: Capsys) -> None:
    """Retention took them; then the whole topic is gone."""
    lake = six_messages(new_lake)
    forget_before(lake, 4)
    append(lake, {}, {})
    named = [{"path": f"{lake.topic}/0", "first": 0, "last": 0}]
    found = audit(lake, capsys, NDJSON, code=1)
    assert counts(found) == {"objects": 2, "committed": 2, "doubled": 1}
    assert (found["found"]["doubled"], kinds(found)) == (named, [])
    delete_topic(lake.settings, lake.topic)
    found = audit(lake, capsys, NDJSON, code=1)
    assert (counts(found), found["found"]["doubled"], kinds(found)) == ({"doubled": 1}, named, ["topic_gone"])


def test_rows_that_are_gone_are_noted_without_their_messages(new_lake: NewLake, capsys: Capsys) -> None:
    """By the receipts. Somebody deleted them by a commit, so that it is no fault."""
    lake = six_messages(new_lake)
    forget_before(lake, 4)
    before = audit(lake, capsys, NDJSON)
    assert (before["verdict"], kinds(before)) == ("good", [])
    DeltaTable(lake.table).delete("_source.row < 3")
    found = audit(lake, capsys, NDJSON)
    assert (counts(found), found["gone"], found["unexplained"]) == ({"objects": 2, "committed": 2}, 3, 0)
    assert (found["verdict"], kinds(found), found["digest"] == before["digest"]) == ("notes", ["rows_deleted"], False)


def test_rows_that_nobody_has_deleted_are_gone(new_lake: NewLake, capsys: Capsys) -> None:
    lake = six_messages(new_lake)
    forget_before(lake, 4)
    take_out(lake, 1, 2)
    found = audit(lake, capsys, NDJSON, code=1)
    assert (counts(found), found["unexplained"]) == ({"objects": 2, "committed": 2}, 2)
    assert kinds(found) == ["rows_deleted", "rows_gone"]


@pytest.mark.parametrize("source", ["who:knows", None])
def test_a_delete_of_rows_of_others_explains_nothing(new_lake: NewLake, capsys: Capsys, source: str | None) -> None:
    lake = six_messages(new_lake)
    forget_before(lake, 4)
    append(lake, *[None if source is None else {"source": source}] * 3)
    DeltaTable(lake.table).delete("_source.source IS NULL" if source is None else f"_source.source = '{source}'")
    take_out(lake, 1, 2)
    found = audit(lake, capsys, NDJSON, code=1)
    assert (found["gone"], found["unexplained"], kinds(found)) == (2, 2, ["rows_deleted", "rows_gone"])


def test_a_row_of_an_offset_without_a_message_is_added(new_lake: NewLake, capsys: Capsys) -> None:
    """The receipts say that no commit brought it: an aborted transaction had that offset."""
    lake = new_lake()
    lake.produce(b'{"id": 0}')
    produce_in_transaction(lake.settings, lake.topic, [b"no"], commit=False)
    lake.produce(b'{"id": 1}')
    lake.run(source=NDJSON)
    assert kinds(audit(lake, capsys, NDJSON)) == []
    append(lake, {"row": 1})
    found = audit(lake, capsys, NDJSON, code=1)
    assert (counts(found)["added"], kinds(found)) == (1, ["rows_added"])


def test_without_receipts_nobody_knows_the_rows_of_messages_that_are_gone(new_lake: NewLake, capsys: Capsys) -> None:
    lake = six_messages(new_lake)
    for receipt in lake.table.glob("_blizzard/*/receipts/*"):
        receipt.unlink()
    assert kinds(audit(lake, capsys, NDJSON)) == []
    forget_before(lake, 4)
    found = audit(lake, capsys, NDJSON)
    assert (found["verdict"], kinds(found)) == ("notes", ["rows_uncounted"])


def test_a_partition_that_began_with_a_gap_is_counted(new_lake: NewLake, capsys: Capsys) -> None:
    lake, kafka = new_lake(), "on_lost_offsets: continue"
    lake.run(NDJSON, kafka)
    lake.produce(*[b'{"id": %d}' % n for n in range(6)])
    forget_before(lake, 4)
    lake.run(NDJSON, kafka)
    found = audit(lake, capsys, NDJSON, kafka)
    assert (counts(found), kinds(found)) == ({"objects": 2, "committed": 2, "lost": 4}, [])
    append(lake, {"row": 1})
    found = audit(lake, capsys, NDJSON, kafka, code=1)
    assert (counts(found)["added"], kinds(found)) == (1, ["rows_added"])


def test_rows_of_strangers_are_told(new_lake: NewLake, capsys: Capsys) -> None:
    lake = six_messages(new_lake)
    healthy = audit(lake, capsys, NDJSON)
    append(lake, None)
    found = audit(lake, capsys, NDJSON)
    assert (found["verdict"], kinds(found)) == ("notes", ["rows_of_nobody"])
    assert [(each["source"], each["rows"]) for each in found["others"]] == [(None, 1)]
    assert found["digest"] != healthy["digest"]
    append(lake, {"source": "who:knows"})
    found = audit(lake, capsys, NDJSON, code=1)
    assert kinds(found) == ["rows_of_nobody", "rows_of_unknown_sources"]
    lake.produce(b'{"id": 6}')
    lake.source = "other"
    lake.run(source=NDJSON, kafka="take_over: nothing")  # it reads the topic, too
    lake.source = "clicks"
    DeltaTable(lake.table).delete("_source.source = 'who:knows'")
    found = audit(lake, capsys, NDJSON)
    assert (found["verdict"], kinds(found)) == ("notes", ["rows_of_nobody", "rows_of_other_sources"])


def test_a_letter_without_a_commit_does_not_count_without_its_message(new_lake: NewLake, capsys: Capsys) -> None:
    lake = new_lake()
    lake.produce(b'{"id": 0}')
    lake.run(NDJSON)
    lake.produce(LONG, b'{"id": 2}')
    die_before_the_commit(lake, ONLY_SHORT)
    lake.run(NDJSON)
    forget_before(lake, 2)
    found = audit(lake, capsys, NDJSON)
    assert (counts(found), found["verdict"]) == ({"objects": 1, "committed": 1}, "good")
