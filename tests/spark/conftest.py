"""One Spark session for all tests of this folder; each test has a lake of its own."""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from blizzard.log import silent
from blizzard.spark_settings import settings
from spark_job.session import lazy_session
from tests.spark.lake import JARS, Lake


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[], SparkSession]]:
    """With the settings of the real job, and a JVM that warms up in half the time."""
    conf = settings(jars_dir=str(JARS))
    jvm = f"{conf['spark.driver.extraJavaOptions']} -XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
    own = {
        "spark.master": "local[2]",
        "spark.sql.shuffle.partitions": "2",
        "spark.driver.extraJavaOptions": jvm,
        "spark.driver.memory": "1g",
        "spark.pyspark.python": sys.executable,
        "spark.sql.warehouse.dir": str(tmp_path_factory.mktemp("warehouse")),
        "spark.log.level": "ERROR",
    }
    session = lazy_session({**conf, **own}, silent)
    yield session
    session().stop()


@pytest.fixture
def lake(tmp_path: Path, spark: Callable[[], SparkSession]) -> Lake:
    return Lake(tmp_path, spark)
