"""One life of the real job, `spark_job.main`: at the campaign's JVM or with one of its own, and with its fate."""

import os
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache

from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

import spark_job.main
from blizzard.log import Log
from tests.proof import kill_steps, kill_variants
from tests.proof.kill_jvm import TRAP


def session_of_the_running_jvm() -> SparkSession:
    """A session of its own in the JVM that the environment names."""
    gateway = launch_gateway()
    jvm = gateway.jvm
    java = jvm.JavaSparkContext(jvm.org.apache.spark.SparkContext.getOrCreate())
    context = SparkContext(conf=SparkConf(_jvm=jvm, _jconf=java.getConf()), gateway=gateway, jsc=java)
    return SparkSession(context).newSession()


def attached(
    conf: Mapping[str, str], log: Log, *, on_start: Callable[[], None] = lambda: None
) -> Callable[[], SparkSession]:
    @lru_cache(maxsize=1)
    def session() -> SparkSession:
        spark = session_of_the_running_jvm()
        on_start()
        return spark

    return session


def live(words: Sequence[str], step: str, nth: int, together: bool, seed: str, variant: str) -> int:
    """`step`: of kill_steps, or empty to live on. `together`: the JVM dies with it."""
    if "PYSPARK_GATEWAY_PORT" in os.environ:
        spark_job.main.lazy_session = attached
    fate = kill_steps.Fate(nth=nth, group=os.getpgid(0) if together else 0, trap=os.environ.get(TRAP, ""), seed=seed)
    kill_steps.prepare(step, fate)
    if variant:  # around the steps: what is one step to the product may be two to what is broken
        kill_variants.VARIANTS[variant]()
    return spark_job.main.main([*words])
