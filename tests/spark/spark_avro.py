"""Spark's reader of Avro, which is a jar of its own: for tests alone, since the job reads Avro without it."""

from collections.abc import Callable

import pytest
from pyspark.sql import SparkSession

from blizzard.environment import variables
from blizzard.errors import SetupError
from blizzard.setup.download import MAVEN_CENTRAL, REPOSITORY_VARIABLE, download
from blizzard.setup.file_lock import locked
from blizzard.setup.jar_lock import Jar
from blizzard.setup.stamps import file_sha256
from infra.local.processes.checkout import CHECKOUT

SPARK_AVRO = Jar(
    "org.apache.spark_spark-avro_2.13-4.1.1.jar",
    "6a19d90bc3b6e88d8db0fa36a19273aa10fea2dbd7a62bb60e4cedd73051b32d",
    "org.apache.spark:spark-avro_2.13:4.1.1",
)
FOLDER = CHECKOUT / ".cache" / "test-jars"


def load_spark_avro(spark: Callable[[], SparkSession]) -> None:
    """Skips where the jar cannot be had, except in CI, which has no reader of the skipped tests."""
    file = FOLDER / SPARK_AVRO.file
    FOLDER.mkdir(parents=True, exist_ok=True)
    with locked(FOLDER / ".lock"):
        if not file.exists() or file_sha256(file) != SPARK_AVRO.sha256:
            try:
                download([SPARK_AVRO], FOLDER, variables().get(REPOSITORY_VARIABLE, MAVEN_CENTRAL), lambda jar: None)
            except SetupError as error:
                if variables().get("CI"):
                    raise
                pytest.skip(f"NOT TESTED against Spark's reader of Avro: {' '.join(str(error).split())}")
    spark().sql(f"ADD JAR '{file}'")
