"""`schema: infer` with the local engine: the first batch decides on the table's columns, and the table on all later
ones."""

import gzip

import pytest

from blizzard.errors import ConfigError, PermanentError
from blizzard.state.identity import SourceIdentity
from blizzard.state.schema_history import table_history
from blizzard.storage.local import LocalStore
from tests.contract.inferring_lake import Lake, drain, lake
from tests.unit.interruptions import crash_at

__all__ = ["lake"]


def test_the_first_batch_decides_and_the_log_says_what_it_chose(lake: Lake) -> None:
    lake.land("a.ndjson", {"id": 1, "at": "2026-11-21T10:00:00Z"}, {"id": 2, "n": {"x": None}})
    lake.land("b.ndjson", {"id": 3, "n": {"x": 1.5}, "bad name": 1})
    lake.run()
    assert list(lake.columns()) == ["id", "at", "n"]
    assert lake.rows() == [1, 2, 3]
    (said,) = lake.named("schema_inferred")
    assert said["schema"] == "id BIGINT, at TIMESTAMP, n STRUCT<x: DOUBLE>"
    assert (said["files"], said["records"]) == (2, 3)
    assert said["left_out"] == ["column `bad name` has ' ' in its name, which Delta cannot store without mapping"]


def test_later_runs_use_the_columns_of_the_table(lake: Lake) -> None:
    lake.land("a.ndjson", {"id": 1})
    lake.run()
    lake.land("b.ndjson", {"id": 2, "more": "x"}, {"id": "text"})
    lake.run()
    assert list(lake.columns()) == ["id"]
    assert lake.rows() == [1, 2]
    assert len(lake.named("schema_inferred")) == 1
    assert [field["name"] for one in lake.named("unknown_fields") for field in one["fields"]] == ["more"]
    assert len(lake.letters()) == 1


def test_a_process_that_goes_on_uses_what_it_inferred(lake: Lake) -> None:
    job = lake.job()
    lake.land("a.ndjson", {"id": 1})
    drain(job)
    lake.land("b.ndjson", {"id": 2})
    drain(job)
    assert lake.rows() == [1, 2]
    assert len(lake.named("schema_inferred")) == 1
    assert not lake.named("race_lost") + lake.named("retrying")


def test_nothing_is_inferred_and_no_table_is_made_without_a_file(lake: Lake) -> None:
    lake.run()
    assert not lake.table.joinpath("_delta_log").exists()
    assert not lake.named("schema_inferred")


def test_a_table_without_columns_gets_those_of_the_first_batch(lake: Lake) -> None:
    """Many empty sweeps are committed, so that their segments can be deleted; the table then has `_source` alone."""
    job = lake.job()
    for _ in range(12):
        job.sweep(late=True, record_if_empty=True)
    job.ingest.drain()
    assert lake.columns() == {}
    assert not lake.named("schema_inferred")
    lake.land("b.ndjson", {"id": 1})
    lake.run()
    assert lake.rows() == [1]
    identity = SourceIdentity(f"p_{lake.name}", lake.name, f"_blizzard/p_{lake.name}_{lake.name}")
    made, added = table_history(LocalStore(lake.table), [identity])
    assert [(one.source, len(one.fields or ())) for one in (made, added)] == [(identity.source_id, 1)] * 2
    (field,) = added.fields or ()
    assert (field.path, field.origin, field.file, field.records) == ("id", "inferred", "b.ndjson", 1)


def test_without_a_record_the_source_fails_with_a_sentence_and_goes_on_with_the_next_good_file(lake: Lake) -> None:
    lake.land_bytes("a.ndjson.gz", b"no gzip")
    lake.land_bytes("b.ndjson", b"\n")
    with pytest.raises(PermanentError, match="none of the 2 files of its first batch holds a record") as failed:
        lake.run()
    assert "a.ndjson.gz: does not decompress" in str(failed.value)
    assert not lake.table.joinpath("_delta_log").exists()
    lake.land("c.ndjson", {"id": 1})
    lake.run()
    assert lake.rows() == [1]
    assert [event["path"] for event in lake.named("file_dead_lettered")] == ["a.ndjson.gz"]


