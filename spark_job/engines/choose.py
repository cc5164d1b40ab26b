"""Which engine each pipeline gets."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from blizzard.config.engine_name import EngineName
from blizzard.log import Log
from blizzard.storage.s3_connection import S3Settings
from spark_job.tasks.engine import Engine

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from spark_job.engines.local.engine import LocalEngine


@dataclass(slots=True)
class Engines:
    """The engines of one process, each made when a pipeline first needs it. `spark` returns the session and may start
    it; `storage_options` are deltalake's for S3. `check_spark` raises SetupError if this machine lacks what Spark
    needs."""

    spark: "Callable[[], SparkSession]"
    s3: S3Settings
    storage_options: Callable[[], Mapping[str, str]]
    log: Log
    check_spark: Callable[[], object] = lambda: None
    _local: "LocalEngine | None" = None
    _spark: Engine | None = None
    _auto: Engine | None = None

    def named(self, name: EngineName) -> Engine:
        match name:
            case EngineName.SPARK:
                return self._spark_engine()
            case EngineName.LOCAL:
                return self._local_engine()
            case EngineName.AUTO:
                return self._auto_engine()

    def close(self) -> None:
        """End the processes of the local engine."""
        if self._local is not None:
            self._local.close()

    # Each engine's packages are imported only when it is used: Spark's take half a second.

    def _spark_engine(self) -> Engine:
        from spark_job.engines.spark.engine import SparkEngine

        if self._spark is None:
            self._spark = SparkEngine(self.spark)
        return self._spark

    def _local_engine(self) -> "LocalEngine":
        from spark_job.engines.local.engine import LocalEngine

        if self._local is None:
            self._local = LocalEngine(self.s3, self.storage_options, self.log)
        return self._local

    def _auto_engine(self) -> Engine:
        from spark_job.engines.auto import AutoEngine

        if self._auto is None:
            self._auto = AutoEngine(self._local_engine(), self._started_spark, self.log, check=self.check_spark)
        return self._auto

    def _started_spark(self) -> Engine:
        engine = self._spark_engine()
        with engine.translating("starting Spark"):
            self.spark()
        return engine
