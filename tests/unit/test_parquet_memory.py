"""The writer of data files keeps to its limits: sizes of files and row groups, memory, open uploads, shared buffers."""

import itertools
import random
import threading
import time
import tracemalloc
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from blizzard.storage.base import ObjectWriter
from blizzard.storage.memory import MemoryStore
from spark_job.write.parquet_files import BufferBudget
from tests.unit.parquet_rows import LAYOUT, MIB, CountingStore, memory, noise, table_of, writer_into
from tests.unit.slow_s3 import SlowS3


def test_files_are_rolled_at_about_the_target_size() -> None:
    store = memory()
    writer = writer_into(store, replace(LAYOUT, target_file_bytes=100_000), buffer_bytes=1 << 20)
    for number in range(20):
        writer.write(noise(500, day=1 + number % 2))
    files = writer.close()
    by_day: dict[str | None, list[int]] = {}
    for file in files:
        by_day.setdefault(file.partition_values["day"], []).append(file.size)
    for sizes in by_day.values():
        assert all(100_000 <= size <= 170_000 for size in sizes[:-1])
        assert 4 <= len(sizes) <= 8


def test_one_large_table_becomes_several_row_groups_and_files() -> None:
    store = memory()
    writer = writer_into(store, replace(LAYOUT, target_file_bytes=200_000), buffer_bytes=10 << 20)
    writer.write(noise(8_000))
    files = writer.close()
    assert len(files) > 3
    groups = [pq.read_metadata(pa.BufferReader(store.get(file.path))).num_row_groups for file in files]
    assert max(groups) > 1


def test_a_thousand_partitions_take_bounded_memory_and_open_files() -> None:
    schema = pa.schema([("id", pa.string()), ("place", pa.int32())])
    table = pa.table(
        {"id": [f"{number:064}" for number in range(10_000)], "place": [n % 1000 for n in range(10_000)]}, schema=schema
    )
    store = CountingStore()
    layout = replace(LAYOUT, partition_by=("place",), stats_columns=("id",))
    writer = writer_into(store, layout, schema, buffer_bytes=table.nbytes)
    before, most = pa.total_allocated_bytes(), 0
    for _ in range(5):
        writer.write(table)
        most = max(most, pa.total_allocated_bytes() - before)
        assert writer.buffered_bytes <= table.nbytes
    assert most < 3 * table.nbytes
    files = writer.close()
    assert store.most <= 2 + 8 + 1
    assert store.open == 0
    assert Counter(file.partition_values["place"] for file in files).keys() == {str(n) for n in range(1000)}
    assert sum(file.rows for file in files) == 50_000


def test_the_memory_of_open_uploads_stays_within_its_estimate() -> None:
    """Buffered rows are in Arrow's memory and parts of uploads in Python's. Only the latter is measured."""
    buffer_bytes, rows, places = 64 << 20, 1 << 16, 8
    schema = pa.schema([("n", pa.int64()), ("place", pa.int32())])
    layout = replace(LAYOUT, partition_by=("place",), stats_columns=(), target_file_bytes=1 << 30)
    writer = writer_into(SlowS3(), layout, schema, buffer_bytes=buffer_bytes)
    noise = random.Random(1)
    tables = [
        pa.table([pa.array([noise.getrandbits(63) for _ in range(rows)]), pa.array([place] * rows, pa.int32())], schema)
        for place in range(places)
    ]
    tables = [pa.concat_tables([table] * (23 * MIB // table.nbytes)) for table in tables]
    tracemalloc.start()
    try:
        for table in tables * 3:
            writer.write(table)
        files = writer.close()
        held = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert sum(file.rows for file in files) == 3 * sum(table.num_rows for table in tables)
    assert 32 * MIB < held < buffer_bytes + 24 * MIB


class ConcurrentCloses(MemoryStore):
    """`most`: how many writers were being closed at the same time. Each close waits a moment for another one."""

    def __init__(self) -> None:
        super().__init__(time.time)
        self.most = self._ending = 0
        self._changed = threading.Condition()

    @contextmanager
    def writer(self, key: str) -> Iterator[ObjectWriter]:
        with super().writer(key) as writer:
            yield writer
            with self._changed:
                self._ending += 1
                self.most = max(self.most, self._ending)
                self._changed.notify_all()
                self._changed.wait_for(lambda: self._ending > 1, 0.2)
                self._ending -= 1


@pytest.mark.parametrize(("rows", "at_once"), [(1 << 20, False), (1 << 10, True)])
def test_large_files_are_completed_one_at_a_time_while_other_files_open(rows: int, *, at_once: bool) -> None:
    """In `close` no other file opens, so all may be completed in parallel."""
    store = ConcurrentCloses()
    schema = pa.schema([("n", pa.int64()), ("place", pa.int32())])
    layout = replace(LAYOUT, partition_by=("place",), target_file_bytes=1 << 30)
    writer = writer_into(store, layout, schema, buffer_bytes=4 * rows)
    noise = pa.py_buffer(random.Random(1).randbytes(8 * rows))
    column = pa.Array.from_buffers(pa.int64(), rows, [None, noise])
    for place in range(4):
        writer.write(pa.table([column, pa.array([place] * rows, pa.int32())], schema))
    meanwhile = store.most
    files = writer.close()
    assert {file.size > 4 * MIB for file in files} == {not at_once}
    assert (meanwhile > 1) == at_once
    assert store.most > 1


def test_partitions_that_still_get_rows_keep_their_files_open() -> None:
    """The file that was written to least recently is completed, so rare partitions do not cut files of busy ones."""
    schema = pa.schema([("id", pa.string()), ("place", pa.int32())])
    store = memory()
    writer = writer_into(store, replace(LAYOUT, partition_by=("place",)), schema, buffer_bytes=1)
    for number in range(60):
        writer.write(pa.table({"id": ["x", "y"], "place": [0, number + 1]}, schema=schema))
    files = Counter(file.partition_values["place"] for file in writer.close())
    assert files["0"] == 1


def test_a_file_holds_only_those_dictionary_values_that_it_uses() -> None:
    paths = [f"folder/{number:06}/" + "x" * 60 for number in range(3000)]
    rows = [{"kind": f"k{n % 30}", "_source": {"file": paths[n], "row": 0}} for n in range(3000)]
    store = memory()
    writer = writer_into(store, replace(LAYOUT, partition_by=("kind",)))
    writer.write(table_of(rows, as_dictionary=True))
    assert max(file.size for file in writer.close()) < 12_000


def test_active_writers_share_a_buffer_equally() -> None:
    store, buffer, names = memory(), BufferBudget(2 * MIB), itertools.count()
    layout = replace(LAYOUT, target_file_bytes=64 * MIB)
    first, second, third = (
        writer_into(store, layout, buffer=buffer, new_name=lambda: f"{next(names):06}") for _ in range(3)
    )
    table = noise(1000)
    tables = [table] * (1_700_000 // table.nbytes)
    for rows in tables:
        first.write(rows)
    assert first.buffered_bytes > MIB
    for rows in tables:
        second.write(rows)
        assert first.buffered_bytes <= MIB
        assert second.buffered_bytes <= MIB
    second.close()
    for rows in tables:
        first.write(rows)
    first.discard()
    for rows in tables:
        third.write(rows)
    assert third.buffered_bytes > MIB
    assert sum(file.rows for file in third.close()) == len(tables) * table.num_rows
