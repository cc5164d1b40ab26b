"""The reader: Spark tasks that write data files, and Spark's own `from_json` for the lines that they leave."""

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from pyspark import StorageLevel
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from blizzard.batch import PlannedFile
from blizzard.dead_letters import DeadLetter, DeadLetters, Stage
from blizzard.errors import PermanentError, RetryableError
from blizzard.log import Log
from blizzard.partition import BadPartition, partition_values
from blizzard.storage.s3_connection import S3Settings
from spark_job.data_files import DataFile, TableLayout
from spark_job.engine import engine
from spark_job.fetch import TaskFile
from spark_job.map_in_arrow import map_in_arrow
from spark_job.origin import Origin
from spark_job.ports import Outcome
from spark_job.slow_path import LETTERS, SlowPath, parsed
from spark_job.task import ReadSettings, Report
from spark_job.tasks import Task, tasks_of
from spark_job.write import Destination


class SparkReader:
    """Reads planned files of one source into data files of its table. `schema` is DDL; `spark` may start the session.
    `layout` says how the table wants its files, with `staged=True` for rows that Spark is to write; `layout_reason`,
    why it has to where nobody asked for that."""

    def __init__(
        self,
        spark: Callable[[], SparkSession],
        *,
        uri: str,
        table_uri: str,
        s3: S3Settings,
        settings: ReadSettings,
        schema: str,
        partition_columns: Mapping[str, str],
        source_id: str,
        layout: Callable[..., TableLayout],
        layout_reason: Callable[[], str | None],
        dead_letters: DeadLetters,
        clock: Callable[[], float],
        log: Log,
    ) -> None:
        self._session = spark
        self._uri = uri
        self._table_uri = table_uri
        self._s3 = s3
        self._settings = settings
        self._ddl = schema
        self._partition_columns = partition_columns
        self._source_id = source_id
        self._layout = layout
        self._layout_reason = layout_reason
        self._reasons_told: set[str] = set()
        self._log = log
        self._dead_letters = dead_letters
        self._clock = clock

    @property
    def _spark(self) -> SparkSession:
        return self._session()

    def read(self, files: Sequence[PlannedFile], *, sequence: int, replacing: bool = False) -> "SparkRows":
        layout = self._layout(staged=replacing)
        self._tell_reason()
        schema = columns_of(self._ddl)
        origin = Origin(self._source_id, sequence, dict(self._partition_columns))
        task = Task(self._uri, self._s3, self._settings, Destination(self._table_uri, layout, schema.json(), origin))
        cached: list[DataFrame] = []
        try:
            with engine(f"reading a batch of {len(files)} files"):
                return self._read(task, schema, [self._task_file(file) for file in files], cached)
        except BaseException:
            for frame in cached:
                frame.unpersist()
            raise

    def _tell_reason(self) -> None:
        """Once for each reason why what tasks write has to be written once more."""
        reason = self._layout_reason()
        if reason is not None and reason not in self._reasons_told:
            self._reasons_told.add(reason)
            self._log("rows_written_twice", source=self._source_id, reason=reason)

    def _read(self, task: Task, schema: StructType, files: Sequence[TaskFile], cached: list[DataFrame]) -> "SparkRows":
        lines = tasks_of(self._spark, task, files).persist(StorageLevel.MEMORY_AND_DISK)
        cached.append(lines)
        found = [
            Report.from_json(row["report"]) for row in lines.where("report IS NOT NULL").select("report").collect()
        ]
        outcomes = [outcome for report in found for outcome in report.outcomes]
        data_files = [data_file for report in found for data_file in report.data_files]
        if not any(report.left for report in found):
            return SparkRows(
                outcomes, data_files, task.destination.layout, None, cached, self._dead_letters, self._clock
            )
        failed = [outcome.path for outcome in outcomes if outcome.error is not None]
        left = lines.where("report IS NULL")
        if failed:
            left = left.where(~F.col("file").isin(failed))
        letters = self._slow(task, schema, left).persist(StorageLevel.MEMORY_AND_DISK)
        cached.append(letters)
        refused: Counter[str] = Counter()
        for row in letters.where("report IS NOT NULL").select("report").collect():
            report = json.loads(row["report"])
            refused.update(report["refused"])
            data_files += [DataFile(**data_file) for data_file in report["data_files"]]
        decided = [_with_refused(outcome, refused[outcome.path]) for outcome in outcomes]
        return SparkRows(decided, data_files, task.destination.layout, letters, cached, self._dead_letters, self._clock)

    def _slow(self, task: Task, schema: StructType, left: DataFrame) -> DataFrame:
        """The letters of what Spark's own parser refuses, and what became of the rest in a report for each task."""
        is_text = self._settings.format == "text"
        stage = SlowPath(task.destination, task.s3, task.settings.buffer_bytes)
        return map_in_arrow(parsed(left, schema, is_text=is_text), stage, LETTERS)

    def _task_file(self, file: PlannedFile) -> TaskFile:
        task_file = TaskFile(file.path, file.size, file.skip_records, file.slice_bytes, file.expected_etag)
        try:
            values = partition_values(file.path, self._partition_columns)
        except BadPartition as error:
            return replace(task_file, partitions=(None,) * len(self._partition_columns), refusal=str(error))
        return replace(task_file, partitions=tuple(values[column] for column in self._partition_columns))


def _with_refused(outcome: Outcome, refused: int) -> Outcome:
    return outcome if outcome.error is not None else replace(outcome, rows=outcome.rows - refused, dead_records=refused)


class SparkRows:
    """What a batch became: data files that wait for their commit, and letters for what was refused."""

    def __init__(
        self,
        outcomes: Sequence[Outcome],
        data_files: Sequence[DataFile],
        layout: TableLayout,
        letters: DataFrame | None,
        cached: Sequence[DataFrame],
        dead_letters: DeadLetters,
        clock: Callable[[], float],
    ) -> None:
        self.outcomes = [
            replace(outcome, rows=0, dead_records=0) if outcome.error is not None else outcome for outcome in outcomes
        ]
        self.data_files = data_files
        self.layout = layout
        self._letters = letters
        self._cached = cached
        self._dead_letters = dead_letters
        self._clock = clock

    def put_dead_records(self) -> None:
        """Raises RetryableError when Spark lost what it had read, and a file has other records to refuse now."""
        if self._letters is None:
            return
        with engine("collecting the refused records"):
            refused = self._letters.where("report IS NULL").sort("file", "row").toLocalIterator()
            written = self._dead_letters.put_records((_letter(row) for row in refused), self._clock())
        expected = sum(outcome.dead_records for outcome in self.outcomes)
        if written != expected:
            raise RetryableError(
                f"expected {expected} refused records, found {written}: a file gave another outcome when it was read "
                "again; the batch is thrown away and planned anew"
            )

    def release(self) -> None:
        for frame in self._cached:
            frame.unpersist()


def _letter(row: Row) -> DeadLetter:
    raw = bytes(row["undecodable"]) if row["undecodable"] is not None else row["line"]
    return DeadLetter(row["file"], row["etag"], Stage.PARSE, row["fault"], row["row"], raw)


def columns_of(ddl: str) -> StructType:
    """A DDL schema's columns. Needs a session: Spark's own parser reads it."""
    parsed_type = StructType.fromDDL(ddl)
    if not isinstance(parsed_type, StructType):
        raise PermanentError(f"schema {ddl!r}: expected columns, found the type {parsed_type.simpleString()}")
    return parsed_type
