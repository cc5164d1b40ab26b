"""Commits that have other Txns beside the source's own, with each engine."""

from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from blizzard.errors import LostRace
from spark_job.engines.spark.transaction import Transaction
from spark_job.table.table_source import TableSource
from tests.spark.table_world import APP_ID, ENGINES, SCHEMA, World, Written

pytestmark = pytest.mark.spark


@pytest.fixture(params=ENGINES)
def world(request: pytest.FixtureRequest, tmp_path: Path, spark: Callable[[], SparkSession]) -> World:
    return World(tmp_path, spark, engine=request.param)


def test_a_commit_has_further_txns_that_only_ascend(world: World) -> None:
    source = world.source()
    source.append(None, sequence=0, user_metadata="0", further_txns={"a": 4})
    source.append(None, sequence=1, user_metadata="1", further_txns={"a": 5, "b": 0})
    assert [source.txn_version(app_id) for app_id in ("a", "b", "c")] == [5, 0, None]
    assert {(txn.app_id, txn.version) for txn in source.txns()} >= {("a", 5), ("b", 0)}
    with pytest.raises(LostRace, match="version 5 of Txn 'a'"):
        source.append(None, sequence=2, user_metadata="2", further_txns={"a": 5})
    assert world.versions() == [0, 1]


def test_of_two_commits_with_the_same_further_txn_one_is_lost(world: World) -> None:
    world.source().append(None, sequence=0, user_metadata="0", further_txns={"a": 0})
    source = TableSource(str(world.table), "events:landing", APP_ID, SCHEMA, {}, ())
    first, second = (world.engine_named(world.engine).table(source).start() for _ in range(2))
    for transaction in (first, second):
        transaction.add_txns({"a": 1})
    first.commit((), app_id="one", sequence=0, user_metadata="first")
    with pytest.raises(LostRace):
        second.commit((), app_id="two", sequence=0, user_metadata="second")
    assert world.versions() == [0, 1]


@pytest.fixture
def mapped(tmp_path: Path, spark: Callable[[], SparkSession]) -> World:
    """A table that takes only rows of Spark's writer."""
    made = World(tmp_path, spark)
    made.make(**{"delta.columnMapping.mode": "name"})
    return made


def append(world: World, *ids: str, sequence: int, name: str = "landing", **txns: int) -> None:
    source = world.source(name)
    layout = source.layout()
    assert layout.folder
    rows = Written([world.write(layout, *ids)], layout, source.record_type)
    source.append(rows, sequence=sequence, user_metadata=f"{name} {sequence}", further_txns=txns)


def test_rows_of_sparks_writer_come_with_all_txns_or_not_at_all(mapped: World) -> None:
    append(mapped, "1", "2", sequence=0, a=4, b=0)
    append(mapped, "3", sequence=1, a=5)
    source = mapped.source()
    assert [source.txn_version(app_id) for app_id in (APP_ID, "a", "b")] == [1, 5, 0]
    with pytest.raises(LostRace, match="version 5 of Txn 'a'"):
        append(mapped, "4", sequence=2, a=5)
    with pytest.raises(LostRace, match=f"version 1 of Txn '{APP_ID}'"):
        append(mapped, "4", sequence=1, a=6)
    assert (mapped.ids_in_spark(), mapped.versions()) == (["1", "2", "3"], [0, 1, 2])


@pytest.mark.parametrize(
    ("others", "rows"),
    [
        ({"name": "partner", "sequence": 0, "a": 1}, ["theirs"]),
        ({"name": "partner", "sequence": 0, "b": 1}, ["ours", "theirs"]),
    ],
)
def test_of_two_writers_at_once_one_has_the_txn(
    mapped: World, monkeypatch: pytest.MonkeyPatch, others: dict[str, Any], rows: list[str]
) -> None:
    """The other one commits after the rows of this one are written, and before its commit."""
    append(mapped, sequence=0, a=0)
    write, left = Transaction._written, [others]

    def written(transaction: Transaction, frame: Any) -> Any:
        found = write(transaction, frame)
        while left:
            append(mapped, "theirs", **left.pop())
        return found

    monkeypatch.setattr(Transaction, "_written", written)
    with pytest.raises(LostRace) if len(rows) == 1 else nullcontext():
        append(mapped, "ours", sequence=1, a=1)
    assert mapped.ids_in_spark() == rows
    assert mapped.source().txn_version("a") == 1
