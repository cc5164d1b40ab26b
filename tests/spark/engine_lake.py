"""A lake whose jobs choose their engine."""

from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from blizzard.log import silent
from blizzard.storage.s3_connection import S3Settings
from spark_job.engines.auto import AutoEngine
from spark_job.engines.local.engine import LocalEngine
from spark_job.engines.spark.engine import SparkEngine
from spark_job.tasks.engine import Engine
from tests.spark.lake import Lake, no_spark

ON_SPARK = [pytest.param("spark", marks=pytest.mark.spark)]
ON_BOTH = ["local", *ON_SPARK]


@dataclass
class EngineLake(Lake):
    """`chosen`: `local`, `spark` or `auto`, for the next job. Close it."""

    chosen: str = "local"
    _local: list[LocalEngine] = field(default_factory=list)

    def engine(self) -> Engine:
        if self.chosen == "spark":
            return SparkEngine(self.spark)
        local = LocalEngine(S3Settings(), dict, silent, cores=2)
        self._local.append(local)
        return local if self.chosen == "local" else AutoEngine(local, lambda: SparkEngine(self.spark), self._note)

    def close(self) -> None:
        """End the processes of the local engines."""
        while self._local:
            self._local.pop().close()


def lake_of(request: pytest.FixtureRequest, folder: Path, *settings: Any) -> "closing[EngineLake]":
    """Of the engine that a fixture's parameter names. The local one is alone: there is no Spark, and no Java."""
    spark = no_spark if request.param == "local" else request.getfixturevalue("spark")
    return closing(EngineLake(folder, spark, *settings, chosen=request.param))
