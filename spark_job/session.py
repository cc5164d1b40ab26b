"""The Spark session, started at its first use, and threads that use it."""

import sys
import time
from collections.abc import Callable, Mapping
from functools import lru_cache, partial
from pathlib import Path
from threading import Thread

from pyspark import InheritableThread
from pyspark.errors import PySparkRuntimeError
from pyspark.sql import SparkSession

from blizzard.config.spark_settings import CHECKSUM_FILES
from blizzard.environment import set_variables, variables
from blizzard.errors import SetupError
from blizzard.log import Log
from blizzard.setup.jar_folder import problem_of
from blizzard.setup.java import Java, find_java
from blizzard.setup.places import SETUP_COMMAND
from spark_job.cluster import is_on_cluster, start_on_cluster, worker_python
from spark_job.engines.spark.checksum_files import unset_missing_classes
from spark_job.engines.spark.spark_errors import SPARK_ERRORS

JAVA_ENDED = "JAVA_GATEWAY_EXITED"
"""Spark's name of the error that Java has ended before it could be talked to."""
JAVA_STARTS = 2
LOCAL_ADDRESS = {"SPARK_LOCAL_IP": "127.0.0.1"}


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


def with_java_and_jars(
    session: Callable[[], SparkSession], jars: Path, *, on_cluster: bool = False
) -> Callable[[], SparkSession]:
    """The same for a driver on this machine: it starts with a Java that it supports, which need not be the default one.
    Raises SetupError when Java or the jars are missing or Java does not start, since Spark's own errors do not say so.
    """

    # The address needs no lookup of the machine's name, which may be unknown. Executors elsewhere need that name.
    address = {} if on_cluster else LOCAL_ADDRESS
    return _with_java(session, partial(java_for_spark, jars), address)


def with_java(session: Callable[[], SparkSession]) -> Callable[[], SparkSession]:
    """The same for a session that needs no jars."""
    return _with_java(session, find_java, LOCAL_ADDRESS)


def _with_java(
    session: Callable[[], SparkSession], find: Callable[[], Java], address: Mapping[str, str]
) -> Callable[[], SparkSession]:
    @lru_cache(maxsize=1)
    def checked() -> SparkSession:
        java = find()
        set_variables({**address, **variables(), "JAVA_HOME": str(java.home)})
        return _started(session, java)

    return checked


def java_for_spark(jars: Path) -> Java:
    """Raises SetupError when Java or the jars are missing."""
    if problem := problem_of(jars):
        raise SetupError(f"Spark needs Delta's jars, and found {problem}; run `{SETUP_COMMAND}`")
    return find_java()


def _started(session: Callable[[], SparkSession], java: Java) -> SparkSession:
    """Java may end before it answers because memory is short for a moment, so it is started once more."""
    last: PySparkRuntimeError | None = None
    for _ in range(JAVA_STARTS):
        try:
            return session()
        except PySparkRuntimeError as error:
            if error.getCondition() != JAVA_ENDED:
                raise
            last = error
    raise SetupError(
        f"Spark cannot start: its process with {java} ended {JAVA_STARTS} times before it answered. Check that "
        "`spark.driver.memory` is free on this machine, that PATH has `bash` and the usual tools, and that JAVA_HOME, "
        "if it is set, is a whole Java. `blizzard run --json` shows what the process said."
    ) from last


def start_jvm_thread(work: Callable[[], None], *, name: str) -> None:
    """Start `work` in a daemon thread, which does not delay the end of the process, with its own thread in the JVM."""
    thread: Thread = InheritableThread(target=work, name=name, daemon=True)
    thread.start()
