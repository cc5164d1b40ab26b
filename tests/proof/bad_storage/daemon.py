"""Runs the real job repeatedly in one process, because a JVM's start takes longer than a run.

Each line on standard input is the job's arguments as JSON; after each run it prints one line with the result. With the
first argument `shipped` its clients have the retries and timeouts of production, otherwise those for a local proxy. A
second argument is what is broken on purpose.
"""

import json
import random
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace

from pyspark import SparkContext
from pyspark.sql import SparkSession

from blizzard.log import Log
from blizzard.storage.s3_connection import S3Settings
from spark_job import main as job
from spark_job import start
from tests.proof.bad_storage.variants import OF_REAL_JOB
from tests.proof.ledger.small import keep_ledger_small

SHIPPED = "shipped"
TIME_OUT_SECS = 1


def impatient() -> None:
    """Timeouts of a second, and short backoffs."""
    shipped, shipped_session = S3Settings.from_environment, start.lazy_session

    def from_environment(environ: Mapping[str, str]) -> S3Settings:
        return replace(shipped(environ), first_backoff_secs=0.01, read_timeout_secs=float(TIME_OUT_SECS))

    def lazy_session(
        conf: Mapping[str, str], log: Log, *, on_start: Callable[[], None] = lambda: None
    ) -> Callable[[], SparkSession]:
        return shipped_session(conf, log, on_start=lambda: (on_start(), _let_s3a_be_impatient())[0])

    S3Settings.from_environment = from_environment  # type: ignore[method-assign,assignment]
    start.lazy_session = lazy_session


def _let_s3a_be_impatient() -> None:
    """S3A uses 15 seconds at least: it rejects shorter timeouts as mistakes."""
    jvm = SparkContext._jvm
    shortest = jvm.java.time.Duration.ofSeconds(TIME_OUT_SECS)
    jvm.org.apache.hadoop.fs.s3a.impl.AWSClientConfig.setMinimumOperationDuration(shortest)


def main() -> None:
    patience, *broken = sys.argv[1:]
    if patience != SHIPPED:
        impatient()
    for variant in broken:
        OF_REAL_JOB[variant]()
    keep_ledger_small(random.Random(SHIPPED))
    for line in sys.stdin:
        try:
            code = job.main(json.loads(line))
        except Exception as error:  # noqa: BLE001 - so would the process end
            print(json.dumps({"event": "died", "error": repr(error)[:2000]}), flush=True)
            code = 1
        print(json.dumps({"event": "exit", "code": code}), flush=True)


if __name__ == "__main__":
    main()
