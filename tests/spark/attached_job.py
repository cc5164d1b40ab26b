"""The job in a process of its own, but in the JVM that the environment names: `python -m tests.spark.attached_job`."""

import sys

import spark_job.main
import spark_job.start
from tests.proof.kill.job import attached

if __name__ == "__main__":
    spark_job.start.lazy_session = attached
    sys.exit(spark_job.main.main())
