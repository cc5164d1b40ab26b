"""Commits that have other Txns beside the source's own, with each engine."""

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from blizzard.errors import LostRace
from spark_job.table.table_source import TableSource
from tests.spark.table_world import APP_ID, SCHEMA, World

pytestmark = pytest.mark.spark


@pytest.fixture(params=["spark", "local"])
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
    first, second = (world.engine_of(source, world.engine).start() for _ in range(2))
    for transaction in (first, second):
        transaction.add_txns({"a": 1})
    first.commit((), app_id="one", sequence=0, user_metadata="first")
    with pytest.raises(LostRace):
        second.commit((), app_id="two", sequence=0, user_metadata="second")
    assert world.versions() == [0, 1]
