"""The tasks of one batch: their common settings, how files are spread over them, and what runs on executors."""

import json
import os
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from blizzard.config.schema_rules import SchemaRules
from blizzard.paths.partition import BadPartition, partition_of, partition_values
from blizzard.state.batch import PlannedFile
from blizzard.storage.open import open_store
from blizzard.storage.s3_connection import S3Settings
from spark_job.formats.protocol import Limits
from spark_job.ports.offset_range import OffsetRange, TopicSettings
from spark_job.tasks.destination import Destination
from spark_job.tasks.fetch import TaskFile
from spark_job.tasks.read_settings import ReadSettings
from spark_job.tasks.report import Report
from spark_job.tasks.task_reader import TaskReader, checker_of
from spark_job.tasks.worker_process import collect_garbage_rarely, forget_archives
from spark_job.write.write_errors import CannotWriteError

TARGET_TASK_BYTES = 64 << 20
"""Stored bytes. Spark requests executors when more tasks are pending than the present ones can run."""
DEFERRED_BUFFER_DIVISOR = 8
"""The buffer for deferred records is the buffer for rows divided by this."""
TASKS_PER_CORE = 2
MIN_TASK_BYTES = 4 << 20
"""A smaller task would only add a data file, and another executor to wait for."""
FILE_OVERHEAD_BYTES = 16 << 10
"""Added to each file's size: a small file costs a request rather than its bytes."""


@dataclass(frozen=True, slots=True)
class Task:
    """The settings that all tasks of one batch share. They are sent to the executors as JSON."""

    uri: str
    s3: S3Settings
    settings: ReadSettings
    destination: Destination
    topics: TopicSettings | None = None
    """None: the source's files are read."""

    def open_format(self) -> Any:
        """The format of the files, or of the messages."""
        schema, settings = self.destination.record_type(), self.settings
        if self.topics is None:
            return settings.open_format(schema)
        from spark_job.formats.messages.registry import open_message_format  # few jobs read topics

        options = {**settings.options, **self.topics.options}
        return open_message_format(settings.format, schema, settings.limits, options, settings.rules)

    def staged(self, folder: str) -> "Task":
        """For rows of which Spark still has to evaluate expressions."""
        return replace(self, destination=self.destination.staged(folder, letters=self.topics is not None))

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> "Task":
        document = json.loads(text)
        settings = document["settings"]
        limits, rules = Limits(**settings.pop("limits")), SchemaRules(**settings.pop("rules", {}))
        return cls(
            document["uri"],
            S3Settings(**document["s3"]),
            ReadSettings(**settings, limits=limits, rules=rules),
            Destination.from_document(document["destination"]),
            None if document["topics"] is None else TopicSettings(**document["topics"]),
        )


@dataclass(frozen=True, slots=True)
class ReadTasks:
    """Runs on an executor: from the files of one task, as JSON, to its report, as JSON."""

    task: str

    def __call__(self, files: str) -> str:
        collect_garbage_rarely()
        task = Task.from_json(self.task)
        try:
            report = _read_files(task, files) if task.topics is None else _read_ranges(task, task.topics, files)
        except CannotWriteError as error:
            report = Report(refused_write=error.refusal)
        forget_archives()
        return report.to_json()


