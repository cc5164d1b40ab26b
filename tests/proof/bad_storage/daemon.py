"""The real job, run as often as it is asked to, in one process: a JVM's start costs more than the run.

Each line on standard input is the job's arguments as JSON; after each run a line says how it ended. With the word
`shipped` its clients are as patient as they are for users, without it as suits a proxy on this machine.
"""

import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace

from pyspark import SparkContext
from pyspark.sql import SparkSession

from blizzard.log import Log
from blizzard.storage.s3_connection import S3Settings
from spark_job import main as job

SHIPPED = "shipped"
TIME_OUT_SECS = 1


def impatient() -> None:
    """Time-outs of a second, and pauses to match."""
    shipped, shipped_session = S3Settings.from_environment, job.lazy_session

    def from_environment(environ: Mapping[str, str]) -> S3Settings:
        return replace(shipped(environ), first_backoff_secs=0.01, read_timeout_secs=float(TIME_OUT_SECS))

    def lazy_session(
        conf: Mapping[str, str], log: Log, *, on_start: Callable[[], None] = lambda: None
    ) -> Callable[[], SparkSession]:
        return shipped_session(conf, log, on_start=lambda: (on_start(), _let_s3a_be_impatient())[0])

    S3Settings.from_environment = from_environment  # type: ignore[method-assign,assignment]
    job.lazy_session = lazy_session


def _let_s3a_be_impatient() -> None:
    """S3A waits for 15 seconds at least, whatever it is told: it takes shorter ones for mistakes."""
    jvm = SparkContext._jvm
    shortest = jvm.java.time.Duration.ofSeconds(TIME_OUT_SECS)
    jvm.org.apache.hadoop.fs.s3a.impl.AWSClientConfig.setMinimumOperationDuration(shortest)


def main() -> None:
    if SHIPPED not in sys.argv[1:]:
        impatient()
    for line in sys.stdin:
        try:
            code = job.main(json.loads(line))
        except Exception as error:  # noqa: BLE001 - so would the process end
            print(json.dumps({"event": "died", "error": repr(error)[:2000]}), flush=True)
            code = 1
        print(json.dumps({"event": "exit", "code": code}), flush=True)


if __name__ == "__main__":
    main()
