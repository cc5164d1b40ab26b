"""The Spark session of a campaign that runs the job in its own process."""

from collections.abc import Callable
from pathlib import Path

from pyspark.sql import SparkSession

from blizzard.log import silent
from spark_job.session import lazy_session
from tests.spark.lake import session_settings


def session(folder: Path) -> Callable[[], SparkSession]:
    """As the job has it, but for a JVM that warms up in half the time; or the one that is there already."""
    running = SparkSession.getActiveSession()
    if running is not None:
        return lambda: running
    return lazy_session(session_settings(folder / "warehouse"), silent)
