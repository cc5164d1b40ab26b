"""Staged data files as rows of Spark."""

import re
from collections.abc import Sequence

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from spark_job.write.data_file import DataFile


def staged_rows(spark: SparkSession, table_uri: str, files: Sequence[DataFile], schema: StructType) -> DataFrame:
    """A missing or corrupt file is an error, even if the session ignores those."""
    paths = [_escape_glob(f"{table_uri.rstrip('/')}/{file.path}") for file in files]
    return spark.read.schema(schema).options(ignoreMissingFiles=False, ignoreCorruptFiles=False).parquet(*paths)


def _escape_glob(path: str) -> str:
    """Spark reads a path as a glob pattern."""
    return re.sub(r"([\\{}\[\]*?])", r"\\\1", path)
