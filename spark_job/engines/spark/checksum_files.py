"""The class with which Delta writes checksum files: set only if it loads in this Spark."""

from collections.abc import Mapping
from typing import Any

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from blizzard.log import Log


def unset_missing_classes(spark: SparkSession, classes: Mapping[str, str], log: Log) -> None:
    """Unset the settings whose class does not load. `classes` maps settings to classes, as CHECKSUM_FILES does. They
    use internals of Spark that may be elsewhere in another version. Delta would notice only in the middle of a commit.

    Changes this session alone: a session derived from it has the setting again."""
    jvm: Any = spark._jvm
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    for setting, name in classes.items():
        if spark.conf.get(setting, None) == name:
            try:
                loader.loadClass(name)
            except Py4JError:
                spark.conf.unset(setting)
                log("setting_left_out", setting=setting, value=name)
