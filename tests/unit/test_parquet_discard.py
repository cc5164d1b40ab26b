"""A writer of data files that fails or is discarded leaves nothing on storage."""

import gc
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from blizzard.errors import StorageUnavailable
from blizzard.storage.base import ObjectWriter
from blizzard.storage.local import LocalStore
from blizzard.storage.memory import MemoryStore
from spark_job.write.parquet_files import BufferBudget, DataFileWriter
from spark_job.write.upload import ParquetUpload
from tests.unit.parquet_rows import (
    LAYOUT,
    MIB,
    CountingStore,
    Row,
    memory,
    noise,
    table_of,
    tables_of_rows,
    writer_into,
)


class FailingStore(MemoryStore):
    """Fails at one step of writing, counted from 0; with `after`, after the object was stored."""

    def __init__(self, at: int, *, after: bool = False) -> None:
        super().__init__(time.time)
        self._steps = iter(range(at))
        self._after = after

    def _step(self) -> None:
        if next(self._steps, None) is None:
            raise StorageUnavailable("as injected")

    @contextmanager
    def writer(self, key: str) -> Iterator[ObjectWriter]:
        self._step()
        with super().writer(key) as body:
            yield FailingWriter(body, self._step)
            if not self._after:
                self._step()
        if self._after:
            self._step()


class FailingWriter:
    def __init__(self, body: ObjectWriter, step: Callable[[], None]) -> None:
        self._body = body
        self._step = step
        self.closed = False

    def write(self, data: Any) -> int:
        self._step()
        return self._body.write(data)


def _write_and_close(writer: DataFileWriter) -> None:
    for number in range(8):
        writer.write(noise(100, day=1 + number % 4))
    writer.close()


@pytest.mark.parametrize("after", [False, True], ids=["lost", "answer lost"])
@pytest.mark.parametrize("at", [0, 1, 2, 5, 9, 13, 16, 18, 23])
def test_an_error_of_the_store_is_raised_and_discard_leaves_nothing(at: int, after: bool) -> None:
    store = FailingStore(at, after=after)
    writer = writer_into(store, replace(LAYOUT, target_file_bytes=20_000))
    with pytest.raises(StorageUnavailable, match="as injected"):
        _write_and_close(writer)
    writer.discard()
    assert list(store.list()) == []


@given(tables_of_rows, st.booleans(), st.sampled_from([1, 500, 1 << 20]), st.sampled_from([1, 2000, 1 << 20]))
@settings(max_examples=25)
def test_discard_removes_all_files_of_the_writer_and_no_others(
    tables: list[tuple[list[Row], bool]], closed: bool, buffer_bytes: int, target_file_bytes: int
) -> None:
    store = memory()
    store.put("day=2024-01-28/kind=a/part-of-another-writer.snappy.parquet", b"")
    writer = writer_into(store, replace(LAYOUT, target_file_bytes=target_file_bytes), buffer_bytes=buffer_bytes)
    for rows, as_dictionary in tables:
        writer.write(table_of(rows, as_dictionary=as_dictionary))
    if closed:
        writer.close()
    writer.discard()
    writer.discard()
    assert [info.key for info in store.list()] == ["day=2024-01-28/kind=a/part-of-another-writer.snappy.parquet"]


def test_a_failed_abort_of_one_upload_does_not_stop_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store = CountingStore()
    writer = writer_into(store, buffer_bytes=1)
    for day in (1, 2):
        writer.write(noise(60, day=day))
    assert store.open == 2
    real, failed = ParquetUpload.abort, list[str]()

    def abort(upload: ParquetUpload) -> None:
        real(upload)
        if not failed:
            failed.append(upload.key)
            raise StorageUnavailable("as injected")

    monkeypatch.setattr(ParquetUpload, "abort", abort)
    with pytest.raises(StorageUnavailable, match="as injected"):
        writer.discard()
    assert (store.open, [*store.list()]) == (0, [])


def test_nothing_is_written_after_a_discard() -> None:
    """Arrow's writer writes the footer itself when it is garbage-collected."""
    store = CountingStore()
    writer = writer_into(store, buffer_bytes=1)
    writer.write(noise(60))
    assert store.open == 1
    writer.discard()
    del writer
    gc.collect()
    assert (store.open, store.late, list(store.list())) == (0, [], [])


def test_discard_removes_all_files_from_a_local_disk(tmp_path: Any) -> None:
    writer = writer_into(LocalStore(tmp_path), replace(LAYOUT, target_file_bytes=10_000))
    for day in range(1, 20):
        writer.write(noise(60, day=day))
    assert [path for path in tmp_path.rglob("*") if path.is_file()]
    writer.discard()
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_an_error_while_another_writer_makes_room_is_raised_to_the_new_writer() -> None:
    buffer, layout = BufferBudget(2 * MIB), replace(LAYOUT, target_file_bytes=64 * MIB)
    first, second = writer_into(FailingStore(0), layout, buffer=buffer), writer_into(memory(), buffer=buffer)
    table = noise(1000)
    for _ in range(1_700_000 // table.nbytes):
        first.write(table)
    with pytest.raises(StorageUnavailable):
        second.write(table)
    for writer in (first, second):
        writer.discard()
