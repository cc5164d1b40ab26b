"""The local engine: tasks run in processes of this machine, and deltalake reads the table. It needs no Java."""

import os
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from blizzard.errors import BlizzardError, RetryableError
from blizzard.log import Log
from blizzard.processes import ProcessEnded, ReadingProcesses
from blizzard.storage.open import open_store
from blizzard.storage.s3_connection import S3Settings
from spark_job.engines.local.delta_errors import translating_delta_errors
from spark_job.engines.local.open_table import OpenTables
from spark_job.engines.local.table import LocalTable
from spark_job.engines.needs_spark import NeedsSpark
from spark_job.table.table_source import TableSource
from spark_job.tasks.engine import Undecided
from spark_job.write.data_file import DataFile

if TYPE_CHECKING:
    from spark_job.tasks.batch_tasks import Task
    from spark_job.tasks.decided_records import DecidedRecords
    from spark_job.tasks.report import Report

MAX_TEXT_CHARS = 2_000


class LocalEngine:
    """Implements `Engine`. `storage_options` are deltalake's."""

    def __init__(
        self,
        s3: S3Settings,
        storage_options: Callable[[], Mapping[str, str]],
        log: Log,
        *,
        cores: int | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.cores = cores or len(os.sched_getaffinity(0))
        self._s3 = s3
        self._opened = OpenTables(storage_options)
        self._log = log
        self._clock = clock
        self.processes = ReadingProcesses(self.cores)

    def translating(self, action: str) -> AbstractContextManager[None]:
        return translating_delta_errors(action)

    def table(self, source: TableSource) -> LocalTable:
        store = open_store(source.table_uri, self._s3, may_be_missing=True, log=self._log)
        opened = self._opened.at(source.table_uri, store)
        return LocalTable(source, store, opened, clock=self._clock, log=self._log)

    def run(self, task: "Task", parts: Sequence[str]) -> "list[Report]":
        from spark_job.tasks.batch_tasks import ReadTasks
        from spark_job.tasks.report import Report

        try:
            return [Report.from_json(report) for report in self.processes.map(ReadTasks(task.to_json()), parts)]
        except ProcessEnded as error:
            raise RetryableError(
                f"reading files: {error}. Nothing was committed, and the batch is read again. If "
                "it happens again, the machine is probably out of memory: lower `limits.task_memory_bytes`."
            ) from error
        except BlizzardError:
            raise
        except Exception as error:
            raise RetryableError(_unexpected(error)) from error

    def judge(self, task: "Task", undecided: Undecided) -> "DecidedRecords":
        """Only what is refused already: sorted on this machine's disk, since there is more than fits into memory."""
        if undecided.only_refused:
            from spark_job.engines.local.refused_records import RefusedOnDisk

            store = open_store(task.destination.table_uri, task.s3, may_be_missing=True, log=self._log)
            return RefusedOnDisk(store, undecided)
        example = f", such as {undecided.example}" if undecided.example else ""
        raise NeedsSpark("deciding on records that only its parser can judge", example)

    def complete(self, task: "Task", staged: Sequence[DataFile]) -> "DecidedRecords":
        raise NeedsSpark(f"evaluating {task.destination.layout.rules.first_for_spark}")

    def close(self) -> None:
        self.processes.close()


def _unexpected(error: Exception) -> str:
    """As Spark's engine tells it of its tasks: one source fails, not the job. The end of the traceback has the error
    and the files."""
    text = "".join(traceback.format_exception(error)).strip()
    return (
        f"reading files: a task failed, nothing was committed: {text[-MAX_TEXT_CHARS:]}\nIt can be retried. If the "
        "same error comes back each time, move a file that is named here out of the source."
    )
