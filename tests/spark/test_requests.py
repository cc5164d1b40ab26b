"""The requests of a commit to S3: each one adds its latency and its price."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from benchmarks.s3_stand_in import CREDENTIALS
from blizzard.config.spark_settings import CHECKSUM_FILES
from blizzard.errors import LostRace
from blizzard.storage.s3 import S3Settings, S3Store
from spark_job.engines.spark.checksum_files import unset_missing_classes
from spark_job.engines.spark.java_references import JavaReferences
from spark_job.engines.spark.table import SparkTable
from spark_job.table.delta_table import DeltaSourceTable
from spark_job.table.table_source import TableSource
from tests.spark.s3_lake import BUCKET, S3Lake, s3_lake

pytestmark = pytest.mark.spark

APP_ID = "blizzard:events:landing"


@pytest.fixture
def lake(tmp_path: Path, spark: Callable[[], SparkSession], monkeypatch: pytest.MonkeyPatch) -> Iterator[S3Lake]:
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)
    with s3_lake(tmp_path, spark()) as lake:
        yield lake


@pytest.fixture
def table(lake: S3Lake, spark: Callable[[], SparkSession]) -> DeltaSourceTable:
    source = TableSource(f"s3a://{BUCKET}/table", "events:landing", APP_ID, "id STRING", {}, ())
    store = S3Store(BUCKET, "table/", S3Settings(lake.endpoint, "us-east-1"))
    return DeltaSourceTable(SparkTable(spark, source, JavaReferences()), source, store=store)


def commit(table: DeltaSourceTable, sequence: int) -> None:
    table.append(None, sequence=sequence, user_metadata=f"state {sequence}")


def test_a_commit_is_four_requests(lake: S3Lake, table: DeltaSourceTable) -> None:
    for sequence in range(3):
        lake.asked.clear()
        commit(table, sequence)
    assert lake.asked == ["LIST", "PUT 2.json", "HEAD 2.json", "PUT 2.crc"]
    assert lake.names(".crc") == [".crc", "1.crc", "2.crc"]
    assert lake.names(".tmp") == []


def test_the_next_process_reads_the_checksums(
    lake: S3Lake, table: DeltaSourceTable, spark: Callable[[], SparkSession]
) -> None:
    for sequence in range(2):
        commit(table, sequence)
    forget_the_log(spark())
    lake.asked.clear()
    with pytest.raises(LostRace):
        commit(table, 1)
    assert [what for what in lake.asked if "GET" in what] == ["GET 1.crc"]


def forget_the_log(spark: SparkSession) -> None:
    """As in a new process, which has nothing in memory."""
    jvm: Any = spark._jvm
    jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()


def test_a_commit_succeeds_though_its_checksum_cannot_be_written(
    lake: S3Lake, table: DeltaSourceTable, spark: Callable[[], SparkSession]
) -> None:
    commit(table, 0)
    lake.refuses = lambda request: request.method == "PUT" and request.target.endswith(".crc")
    commit(table, 1)
    lake.refuses = lambda request: False
    commit(table, 2)
    assert lake.names("0.json") + lake.names("1.json") + lake.names("2.json") == [".json", "1.json", "2.json"]
    assert "1.crc" not in lake.names(".crc")
    forget_the_log(spark())
    with pytest.raises(LostRace):
        commit(table, 2)


def test_a_setting_with_a_class_that_this_spark_lacks_is_left_out(spark: Callable[[], SparkSession]) -> None:
    ((setting, ours),) = CHECKSUM_FILES.items()
    assert spark().conf.get(setting) == ours
    events: list[tuple[str, str]] = []

    def log(event: str, /, **fields: object) -> None:
        events.append((event, str(fields["setting"])))

    session, elsewhere = spark().newSession(), "io.github.blizzard.logstore.OfAnotherVersion"
    session.conf.set(setting, elsewhere)
    unset_missing_classes(session, CHECKSUM_FILES, log)
    assert session.conf.get(setting) == elsewhere  # somebody's own
    unset_missing_classes(session, {setting: elsewhere}, log)
    assert session.conf.get(setting, "none") == "none"
    unset_missing_classes(spark(), CHECKSUM_FILES, log)
    assert spark().conf.get(setting) == ours
    assert events == [("setting_left_out", setting)]
