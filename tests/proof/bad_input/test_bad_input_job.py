"""The hostile files and keys through the real job: one batch, every record a row or a dead letter, and counted."""

import random
import uuid
from collections.abc import Callable
from pathlib import Path

import boto3  # type: ignore[import-untyped]
import pytest
from pyspark.sql import SparkSession

from blizzard.state.dead_letters import DeadLetters
from blizzard.storage.s3_connection import S3Settings
from tests.fixtures_s3 import CREDENTIALS
from tests.proof.bad_input.job import FEW_FOLDERS, Landing, check_files, check_keys, check_texts
from tests.proof.bad_input.random_input import random_files, random_texts
from tests.proof.bad_input.spark import check_decided
from tests.proof.campaign import Failed
from tests.spark.conftest import spark  # noqa: F401 - a fixture

pytestmark = pytest.mark.spark
SEED = 1


def test_a_batch_of_hostile_files_loses_nothing_silently(
    tmp_path: Path,
    spark: Callable[[], SparkSession],  # noqa: F811
) -> None:
    by_chance = {f"by-chance/{path}": body for path, body in random_files(random.Random(SEED)).items()}
    assert check_files(tmp_path, spark, by_chance) > 500


def test_a_batch_of_hostile_texts_loses_nothing_silently(
    tmp_path: Path,
    spark: Callable[[], SparkSession],  # noqa: F811
) -> None:
    assert check_texts(tmp_path, spark, random_texts(random.Random(SEED))) > 20


@pytest.fixture
def landing(
    s3_endpoint: str,
    spark: Callable[[], SparkSession],  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> Landing:
    """A new bucket."""
    bucket = f"hostile-{uuid.uuid4().hex}"
    boto3.client("s3", endpoint_url=s3_endpoint, region_name="us-east-1").create_bucket(Bucket=bucket)
    for name, value in CREDENTIALS.items():
        monkeypatch.setitem(spark().sparkContext.environment, name, value)
    return Landing(bucket, S3Settings(s3_endpoint, "us-east-1", max_attempts=2))


def test_files_with_hostile_keys_on_s3_are_ingested(
    tmp_path: Path,
    spark: Callable[[], SparkSession],  # noqa: F811
    landing: Landing,
) -> None:
    assert any("\n" in key for key in FEW_FOLDERS)
    assert max(len(key.encode()) for key in FEW_FOLDERS) == 1_024
    assert check_keys(tmp_path, spark, landing, FEW_FOLDERS) > len(FEW_FOLDERS)


def test_a_job_that_drops_bad_records_is_found(
    tmp_path: Path,
    spark: Callable[[], SparkSession],  # noqa: F811
    landing: Landing,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(DeadLetters, "write_records", lambda letters, of, now_ts, attempt: sum(1 for _ in of))
    with pytest.raises(Failed, match="is in 0 rows, 0 letters, 0 lines"):
        check_keys(tmp_path, spark, landing, ["odd.ndjson", "even.ndjson"])


def test_a_line_that_spark_decides_follows_the_same_rules(spark: Callable[[], SparkSession]) -> None:  # noqa: F811
    spark()
    lines = ['{"id": 7}', '{"id": "a", "ratio": NaN}', '{"id": "a", "n": 1.0}']
    assert check_decided(spark(), lines) == {"lines that Spark took": 2, "lines that Spark refused": 1}
    # Of these Spark alone makes others; the job does not ask it about them.
    for never in ('{"id": "a", "at": "12:30"}', '{"id": "a", "at": 18446744073710}'):
        with pytest.raises(Failed, match=r"at does not fit, as .*, and is datetime"):
            check_decided(spark(), [never])
    with pytest.raises(Failed, match="it is a row, and cannot be one"):
        check_decided(spark(), ['{"id": "a", "attributes": {"a": "\\ud800", "a": "b"}}'])