def _read_files(task: Task, files: str) -> Report:
    settings = task.settings
    buffer_bytes, new_name = settings.buffer_bytes, lambda: uuid.uuid4().hex
    reader = TaskReader(
        open_store(task.uri, task.s3),
        settings,
        task.open_format(),
        task.destination.provenance,
        task.destination.writer_factory(task.s3, buffer_bytes, new_name, time.time),
        task.destination.deferred(task.s3, buffer_bytes // DEFERRED_BUFFER_DIVISOR, new_name, time.time),
        remote=task.uri.startswith("s3"),
        parsers=len(os.sched_getaffinity(0)),
        rules=task.destination.layout.rules,
    )
    return reader.read([_task_file(values) for values in json.loads(files)])


def _read_ranges(task: Task, topics: TopicSettings, ranges: str) -> Report:
    from spark_job.tasks.topics.consume import messages_of  # librdkafka, which few jobs need
    from spark_job.tasks.topics.range_reader import Messages, RangeReader

    settings, destination = task.settings, task.destination
    buffer_bytes, new_name = settings.buffer_bytes, lambda: uuid.uuid4().hex
    reader = RangeReader(
        task.open_format(),
        destination.provenance,
        destination.writer_factory(task.s3, buffer_bytes, new_name, time.time),
        destination.deferred(task.s3, buffer_bytes // DEFERRED_BUFFER_DIVISOR, new_name, time.time),
        checker_of(destination.layout.rules),
    )
    wanted = [OffsetRange.from_values(values) for values in json.loads(ranges)]
    if all(one.wanted is None for one in wanted):
        return reader.read(wanted, messages_of(wanted, topics, settings.ahead_bytes))
    from spark_job.tasks.topics.chosen import chosen_messages

    def read(some: Sequence[OffsetRange]) -> Messages:
        return messages_of(some, topics, settings.ahead_bytes)

    return reader.read(wanted, chosen_messages(wanted, read, round(1000 * time.time())))


def task_files(files: Sequence[PlannedFile], partition_columns: Mapping[str, str]) -> list[TaskFile]:
    """The files with the partition values of their paths, or the reason why they have none. `partition_columns`: name
    to type."""
    known: dict[str, tuple[str | None, ...]] = {}
    return [_with_values(file, partition_columns, known) for file in files]


def _with_values(file: PlannedFile, columns: Mapping[str, str], known: dict[str, tuple[str | None, ...]]) -> TaskFile:
    """`known`: the partition values of the folders so far; this adds to it."""
    folder, refusal = partition_of(file.path), None
    values = known.get(folder)
    if values is None:
        try:
            found = partition_values(file.path, columns)
            values = known[folder] = tuple(found[column] for column in columns)
        except BadPartition as error:
            values, refusal = (None,) * len(columns), str(error)
    return TaskFile(
        file.path,
        file.size,
        file.skip_records,
        file.slice_bytes,
        file.expected_etag,
        values,
        refusal,
        file.records,
        file.given,
        file.modified_ts,
    )


def pack(files: Sequence[TaskFile], cores: int) -> list[list[TaskFile]]:
    """Spread the files over tasks of about equal size: a few for each core, fewer if they would be too small. Files of
    one folder stay together if that costs no balance. The largest task comes first, since it takes longest."""
    total = sum(map(_cost, files))
    each = max(TASKS_PER_CORE, -(-total // (TARGET_TASK_BYTES * cores)))
    share = total / max(1, min(each * cores, total // MIN_TASK_BYTES))
    tasks = [[file] for file in files if _cost(file) >= share]
    tasks += _filled([file for file in files if _cost(file) < share], share)
    return sorted(tasks, key=lambda task: -sum(map(_cost, task)))


def _filled(files: Sequence[TaskFile], share: float) -> list[list[TaskFile]]:
    """The files in the order of their paths, grouped into tasks of about `share` bytes."""
    if not files:
        return []
    total = sum(map(_cost, files))
    count = max(1, round(total / share))
    tasks: list[list[TaskFile]] = [[]]
    filled = 0
    for file in sorted(files, key=lambda file: file.path):
        if filled >= total / count * len(tasks):
            tasks.append([])
        tasks[-1].append(file)
        filled += _cost(file)
    return tasks


def _cost(file: TaskFile) -> int:
    return file.size + FILE_OVERHEAD_BYTES


def packed_files(files: Sequence[TaskFile], cores: int) -> list[str]:
    """The files of each task, as `ReadTasks` takes them: only their names and the reports travel."""
    return [json.dumps([_values(file) for file in part]) for part in pack(files, cores)]


def _values(file: TaskFile) -> tuple[Any, ...]:
    """Few files have the last three."""
    some_records = (file.records, file.given, file.modified_ts) if file.records is not None or file.given else ()
    return (
        file.path,
        file.size,
        file.skip_records,
        file.slice_bytes,
        file.expected_etag,
        file.partitions,
        file.refusal,
        *some_records,
    )


def _task_file(values: Sequence[Any]) -> TaskFile:
    """The inverse of `_values`, after the JSON round trip."""
    path, size, skip_records, slice_bytes, etag, partitions, refusal, *some_records = values
    whole = TaskFile(path, size, skip_records, slice_bytes, etag, tuple(partitions), refusal)
    if not some_records:
        return whole
    records, given, modified_ts = some_records
    wanted = None if records is None else tuple(records)
    return replace(whole, records=wanted, given=tuple((row, text) for row, text in given), modified_ts=modified_ts)
