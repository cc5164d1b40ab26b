"""The Spark session, started at its first use, and threads that use it."""

import sys
import time
from collections.abc import Callable, Mapping
from functools import lru_cache
from threading import Thread

from pyspark import InheritableThread
from pyspark.sql import SparkSession

from blizzard.config.spark_settings import CHECKSUM_FILES
from blizzard.environment import set_variables, variables
from blizzard.log import Log
from spark_job.cluster import is_on_cluster, start_on_cluster, worker_python
from spark_job.engines.spark.checksum_files import unset_missing_classes
from spark_job.engines.spark.spark_errors import SPARK_ERRORS


def lazy_session(
    conf: Mapping[str, str], log: Log, *, on_start: Callable[[], None] = lambda: None
) -> Callable[[], SparkSession]:
    """A function that returns the session and starts it at the first call. `conf` is empty if spark-submit sets
    everything. `on_start` is called once the session is up. The function raises PermanentError if a cluster does not
    take the job."""

    def start() -> SparkSession:
        builder = SparkSession.builder.appName("blizzard")
        for key, value in conf.items():
            builder = builder.config(key, value)
        return builder.getOrCreate()

    @lru_cache(maxsize=1)
    def session() -> SparkSession:
        started = time.monotonic()
        on_cluster = is_on_cluster(conf)
        if "PYSPARK_PYTHON" not in variables():
            # Otherwise Spark starts its workers with the first python3 on PATH.
            set_variables({"PYSPARK_PYTHON": worker_python() if on_cluster else sys.executable})
        spark = start_on_cluster(conf, start, SPARK_ERRORS) if on_cluster else start()
        unset_missing_classes(spark, CHECKSUM_FILES, log)
        on_start()
        log("spark_started", secs=round(time.monotonic() - started, 2), version=spark.version)
        return spark

    return session


def start_jvm_thread(work: Callable[[], None], *, name: str) -> None:
    """Start `work` in a daemon thread, which does not delay the end of the process, with its own thread in the JVM."""
    thread: Thread = InheritableThread(target=work, name=name, daemon=True)
    thread.start()
