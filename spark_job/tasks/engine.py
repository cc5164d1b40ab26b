"""What reading and committing need of an engine: it runs tasks, judges lines, and opens tables."""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from spark_job.table.engine import TableEngine
from spark_job.table.table_source import TableSource
from spark_job.write.data_file import DataFile

if TYPE_CHECKING:
    from spark_job.tasks.batch_tasks import Task
    from spark_job.tasks.decided_records import DecidedRecords
    from spark_job.tasks.report import Report


@dataclass(frozen=True, slots=True)
class Undecided:
    """Records that tasks deferred: the files that hold them, as `deferred_records_type` describes them. Those of
    `failed` files do not count. `all_of_them`: those with a fault, too; they stay refused."""

    files: Sequence[DataFile]
    failed: Sequence[str]
    all_of_them: bool
    only_refused: bool
    """Whether each of them has a fault."""
    example: str = ""
    """One of those without: `record 3 of a.ndjson`; empty if there are too many to look."""


class TaskEngine(Protocol):
    """How the tasks of a batch run, for any source and table."""

    @property
    def cores(self) -> int:
        """How many tasks run at a time."""
        ...

    def translating(self, action: str) -> AbstractContextManager[None]:
        """Translates the engine's errors into BlizzardError. `action` begins their text."""
        ...

    def run(self, task: "Task", parts: Sequence[str]) -> "list[Report]":
        """One report for each part: the files of one task, as `ReadTasks` takes them."""
        ...

    def judge(self, task: "Task", undecided: Undecided) -> "DecidedRecords":
        """Let Spark's parser decide. Raises StorageError or StorageUnavailable if the table's storage refuses rows."""
        ...

    def complete(self, task: "Task", staged: Sequence[DataFile]) -> "DecidedRecords":
        """Let Spark evaluate the rules that only Spark evaluates, on rows that tasks have staged; rows that satisfy
        them are written to the task's destination. Errors as for `judge`."""
        ...


class Engine(TaskEngine, Protocol):
    """All that one job needs to run tasks and to commit their files."""

    def table(self, source: TableSource) -> TableEngine:
        """Opens and starts nothing."""
        ...
