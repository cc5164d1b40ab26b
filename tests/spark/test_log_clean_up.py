"""Each engine cleans up the table's log after its checkpoints, and keeps what recovery needs."""

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from blizzard.errors import LostRace
from tests.spark.table_world import APP_ID, World

pytestmark = pytest.mark.spark
ENGINES = ("spark", "local")
DAY_SECS = 86_400
PROPERTIES = "'delta.checkpointInterval' = '4', 'delta.logRetentionDuration' = 'interval 8 days'"


@pytest.fixture(params=ENGINES)
def world(request: pytest.FixtureRequest, tmp_path: Path, spark: Callable[[], SparkSession]) -> World:
    return World(tmp_path, spark, engine=request.param)


def make_older(log: Path, days: int) -> None:
    """The engines judge a commit by the time of its file."""
    for file in log.iterdir():
        os.utime(file, (time.time() - days * DAY_SECS,) * 2)


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
