"""The Spark session of all contenders on Spark, with the settings of `blizzard run` on one machine."""

from collections.abc import Callable
from pathlib import Path

from pyspark.sql import SparkSession

from benchmarks.contenders import Work
from blizzard.config.spark_settings import settings
from blizzard.environment import variables
from blizzard.log import silent
from blizzard.storage.s3_connection import S3Settings
from spark_job.session import lazy_session

JARS = Path(__file__).parents[2] / "jars"


def session_of(work: Work) -> Callable[[], SparkSession]:
    s3 = S3Settings.from_environment(variables())
    conf = settings(jars_dir=str(JARS), s3_endpoint=s3.endpoint_url, s3_region=s3.region)
    own = {
        "spark.master": f"local[{work.cores}]",
        "spark.driver.memory": "4g",
        "spark.log.level": "ERROR",
        "spark.sql.warehouse.dir": f"{Path(work.data.folder).parent}/warehouse",
    }
    return lazy_session({**conf, **own, **work.spark_conf}, silent)
