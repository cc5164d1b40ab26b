"""The table changes, or cannot be read, between a batch's planning and its commit; and Delta's own settings."""

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from blizzard.errors import BlizzardError, LogDamaged, LostRace, PermanentError, RetryableError
from blizzard.state.run_ref import SequenceRange
from spark_job.engines.needs_spark import NeedsSpark
from spark_job.engines.spark.snapshot import PARTITIONS_SETTING
from spark_job.table.delta_table import DeltaSourceTable
from spark_job.write.data_file import TableLayout
from tests.spark.table_world import APP_ID, ENGINES, World, Written, overtaken_by

pytestmark = pytest.mark.spark


@pytest.fixture(params=ENGINES)
def world(request: pytest.FixtureRequest, tmp_path: Path, spark: Callable[[], SparkSession]) -> World:
    return World(tmp_path, spark, engine=request.param)


def test_every_call_reports_a_log_that_delta_cannot_read(world: World) -> None:
    world.append(0, "a")
    layout = world.source(engine="spark").layout(staged=True)
    staged = Written([world.write(layout, "b")], layout)
    (world.table / "_delta_log" / f"{1:020d}.json").write_text("torn\n")
    calls: dict[str, Callable[[DeltaSourceTable], object]] = {
        "txn_version": lambda table: table.txn_version(APP_ID),
        "txns": lambda table: table.txns(),
        "orphan_files": lambda table: table.orphan_files(),
        "holds_rows": lambda table: table.holds_rows(),
        "holds_rows_of_nobody": lambda table: table.holds_rows_of_nobody(),
        "newest_sequence": lambda table: table.newest_sequence(),
        "files_of_others": lambda table: table.files_of_others(),
        "last_rows_after": lambda table: table.last_rows_after(-1),
        "files_of_commits": lambda table: table.files_of_commits(SequenceRange(0, 3)),
        "prepare": lambda table: table.prepare(),
        "append nothing": lambda table: table.append(None, sequence=1, user_metadata=""),
        "append": lambda table: table.append(Written([], TableLayout("", (), (), 0, 1)), sequence=1, user_metadata=""),
        "append staged": lambda table: table.append(staged, sequence=1, user_metadata=""),
        "replace": lambda table: table.replace(staged, ["f1"], sequence=1, user_metadata=""),
    }
    found: dict[str, object] = {}
    for name, call in calls.items():
        with pytest.raises(BlizzardError) as raised:
            call(world.source())
        found[name] = type(raised.value)
    del found["replace"]
    expected: dict[str, object] = dict.fromkeys(found, RetryableError)
    if world.engine != "spark":
        expected["txns"] = LogDamaged
    if world.engine == "local":
        expected["orphan_files"] = NeedsSpark
    assert found == expected
    assert world.versions() == [0, 1]


def test_a_constraint_added_after_the_batch_was_read_discards_the_batch(world: World) -> None:
    world.append(0, "a")
    source = world.source()
    layout = source.layout()
    rows = Written([world.write(layout, "b")], layout)
    world.sql("ALTER TABLE {t} ADD CONSTRAINT short CHECK (length(id) < 3)")
    with pytest.raises(RetryableError, match="other constraints or generated columns"):
        source.append(rows, sequence=1, user_metadata="")
    assert world.ids() == ["a"]
    assert [check.sql for check in source.layout().rules.checks] == ["length ( id ) < 3"]


def test_a_table_replaced_after_the_batch_was_read_is_refused(world: World) -> None:
    world.make()
    source = world.source()
    layout = source.layout()
    rows = Written([world.write(layout, "b")], layout)
    frame = world.spark().sql(f"SELECT id, CAST(n AS STRING) AS n, _source FROM delta.`{world.table}`")
    overwriting = frame.write.format("delta").mode("overwrite").option("overwriteSchema", "true")
    overwriting.partitionBy("n").save(str(world.table))
    with pytest.raises(PermanentError, match="column n: expected bigint, found string; partition_by: expected"):
        source.append(rows, sequence=1, user_metadata="")
    assert world.ids() == []


def test_metadata_changed_during_the_commit_is_a_lost_race(world: World) -> None:
    world.append(0, "a")
    slow = world.source()
    overtaken_by(slow, lambda: world.sql("ALTER TABLE {t} ADD CONSTRAINT short CHECK (length(id) < 3)"))
    with pytest.raises(LostRace, match=r"MetadataChanged|ProtocolChanged|table's columns or properties, its protocol$"):
        world.append(1, "too long", table=slow)
    assert world.ids() == ["a"]


def test_a_missing_column_is_added_before_the_commit(world: World) -> None:
    world.append(0, "a")
    source = world.source("partner", schema="id STRING, n BIGINT, region STRING")
    layout = source.layout()
    rows = Written([world.write(layout, "b", region="north")], layout)
    source.append(rows, sequence=0, user_metadata="")
    assert sorted(world.sql("SELECT id, region FROM {t}")) == [("a", None), ("b", "north")]


def test_a_table_that_another_source_created_meanwhile_gets_the_missing_columns(world: World) -> None:
    source = world.source("partner", schema="id STRING, n BIGINT, region STRING")
    layout = source.layout()
    rows = Written([world.write(layout, "b", region="north")], layout)
    world.append(0, "a")
    source.append(rows, sequence=0, user_metadata="")
    assert sorted(world.sql("SELECT id, region FROM {t}")) == [("a", None), ("b", "north")]


def test_a_column_of_another_type_stops_the_source(world: World) -> None:
    world.make("id STRING, n STRING")
    with pytest.raises(PermanentError, match="column n: expected bigint, found string"):
        world.source().prepare()


# -- Delta's own settings


@pytest.mark.parametrize("world", ["spark"], indirect=True)
def test_the_number_of_snapshot_partitions_follows_the_table(world: World) -> None:
    world.append(0, "a")
    world.append(1, "b")
    assert world.spark().conf.get(PARTITIONS_SETTING) == "1"
    world.spark().conf.set(PARTITIONS_SETTING, "7")
    try:
        world.append(2, "another program has set it")
        assert world.spark().conf.get(PARTITIONS_SETTING) == "7"
    finally:
        world.spark().conf.set(PARTITIONS_SETTING, "1")
