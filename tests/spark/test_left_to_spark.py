"""What the local engine leaves to Spark: it changes nothing, and where there is a Spark, Spark goes on."""

from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from spark_job.engines.local import open_table
from spark_job.engines.needs_spark import NeedsSpark
from spark_job.table.delta_table import DeltaSourceTable
from tests.spark.engine_lake import EngineLake
from tests.spark.lake import ids, no_spark
from tests.spark.table_world import World, Written


@pytest.fixture
def alone(tmp_path: Path) -> World:
    return World(tmp_path, no_spark, engine="local")


@pytest.fixture
def beside_spark(tmp_path: Path, spark: Callable[[], SparkSession]) -> World:
    return World(tmp_path, spark, engine="local")


def refuse_a_replacement(world: World) -> None:
    """Before any row is read."""
    world.append(0, "a")
    with pytest.raises(NeedsSpark, match="replacing the rows of overwritten files"):
        world.source().layout(staged=True)
    assert (world.versions(), world.ids()) == ([0], ["a"])


def staged_by(table: DeltaSourceTable, world: World) -> Written:
    """A row of file `f1`."""
    layout = replace(table.layout(), folder=table.staging.new_folder())
    return Written([world.write(layout, "b", of="f1")], layout)


def test_replacements_are_refused(alone: World) -> None:
    refuse_a_replacement(alone)


@pytest.mark.spark
def test_replacements_that_were_refused_are_made_by_spark(beside_spark: World) -> None:
    refuse_a_replacement(beside_spark)
    table = beside_spark.source(engine="spark")
    table.replace(staged_by(table, beside_spark), ["f1"], sequence=1, user_metadata="replaced")
    assert beside_spark.ids_in_spark() == ["b"]


def test_what_was_staged_for_a_commit_that_fails_is_removed(alone: World) -> None:
    alone.append(0, "a")
    table = alone.source()
    new = staged_by(table, alone)
    assert len(alone.staged()) == 1
    with pytest.raises(NeedsSpark, match="replacing the rows of overwritten files"):
        table.replace(new, ["f1"], sequence=1, user_metadata="replaced")
    assert alone.staged() == []
    new = staged_by(table, alone)
    with pytest.raises(NeedsSpark, match="writing to table"):
        table.append(new, sequence=1, user_metadata="appended")
    assert (alone.staged(), alone.versions()) == ([], [0])


def refuse_a_feature(world: World) -> None:
    world.append(0, "a")
    world.other.set_property("delta.enableDeletionVectors", "true")
    with pytest.raises(NeedsSpark, match="feature deletionVectors"):
        world.append(1, "b")
    assert world.versions() == [0, 1]


def test_tables_with_features_that_deltalake_does_not_write_are_refused(alone: World) -> None:
    refuse_a_feature(alone)


@pytest.mark.spark
def test_spark_commits_to_a_table_with_such_a_feature(beside_spark: World) -> None:
    refuse_a_feature(beside_spark)
    beside_spark.append(1, "b", table=beside_spark.source(engine="spark"))
    assert beside_spark.ids_in_spark() == ["a", "b"]


def test_large_tables_are_refused(alone: World, monkeypatch: pytest.MonkeyPatch) -> None:
    source = alone.source()
    for sequence in range(11):
        alone.append(sequence, f"{sequence:02d}", table=source)
    monkeypatch.setattr(open_table, "MAX_FILES", 5)
    with pytest.raises(NeedsSpark, match=r"about 1\d files"):
        alone.append(11, "11", table=alone.source())
    assert DeltaTable(str(alone.table)).version() == 10


def committed_by(lake: EngineLake) -> list[str]:
    """The program of each version, as the log names it."""
    commits = [one["commitInfo"] for version in lake.versions() for one in lake.actions(version) if "commitInfo" in one]
    return ["spark" if "Spark" in commit.get("engineInfo", "") else "deltalake" for commit in commits]


@pytest.mark.spark
def test_spark_goes_on_with_a_table_that_has_become_too_large(
    tmp_path: Path, spark: Callable[[], SparkSession], monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the midst of a run, and in the next one."""
    monkeypatch.setattr(open_table, "MAX_FILES", 2)
    with closing(EngineLake(tmp_path, spark, {"checkpoint": {"interval_files": 1}}, chosen="auto")) as lake:
        for number in range(5):
            lake.put(f"{number}.ndjson", *ids(10 * number, 10 * number + 3))
        lake.run()
        assert [(line["source"], line["reason"]) for line in lake.logged("spark_needed")] == [
            ("events:landing", "a table of 3 files, more than the 2 that fit into memory")
        ]
        assert committed_by(lake) == ["deltalake"] * 3 + ["spark"] * 2
        lake.events.clear()
        lake.put("5.ndjson", *ids(50, 53))
        lake.run()
        assert [line["reason"] for line in lake.logged("spark_needed")] == [
            "a table of 5 files, more than the 2 that fit into memory"
        ]
        assert committed_by(lake)[5:] == ["spark"]
        assert lake.files() == {f"{number}.ndjson": 3 for number in range(6)}
        assert sorted(map(int, lake.ids())) == [10 * number + n for number in range(6) for n in range(3)]
