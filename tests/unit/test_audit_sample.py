"""What `blizzard audit --sample` compares: each value of a file, read against the table's columns, with the table."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake

from blizzard.audit.report import SampleAudit
from blizzard.audit.sample import Sample, different, is_bad, read_again
from blizzard.audit.sample_table import Columns, columns_of, configuration, make_table
from blizzard.audit.stored_rows import StoredRow
from blizzard.cli import main
from blizzard.config.load import parse_config
from blizzard.state.delta_log import commit_key
from blizzard.storage.local import LocalStore
from blizzard.storage.s3_connection import S3Settings
from spark_job.table.columns import SOURCE_COLUMN
from tests.unit.deletion_vectors import FEATURES, delete_by_vector
from tests.unit.operator_world import IDENTITY, OperatorWorld

ADDRESS = "id STRING NOT NULL, address STRUCT<city: STRING>"


def world_of(folder: Path, settings: dict[str, Any], **beside: dict[str, Any]) -> OperatorWorld:
    made = OperatorWorld(folder, {"pattern": "**", **settings}, beside=beside)
    for source in beside.values():
        (folder / source["uri"]).mkdir()
    return made


def land(world: OperatorWorld, path: str, record: dict[str, Any]) -> None:
    world.land_bytes(path, (json.dumps(record) + "\n").encode())
    world.run()


def again(world: OperatorWorld, *paths: str) -> SampleAudit:
    """These files alone, read again and compared with the newest version of the table."""
    source = world.source
    found = [info for info in map(source.files.head, paths) if info is not None]
    files = [(info.key, info.size, info.etag, info.modified_ts, 1, True) for info in found]
    (world.folder / "again").mkdir()
    return read_again(Sample(source, world.table().version(), files, "s"), world.config(), world.folder / "again")


def assert_same(sample: SampleAudit, rows: int) -> None:
    assert (sample.problem, sample.rows, sample.differ, is_bad(sample, {})) == (None, rows, [], False)


def values(sample: SampleAudit) -> list[tuple[str, str | None, str | None]]:
    assert sample.problem is None
    return [(each["column"], each["file"], each["table"]) for file in sample.differ for each in file["values"]]


# -- healthy tables


def test_a_field_that_a_later_file_has_added(tmp_path: Path) -> None:
    world = world_of(tmp_path, {"schema": ADDRESS, "new_fields": "add"})
    land(world, "1.ndjson", {"id": "1", "address": {"city": "Ulm"}})
    land(world, "2.ndjson", {"id": "2", "address": {"city": "Ulm", "zip": "89073"}})
    assert_same(again(world, "1.ndjson"), 1)


def test_a_type_that_other_files_have_decided(tmp_path: Path) -> None:
    world = world_of(tmp_path, {"schema": "infer", "format": "csv"})
    for name, value in {"1.csv": "1", "2.csv": "abc", "3.csv": "1.50"}.items():
        world.land_bytes(name, f"id,x\n1,{value}\n".encode())
    world.run()
    assert_same(again(world, "3.csv"), 1)


def test_a_value_that_an_earlier_file_has_made_a_misfit(tmp_path: Path) -> None:
    world = world_of(tmp_path, {"schema": "id STRING", "new_fields": "add", "misfits": "rescue"})
    land(world, "1.ndjson", {"id": "1", "coupon": 5})
    land(world, "2.ndjson", {"id": "2", "coupon": "SPRING"})
    assert world.table().to_pyarrow_table()["_rescued"].to_pylist().count('{"coupon":"SPRING"}') == 1
    assert_same(again(world, "1.ndjson", "2.ndjson"), 2)


def test_a_field_that_was_not_added(tmp_path: Path) -> None:
    """Since the table had as many columns as it may have; today it might have more."""
    settings = {"schema": "id STRING", "new_fields": "add", "max_new_columns": 0}
    world = world_of(tmp_path, settings)
    land(world, "1.ndjson", {"id": "1", "coupon": 5})
    world.settings["max_new_columns"] = 9
    assert_same(again(world, "1.ndjson"), 1)


def test_a_field_that_another_source_has_added(tmp_path: Path) -> None:
    """This one reads it, although it adds nothing itself."""
    web = {"uri": "web", "schema": ADDRESS, "settle_delay_secs": 0, "new_fields": "add"}
    world = world_of(tmp_path, {"schema": ADDRESS}, web=web)
    (tmp_path / "web" / "1.ndjson").write_text('{"id":"1","address":{"city":"Ulm","zip":"89073"}}\n')
    world.run()
    land(world, "2.ndjson", {"id": "2", "address": {"city": "Bern", "zip": "3000"}})
    zips = [row["address"]["zip"] for row in world.table().to_pyarrow_table().to_pylist()]
    assert sorted(zips) == ["3000", "89073"]
    assert_same(again(world, "2.ndjson"), 1)


ZIP = {"city": "Bern", "zip": "3000"}


@pytest.mark.parametrize(
    ("schema", "record", "web"),
    [
        (ADDRESS, {"address": ZIP}, {"address": ZIP}),
        (ADDRESS, {"address": ZIP, "coupon": 5}, {"address": ZIP, "coupon": 7}),
        ("id STRING NOT NULL, items ARRAY<STRUCT<n: INT>>", {"items": [{"n": 1, "m": 2}]}, {"items": [{"m": 3}]}),
        (
            "id STRING NOT NULL, tags MAP<STRING, STRUCT<n: INT>>",
            {"tags": {"k": {"n": 1, "m": 2}}},
            {"tags": {"k": {"m": 3}}},
        ),
    ],
)
@pytest.mark.parametrize("new_fields", ["count", "rescue"])
def test_a_field_that_another_source_has_added_since(
    schema: str, record: dict[str, Any], web: dict[str, Any], new_fields: str, tmp_path: Path
) -> None:
    """When the file was read, the table had no place for it."""
    beside = {"uri": "web", "schema": schema, "settle_delay_secs": 0, "new_fields": "add"}
    world = world_of(tmp_path, {"schema": schema, "new_fields": new_fields}, web=beside)
    land(world, "1.ndjson", {"id": "1", **record})
    (tmp_path / "web" / "1.ndjson").write_text(json.dumps({"id": "1", **web}) + "\n")
    world.run()
    land(world, "2.ndjson", {"id": "2", **record})
    assert_same(again(world, "1.ndjson", "2.ndjson"), 2)


@pytest.mark.parametrize(
    ("path", "forged", "found"),
    [("1.ndjson", "'FORGED'", "'FORGED'"), ("2.ndjson", "NULL", "None"), ("2.ndjson", "'FORGED'", "'FORGED'")],
)
def test_a_value_in_a_field_that_another_source_has_added(path: str, forged: str, found: str, tmp_path: Path) -> None:
    """In a row from before it, and in one from after."""
    web = {"uri": "web", "schema": ADDRESS, "settle_delay_secs": 0, "new_fields": "add"}
    world = world_of(tmp_path, {"schema": ADDRESS}, web=web)
    land(world, "1.ndjson", {"id": "1", "address": ZIP})
    (tmp_path / "web" / "1.ndjson").write_text('{"id":"w","address":{"zip":"1"}}\n')
    world.run()
    land(world, "2.ndjson", {"id": "2", "address": ZIP})
    forged_row = f"named_struct('city', 'Bern', 'zip', CAST({forged} AS STRING))"
    world.table().update(updates={"address": forged_row}, predicate=f"id = '{path[0]}'")
    ((column, _, table),) = values(again(world, "1.ndjson", "2.ndjson"))
    assert (column, table) == ("address", f"{{'city': 'Bern', 'zip': {found}}}")


def test_a_source_whose_format_has_a_schema_of_its_own(tmp_path: Path) -> None:
    web = {"uri": "web", "schema": "value STRING", "settle_delay_secs": 0, "new_fields": "add"}
    world = world_of(tmp_path, {"schema": None, "format": "text"}, web=web)
    world.land_bytes("1.txt", b"one\ntwo\n")
    world.run()
    assert_same(again(world, "1.txt"), 2)


def test_a_table_with_partitions_constraints_and_columns_of_many_types(tmp_path: Path) -> None:
    schema = "id STRING, ts TIMESTAMP_NTZ, n DECIMAL(5,2), m MAP<STRING, STRING>, b BINARY"
    dated = {"schema": schema, "partition_columns": {"date": "date"}, "derive": {"up": "upper(id)"}}
    world = world_of(tmp_path, dated)
    world.pipeline = {"partition_by": ["date"], "constraints": {"short": "length(id) < 3"}}
    good = {"id": "a", "ts": "2026-01-01T10:00:00", "n": 1.5, "m": {"x": "1", "y": None}, "b": "YWJj"}
    lines = "\n".join(map(json.dumps, (good, {"id": "b"}, {"id": "too long"})))
    world.land_bytes("date=2026-01-02/1.ndjson", lines.encode())
    world.run()
    assert_same(again(world, "date=2026-01-02/1.ndjson"), 2)


def test_a_table_with_a_deletion_vector(tmp_path: Path) -> None:
    world = world_of(tmp_path, {"schema": "id STRING"})
    world.land_bytes("1.ndjson", b'{"id": "1"}\n{"id": "2"}\n')
    world.run()
    delete_by_vector(world, row=1)
    (found,) = again(world, "1.ndjson").differ
    assert (found["rows_missing"], found["rows_added"], found["values"]) == (1, 0, [])


# -- values that the file does not have


def test_a_value_in_a_column_that_the_file_lacks(tmp_path: Path) -> None:
    world = world_of(tmp_path, {"schema": "id STRING", "new_fields": "add"})
    land(world, "1.ndjson", {"id": "1"})
    land(world, "2.ndjson", {"id": "2", "coupon": "SPRING"})
    world.table().update(updates={"coupon": "'FORGED'"}, predicate="id = '1'")
    sample = again(world, "1.ndjson", "2.ndjson")
    assert values(sample) == [("coupon", None, "FORGED")]
    assert is_bad(sample, {})


def test_a_value_of_a_table_with_deletion_vectors(tmp_path: Path) -> None:
    world = world_of(tmp_path, {"schema": "id STRING"})
    land(world, "1.ndjson", {"id": "1"})
    world.table().update(updates={"id": "'FORGED'"})
    protocol = {"protocol": {"minReaderVersion": 3, "minWriterVersion": 7, **FEATURES}}
    (world.lake / commit_key(world.table().version() + 1)).write_text(json.dumps(protocol))
    assert values(again(world, "1.ndjson")) == [("id", "1", "FORGED")]


def test_a_value_in_a_field_that_the_file_lacks(tmp_path: Path) -> None:
    world = world_of(tmp_path, {"schema": ADDRESS, "new_fields": "add"})
    land(world, "1.ndjson", {"id": "1", "address": {"city": "Ulm"}})
    land(world, "2.ndjson", {"id": "2", "address": {"city": "Ulm", "zip": "89073"}})
    table = world.table()
    rows = table.to_pyarrow_table()
    forged = [{**row, "address": {"city": "Ulm", "zip": "89073"}} for row in rows.to_pylist()]
    write_deltalake(table, pa.Table.from_pylist(forged, rows.schema), mode="overwrite")
    city = "{'city': 'Ulm', 'zip': "
    assert values(again(world, "1.ndjson")) == [("address", f"{city}None}}", f"{city}'89073'}}")]


def test_a_value_in_a_column_that_no_source_has(tmp_path: Path) -> None:
    world = world_of(tmp_path, {"schema": "id STRING"})
    land(world, "1.ndjson", {"id": "1"})
    write_deltalake(world.table(), pa.table({"id": ["x"], "note": ["n"]}), mode="append", schema_mode="merge")
    world.table().update(updates={"note": "'FORGED'"}, predicate="id = '1'")
    assert values(again(world, "1.ndjson")) == [("note", None, "FORGED")]


# -- the configuration that the job gets


def test_of_other_sources_only_what_changes_the_columns(tmp_path: Path) -> None:
    security = {"protocol": "SASL_SSL", "mechanism": "PLAIN", "username": "u", "password": "hunter2"}
    topic = {"kafka": {"bootstrap_servers": "broker:1", "topics": ["clicks"], "security": security}, "schema": ADDRESS}
    world = world_of(tmp_path, {"schema": ADDRESS, "pattern": "**/$${x}"})
    world.beside["topic"] = {**topic, "new_fields": "add"}
    text = configuration(world.config(), IDENTITY, tmp_path)
    assert not {word for word in ("hunter2", "*****", "broker", "clicks") if word in text}
    read = parse_config(text, {}).pipelines["orders"].sources
    shop, beside = read["shop"], next(source for name, source in read.items() if name != "shop")
    assert (shop.pattern, shop.new_fields, shop.uri) == ("**/${x}", "count", world.source.uri)
    assert (beside.kafka, beside.new_fields, [*(tmp_path / "others").iterdir()]) == (None, "add", [])
    assert beside.uri == f"file://{tmp_path}/others/"


@pytest.mark.parametrize(
    ("shop", "others", "expected"),
    [
        ({}, {}, None),
        ({}, {"new_fields": "rescue"}, None),
        ({"new_fields": "add"}, {"new_fields": "add"}, None),
        ({}, {"misfits": "widen"}, ("count", "widen")),
        ({"new_fields": "add"}, {"misfits": "widen"}, ("add", "widen")),
        ({"format": "text", "schema": None}, {"new_fields": "add"}, None),
        ({"format": "xml", "xml": {"row_tag": "r"}}, {"new_fields": "add"}, ("add", "rescue")),
    ],
)
def test_what_stands_for_other_sources(
    shop: dict[str, Any], others: dict[str, Any], expected: tuple[str, str] | None, tmp_path: Path
) -> None:
    world = world_of(tmp_path, {"schema": ADDRESS, **shop}, web={"uri": "web", "schema": ADDRESS, **others})
    read = parse_config(configuration(world.config(), IDENTITY, tmp_path), {}).pipelines["orders"].sources
    found = [(source.new_fields, source.misfits) for name, source in read.items() if name != "shop"]
    assert found == ([] if expected is None else [expected])


# -- what the table itself says


def field(name: str, **metadata: Any) -> dict[str, Any]:
    return {"name": name, "type": "string", "nullable": True, "metadata": metadata}


@pytest.fixture
def strict(tmp_path: Path) -> OperatorWorld:
    """Its table computes a column, and refuses long texts: record 1."""
    world = world_of(tmp_path, {"schema": "id STRING"})
    schema = {
        "type": "struct",
        "fields": [
            field("id"),
            field("low", **{"delta.generationExpression": "lower(id)"}),
            SOURCE_COLUMN.jsonValue(),
        ],
    }
    world.lake.mkdir()
    constraints = {"delta.constraints.short": "length(id) < 3"}
    make_table(LocalStore(world.lake), Columns(schema, (), constraints, frozenset()), "t")
    world.land_bytes("1.ndjson", b'{"id": "A"}\n{"id": "long"}\n')
    world.run()
    return world


def test_what_the_table_computes_and_refuses(strict: OperatorWorld) -> None:
    assert_same(again(strict, "1.ndjson"), 1)


def test_a_computed_value_that_was_changed(strict: OperatorWorld) -> None:
    """By a program that does not know such columns."""
    file = next(strict.lake.glob("*.parquet"))
    before = f'"size":{file.stat().st_size}'
    rows = pq.read_table(file)
    pq.write_table(rows.set_column(rows.schema.get_field_index("low"), "low", pa.array(["FORGED"])), file)
    commit = max(strict.lake.glob("_delta_log/*.json"))
    assert before in commit.read_text()
    commit.write_text(commit.read_text().replace(before, f'"size":{file.stat().st_size}'))
    assert values(again(strict, "1.ndjson")) == [("low", "a", "FORGED")]


def test_columns_that_only_sparks_writer_fills(tmp_path: Path) -> None:
    schema = {
        "type": "struct",
        "fields": [
            field("id", comment="c", __CHAR_VARCHAR_TYPE_STRING="char(2)"),
            field("number", **{"delta.identity.start": 1}),
            {**field("s"), "type": {"type": "struct", "fields": [field("d", CURRENT_DEFAULT="1")]}},
        ],
    }
    make_table(LocalStore(tmp_path), Columns(schema, ["id"], {}, frozenset()), "t")
    columns = columns_of(str(tmp_path), 0, S3Settings())
    assert (columns.partition_by, columns.filled) == (["id"], {"number"})
    assert "c" not in str(columns.schema["fields"][0]["metadata"])
    assert '"metadata": {"' not in json.dumps(columns.schema)


def test_a_table_whose_rows_arrow_cannot_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """All but the sample is answered."""
    world = world_of(tmp_path, {"schema": "id STRING"})
    land(world, "1.ndjson", {"id": "1"})
    features = {"readerFeatures": ["columnMapping"], "writerFeatures": ["columnMapping"]}
    protocol = {"protocol": {"minReaderVersion": 3, "minWriterVersion": 7, **features}}
    (world.lake / commit_key(1)).write_text(json.dumps({"commitInfo": {"timestamp": 1}}) + "\n" + json.dumps(protocol))
    assert main(["audit", "--json", "--sample", "5", str(world.config_file)]) == 1
    (report,) = json.loads(capsys.readouterr().out)
    assert (report["committed"], report["rows"]["found"], report["verdict"]) == (1, 1, "notes")
    assert report["sample"]["problem"].startswith("the table cannot be read: ")
    assert "columnMapping" in report["sample"]["problem"]


def test_a_sample_that_cannot_be_made_is_a_failure(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Whose location deltalake misreads."""
    world = world_of(tmp_path / "a%b", {"schema": "id STRING"})
    assert main(["audit", "--sample", "5", str(world.config_file)]) == 0  # there is no table, and no file of it
    assert " sample         0 files and 0 rows read again" in capsys.readouterr().out
    table = world_of(tmp_path / "a", {"schema": "id STRING"})
    land(table, "1.ndjson", {"id": "1"})
    table.lake.rename(world.lake)
    assert main(["audit", str(world.config_file)]) == 0
    capsys.readouterr()
    assert main(["audit", "--sample", "5", str(world.config_file)]) == 1
    said = capsys.readouterr().out
    assert " sample         could not be made, so no value was compared: the table's location has % in it" in said
    assert said.endswith(" verdict        notes\n")