def test_a_header_with_a_name_twice_is_refused_before_a_table_is_made(lake: Lake) -> None:
    lake.land_bytes("a.csv", b"id,name,name\n1,Ana,Bern\n")
    with pytest.raises(PermanentError, match="it has the column 'name' twice; name its columns by position"):
        lake.run("format: csv, schema: infer")
    assert not lake.table.joinpath("_delta_log").exists()
    lake.run("format: csv, schema: infer, csv: {header: [id, name, city], skip_rows: 1}")
    assert lake.rows("city") == ["Bern"]


def test_records_without_a_name_that_a_column_can_have_are_refused(lake: Lake) -> None:
    lake.land("a.ndjson", {"a b": 1, "c d": 2})
    with pytest.raises(PermanentError, match=r"none of the 2 fields of the records can be a column \(column `a b` has"):
        lake.run()
    assert not lake.table.joinpath("_delta_log").exists()
    lake.run('schema: "x BIGINT", fields: {x: "a b"}')
    assert lake.rows("x") == [1]


def test_records_longer_than_the_bytes_that_are_read_first_are_whole(lake: Lake) -> None:
    for at in range(70):
        lake.land(f"{at}.ndjson", {"id": at, "text": "x" * 200_000, "last": 1.5})
    lake.run()
    assert list(lake.columns()) == ["id", "text", "last"]
    assert len(lake.rows()) == 70


@pytest.mark.parametrize("suffix", ["ndjson", "csv"])
def test_without_a_record_that_ends_within_what_is_read_no_table_is_made(lake: Lake, suffix: str) -> None:
    for name in "abc":
        begin = '{"id": 1, "text": "' if suffix == "ndjson" else "id,text\n1,"
        lake.land_bytes(f"{name}.{suffix}", begin.encode() + b"x" * (7 << 20))
    with pytest.raises(
        PermanentError, match=r"no record of its first batch ends within the first [45],.* bytes of a file"
    ):
        lake.run(f"format: {suffix}, schema: infer")
    assert not lake.table.joinpath("_delta_log").exists()


@pytest.mark.parametrize("when", ["schema_inferred", "batch_read"])
def test_a_job_that_lost_the_race_takes_the_columns_of_the_winner(lake: Lake, when: str) -> None:
    """Both infer, from other files. The loser must neither add its columns nor a row."""
    lake.land("a.ndjson", {"id": 1, "ours": 1})
    ours, theirs = lake.job(), lake.job()

    def overtake(event: str) -> None:
        if event == when:
            lake.on_event = lambda event: None
            lake.land("b.ndjson", {"id": 2.5, "theirs": True})
            drain(theirs)

    lake.on_event = overtake
    drain(ours)
    assert len(lake.named("schema_inferred")) == 2
    assert len(lake.named("retrying")) == 1
    assert lake.columns() == {
        "id": 'PrimitiveType("double")',
        "ours": 'PrimitiveType("long")',
        "theirs": 'PrimitiveType("boolean")',
    }
    assert lake.rows() == [1.0, 2.5]


@pytest.mark.parametrize("when", ["schema_inferred", "batch_read", "batch_committed"])
def test_a_run_after_a_crash_ends_with_each_record_once(lake: Lake, when: str) -> None:
    lake.land("a.ndjson", {"id": 1}, {"id": 2, "more": True})

    crash_at(lake, when)
    with pytest.raises(SystemExit):
        lake.run()
    assert lake.table.joinpath("_delta_log").exists() == (when == "batch_committed")
    lake.land("b.ndjson", {"id": 3})
    lake.run()
    assert list(lake.columns()) == ["id", "more"]
    assert lake.rows() == [1, 2, 3]


@pytest.mark.parametrize("when", ["schema_inferred", "batch_read"])
def test_another_source_that_makes_the_table_first_decides_on_its_columns(lake: Lake, when: str) -> None:
    lake.land("a.ndjson", {"id": 1, "ours": 1})
    ours = lake.job()
    elsewhere = Lake(lake.landing.parent / "elsewhere")
    elsewhere.table = lake.table
    elsewhere.land("b.ndjson", {"id": 2})

    def overtake(event: str) -> None:
        if event == when:
            lake.on_event = lambda event: None
            elsewhere.run('schema: "id BIGINT, other STRING"')

    lake.on_event = overtake
    drain(ours)
    assert list(lake.columns()) == ["id", "other"]
    assert lake.rows() == [1, 2]
    elsewhere.close()


