"""The Spark session of a campaign that runs the job in its own process."""

import sys
from collections.abc import Callable
from pathlib import Path

from pyspark.sql import SparkSession

from blizzard.log import silent
from blizzard.spark_settings import settings
from spark_job.session import lazy_session
from tests.spark.lake import JARS


def session(folder: Path) -> Callable[[], SparkSession]:
    """As the job has it, but for a JVM that warms up in half the time; or the one that is there already."""
    running = SparkSession.getActiveSession()
    if running is not None:
        return lambda: running
    conf = settings(jars_dir=str(JARS))
    jvm = f"{conf['spark.driver.extraJavaOptions']} -XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
    own = {
        "spark.master": "local[2]",
        "spark.sql.shuffle.partitions": "2",
        "spark.driver.extraJavaOptions": jvm,
        "spark.driver.memory": "1g",
        "spark.pyspark.python": sys.executable,
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.log.level": "ERROR",
    }
    return lazy_session({**conf, **own}, silent)
