"""Both engines commit to one table in turn, over many checkpoints and clean-ups of its log, with OPTIMIZE and VACUUM in
between: Txns stay, recovery works from what is left, and each record is there once."""

import os
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from spark_job.engines.needs_spark import NeedsSpark
from spark_job.table.table_source import TableSource
from spark_job.tasks.engine import Engine
from tests.spark.engine_lake import EngineLake
from tests.spark.lake import SCHEMA, run

pytestmark = pytest.mark.spark
APP_ID, PARTNER = "blizzard:events:landing", "blizzard:events:partner"
DAY_SECS = 86_400
INTERVAL, TURNS = 3, 14
PROPERTIES = (
    f"'delta.checkpointInterval' = '{INTERVAL}', 'delta.logRetentionDuration' = 'interval 8 days', "
    "'delta.enableExpiredLogCleanup' = 'true', 'delta.checkpointPolicy' = '{policy}'"
)
POLICIES = {"classic": ("spark", "local"), "v2": ("spark", "auto")}
"""Forms of checkpoints, and the engines that take turns. The local engine leaves tables with V2 checkpoints to
Spark."""


@pytest.fixture
def lake(tmp_path: Path, spark: Callable[[], SparkSession]) -> Iterator[EngineLake]:
    with closing(EngineLake(tmp_path, spark)) as made:
        yield made


def sql(lake: EngineLake, text: str) -> list[Any]:
    """`{t}` is the table."""
    return lake.spark().sql(text.replace("{t}", f"delta.`{lake.table}`")).collect()


def make_older(lake: EngineLake) -> None:
    """The engines judge a commit by the time of its file."""
    for file in lake.log_folder.iterdir():
        os.utime(file, (time.time() - 30 * DAY_SECS,) * 2)


def begin(lake: EngineLake, policy: str) -> None:
    """A table of two sources, of which `partner` commits once."""
    lake.put("first.ndjson", {"id": "first"}, source="partner")
    for job in lake.jobs({"landing": {}, "partner": {}}):
        run(job, late=True)
    sql(lake, f"ALTER TABLE {{t}} SET TBLPROPERTIES ({PROPERTIES.format(policy=policy)})")


def optimize_and_vacuum(lake: EngineLake) -> int:
    """Returns how many data files VACUUM has removed."""
    sql(lake, "OPTIMIZE {t}")
    before = len([*lake.table.glob("*.parquet")])
    check = "spark.databricks.delta.retentionDurationCheck.enabled"
    lake.spark().conf.set(check, "false")
    try:
        sql(lake, "VACUUM {t} RETAIN 0 HOURS")
    finally:
        lake.spark().conf.unset(check)
    return before - len([*lake.table.glob("*.parquet")])


def take_turns(lake: EngineLake, engines: tuple[str, ...]) -> Counter[str]:
    """Counts by engine: checkpoints that it wrote, commits that it cleaned up; and what VACUUM removed."""
    counts: Counter[str] = Counter()
    for number, engine in zip(range(TURNS), cycle(engines), strict=False):
        lake.chosen = engine
        lake.put(f"{number:02d}.ndjson", {"id": f"{number:02d}", "n": number})
        checkpoints, commits = {*lake.log_folder.glob("*.checkpoint.*")}, {*lake.versions()}
        lake.run(late=True)
        counts[f"{engine} wrote checkpoints"] += len({*lake.log_folder.glob("*.checkpoint.*")} - checkpoints)
        counts[f"{engine} cleaned up"] += len(commits - {*lake.versions()})
        if number % 5 == 4:
            counts["vacuumed"] += optimize_and_vacuum(lake)
        make_older(lake)
    return counts


def in_table(lake: EngineLake) -> list[str]:
    return sorted(row["id"] for row in sql(lake, "SELECT id FROM {t}"))


def txns(lake: EngineLake, engine: Engine) -> dict[str, int]:
    source = TableSource(str(lake.table), "events:landing", APP_ID, SCHEMA, {}, ())
    return {txn.app_id: txn.version for txn in engine.table(source).txns()}


def forget(lake: EngineLake) -> None:
    lake.spark()._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()


def leave_no_state_in_the_log(lake: EngineLake) -> None:
    """Somebody else commits until every commit of ours is cleaned up, and the copy of the state is lost."""
    while any('"txn"' in (lake.log_folder / f"{version:020d}.json").read_text() for version in lake.versions()):
        sql(lake, "INSERT INTO {t} (id, n) VALUES ('theirs', 1)")
        make_older(lake)
    lake.copy.unlink()
    for file in lake.log_folder.glob("*.crc"):
        file.unlink()


@pytest.mark.parametrize("policy", POLICIES)
def test_engines_that_take_turns_keep_txns_and_rows_over_clean_ups(lake: EngineLake, policy: str) -> None:
    begin(lake, policy)
    engines = POLICIES[policy]
    counts = take_turns(lake, engines)
    for engine in engines:
        assert counts[f"{engine} wrote checkpoints"] >= 2, counts
        assert counts[f"{engine} cleaned up"] >= 2, counts
    assert counts["vacuumed"] > 0
    assert len(lake.versions()) < TURNS
    forget(lake)
    expected = ["first", *(f"{number:02d}" for number in range(TURNS))]
    assert in_table(lake) == sorted(expected)
    assert bool(lake.logged("spark_needed")) == (policy == "v2")
    for engine in (*engines, "auto"):
        lake.chosen = engine
        assert txns(lake, lake.engine()) == {APP_ID: TURNS - 1, PARTNER: 0}
    leave_no_state_in_the_log(lake)
    for number, engine in enumerate([*reversed(engines), *engines], TURNS):
        forget(lake)
        lake.chosen = engine
        lake.put(f"{number:02d}.ndjson", {"id": f"{number:02d}", "n": number})
        lake.run(late=True)
        expected.append(f"{number:02d}")
    ours = [name for name in in_table(lake) if name != "theirs"]
    assert ours == sorted(expected)
    assert txns(lake, lake.engine()) == {APP_ID: TURNS + 3, PARTNER: 0}


def test_the_local_engine_leaves_v2_checkpoints_to_spark_and_commits_nothing(lake: EngineLake) -> None:
    begin(lake, "v2")
    before = lake.versions()
    lake.put("a.ndjson", {"id": "a"})
    with pytest.raises(NeedsSpark, match="feature v2Checkpoint"):
        lake.run(late=True)
    assert lake.versions() == before
    lake.chosen = "auto"
    lake.run(late=True)
    assert in_table(lake) == ["a", "first"]
