"""The Spark session, started when something first needs it."""

import sys
import time
from collections.abc import Callable, Mapping
from functools import lru_cache

from pyspark.sql import SparkSession

from blizzard.environment import adopt, variables
from blizzard.log import Log


def lazy_session(
    conf: Mapping[str, str], log: Log, *, on_start: Callable[[], None] = lambda: None
) -> Callable[[], SparkSession]:
    """A function that gives the session, started at the first call. `conf` is empty where spark-submit brought all."""

    @lru_cache(maxsize=1)
    def session() -> SparkSession:
        started = time.monotonic()
        if "PYSPARK_PYTHON" not in variables():
            adopt({"PYSPARK_PYTHON": sys.executable})  # or Spark's workers are whatever python3 comes first on PATH
        builder = SparkSession.builder.appName("blizzard")
        for key, value in conf.items():
            builder = builder.config(key, value)
        spark = builder.getOrCreate()
        on_start()
        log("spark_started", secs=round(time.monotonic() - started, 2), version=spark.version)
        return spark

    return session
