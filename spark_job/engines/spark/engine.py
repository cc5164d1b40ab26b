"""Spark as an engine: tasks run on its executors, and Delta's own classes commit."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from spark_job.engines.spark.arrow_stage import map_in_arrow
from spark_job.engines.spark.decided_by_spark import DecidedBySpark
from spark_job.engines.spark.decided_records_writer import DEAD_LETTER_COLUMNS, DecidedRecordsWriter
from spark_job.engines.spark.expressions import completed_rows, strict_session
from spark_job.engines.spark.java_references import JavaReferences
from spark_job.engines.spark.spark_errors import translating_spark_errors
from spark_job.engines.spark.staged_rows import staged_rows
from spark_job.engines.spark.table import SparkTable
from spark_job.formats.deferred import all_refused, deferred_records_type
from spark_job.table.table_source import TableSource
from spark_job.tasks.batch_tasks import ReadTasks, Task
from spark_job.tasks.decided_records import DecidedRecords
from spark_job.tasks.engine import Undecided
from spark_job.tasks.report import Report
from spark_job.write.data_file import DataFile


class SparkEngine:
    """Implements `Engine`. `spark` returns the session and may start it."""

    def __init__(self, spark: Callable[[], SparkSession]) -> None:
        self._session = spark
        self._references = JavaReferences()

    @property
    def cores(self) -> int:
        return self._session().sparkContext.defaultParallelism

    def translating(self, action: str) -> AbstractContextManager[None]:
        return translating_spark_errors(action)

    def table(self, source: TableSource) -> SparkTable:
        return SparkTable(self._session, source, self._references)

    def run(self, task: Task, parts: Sequence[str]) -> list[Report]:
        """One Spark job."""
        if not parts:
            return []
        context = self._session().sparkContext
        collected = context.parallelize(parts, len(parts)).map(ReadTasks(task.to_json())).collect()
        return [Report.from_json(report) for report in collected]

    def judge(self, task: Task, undecided: Undecided) -> DecidedRecords:
        schema, partitions = task.destination.record_type(), task.destination.provenance.partition_columns
        records_type = deferred_records_type(len(partitions))
        records = staged_rows(self._session(), task.destination.table_uri, undecided.files, records_type)
        if undecided.failed:
            records = records.where(~F.col("file").isin(list(undecided.failed)))
        if not undecided.all_of_them:
            records = records.where("fault IS NULL")
        stage = DecidedRecordsWriter(task.destination, task.s3, task.settings.buffer_bytes)
        decided = all_refused(records, schema) if undecided.only_refused else self._decided(task, records)
        return DecidedBySpark.of(map_in_arrow(decided, stage, DEAD_LETTER_COLUMNS))

    def complete(self, task: Task, staged: Sequence[DataFile]) -> DecidedRecords:
        destination = task.destination
        session, rules = strict_session(self._session()), destination.layout.rules
        rows = staged_rows(session, destination.table_uri, staged, task.staged("").destination.row_type())
        completed = completed_rows(rows, rules, destination.row_type(), destination.record_type())
        stage = DecidedRecordsWriter(destination, task.s3, task.settings.buffer_bytes, whole_rows=True)
        return DecidedBySpark.of(map_in_arrow(completed, stage, DEAD_LETTER_COLUMNS))

    @staticmethod
    def _decided(task: Task, records: DataFrame) -> DataFrame:
        decided: DataFrame = task.open_format().decide(records)
        return decided
