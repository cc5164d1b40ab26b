"""Each engine cleans up the table's log after its checkpoints, and keeps what recovery needs."""

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from blizzard.errors import LostRace
from spark_job.engines.needs_spark import NeedsSpark
from tests.spark.table_world import APP_ID, ENGINES, World

pytestmark = pytest.mark.spark
DAY_SECS = 86_400
PROPERTIES = "'delta.checkpointInterval' = '4', 'delta.logRetentionDuration' = 'interval 8 days'"


@pytest.fixture(params=ENGINES)
def world(request: pytest.FixtureRequest, tmp_path: Path, spark: Callable[[], SparkSession]) -> World:
    return World(tmp_path, spark, engine=request.param)


def make_older(log: Path, days: int) -> None:
    """The engines judge a commit by the time of its file."""
    for file in log.iterdir():
        os.utime(file, (time.time() - days * DAY_SECS,) * 2)


READ_BY_SPARK_ONLY = ("60 days", "INTERVAL 60 DAYS", "interval 60 days 1 hour")


def keep_for(world: World, retention: str) -> None:
    world.source(engine="spark").append(None, sequence=0, user_metadata="")
    world.sql(
        "ALTER TABLE {t} SET TBLPROPERTIES "
        f"('delta.checkpointInterval' = '2', 'delta.logRetentionDuration' = '{retention}')"
    )


def clean_up_often(world: World) -> None:
    """A checkpoint every other commit, of which all but the newest are 40 days old."""
    log, source = world.table / "_delta_log", world.source()
    for sequence in range(1, 8):
        world.append(sequence, f"{sequence:02d}", table=source)
        make_older(log, days=40)
    assert len([*log.glob("*.checkpoint*.parquet")]) > 1


@pytest.mark.parametrize(
    ("world", "retention"),
    [
        *(("spark", retention) for retention in READ_BY_SPARK_ONLY),
        *((engine, "interval 60 days") for engine in ENGINES),
    ],
    indirect=["world"],
)
def test_a_clean_up_keeps_what_the_tables_retention_says(world: World, retention: str) -> None:
    keep_for(world, retention)
    clean_up_often(world)
    assert world.versions() == [*range(9)]


@pytest.mark.parametrize("world", ["spark"], indirect=True)
@pytest.mark.parametrize("retention", READ_BY_SPARK_ONLY)
def test_a_retention_that_deltalake_would_misread_needs_spark(world: World, retention: str) -> None:
    removed, log = "delta.deletedFileRetentionDuration", "delta.logRetentionDuration"
    world.make(**{removed: retention, log: "interval 90 days"})
    with pytest.raises(NeedsSpark, match=f"{removed} is '{retention}'"):
        world.source(engine="local").append(None, sequence=0, user_metadata="")
    world.sql(f"ALTER TABLE {{t}} SET TBLPROPERTIES ('{removed}' = 'interval 7 days', '{log}' = '{retention}')")
    with pytest.raises(NeedsSpark, match=f"{log} is '{retention}'"):
        world.source(engine="local").append(None, sequence=0, user_metadata="")


def test_the_clean_up_of_the_log_keeps_the_txns_of_all_sources(world: World) -> None:
    source, partner = world.source(), world.source("partner")
    partner.append(None, sequence=7, user_metadata="")
    world.sql(f"ALTER TABLE {{t}} SET TBLPROPERTIES ({PROPERTIES})")
    log, written = world.table / "_delta_log", set[str]()
    for sequence in range(12):
        world.append(sequence, f"{sequence:02d}", table=source)
        written.update(file.name for file in log.glob("*.json"))
        make_older(log, days=30)
    assert len(written) == 14
    assert len([*log.glob("*.json")]) < 10, "it was never cleaned up"
    world.spark()._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()
    for engine in ENGINES:
        txns = {txn.app_id: txn.version for txn in world.source(engine=engine).txns()}
        assert txns == {APP_ID: 11, "blizzard:events:partner": 7}
    with pytest.raises(LostRace, match="sequence 11"):
        world.append(11, "again")
    world.append(12, "12")
    assert world.ids() == world.ids_in_spark() == [f"{n:02d}" for n in range(13)]
