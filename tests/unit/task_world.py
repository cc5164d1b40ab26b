"""A task over stores in memory, and what came out of it."""

import io
import itertools
import time
import tracemalloc
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.parquet as pq  # type: ignore[import-untyped]
from pyspark.sql.pandas.types import to_arrow_type

from blizzard.storage.base import ObjectStore
from blizzard.storage.local import LocalStore
from blizzard.storage.memory import MemoryStore
from spark_job.formats.deferred import deferred_records_type
from spark_job.formats.lines import LineBlock
from spark_job.formats.protocol import Format, Parsed
from spark_job.formats.text.format import TextFormat
from spark_job.ports.reader import Outcome
from spark_job.tasks.deferred_records import DeferredRecords
from spark_job.tasks.fetch import TaskFile
from spark_job.tasks.provenance import Provenance
from spark_job.tasks.read_settings import ReadSettings
from spark_job.tasks.report import Report
from spark_job.tasks.task_reader import TaskReader
from spark_job.write.data_file import TableLayout
from spark_job.write.parquet_files import BufferBudget, DataFileWriter
from tests.unit.plain_lines import TEXT_SCHEMA, PlainLines

NOW_TS = 1_706_450_400.0
DEFERRED_FOLDER = "_blizzard/staging/a/"
MIB = 1 << 20


@dataclass
class Read:
    """What came out of a task: the rows of its data files, the deferred records, and its report."""

    records: list[dict[str, Any]] = field(default_factory=list)
    report: Report = field(default_factory=Report)

    @property
    def outcomes(self) -> list[Outcome]:
        return self.report.outcomes

    @property
    def lines(self) -> list[str]:
        return [record["line"] for record in self.records]

    @property
    def outcome(self) -> Outcome:
        assert len(self.outcomes) == 1
        return self.outcomes[0]


def a_store(**objects: bytes) -> MemoryStore:
    store = MemoryStore(lambda: NOW_TS)
    for name, body in objects.items():
        store.put(name.replace("__", "/"), body)
    return store


def files_of(store: ObjectStore) -> list[TaskFile]:
    return [TaskFile(info.key, info.size) for info in store.list()]


def format_of(settings: ReadSettings) -> Format[Any]:
    return TextFormat(TEXT_SCHEMA, settings.limits) if settings.format == "text" else PlainLines(settings.limits)


@dataclass
class Task:
    """A task whose records are lines of text, so that what is written can be compared with what was read."""

    store: ObjectStore
    partition_columns: int = 0
    settings: dict[str, Any] = field(default_factory=dict)
    remote: bool = True
    monotonic: Callable[[], float] = time.monotonic
    file_format: Format[Any] | None = None
    table: ObjectStore = field(default_factory=lambda: MemoryStore(lambda: NOW_TS))

    @property
    def origin(self) -> Provenance:
        return Provenance("events:landing", 7, {f"partition_{n}": "string" for n in range(self.partition_columns)})

    def report(self, files: Sequence[TaskFile]) -> Report:
        settings = ReadSettings(**{"format": "ndjson", **self.settings})
        names = map(str, itertools.count())
        schema = pa.schema([("value", pa.string()), *self.origin.fields])
        deferred_schema = pa.schema(to_arrow_type(deferred_records_type(self.partition_columns)))

        def opener(folder: str, schema: pa.Schema) -> Callable[[], DataFileWriter]:
            buffer = BufferBudget(settings.buffer_bytes)
            return lambda: DataFileWriter(
                self.table,
                TableLayout(folder, (), (), 32, 1 << 27),
                schema,
                buffer=buffer,
                new_name=lambda: next(names),
                clock=lambda: NOW_TS,
            )

        return TaskReader(
            self.store,
            settings,
            self.file_format or format_of(settings),
            self.origin,
            opener("", schema),
            DeferredRecords(deferred_schema, opener(DEFERRED_FOLDER, deferred_schema)),
            remote=self.remote,
            parsers=2,
            monotonic=self.monotonic,
        ).read(files)

    def deferred_of(self, report: Report) -> list[dict[str, Any]]:
        """The deferred records, sorted by file and number."""
        lines: list[dict[str, Any]] = []
        for data_file in report.deferred:
            assert data_file.path.startswith(DEFERRED_FOLDER)
            rows = pq.read_table(io.BytesIO(self.table.get(data_file.path))).to_pylist()
            assert len(rows) == data_file.rows
            lines += rows
        return sorted(lines, key=lambda line: (line["file"], line["row"]))

    def read(self, files: Sequence[TaskFile]) -> Read:
        found = Read(report=Report.from_json(self.report(files).to_json()))
        found.records += self.deferred_of(found.report)
        for data_file in found.report.data_files:
            table = pq.read_table(io.BytesIO(self.table.get(data_file.path)))
            assert table.num_rows == data_file.rows
            for row in table.to_pylist():
                source = row.pop("_source")
                assert (source.pop("source"), source.pop("sequence")) == ("events:landing", 7)
                line = row.pop("value")
                found.records.append({**source, "line": line, "fault": None, "undecodable": None, **row})
        found.records.sort(key=lambda record: (record["file"], record["row"]))
        return found


def read(store: ObjectStore, files: Sequence[TaskFile] = (), *, remote: bool = True, **settings: Any) -> Read:
    """Of everything in the store, unless files are named."""
    wanted = list(files) or files_of(store)
    return Task(store, len(wanted[0].partitions), settings, remote).read(wanted)


def read_one(body: bytes, path: str = "a.ndjson", **settings: Any) -> Read:
    store = MemoryStore(lambda: NOW_TS)
    store.put(path, body)
    return read(store, **settings)


def numbered(count: int, pad: int = 0) -> bytes:
    return b"".join(b'{"n": %d, "pad": "%s"}\n' % (n, b"x" * pad) for n in range(count))


LARGE = {"memory_bytes": 4 * MIB}
"""So that a file of more than 1 MiB has data files of its own."""


class UnexpectedError(Exception):
    """As a bug would raise it, or memory that ran out."""


class PoisonedFormat(PlainLines):
    """Fails at the word poison."""

    def parse(self, blocks: Sequence[LineBlock]) -> Parsed:
        if any(b"poison" in block.data for block in blocks):
            raise UnexpectedError
        return super().parse(blocks)


POOLS: list[pa.MemoryPool] = []
"""Never emptied: memory that Arrow allocated from a pool is freed in the same pool."""


def peak_bytes(store: ObjectStore, table: LocalStore, **settings: Any) -> tuple[int, Report]:
    """Peak of Python's memory plus peak of Arrow's while all files are read, though the two may not coincide."""
    usual = pa.default_memory_pool()
    pool = pa.proxy_memory_pool(usual)
    POOLS.append(pool)
    pa.set_memory_pool(pool)
    tracemalloc.start()
    try:
        report = Task(store, 0, settings, table=table).report(files_of(store))
        return tracemalloc.get_traced_memory()[1] + pool.max_memory(), report
    finally:
        tracemalloc.stop()
        pa.set_memory_pool(usual)
