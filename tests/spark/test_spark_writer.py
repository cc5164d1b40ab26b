"""Tables that need Spark's writer, and rows that replace others: tasks stage them, Spark writes them."""

import time
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from blizzard.errors import RetryableError
from spark_job.engines.spark import transaction
from tests.spark.table_world import SCHEMA, SOURCE, World, Written

pytestmark = pytest.mark.spark


NEEDS_SPARK_WRITER: Mapping[str, tuple[str, str, dict[str, str]]] = {
    "column mapping": (SCHEMA, "", {"delta.columnMapping.mode": "name"}),
    "column id with __CHAR_VARCHAR_TYPE_STRING": ("id VARCHAR(9), n BIGINT", "", {}),
    "partitions by x of type double": ("id STRING, n BIGINT, x DOUBLE", "PARTITIONED BY (x)", {}),
}


@pytest.mark.parametrize("reason", NEEDS_SPARK_WRITER)
def test_a_table_that_does_not_take_files_gets_its_rows_from_sparks_writer(world: World, reason: str) -> None:
    world.make(*NEEDS_SPARK_WRITER[reason][:2], **NEEDS_SPARK_WRITER[reason][2])
    more = {"x": 0.5} if "x" in reason.split() else {}
    if more:
        world.schema, world.partition_by = f"{SCHEMA}, x DOUBLE", ("x",)
    _stage(world, reason, **more)
    assert world.sql("SELECT id FROM {t} ORDER BY id") == [("a",), ("b",)]


def _stage(world: World, reason: str, **more: Any) -> None:
    """Append `a` and `b`, which have to be staged."""
    source = world.source()
    layout = source.layout()
    assert layout.folder.startswith("_blizzard/events_landing/staging/")
    assert (layout.partition_by, layout.stats_columns) == ((), ())
    assert str(source.layout_reason).startswith(reason)
    source.append(
        Written([world.write(layout, "a", "b", **more)], layout, source.record_type), sequence=0, user_metadata="state"
    )
    assert world.txn() == 0
    assert world.staged() == []


def test_generated_and_identity_columns_get_their_values(world: World) -> None:
    world.make()
    other = World(world.folder / "other", world.spark)
    tables = world.spark()._jvm.io.delta.tables
    column = tables.DeltaTable.columnBuilder(world.spark()._jsparkSession, "twice")
    twice = column.dataType("BIGINT").generatedAlwaysAs("n * 2").build()
    numbered = tables.DeltaTable.columnBuilder(world.spark()._jsparkSession, "k").dataType("BIGINT")
    made = tables.DeltaTable.create(world.spark()._jsparkSession).location(str(other.table))
    for name, kind in (("id", "STRING"), ("n", "BIGINT"), ("_source", _source_type(world))):
        made = made.addColumn(name, kind)
    made.addColumn(twice).addColumn(numbered.generatedAlwaysAsIdentity().build()).execute()
    _stage(other, "column k with delta.identity")
    rows = other.sql("SELECT id, twice, k FROM {t} ORDER BY id")
    assert [(row["id"], row["twice"]) for row in rows] == [("a", 0), ("b", 2)]
    assert len({row["k"] for row in rows} - {None}) == 2


def _source_type(world: World) -> str:
    schema = world.spark().read.format("delta").load(str(world.table)).schema
    return str(schema["_source"].dataType.simpleString())


FEATURES = {
    "delta.enableDeletionVectors": "true",
    "delta.enableChangeDataFeed": "true",
    "delta.enableInCommitTimestamps": "true",
    "delta.checkpointPolicy": "v2",
    "delta.enableTypeWidening": "true",
}


@pytest.mark.parametrize(("more", "properties"), [("", FEATURES), ("CLUSTER BY (n)", {})])
def test_features_that_do_not_concern_an_append_allow_a_transaction(
    world: World, more: str, properties: Mapping[str, str]
) -> None:
    world.make(SCHEMA, more, **properties)
    source = world.source()
    layout = source.layout()
    assert (layout.folder, source.layout_reason) == ("", None)
    for sequence in range(2):
        files = [world.write(layout, f"{sequence}a", f"{sequence}b")]
        source.append(Written(files, layout, source.record_type), sequence=sequence, user_metadata="")
    world.sql("DELETE FROM {t} WHERE id = '0a'")
    world.sql("UPDATE {t} SET n = 7 WHERE id = '1a'")
    assert sorted(world.sql("SELECT id, n FROM {t}")) == [("0b", 1), ("1a", 7), ("1b", 1)]
    world.sql("OPTIMIZE {t}")
    assert sorted(world.sql("SELECT id, n FROM {t}")) == [("0b", 1), ("1a", 7), ("1b", 1)]
    if properties:
        changes = world.sql(f"SELECT id, _change_type FROM table_changes_by_path('{world.table}', 1, 2)")
        assert sorted(changes) == [(f"{n}{letter}", "insert") for n in range(2) for letter in "ab"]


