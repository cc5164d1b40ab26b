"""Reads a batch: tasks that write data files, then Spark's decision on the records that they defer."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

from pyspark.sql.types import StructType

from blizzard.errors import RetryableError
from blizzard.log import Log
from blizzard.state.batch import PlannedFile
from blizzard.state.dead_letters import DeadLetter, DeadLetters
from blizzard.state.unknown_fields import UnknownFields
from blizzard.storage.s3_connection import S3Settings
from spark_job.ports.offset_range import TopicSettings
from spark_job.ports.reader import Outcome
from spark_job.table.staging import Staging
from spark_job.tasks.batch_tasks import Task, packed_files, task_files
from spark_job.tasks.decided_records import (
    DecidedRecords,
    RefusedByTasks,
    dead_letters_of,
    first_undecided,
    refused_already,
)
from spark_job.tasks.destination import Destination
from spark_job.tasks.engine import TaskEngine, Undecided
from spark_job.tasks.near_columns import near_columns
from spark_job.tasks.provenance import Provenance
from spark_job.tasks.read_settings import ReadSettings
from spark_job.tasks.report import Report
from spark_job.tasks.unknown_fields import merged
from spark_job.write.data_file import DataFile, TableLayout
from spark_job.write.write_errors import raise_refused

IN_MEMORY_BYTES = 32 << 20
"""Deferred records up to this size are sorted on the driver; more are sorted by Spark."""


class BatchReader:
    """Reads planned files of one source into data files of its table.

    `layout` returns the layout of the data files, with `staged=True` for rows that the engine will
    write once more. `layout_reason` returns why the table requires that; None if it does not. `record_type` returns the
    columns of records that such files have.
    """

    def __init__(
        self,
        engine: TaskEngine,
        *,
        uri: str,
        table_uri: str,
        s3: S3Settings,
        settings: ReadSettings,
        record_type: Callable[[], StructType],
        partition_columns: Mapping[str, str],
        source_id: str,
        layout: Callable[..., TableLayout],
        layout_reason: Callable[[], str | None],
        staging: Staging,
        dead_letters: DeadLetters,
        clock: Callable[[], float],
        log: Log,
        topics: Callable[[], TopicSettings] | None = None,
        in_memory_bytes: int = IN_MEMORY_BYTES,
    ) -> None:
        self._engine = engine
        self._uri = uri
        self._topics = topics
        self._table_uri = table_uri
        self._s3 = s3
        self._settings = settings
        self._compressions = settings.compressions()
        self._record_type = record_type
        self._partition_columns = partition_columns
        self._source_id = source_id
        self._layout = layout
        self._layout_reason = layout_reason
        self._logged_reasons: set[str] = set()
        self._log = log
        self._staging = staging
        self._in_memory_bytes = in_memory_bytes
        self._dead_letters = dead_letters
        self._clock = clock

    def read(self, files: Sequence[PlannedFile], *, sequence: int, replacing: bool = False) -> "BatchRows":
        return self.read_parts(
            lambda cores: packed_files(task_files(files, self._partition_columns), cores),
            f"reading a batch of {len(files)} files",
            sequence=sequence,
            replacing=replacing,
            members=self._compressions.have_zip(file.path for file in files),
        )

    def read_parts(
        self,
        parts_for: Callable[[int], Sequence[str]],
        action: str,
        *,
        sequence: int,
        replacing: bool = False,
        members: bool = False,
    ) -> "BatchRows":
        """`parts_for`: from a number of cores to what each task reads, as `ReadTasks` takes it. `action` begins the
        text of an error."""
        layout = self._layout(staged=replacing, members=members)
        if not replacing:  # of which the table says so, once it is committed
            self._log_layout_reason()
        record_type = self._record_type()
        whole = self._task(layout, record_type, sequence)
        with self._engine.translating(action):
            task = whole.staged(self._staging.new_folder()) if layout.rules.need_spark else whole
            reports = self._engine.run(task, parts_for(self._engine.cores))
            deferred = [data_file for report in reports for data_file in report.deferred]
            decided, data_files = self._decided_and_written(task, whole, reports, deferred)
        return BatchRows(
            self._outcomes(reports, decided),
            data_files,
            layout,
            record_type,
            decided,
            self._dead_letters,
            self._clock,
            partial(self._staging.remove, deferred),
            partial(self._staging.discard, data_files),
            _write_share(reports),
            self._engine,
            self._unknown_fields(reports, record_type),
            merged([*(report.misfits for report in reports), *(part.misfits for part in decided)]),
        )

    def _decided_and_written(
        self, task: Task, whole: Task, reports: Sequence[Report], deferred: Sequence[DataFile]
    ) -> tuple[list[DecidedRecords], list[DataFile]]:
        """What became of the deferred records, and the data files of all rows. If that fails, the files are deleted.
        `whole`: the task that writes what the table adds; another one than `task` if Spark has to complete the rows."""
        data_files = [data_file for report in reports for data_file in report.data_files]
        try:
            raise_refused(report.refused_write for report in reports)
            decided = self._decided(task, reports, deferred) if deferred else []
            data_files += [data_file for part in decided for data_file in part.data_files]
            if task is not whole and data_files:
                decided.append(completed := self._completed(whole, data_files))
                data_files = [*completed.data_files]
        except Exception:
            self._staging.discard([*deferred, *data_files])
            raise
        return decided, data_files

    def _outcomes(self, reports: Sequence[Report], decided: Sequence[DecidedRecords]) -> list[Outcome]:
        outcomes = [outcome for report in reports for outcome in report.outcomes]
        if self._topics is not None:
            outcomes = _by_path(outcomes)
        if not decided:
            return outcomes
        return [_with_refused(one, sum(part.refused.get(one.path, 0) for part in decided)) for one in outcomes]

    def _unknown_fields(self, reports: Sequence[Report], record_type: StructType) -> UnknownFields:
        found, rules = merged([report.unknown for report in reports]), self._settings.rules
        may_be_meant = found.fields and not rules.ignores_case  # else a key that is spelled otherwise came second
        return found.with_near(near_columns(record_type, rules)) if may_be_meant else found

    def _task(self, layout: TableLayout, record_type: StructType, sequence: int) -> Task:
        provenance = Provenance(self._source_id, sequence, dict(self._partition_columns), layout.members)
        deferred_folder = self._staging.deferred_folder
        destination = Destination(self._table_uri, layout, deferred_folder, record_type.json(), provenance)
        topics = None if self._topics is None else self._topics()
        return Task(self._uri, self._s3, self._settings, destination, topics)

    def _log_layout_reason(self) -> None:
        """Logs once per reason that the rows have to be written twice."""
        reason = self._layout_reason()
        if reason is not None and reason not in self._logged_reasons:
            self._logged_reasons.add(reason)
            self._log("rows_written_twice", source=self._source_id, reason=reason)

    def _completed(self, task: Task, staged: Sequence[DataFile]) -> DecidedRecords:
        """The rows after Spark has evaluated what only Spark evaluates."""
        completed = self._engine.complete(task, staged)
        self._staging.remove(staged)
        return completed

    def _decided(self, task: Task, reports: Sequence[Report], deferred: Sequence[DataFile]) -> list[DecidedRecords]:
        """Decides the deferred records, except those of files that failed as a whole."""
        failed = [outcome.path for report in reports for outcome in report.outcomes if outcome.error is not None]
        some_undecided = any(report.undecided for report in reports)
        if sum(report.deferred_bytes for report in reports) > self._in_memory_bytes:
            return [self._engine.judge(task, Undecided(deferred, failed, True, not some_undecided))]
        records = self._staging.table(deferred)
        refused = RefusedByTasks(refused_already(records, failed))
        if not some_undecided:
            return [refused]
        undecided = Undecided(deferred, failed, False, False, first_undecided(records))
        return [refused, self._engine.judge(task, undecided)]


def _write_share(reports: Sequence[Report]) -> float:
    secs = sum(report.secs for report in reports)
    return sum(report.write_secs for report in reports) / secs if secs else 0.0


def _by_path(outcomes: Iterable[Outcome]) -> list[Outcome]:
    """Ranges of one partition that several tasks have read are one; of their first messages the oldest counts."""
    found: dict[str, Outcome] = {}
    for one in outcomes:
        other = found.get(one.path)
        if other is None:
            found[one.path] = one
            continue
        failed = next((each for each in (other, one) if each.error is not None), None)
        found[one.path] = failed or replace(
            other,
            size=other.size + one.size,
            rows=other.rows + one.rows,
            records_read=max(other.records_read, one.records_read),
            first_ts=min((each.first_ts for each in (other, one) if each.first_ts is not None), default=None),
        )
    return [*found.values()]


def _with_refused(outcome: Outcome, refused: int) -> Outcome:
    return outcome if outcome.error is not None else replace(outcome, rows=outcome.rows - refused, dead_records=refused)


class BatchRows:
    """The result of reading a batch: data files to commit, and dead letters for refused records."""

    def __init__(
        self,
        outcomes: Sequence[Outcome],
        data_files: Sequence[DataFile],
        layout: TableLayout,
        record_type: StructType,
        decided: Sequence[DecidedRecords],
        dead_letters: DeadLetters,
        clock: Callable[[], float],
        remove_deferred: Callable[[], None],
        discard: Callable[[], None],
        write_share: float,
        engine: TaskEngine,
        unknown_fields: UnknownFields,
        misfits: UnknownFields,
    ) -> None:
        self.unknown_fields = unknown_fields
        self.misfits = misfits
        self.outcomes = [
            replace(outcome, rows=0, dead_records=0) if outcome.error is not None else outcome for outcome in outcomes
        ]
        self.data_files = data_files
        self.row_count = sum(data_file.rows for data_file in data_files)
        self.layout = layout
        self.record_type = record_type
        self.write_share = write_share
        self._decided = decided
        self._dead_letters = dead_letters
        self._clock = clock
        self._remove_deferred = remove_deferred
        self.discard = discard
        self._engine = engine

    def refused_records(self) -> Iterator[DeadLetter]:
        with self._engine.translating("collecting the refused records"):
            yield from dead_letters_of(self._decided)

    def write_dead_records(self, attempt: str = "") -> None:
        """Raises RetryableError if Spark lost its decisions and decided differently when it repeated them."""
        if not self._decided:
            return
        with self._engine.translating("collecting the refused records"):
            written = self._dead_letters.write_records(dead_letters_of(self._decided), self._clock(), attempt)
        expected = sum(outcome.dead_records for outcome in self.outcomes)
        if written != expected:
            raise RetryableError(
                f"expected {expected} refused records, found {written}: the same records had another outcome when they "
                "were parsed again; the batch is discarded and planned again"
            )

    def release(self) -> None:
        try:
            with self._engine.translating("releasing the refused records"):
                for part in self._decided:
                    part.release()
        finally:
            self._remove_deferred()
