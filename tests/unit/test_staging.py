"""Staged files are removed with their folders: after their commit, or after a day."""

import os
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from blizzard.errors import NotFound
from blizzard.storage.base import ObjectStore
from blizzard.storage.local import LocalStore
from blizzard.storage.memory import MemoryStore
from spark_job.table.staging import LEFTOVER_SECS, Staging
from spark_job.write.data_file import DataFile
from tests.unit.fakes import Clock

STATE = "_blizzard/events_landing"


@pytest.fixture(params=["disk", "memory"])
def store(request: pytest.FixtureRequest, tmp_path: Path, clock: Clock) -> ObjectStore:
    return LocalStore(tmp_path) if request.param == "disk" else MemoryStore(clock)


@pytest.fixture
def clock() -> Clock:
    return Clock()


def staging(store: ObjectStore, clock: Clock) -> Staging:
    ids = iter("abcdef")
    return Staging(store, STATE, clock=clock, new_id=lambda: next(ids))


def written(store: ObjectStore, *keys: str) -> Sequence[DataFile]:
    for key in keys:
        store.put(key, b"rows")
    return [DataFile(key, 4, 1, 0.0, {}, "{}") for key in keys]


def keys(store: ObjectStore) -> list[str]:
    return [info.key for info in store.list()]


def test_only_staged_files_are_removed(store: ObjectStore, clock: Clock) -> None:
    staged = staging(store, clock)
    folder, other = staged.new_folder(), staged.new_folder()
    mine = written(store, f"{folder}1.parquet", f"{folder}2.parquet", f"{staged.deferred_folder}1.parquet")
    written(store, f"{other}1.parquet")
    staged.remove([*mine, *written(store, "date=2024-01-01/part.parquet")])
    assert keys(store) == [f"{other}1.parquet", "date=2024-01-01/part.parquet"]


def test_on_a_disk_the_folder_of_an_attempt_is_removed_with_its_last_file(tmp_path: Path, clock: Clock) -> None:
    store = LocalStore(tmp_path)
    staged = staging(store, clock)
    folder = staged.new_folder()
    first, last = written(store, f"{folder}1.parquet", f"{folder}2.parquet")
    staged.remove([first])
    assert (tmp_path / folder).exists()
    staged.remove([last])
    assert not (tmp_path / folder).exists()


def test_the_folder_of_deferred_lines_is_shared_and_stays(tmp_path: Path, clock: Clock) -> None:
    store = LocalStore(tmp_path)
    staged = staging(store, clock)
    staged.remove(written(store, f"{staged.deferred_folder}1.parquet"))
    assert [*(tmp_path / STATE / "staging").iterdir()] == [tmp_path / staged.deferred_folder]


def test_leftovers_are_removed_after_a_day_with_their_folders(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    clock = Clock()
    folder, fresh = (staging(store, clock).new_folder() + name for name in ("old/", "fresh/"))
    written(store, f"{folder}1.parquet", f"{fresh}1.parquet")
    modified_ts = max(info.modified_ts for info in store.list())
    clock.now_ts = modified_ts + LEFTOVER_SECS - 60
    staging(store, clock).remove_leftovers()
    assert len(keys(store)) == 2
    clock.now_ts = modified_ts + LEFTOVER_SECS + 60
    later_ts = clock.now_ts - 60
    os.utime(tmp_path / f"{fresh}1.parquet", (later_ts, later_ts))
    staging(store, clock).remove_leftovers()
    assert keys(store) == [f"{fresh}1.parquet"]
    assert not (tmp_path / folder).exists()


def test_leftovers_are_looked_for_once_a_day(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    clock = Clock(time.time() + 10 * LEFTOVER_SECS)
    staged = staging(store, clock)
    staged.remove_leftovers()
    written(store, f"{staged.new_folder()}1.parquet")
    clock.advance(LEFTOVER_SECS - 1)
    staged.remove_leftovers()
    assert len(keys(store)) == 1
    clock.advance(1)
    staged.remove_leftovers()
    assert keys(store) == []


class SlowFirstFile(MemoryStore):
    """The first file arrives after the last one."""

    def __init__(self, clock: Clock) -> None:
        super().__init__(clock)
        self._last_came = threading.Event()

    def get(self, key: str) -> bytes:
        if key.endswith("0.parquet"):
            assert self._last_came.wait(60)
        body = super().get(key)
        if key.endswith("3.parquet"):
            self._last_came.set()
        return body


def test_rows_keep_the_order_of_their_files_however_the_reads_end(clock: Clock) -> None:
    store = SlowFirstFile(clock)
    staged = staging(store, clock)
    files = written(store, *(f"{staged.deferred_folder}{number}.parquet" for number in range(4)))
    for number, file in enumerate(files):
        sink = pa.BufferOutputStream()
        pq.write_table(pa.table({"n": [number, 10 + number]}), sink)
        store.put(file.path, sink.getvalue().to_pybytes())
    assert staged.table(files)["n"].to_pylist() == [0, 10, 1, 11, 2, 12, 3, 13]


def test_a_missing_file_is_an_error(clock: Clock) -> None:
    store = MemoryStore(clock)
    with pytest.raises(NotFound):
        staging(store, clock).table([DataFile("left/1.parquet", 4, 1, 0.0, {}, "{}")])
