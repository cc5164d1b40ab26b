"""The local engine: tasks run in processes of this machine, deltalake commits. It needs no Java."""

import os
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import AbstractContextManager
from multiprocessing import get_context, parent_process
from threading import Thread

from blizzard.errors import RetryableError
from blizzard.log import Log
from blizzard.storage.open import open_store
from blizzard.storage.s3_connection import S3Settings
from spark_job.engines.local.delta_errors import translating_delta_errors
from spark_job.engines.local.table import LocalTable
from spark_job.engines.needs_spark import NeedsSpark
from spark_job.table.table_source import TableSource
from spark_job.tasks.batch_tasks import ReadTasks, Task
from spark_job.tasks.decided_records import DecidedRecords
from spark_job.tasks.engine import Undecided
from spark_job.tasks.report import Report


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
        self._storage_options = storage_options
        self._log = log
        self._clock = clock
        self._pool: ProcessPoolExecutor | None = None

    def translating(self, action: str) -> AbstractContextManager[None]:
        return translating_delta_errors(action)

    def table(self, source: TableSource) -> LocalTable:
        store = open_store(source.table_uri, self._s3, may_be_missing=True, log=self._log)
        return LocalTable(source, store, self._storage_options, clock=self._clock)

    def run(self, task: Task, parts: Sequence[str]) -> list[Report]:
        """One task runs in this process, since starting another one takes longer than most such tasks."""
        read = ReadTasks(task.to_json())
        if len(parts) == 1:
            return [Report.from_json(read(parts[0]))]
        try:
            return [Report.from_json(report) for report in self._processes().map(read, parts)]
        except BrokenProcessPool as error:
            self._pool = None
            raise RetryableError(
                f"a process that read files has ended: {error}. Nothing was committed, and the batch is read again. If "
                "it happens again, the machine is probably out of memory: lower `limits.task_memory_bytes`."
            ) from error

    def judge(self, task: Task, undecided: Undecided) -> DecidedRecords:
        if undecided.only_refused:
            raise NeedsSpark("sorting more refused records than fit into memory")
        raise NeedsSpark("deciding on records that only its parser can judge")

    def close(self) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)
            self._pool = None

    def _processes(self) -> ProcessPoolExecutor:
        """Started at first use, and kept: a new process takes a third of a second."""
        if self._pool is None:
            self._pool = ProcessPoolExecutor(self.cores, mp_context=get_context("spawn"), initializer=_begin)
        return self._pool


def _begin() -> None:
    """A terminal sends Ctrl-C to all processes: the job's own one ends its batch first, and then this one. If that one
    is killed, this one ends at once."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    Thread(target=_end_with_parent, name="parent", daemon=True).start()


def _end_with_parent() -> None:
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