def test_the_columns_of_a_table_that_exists_are_the_schema(lake: Lake) -> None:
    lake.land("a.ndjson", {"id": 1, "note": None})
    lake.run('schema: "id BIGINT, note STRING, day DATE"')
    lake.land("b.ndjson", {"id": 2, "day": "2026-11-21", "more": 1})
    lake.run()
    assert list(lake.columns()) == ["id", "note", "day"]
    assert lake.rows() == [1, 2]
    assert not lake.named("schema_inferred")


def test_columns_of_folders_are_none_of_the_records(lake: Lake) -> None:
    lake.land("day=2026-11-21/a.ndjson", {"id": 1, "day": "monday"})
    lake.run("schema: infer, partition_columns: {day: date}", "partition_by: [day]")
    lake.land("day=2026-11-22/b.ndjson", {"id": 2})
    lake.run("schema: infer, partition_columns: {day: date}", "partition_by: [day]")
    assert lake.columns() == {"id": 'PrimitiveType("long")', "day": 'PrimitiveType("date")'}
    assert [str(day) for day in lake.rows("day")] == ["2026-11-21", "2026-11-22"]
    (said,) = lake.named("schema_inferred")
    assert said["left_out"] == ["column `day` is in `partition_columns`; the field of the records is not read"]


@pytest.mark.parametrize(
    ("column", "what"),
    [
        ("city", r"partition_by\[0\]: found 'city', which source s does not have; expected one of id, place;"),
        ("place", "found 'place' of type struct<x:bigint>; a table is partitioned by simple values"),
    ],
)
def test_a_table_that_cannot_be_partitioned_is_not_made(lake: Lake, column: str, what: str) -> None:
    lake.land("a.ndjson", {"id": 1, "place": {"x": 1}})
    with pytest.raises(ConfigError, match=what):
        lake.run(pipeline=f"partition_by: [{column}]")
    assert not lake.table.joinpath("_delta_log").exists()


def test_what_the_sample_did_not_show_is_rescued_or_added(lake: Lake) -> None:
    lake.land("a.ndjson", {"id": 1})
    lake.run("schema: infer, misfits: rescue")
    assert list(lake.columns()) == ["id", "_rescued"]
    lake.land("b.ndjson", {"id": "x"})
    lake.run("schema: infer, misfits: rescue")
    assert lake.rows("_rescued") == [None, '{"id":"x"}']
    lake.land("c.ndjson", {"id": 2, "more": 1.5})
    lake.run("schema: infer, new_fields: add")
    assert lake.rows("more") == [1.5, None, None]
    lake.land("d.ndjson", {"id": 3, "more": 2})
    lake.run()
    assert lake.rows("more") == [1.5, 2.0, None, None]
    assert len(lake.named("schema_inferred")) == 1


def test_files_are_read_as_the_source_says(lake: Lake) -> None:
    lake.land_bytes("a.txt", gzip.compress(b"id;zip;price\n1;10115;2,5\n"))
    lake.run('format: csv, compression: gzip, schema: infer, csv: {delimiter: ";", decimal_point: ","}')
    assert lake.columns() == {
        "id": 'PrimitiveType("long")',
        "zip": 'PrimitiveType("string")',
        "price": 'PrimitiveType("double")',
    }
    assert lake.rows("price") == [2.5]


def test_each_rule_of_mixed_files_is_looked_at(lake: Lake) -> None:
    lake.land("a.ndjson", {"id": 1, "name": "x"})
    lake.land_bytes("b.csv", b"id,size\n2,1.5\n")
    lake.run('format: mixed, schema: infer, mixed: [{pattern: "*.csv", format: csv}, {pattern: "**", format: ndjson}]')
    assert list(lake.columns()) == ["id", "name", "size"]
    assert lake.rows() == [1, 2]
    assert not lake.letters()


def test_a_table_whose_columns_the_format_cannot_hold_is_refused_before_anything_is_read(lake: Lake) -> None:
    lake.land("a.ndjson", {"id": 1, "n": {"x": 1}})
    lake.run()
    lake.land_bytes("b.csv", b"id\n2\n")
    with pytest.raises(PermanentError, match=r"cannot read all columns of table .*column `n` is nested"):
        lake.run("format: csv, pattern: '*.csv', schema: infer")
