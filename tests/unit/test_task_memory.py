"""A task that reads a large file among others, over the slowest S3 there is, holds no more memory than it may."""

import itertools
import random
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

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
from spark_job.tasks.report import Report
from spark_job.tasks.task_reader import ReadSettings, TaskReader
from spark_job.write.parquet_files import DataFileWriter, RowBuffer, TableLayout
from tests.unit.plain_lines import PlainLines
from tests.unit.slow_s3 import SlowS3

MIB = 1 << 20
LINE_BYTES = 1 << 10
ORIGIN = Provenance("events:landing", 7, {})
SCHEMA = pa.schema([("value", pa.string()), ("place", pa.int32()), *ORIGIN.fields])
LEFT = pa.schema(to_arrow_type(deferred_records_type(0)))


class AlternatingLines(PlainLines):
    """Each line is a value; the next one goes to the next of the table's partitions."""

    def __init__(self, places: int) -> None:
        super().__init__()
        self._places = places

    def parse(self, blocks: Sequence[LineBlock]) -> Parsed:
        values = pa.array(joined(blocks).decode().split("\n"), pa.string())
        places = pa.array([n % self._places for n in range(len(values))], pa.int32())
        return Parsed(pa.RecordBatch.from_arrays([values, places], names=["value", "place"]), None, ())


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


def report_of(mib_of: dict[str, int], places: int) -> tuple[int, Report]:
    """The most that Python and Arrow held together, and what was done."""
    settings, names, most = ReadSettings(format="text"), map(str, itertools.count()), 0
    pool = pa.default_memory_pool()

    def opener(layout: TableLayout, schema: pa.Schema, buffer: RowBuffer) -> Callable[[], DataFileWriter]:
        return lambda: DataFileWriter(table, layout, schema, buffer=buffer, new_name=names.__next__, clock=lambda: 0.0)

    class Watched(SlowS3):
        @contextmanager
        def writer(self, key: str) -> Iterator[ObjectWriter]:
            with super().writer(key) as writer:
                yield WatchedWriter(writer)

    class WatchedWriter:
        def __init__(self, writer: ObjectWriter) -> None:
            self._writer = writer

        @property
        def closed(self) -> bool:
            return self._writer.closed

        def write(self, data: bytes) -> int:
            nonlocal most
            most = max(most, tracemalloc.get_traced_memory()[0] + pool.bytes_allocated() - before)
            return self._writer.write(data)

    table = Watched()
    layout = TableLayout("", ("place",), (), 32, 1 << 30)
    left = DeferredRecords(LEFT, opener(TableLayout("left/", (), (), 0, 1 << 30), LEFT, RowBuffer(MIB)))
    landing = Landing(mib_of)
    before = pool.bytes_allocated()
    tracemalloc.start()
    try:
        report = TaskReader(
            landing,
            settings,
            AlternatingLines(places),
            ORIGIN,
            opener(layout, SCHEMA, RowBuffer(settings.buffer_bytes)),
            left,
            remote=True,
            parsers=4,
        ).read([TaskFile(path, mib * MIB) for path, mib in mib_of.items()])
    finally:
        tracemalloc.stop()
    return most, report


@pytest.mark.parametrize("places", [1, 3])
def test_a_large_file_stays_within_the_memory_of_a_task(places: int) -> None:
    files = {f"{n:02}.ndjson": 7 for n in range(25)} | {"large.ndjson": 160, "more.ndjson": 12}
    most, report = report_of(files, places)
    assert sum(outcome.rows for outcome in report.outcomes) == sum(files.values()) * MIB // LINE_BYTES
    assert sum(file.rows for file in report.data_files) == sum(files.values()) * MIB // LINE_BYTES
    assert 128 * MIB < most < ReadSettings().memory_bytes
