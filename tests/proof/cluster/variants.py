"""Drivers that are broken on purpose, to show that the campaign would find it. What executors run of them travels as
code: their machines have only the shipped archive."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from spark_job.engines.spark.engine import SparkEngine
from spark_job.tasks.batch_tasks import ReadTasks, Task
from spark_job.tasks.report import Report
from spark_job.write.data_file import DataFile
from tests.proof.kill.variants import Whole, with_tables

LOST_FILES_COUNT = "what a lost task had written is committed with what its repetition wrote"
NOT_READ_AGAIN = "a task that runs again reads nothing"


def commit_what_is_there() -> None:
    """A commit adds all data files that no commit has named yet, instead of those in the reports."""
    committed = set[str]()

    def commit(whole: Whole, transaction: Any, files: Sequence[DataFile], **named: Any) -> int:
        there = transaction.of.staging._store.list("")
        known = committed | {file.path for file in files}
        left = [info for info in there if info.key.endswith(".parquet") and not info.key.startswith("_")]
        more = [replace(files[0], path=info.key, size=info.size) for info in left if info.key not in known]
        committed.update(known, (file.path for file in more))
        return whole(transaction, [*files, *more], **named)

    with_tables(commit)


def read_nothing_again() -> None:
    def run(self: SparkEngine, task: Task, parts: Sequence[str]) -> list[Report]:
        read = ReadTasks(task.to_json())

        def first_time_only(part: str) -> str:
            import json

            from pyspark import TaskContext

            context = TaskContext.get()
            report = json.loads(read(part))
            if context is not None and context.attemptNumber() > 0:
                report["data_files"] = []
                for outcome in report["outcomes"]:
                    outcome["rows"] = 0
            return json.dumps(report)

        collected = self._session().sparkContext.parallelize(parts, len(parts)).map(first_time_only).collect()
        return [Report.from_json(report) for report in collected]

    SparkEngine.run = run  # type: ignore[method-assign]


VARIANTS: Mapping[str, Callable[[], None]] = {
    LOST_FILES_COUNT: commit_what_is_there,
    NOT_READ_AGAIN: read_nothing_again,
}
