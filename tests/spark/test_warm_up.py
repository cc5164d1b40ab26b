"""The warm-up of Delta's checkpoint, on real tables."""

import threading
from collections.abc import Callable

import pytest
from pyspark.sql import SparkSession

from spark_job.engines.spark import snapshot
from spark_job.engines.spark.transaction import DeltaTransactions
from spark_job.session import start_jvm_thread
from tests.spark.lake import Lake, event_of, ids, jobs_so_far, run, until

pytestmark = pytest.mark.spark

CHECKPOINT = 10
"""The version of which Delta writes its first checkpoint."""


def test_a_warm_up_computes_the_tables_state_and_writes_nothing(lake: Lake, spark: Callable[[], SparkSession]) -> None:
    lake.put("a.ndjson", *ids(0, 2))
    job = lake.job()
    run(job)
    there, before = sorted(lake.table.rglob("*")), jobs_so_far(spark())
    assert job.warm_up() is True
    assert jobs_so_far(spark()) > before
    assert sorted(lake.table.rglob("*")) == there


def test_a_table_with_an_unknown_number_of_files_is_skipped(lake: Lake, spark: Callable[[], SparkSession]) -> None:
    lake.put("a.ndjson", *ids(0, 2))
    run(lake.job())
    (lake.log_folder / f"{0:020d}.crc").unlink()
    table = DeltaTransactions(spark(), str(lake.table))
    assert table.independent_snapshot().file_count() is None
    before = jobs_so_far(spark())
    assert lake.job().warm_up() is False
    assert jobs_so_far(spark()) == before


def test_a_table_of_many_files_is_skipped(
    lake: Lake, spark: Callable[[], SparkSession], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshot, "FILES_PER_PARTITION", 1)
    job = lake.job()
    for n in range(2):
        assert (n == 0) or job.warm_up() is True
        lake.put(f"{n}.ndjson", *ids(n, n + 1))
        run(job)
    before = jobs_so_far(spark())
    assert job.warm_up() is False
    assert jobs_so_far(spark()) == before


def test_a_commit_does_not_wait_for_the_warm_up(lake: Lake, spark: Callable[[], SparkSession]) -> None:
    lake.put("a.ndjson", *ids(0, 2))
    run(lake.job())
    table = DeltaTransactions(spark(), str(lake.table))
    mine, used = table.independent_snapshot()._java, table.start(newest=False).snapshot._java
    assert mine.version() == used.version() == 0
    assert not mine.equals(used)
    assert not mine.deltaLog().equals(used.deltaLog())


def test_the_computed_state_is_not_cached(lake: Lake, spark: Callable[[], SparkSession]) -> None:
    lake.put("a.ndjson", *ids(0, 2))
    job = lake.job()
    run(job)
    kept = spark().sparkContext._jsc.sc().getPersistentRDDs
    before = kept().size()
    assert job.warm_up() is True
    assert kept().size() == before


def test_a_warm_up_during_commits_does_no_harm(lake: Lake) -> None:
    job = lake.job()
    ended: list[bool] = []
    for n in range(CHECKPOINT + 2):
        lake.put(f"{n:02}.ndjson.gz", *ids(10 * n, 10 * n + 10))
        run(job)
        start_jvm_thread(lambda: ended.append(job.warm_up()), name="warm-up")
    until(lambda: len(ended) == CHECKPOINT + 2)
    assert all(ended)
    verdict = lake.verdict()
    assert verdict.good, list(verdict.lines())
    assert [file.name for file in lake.log_folder.glob("*.checkpoint.parquet")] == [
        f"{CHECKPOINT:020d}.checkpoint.parquet"
    ]


def test_the_warm_up_has_a_jvm_thread_of_its_own_and_is_a_daemon(spark: Callable[[], SparkSession]) -> None:
    spark()
    seen: list[threading.Thread] = []
    start_jvm_thread(lambda: seen.append(threading.current_thread()), name="warm-up")
    until(lambda: bool(seen))
    assert (seen[0] is threading.main_thread(), seen[0].daemon) == (False, True)


def test_a_lingering_job_warms_up_once_and_succeeds(lake: Lake) -> None:
    lake.table_settings["linger_secs"] = 3600
    lake.put("a.ndjson", *ids(0, 2))
    lake.write_config()
    with lake.process() as job:
        event_of(job, "batch_committed")
        lake.put("b.ndjson", *ids(2, 4))
        lake.announce("b.ndjson")
        until(lambda: len(lake.versions()) == 2)
        event_of(job, "warmed_up")  # said by a run that waits, so it has nothing in hand
        job.stop()
        assert job.exit_status == 0
    said = (lake.folder / "job.log").read_text()
    assert (lake.ids(), said.count('"warmed_up"'), "Traceback" in said) == (["0", "1", "2", "3"], 1, False)