@pytest.mark.parametrize(
    ("read", "stored", "found"),
    [
        ({"a": 1}, {"a": 1, "b": None}, []),
        ({"a": 1, "b": None}, {"a": 1}, []),
        ({"a": 1}, {"a": 1, "b": 2}, ["b"]),
        ({"a": 1, "b": 2}, {"a": 1}, ["b"]),
        ({"a": float("nan")}, {"a": float("nan")}, []),
        ({"a": {"x": 1}}, {"a": {"x": 1, "y": None}}, []),
        ({"a": {"x": 1}}, {"a": {"x": 1, "y": 2}}, ["a"]),
        ({"a": [{"x": 1}]}, {"a": [{"x": 1, "y": None}]}, []),
        ({"a": [1]}, {"a": [1, 1]}, ["a"]),
        ({"a": [("k", {"x": float("nan")})]}, {"a": [("k", {"x": float("nan"), "y": None})]}, []),
        ({"a": None}, {"a": {"x": None}}, ["a"]),
        ({"filled": None}, {"filled": 7}, []),
        ({"filled": 6}, {"filled": 7}, ["filled"]),
        ({"filled": 6}, {"filled": None}, ["filled"]),
    ],
)
def test_which_columns_differ(read: dict[str, Any], stored: dict[str, Any], found: list[str]) -> None:
    rows = StoredRow(read, 0), StoredRow(stored, 0)
    assert [column for column, *_ in different(*rows, {"filled"})] == found
