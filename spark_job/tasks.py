"""The tasks of one batch: what they have in common, how files are spread over them, and what runs on the executors."""

import json
import os
import time
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame, SparkSession

from blizzard.storage.open import open_store
from blizzard.storage.s3_connection import S3Settings
from spark_job.decode import Limits
from spark_job.fetch import TaskFile
from spark_job.lane import left_type
from spark_job.map_in_arrow import map_in_arrow
from spark_job.task import ReadSettings, TaskReader
from spark_job.write import Destination

if TYPE_CHECKING:
    import pyarrow as pa

TARGET_TASK_BYTES = 128 << 20
TASKS_PER_CORE = 2
FILE_COSTS_BYTES = 16 << 10
"""A small file costs its request, not its bytes."""


@dataclass(frozen=True, slots=True)
class Task:
    """All that the tasks of one batch have in common. It travels to the executors as JSON."""

    uri: str
    s3: S3Settings
    settings: ReadSettings
    destination: Destination

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> "Task":
        document = json.loads(text)
        settings = document["settings"]
        limits = Limits(**settings.pop("limits"))
        return cls(
            document["uri"],
            S3Settings(**document["s3"]),
            ReadSettings(**settings, limits=limits),
            Destination.from_document(document["destination"]),
        )


@dataclass(frozen=True, slots=True)
class ReadTasks:
    """What each Spark task runs, for `map_in_arrow`: rows of one text, the files of a task as JSON."""

    task: str

    def __call__(self, batches: "Iterator[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
        for batch in batches:
            for files in batch.column(0).to_pylist():
                yield from self._read([_task_file(values) for values in json.loads(files)])

    def _read(self, files: Sequence[TaskFile]) -> "Iterator[pa.RecordBatch]":
        task = Task.from_json(self.task)
        reader = TaskReader(
            open_store(task.uri, task.s3),
            task.settings,
            task.destination.parser(task.settings.format),
            task.destination.origin,
            task.destination.opener(task.s3, task.settings.buffer_bytes, lambda: uuid.uuid4().hex, time.time),
            remote=task.uri.startswith("s3"),
            parsers=os.cpu_count() or 1,
        )
        return reader.batches(files)


def one_row_each(spark: SparkSession, texts: Sequence[str]) -> DataFrame:
    """A column `files` with these texts, each in a partition of its own.

    `createDataFrame` of PySpark would put several into one, and a Python data source starts three more Python processes
    for each read.
    """
    jvm: Any = spark._jvm
    rows = jvm.java.util.ArrayList()
    for text in texts:
        values = spark.sparkContext._gateway.new_array(jvm.java.lang.Object, 1)  # type: ignore[union-attr]
        values[0] = text
        rows.add(jvm.org.apache.spark.sql.RowFactory.create(values))
    spread = spark.sparkContext._jsc.parallelize(rows, len(texts))
    columns = jvm.org.apache.spark.sql.types.StructType.fromDDL("files STRING")
    return DataFrame(spark._jsparkSession.createDataFrame(spread, columns), spark)


def pack(files: Sequence[TaskFile], cores: int) -> list[list[TaskFile]]:
    """Spread the files over tasks of about equal bytes, files of one folder together where that costs no balance; the
    largest task comes first, since it ends last."""
    total = sum(_cost(file) for file in files)
    count = max(1, min(len(files), max(cores * TASKS_PER_CORE, -(-total // TARGET_TASK_BYTES))))
    share = total / count
    tasks: list[list[TaskFile]] = [[]]
    filled = 0
    for file in sorted(files, key=lambda file: file.path):
        if filled >= share * len(tasks) and len(tasks) < count:
            tasks.append([])
        tasks[-1].append(file)
        filled += _cost(file)
    return sorted(tasks, key=lambda task: -sum(map(_cost, task)))


def _cost(file: TaskFile) -> int:
    return file.size + FILE_COSTS_BYTES


def tasks_of(spark: SparkSession, task: Task, files: Sequence[TaskFile]) -> DataFrame:
    """All tasks, not begun yet; rows as `left_type`."""
    packed = pack(files, spark.sparkContext.defaultParallelism)
    rows = one_row_each(spark, [json.dumps([_values(file) for file in part]) for part in packed])
    return map_in_arrow(rows, ReadTasks(task.to_json()), left_type(len(task.destination.origin.partition_columns)))


def _values(file: TaskFile) -> tuple[Any, ...]:
    return (
        file.path,
        file.size,
        file.skip_records,
        file.slice_bytes,
        file.expected_etag,
        file.partitions,
        file.refusal,
    )


def _task_file(values: Sequence[Any]) -> TaskFile:
    """What `_values` made of it, after a journey as JSON."""
    path, size, skip_records, slice_bytes, expected_etag, partitions, refusal = values
    return TaskFile(path, size, skip_records, slice_bytes, expected_etag, tuple(partitions), refusal)
