"""A task that reads a large file among others, over the slowest S3 there is, holds no more memory than it may."""

import itertools
import random
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import to_arrow_type

from blizzard.storage.base import ObjectInfo, ObjectReader, ObjectWriter
from blizzard.storage.memory import MemoryStore
from spark_job.formats.deferred import deferred_records_type
from spark_job.formats.lines import LineBlock, joined
from spark_job.formats.protocol import Parsed
from spark_job.tasks.deferred_records import DeferredRecords
from spark_job.tasks.fetch import TaskFile
from spark_job.tasks.provenance import Provenance
from spark_job.tasks.read_settings import ReadSettings
from spark_job.tasks.report import Report
from spark_job.tasks.task_reader import TaskReader
from spark_job.write.data_file import TableLayout
from spark_job.write.parquet_files import BufferBudget, DataFileWriter
from tests.unit.plain_lines import PlainLines
from tests.unit.slow_s3 import SlowS3

MIB = 1 << 20
LINE_BYTES = 1 << 10
PROVENANCE = Provenance("events:landing", 7, {})
SCHEMA = pa.schema([("value", pa.string()), ("place", pa.int32()), *PROVENANCE.fields])
DEFERRED = pa.schema(to_arrow_type(deferred_records_type(0)))


class AlternatingLines(PlainLines):
    """Each line is a value; the next one goes to the next of the table's partitions."""

    def __init__(self, places: int) -> None:
        super().__init__()
        self._places = places

    def parse(self, blocks: Sequence[LineBlock]) -> Parsed:
        values = pa.array(joined(blocks).decode().split("\n"), pa.string())
        places = pa.array([n % self._places for n in range(len(values))], pa.int32())
        return Parsed(pa.RecordBatch.from_arrays([values, places], names=["value", "place"]), None, (), ())


class Repeated:
    """An object of one MiB, again and again."""

    def __init__(self, info: ObjectInfo, mib: bytes) -> None:
        self.info = info
        self._mib = mib
        self._at = 0

    def read(self, size: int = -1, /) -> bytes:
        assert size >= 0
        end = min(self._at + size, self.info.size)
        first, last = self._at // MIB, -(-end // MIB)
        data = (self._mib * (last - first))[self._at - first * MIB : end - first * MIB]
        self._at = end
        return data


class Landing(MemoryStore):
    """Objects of many MiB that take the memory of one. Their lines compress as little as their bytes do."""

    def __init__(self, mib_of: dict[str, int]) -> None:
        super().__init__(lambda: 0.0)
        self._mib_of = mib_of
        noise = random.Random(1).randbytes(MIB // 2).hex()
        lines = [noise[start : start + LINE_BYTES - 1] for start in range(0, MIB, LINE_BYTES)]
        self._mib = "".join(f"{line}\n" for line in lines).encode()

    @contextmanager
    def open(self, key: str) -> Iterator[ObjectReader]:
        yield Repeated(ObjectInfo(key, self._mib_of[key] * MIB, "etag", 0.0), self._mib)


@dataclass
class PeakMemory:
    """The most that Python and Arrow have allocated together since this was made."""

    most_bytes: int = 0
    pool: pa.MemoryPool = field(default_factory=pa.default_memory_pool)

    def __post_init__(self) -> None:
        self._before = self.pool.bytes_allocated()

    def note(self) -> None:
        allocated = tracemalloc.get_traced_memory()[0] + self.pool.bytes_allocated() - self._before
        self.most_bytes = max(self.most_bytes, allocated)


class WatchedTable(SlowS3):
    """Notes the memory at each write."""

    def __init__(self, peak: PeakMemory) -> None:
        super().__init__()
        self._peak = peak

    @contextmanager
    def writer(self, key: str) -> Iterator[ObjectWriter]:
        with super().writer(key) as writer:
            yield WatchedWriter(writer, self._peak)


@dataclass
class WatchedWriter:
    inner: ObjectWriter
    peak: PeakMemory

    @property
    def closed(self) -> bool:
        return self.inner.closed

    def write(self, data: bytes | bytearray | memoryview, /) -> int:
        self.peak.note()
        return self.inner.write(data)


def report_of(mib_of: dict[str, int], places: int) -> tuple[int, Report]:
    """Peak memory of a task that reads these files, and its report."""
    settings, names, peak = ReadSettings(format="text"), map(str, itertools.count()), PeakMemory()
    table = WatchedTable(peak)

    def opener(layout: TableLayout, schema: pa.Schema, buffer_bytes: int) -> Callable[[], DataFileWriter]:
        buffer = BufferBudget(buffer_bytes)
        return lambda: DataFileWriter(table, layout, schema, buffer=buffer, new_name=names.__next__, clock=lambda: 0.0)

    task = TaskReader(
        Landing(mib_of),
        settings,
        AlternatingLines(places),
        PROVENANCE,
        opener(TableLayout("", ("place",), (), 32, 1 << 30), SCHEMA, settings.buffer_bytes),
        DeferredRecords(DEFERRED, opener(TableLayout("deferred/", (), (), 0, 1 << 30), DEFERRED, MIB)),
        remote=True,
        parsers=4,
    )
    tracemalloc.start()
    try:
        report = task.read([TaskFile(path, mib * MIB) for path, mib in mib_of.items()])
    finally:
        tracemalloc.stop()
    return peak.most_bytes, report


@pytest.mark.parametrize("places", [1, 3])
def test_a_large_file_stays_within_the_memory_of_a_task(places: int) -> None:
    files = {f"{n:02}.ndjson": 7 for n in range(25)} | {"large.ndjson": 160, "more.ndjson": 12}
    most, report = report_of(files, places)
    assert sum(outcome.rows for outcome in report.outcomes) == sum(files.values()) * MIB // LINE_BYTES
    assert sum(file.rows for file in report.data_files) == sum(files.values()) * MIB // LINE_BYTES
    settings = ReadSettings("text")
    assert settings.held_bytes + settings.buffer_bytes < most < settings.memory_bytes