def test_staged_rows_that_nobody_has_checked_do_not_get_into_the_table(world: World) -> None:
    """Spark's writer checks them, so another program may add a constraint at any time."""
    world.append(0, "ok")
    world.sql("ALTER TABLE {t} SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name')")
    world.sql("ALTER TABLE {t} ADD CONSTRAINT short CHECK (length(id) < 3)")
    source = world.source()
    layout = source.layout()
    assert str(source.layout_reason).startswith("column mapping")
    assert [check.sql for check in layout.rules.checks] == ["length ( id ) < 3"]
    with pytest.raises(RetryableError, match="short"):
        source.append(
            Written([world.write(layout, "no", "too long")], layout, source.record_type), sequence=1, user_metadata=""
        )
    assert [row["id"] for row in world.sql("SELECT id FROM {t}")] == ["ok"]
    assert world.txn() == 0


def test_a_new_table_with_default_features_is_created_by_sparks_writer(world: World) -> None:
    setting = "spark.databricks.delta.properties.defaults.columnMapping.mode"
    world.spark().conf.set(setting, "name")
    try:
        world.append(0, "a")
        assert [row[0] for row in world.sql("SELECT id FROM {t}")] == ["a"]
    finally:
        world.spark().conf.unset(setting)
    metadata = next(action["metaData"] for action in world.actions(0) if "metaData" in action)
    assert metadata["configuration"]["delta.columnMapping.mode"] == "name"


def test_a_build_of_delta_without_a_class_gets_staged_files_and_a_reason(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transaction, "_DELTA_PACKAGE", "org.apache.spark.sql.delta.of.another.build.")
    source = world.source()
    world.append(0, "a", "b", table=source)
    assert "another.build" in str(source.layout_reason)
    source.append(None, sequence=1, user_metadata="alone")
    assert (world.ids(), world.txn(), world.versions()) == (["a", "b"], 1, [0, 1])


# -- staged rows


def test_replacing_removes_the_old_rows_and_adds_the_new_ones(world: World) -> None:
    world.append(0, "old 1", "old 2")
    world.append(1, "other")
    source = world.source()
    layout = source.layout(staged=True)
    assert (source.layout_reason, layout.partition_by) == ("rows that replace others", ())
    rows = Written([world.write(layout, "new")], layout)
    rows_file = rows.data_files[0]
    replaced = pq.read_table(world.table / rows_file.path)
    source_column = replaced["_source"].to_pylist()
    fixed = replaced.set_column(2, "_source", pa.array([{**row, "file": "f1"} for row in source_column], SOURCE))
    pq.write_table(fixed, world.table / rows_file.path)
    source.replace(rows, ["f1"], sequence=2, user_metadata="state 2")
    assert (world.ids(), world.txn()) == (["new", "other"], 2)
    assert world.staged() == []


def test_replacing_by_no_rows_removes_the_old_ones(world: World) -> None:
    world.append(0, "old")
    source = world.source()
    source.replace(Written([], source.layout(staged=True)), ["f1"], sequence=1, user_metadata="")
    assert (world.ids(), world.txn()) == ([], 1)


def test_leftovers_in_staging_are_removed_after_a_day_and_nothing_else_is(world: World) -> None:
    world.append(0, "kept")
    layout = world.source().layout(staged=True)
    world.write(layout, "left behind")
    other = world.table / "_blizzard/events_partner/staging/x/part.parquet"
    beside = world.table / "_blizzard/events_landing/receipts/r.json.gz"
    orphan = world.table / "part-orphan.parquet"
    for file in (other, beside, orphan):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(b"x")
    world.source().prepare()
    assert len(world.staged()) == 2
    world.now_ts = lambda: time.time() + 86_500
    world.source().prepare()
    assert world.staged() == [other]
    assert beside.exists()
    assert orphan.exists()
    assert world.ids() == ["kept"]


def test_staged_paths_with_glob_characters_are_read(world: World) -> None:
    odd = World(world.folder / "a[b] {c}*", world.spark)
    odd.make(SCHEMA, **{"delta.columnMapping.mode": "name"})
    odd.append(0, "a")
    assert [row[0] for row in odd.sql("SELECT id FROM {t}")] == ["a"]
