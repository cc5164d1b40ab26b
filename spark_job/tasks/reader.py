"""The reader: Spark tasks that write data files, and Spark's own `from_json` for the lines that they leave."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from blizzard.errors import RetryableError
from blizzard.log import Log
from blizzard.state.batch import PlannedFile
from blizzard.state.dead_letters import DeadLetters
from blizzard.storage.s3_connection import S3Settings
from spark_job.ports.reader import Outcome
from spark_job.table.columns import columns_of
from spark_job.table.spark_errors import translating_spark_errors
from spark_job.table.staging import Staging
from spark_job.tasks.arrow_stage import map_in_arrow
from spark_job.tasks.batch_tasks import Task, run_tasks, task_files
from spark_job.tasks.deferred_lines import Decided, DecidedBySpark, RefusedByTasks, letters_of, refused_already
from spark_job.tasks.destination import Destination
from spark_job.tasks.provenance import Provenance
from spark_job.tasks.record_pipeline import deferred_lines_type
from spark_job.tasks.report import Report
from spark_job.tasks.spark_fallback import LETTERS, SparkFallback, parsed
from spark_job.tasks.task import ReadSettings
from spark_job.write.parquet_files import DataFile, TableLayout

IN_MEMORY_BYTES = 32 << 20
"""Of refused lines, that the driver sorts itself; more are sorted by Spark."""


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
        staging: Staging,
        dead_letters: DeadLetters,
        clock: Callable[[], float],
        log: Log,
        in_memory_bytes: int = IN_MEMORY_BYTES,
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
        self._staging = staging
        self._in_memory_bytes = in_memory_bytes
        self._dead_letters = dead_letters
        self._clock = clock

    @property
    def _spark(self) -> SparkSession:
        return self._session()

    def read(self, files: Sequence[PlannedFile], *, sequence: int, replacing: bool = False) -> "SparkRows":
        layout = self._layout(staged=replacing)
        self._tell_reason()
        with translating_spark_errors("reading the source's schema"):
            schema = columns_of(self._ddl)
        origin = Provenance(self._source_id, sequence, dict(self._partition_columns))
        destination = Destination(self._table_uri, layout, self._staging.deferred_folder, schema.json(), origin)
        task = Task(self._uri, self._s3, self._settings, destination)
        with translating_spark_errors(f"reading a batch of {len(files)} files"):
            reports = run_tasks(self._spark.sparkContext, task, task_files(files, self._partition_columns))
            left = [data_file for report in reports for data_file in report.left]
            decided = self._decided(task, schema, reports, left) if left else []
        outcomes = [outcome for report in reports for outcome in report.outcomes]
        if decided:
            outcomes = [_with_refused(one, sum(part.refused.get(one.path, 0) for part in decided)) for one in outcomes]
        data_files = [data_file for report in reports for data_file in report.data_files]
        data_files += [data_file for part in decided for data_file in part.data_files]
        remove_left = partial(self._staging.remove, left)
        write_share = _write_share(reports)
        return SparkRows(
            outcomes, data_files, layout, decided, self._dead_letters, self._clock, remove_left, write_share
        )

    def _tell_reason(self) -> None:
        """Once for each reason why what tasks write has to be written once more."""
        reason = self._layout_reason()
        if reason is not None and reason not in self._reasons_told:
            self._reasons_told.add(reason)
            self._log("rows_written_twice", source=self._source_id, reason=reason)

    def _decided(
        self, task: Task, schema: StructType, reports: Sequence[Report], left: Sequence[DataFile]
    ) -> list[Decided]:
        """What becomes of the lines that are left, but for those of files that failed as a whole."""
        failed = [outcome.path for report in reports for outcome in report.outcomes if outcome.error is not None]
        if sum(report.deferred_bytes for report in reports) > self._in_memory_bytes:
            return [self._decided_by_spark(task, schema, self._lines(left, failed))]
        refused = RefusedByTasks(refused_already(self._staging.table(left), failed))
        if not any(report.undecided for report in reports):
            return [refused]
        undecided = self._lines(left, failed).where("fault IS NULL")
        return [refused, self._decided_by_spark(task, schema, undecided)]

    def _lines(self, left: Sequence[DataFile], failed: Sequence[str]) -> DataFrame:
        lines = self._staging.frame(
            self._spark, self._table_uri, left, deferred_lines_type(len(self._partition_columns))
        )
        return lines.where(~F.col("file").isin(list(failed))) if failed else lines

    def _decided_by_spark(self, task: Task, schema: StructType, lines: DataFrame) -> Decided:
        is_text = self._settings.format == "text"
        stage = SparkFallback(task.destination, task.s3, task.settings.buffer_bytes)
        return DecidedBySpark.of(map_in_arrow(parsed(lines, schema, is_text=is_text), stage, LETTERS))


def _write_share(reports: Sequence[Report]) -> float:
    secs = sum(report.secs for report in reports)
    return sum(report.write_secs for report in reports) / secs if secs else 0.0


def _with_refused(outcome: Outcome, refused: int) -> Outcome:
    return outcome if outcome.error is not None else replace(outcome, rows=outcome.rows - refused, dead_records=refused)


class SparkRows:
    """What a batch became: data files that wait for their commit, and letters for what was refused."""

    def __init__(
        self,
        outcomes: Sequence[Outcome],
        data_files: Sequence[DataFile],
        layout: TableLayout,
        decided: Sequence[Decided],
        dead_letters: DeadLetters,
        clock: Callable[[], float],
        remove_left: Callable[[], None],
        write_share: float,
    ) -> None:
        self.outcomes = [
            replace(outcome, rows=0, dead_records=0) if outcome.error is not None else outcome for outcome in outcomes
        ]
        self.data_files = data_files
        self.held = sum(data_file.rows for data_file in data_files)
        self.layout = layout
        self.write_share = write_share
        self._decided = decided
        self._dead_letters = dead_letters
        self._clock = clock
        self._remove_left = remove_left

    def put_dead_records(self) -> None:
        """Raises RetryableError when Spark lost what it had decided, and decides otherwise now."""
        if not self._decided:
            return
        with translating_spark_errors("collecting the refused records"):
            written = self._dead_letters.put_records(letters_of(self._decided), self._clock())
        expected = sum(outcome.dead_records for outcome in self.outcomes)
        if written != expected:
            raise RetryableError(
                f"expected {expected} refused records, found {written}: the same lines gave another outcome when they "
                "were parsed again; the batch is thrown away and planned anew"
            )

    def release(self) -> None:
        try:
            with translating_spark_errors("letting go of the refused records"):
                for part in self._decided:
                    part.release()
        finally:
            self._remove_left()
