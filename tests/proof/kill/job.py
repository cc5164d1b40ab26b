"""Runs the real job, `spark_job.main`, in the campaign's JVM or in its own, and kills it at the planned step; and reads
what it has written."""

import os
import random
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

import spark_job.main
import spark_job.repair.main
import spark_job.start
from blizzard.log import Log
from tests.proof.kill import steps as kill_steps
from tests.proof.kill import variants as kill_variants
from tests.proof.kill.jvm import TRAP
from tests.proof.kill.names import SPARK_STARTED, Whom
from tests.proof.ledger.small import keep_ledger_small


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
        log(SPARK_STARTED)
        return spark

    return session


def _telling(point: kill_steps.KillPoint, lazy_session: Callable[..., Callable[[], SparkSession]]) -> Any:
    def telling(
        conf: Mapping[str, str], log: Log, *, on_start: Callable[[], None] = lambda: None
    ) -> Callable[[], SparkSession]:
        def started() -> None:
            on_start()
            point.jvm_is_in_use()

        return lazy_session(conf, log, on_start=started)

    return telling


def run_job(
    words: Sequence[str],
    step: str,
    nth: int,
    whom: str,
    jvm: int,
    seed: str,
    variant: str,
    request: str = "",
    *,
    small_ledger: bool = True,
) -> int:
    """`request`: of an operator, who has files replaced; empty: a job with `words` runs. `step`: one of kill_steps;
    empty: no kill. `whom`: what is killed there. `jvm`: the process group of the running JVM; 0: the job starts its
    own. `small_ledger`: not for what is broken on purpose: a ledger that is merged all the time finds some of these
    faults in the table, and mends them."""
    group = {Whom.JOB: 0, Whom.JVM: jvm}.get(Whom(whom), os.getpgid(0))
    trap = os.environ.get(TRAP, "")
    point = kill_steps.KillPoint(nth=nth, group=group, trap=trap, seed=seed, whom=Whom(whom))
    if small_ledger and not variant:
        keep_ledger_small(random.Random(f"ledger {seed}"))
    spark_job.start.lazy_session = _telling(point, attached if jvm else spark_job.start.lazy_session)
    kill_steps.prepare(step, point)
    if variant:  # around the steps: what is one step to the product may be two to what is broken
        kill_variants.VARIANTS[variant]()
    return spark_job.repair.main.main(request) if request else spark_job.main.main([*words])


def write_rows(uri: str, file: str) -> int:
    """The rows of a table into a file, as lines of JSON without nulls, by Spark in the running JVM."""
    spark = session_of_the_running_jvm()
    rows = spark.read.format("delta").load(uri).selectExpr("to_json(struct(*)) AS line").collect()
    Path(file).write_text("".join(f"{row.line}\n" for row in rows))
    return 0
