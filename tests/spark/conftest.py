"""One Spark session for all tests of this folder; each test has a lake of its own."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from blizzard.log import silent
from spark_job.session import lazy_session
from tests.spark.engine_lake import EngineLake
from tests.spark.format_comparison import Comparison
from tests.spark.lake import Lake, as_in_production, session_settings
from tests.spark.spark_avro import load_spark_avro
from tests.spark.table_world import World


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[], SparkSession]]:
    """Starts when a test first calls it."""
    started: list[bool] = []
    conf = session_settings(tmp_path_factory.mktemp("warehouse"))
    session = lazy_session(conf, silent, on_start=lambda: started.append(True))
    yield session
    if started:
        session().stop()


@pytest.fixture
def lake(tmp_path: Path, spark: Callable[[], SparkSession]) -> Lake:
    return Lake(tmp_path, spark)


@pytest.fixture
def auto_lake(tmp_path: Path, spark: Callable[[], SparkSession]) -> Iterator[EngineLake]:
    """Of the engine `auto`."""
    made = EngineLake(tmp_path, spark, chosen="auto")
    yield made
    made.close()


@pytest.fixture
def world(tmp_path: Path, spark: Callable[[], SparkSession]) -> World:
    return World(tmp_path, spark)


@pytest.fixture
def query_defaults(spark: Callable[[], SparkSession]) -> Iterator[None]:
    """Spark plans and compiles queries as in production: for tests that compare values with Spark's own."""
    with as_in_production(spark()):
        yield


@pytest.fixture
def comparison(spark: Callable[[], SparkSession], tmp_path: Path) -> Comparison:
    spark()
    return Comparison(spark, tmp_path)


@pytest.fixture(scope="session")
def spark_avro(spark: Callable[[], SparkSession]) -> None:
    """Spark can read Avro."""
    load_spark_avro(spark)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What asks for the session starts a JVM; parameters that ask for it later have the mark themselves."""
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.spark)
