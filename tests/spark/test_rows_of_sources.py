"""Questions about the rows of a source, answered by each engine from the same table."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from blizzard.state.run_ref import SequenceRange
from spark_job.engines.needs_spark import NeedsSpark
from spark_job.ports.table import FileVersion, SourceFile
from spark_job.table.engine import TableEngine
from spark_job.table.table_source import TableSource
from tests.spark.table_world import ENGINES, World

pytestmark = pytest.mark.spark
OURS, PARTNER, BETWEEN, LONG = "events:landing", "events:partner", "events:m", "events:" + "long" * 15
COLUMNS = "id STRING, n BIGINT, day STRING"
Row = tuple[str | None, str, int, int]
"""Source, file, row, sequence."""


@pytest.fixture
def world(tmp_path: Path, spark: Callable[[], SparkSession]) -> World:
    return World(tmp_path, spark, schema=COLUMNS)


def asked(world: World, engine: str, source_id: str) -> TableEngine:
    source = TableSource(str(world.table), source_id, f"blizzard:{source_id}", COLUMNS, {}, world.partition_by)
    return world.engine_named(engine).table(source)


def insert(world: World, *rows: Row) -> None:
    """One data file, written by Spark; one for each day if the table is partitioned by it."""
    values = ", ".join(
        f"('{file}', {row}L, '{row % 2}', named_struct('source', {_text(source)}, 'file', '{file}', 'row', {row}L, "
        f"'etag', 'e', 'modified', timestamp_micros(1700000000000000L + {row}), 'sequence', {sequence}L))"
        for source, file, row, sequence in rows
    )
    world.sql(f"INSERT INTO {{t}} (id, n, day, _source) SELECT /*+ COALESCE(1) */ * FROM VALUES {values}")


def _text(value: str | None) -> str:
    return "CAST(NULL AS STRING)" if value is None else f"'{value}'"


def answers(table: TableEngine, known: frozenset[str]) -> dict[str, Any]:
    return {
        "rows": table.holds_rows(),
        "of nobody": table.holds_rows_of_nobody(),
        "newest sequence": table.newest_sequence(),
        "last after 0": dict(table.last_rows(after_sequence=0)),
        "files of 0 and 1": sorted(table.files_of_commits(SequenceRange(0, 1))),
        "newest of others": [*table.newest_files_of_others(known, 2)],
    }


def agreed(world: World, source_id: str, *siblings: str) -> dict[str, Any]:
    known = frozenset({source_id, *siblings})
    found = {engine: answers(asked(world, engine, source_id), known) for engine in ENGINES}
    assert found["local"] == found["spark"]
    assert found["auto"] == found["spark"]
    return found["auto"]


def check_two_sources(world: World) -> None:
    """Expects the rows of `insert_two_sources` alone."""
    ours, theirs, absent = agreed(world, OURS, PARTNER), agreed(world, PARTNER), agreed(world, BETWEEN)
    assert [found["rows"] for found in (ours, theirs, absent)] == [True, True, False]
    assert ours["last after 0"] == {FileVersion("b", "e"): 7}
    assert [(entry.path, entry.rows) for entry in ours["files of 0 and 1"]] == [("a", 3)]
    assert theirs["last after 0"] == {FileVersion("p", "e"): 9}
    assert absent["last after 0"] == {}
    assert ours["newest of others"] == []
    assert theirs["newest of others"] == [SourceFile(OURS, "b", "e"), SourceFile(OURS, "a", "e")]
    assert absent["newest of others"] == [SourceFile(PARTNER, "p", "e"), SourceFile(OURS, "b", "e")]


def insert_two_sources(world: World) -> None:
    insert(world, (OURS, "a", 0, 0), (OURS, "a", 1, 0), (OURS, "a", 4, 0))
    insert(world, (PARTNER, "p", 8, 1), (PARTNER, "p", 9, 1))
    insert(world, (OURS, "b", 6, 2), (OURS, "b", 7, 2))


@pytest.mark.parametrize("kind", ["flat, with statistics", "partitioned, without statistics"])
def test_two_sources_in_one_table(world: World, kind: str) -> None:
    settings, partitions = {}, ""
    if kind.startswith("partitioned"):
        world.partition_by, partitions = ("day",), "PARTITIONED BY (day)"
        settings = {"delta.dataSkippingNumIndexedCols": "0"}
    world.make(COLUMNS, partitions, **settings)
    insert_two_sources(world)
    check_two_sources(world)
    world.sql("OPTIMIZE {t}")
    check_two_sources(world)


def test_two_sources_in_a_table_of_blizzard(world: World) -> None:
    """Its properties say for which columns there are statistics, also for Spark's OPTIMIZE."""
    world.source().append(None, sequence=0, user_metadata="")
    insert_two_sources(world)
    check_two_sources(world)
    world.sql("OPTIMIZE {t}")
    check_two_sources(world)


def test_rows_without_a_source_belong_to_nobody(world: World) -> None:
    world.make(COLUMNS)
    insert_two_sources(world)
    assert not agreed(world, OURS)["of nobody"]
    world.sql("INSERT INTO {t} (id, n, day) VALUES ('by another', 1, '0')")
    assert agreed(world, OURS)["of nobody"]
    world.sql("OPTIMIZE {t}")
    assert agreed(world, OURS)["of nobody"]
    world.sql("DELETE FROM {t} WHERE _source IS NULL")
    assert not agreed(world, OURS)["of nobody"]
    insert(world, (None, "x", 100, 5))
    found = agreed(world, BETWEEN)
    assert found["of nobody"]
    assert found["newest of others"] == [SourceFile(PARTNER, "p", "e"), SourceFile(OURS, "b", "e")]


def test_data_files_from_before_the_column_belong_to_nobody(world: World) -> None:
    world.sql(f"CREATE TABLE {{t}} ({COLUMNS}) USING delta")
    world.sql("INSERT INTO {t} VALUES ('old', 1, '0')")
    world.source().prepare()
    assert agreed(world, OURS) == {
        "newest sequence": None,
        "rows": False,
        "of nobody": True,
        "last after 0": {},
        "files of 0 and 1": [],
        "newest of others": [],
    }
    insert(world, (OURS, "a", 0, 0))
    assert agreed(world, OURS)["rows"]


def test_names_of_sources_longer_than_statistics(world: World) -> None:
    world.make(COLUMNS)
    insert(world, (LONG, "a", 0, 0))
    assert agreed(world, LONG)["rows"]
    assert not agreed(world, LONG[:32])["rows"]
    assert not agreed(world, f"{LONG}x")["rows"]
    assert agreed(world, OURS)["newest of others"] == [SourceFile(LONG, "a", "e")]


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("delta.enableDeletionVectors", "true", "deletionVectors"),
        ("delta.columnMapping.mode", "name", "reader version 2|columnMapping"),
    ],
)
def test_tables_whose_data_files_mean_something_else_are_left_to_spark(
    world: World, name: str, value: str, reason: str
) -> None:
    world.make(COLUMNS)
    insert_two_sources(world)
    world.sql(f"ALTER TABLE {{t}} SET TBLPROPERTIES ('{name}' = '{value}')")
    world.sql(f"DELETE FROM {{t}} WHERE _source.source = '{OURS}' AND n < 7")
    for engine in ("spark", "auto"):
        assert asked(world, engine, OURS).last_rows(after_sequence=-1) == {FileVersion("b", "e"): 7}
    with pytest.raises(NeedsSpark, match=reason):
        asked(world, "local", OURS).last_rows(after_sequence=-1)
