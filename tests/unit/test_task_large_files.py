"""Slices, fetching ahead, files too large to buffer, and deferred records."""

import gzip
import io
import json
import random
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq  # type: ignore[import-untyped]
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from blizzard.errors import (
    AccessDenied,
)
from blizzard.storage.base import ObjectInfo, ObjectReader, ObjectStore
from blizzard.storage.local import LocalStore
from blizzard.storage.memory import MemoryStore
from spark_job.formats.lines import LineBlock
from spark_job.formats.protocol import Parsed
from spark_job.tasks.fetch import WHOLE_BYTES, FetchAhead, TaskFile, fetch_files
from spark_job.write.write_errors import CannotWriteError
from tests.unit.task_world import (
    DEFERRED_FOLDER,
    LARGE,
    MIB,
    NOW_TS,
    PoisonedFormat,
    Read,
    Task,
    UnexpectedError,
    a_store,
    files_of,
    numbered,
    peak_bytes,
    read,
)

# --- Slices ---


def slices_of(store: ObjectStore, slice_bytes: int, **settings: Any) -> list[Read]:
    """Read the only file as batches do: each slice skips what those before it have read."""
    file = replace(files_of(store)[0], slice_bytes=slice_bytes)
    slices: list[Read] = []
    while not slices or not slices[-1].outcome.finished:
        done = slices[-1].outcome.records_read if slices else 0
        slices.append(read(store, [replace(file, skip_records=done)], **settings))
        assert len(slices) < 500, "it makes no progress"
    return slices


@settings(max_examples=30)
@given(
    sizes=st.lists(st.sampled_from([0, 0, 10, 1_000, 300_000, 1_200_000]), max_size=12),
    slice_bytes=st.sampled_from([1, 5_000, 1_000_000, 2_500_000]),
    codec=st.sampled_from(["none", "gzip"]),
    blank=st.booleans(),
)
@example(sizes=[], slice_bytes=1, codec="none", blank=False)
@example(sizes=[1_200_000] * 4, slice_bytes=1, codec="none", blank=True)
def test_slices_give_each_record_once(sizes: list[int], slice_bytes: int, codec: str, *, blank: bool) -> None:
    rng = random.Random(len(sizes))
    records = [json.dumps({"n": n, "pad": rng.randbytes(size // 2).hex()}) for n, size in enumerate(sizes)]
    body = ("\n\n" if blank else "\n").join(records).encode()
    store = a_store(a=gzip.compress(body, 1) if codec == "gzip" else body)
    slices = slices_of(store, slice_bytes, compression=codec)
    rows = [(record["row"], record["line"]) for part in slices for record in part.records]
    assert rows == list(enumerate(records))
    assert sum(part.outcome.rows for part in slices) == len(records)


def test_a_slice_ends_soon_after_its_share_of_bytes() -> None:
    store = a_store(a=numbered(600, pad=10_000))
    slices = slices_of(store, 2 * MIB)
    assert 3 <= len(slices) <= 4
    assert all(part.outcome.rows > 0 for part in slices)


def test_a_slice_of_text_continues_at_the_right_line() -> None:
    body = b"".join(b"%07d %s\n" % (n, b"x" * 5_000) for n in range(800))
    rows = [record for part in slices_of(a_store(a=body), MIB, format="text") for record in part.records]
    assert [record["row"] for record in rows] == list(range(800))
    assert all(int(record["line"][:7]) == record["row"] for record in rows)


# --- Fetching ahead ---


def test_a_reason_says_what_earlier_slices_have_committed() -> None:
    slices = slices_of(
        a_store(a=gzip.compress(b"x" * 1_000 + b"\n" + numbered(400_000), 0)[:-9]), 1_000_000, compression="gzip"
    )
    *before, last = slices
    assert before
    assert last.records == []
    truncated = "truncated gzip: it ends before its end mark, or other bytes follow it"
    count = before[-1].outcome.records_read
    assert last.outcome.error == f"{truncated}; its first {count:,} records were committed before, and their rows stay"


def test_fetching_ahead_does_not_change_the_records() -> None:
    bodies = {f"f{n:03d}": numbered(n) for n in range(300)}
    store = a_store(**bodies)
    ahead = read(store)
    streamed = read(store, [replace(file, size=WHOLE_BYTES + 1) for file in files_of(store)])
    inline = read(store, remote=False)
    assert ahead.records == streamed.records == inline.records
    assert ahead.outcomes == streamed.outcomes == inline.outcomes
    assert sum(map(len, ahead.lines)) == sum(len(body.replace(b"\n", b"")) for body in bodies.values())


def test_an_object_that_grew_above_the_fetch_limit_is_streamed() -> None:
    body = numbered(300, pad=10_000)
    found = read(a_store(a=body), [TaskFile("a", 10)], memory_bytes=8 * MIB)
    assert len(body) > 8 * MIB // 8
    assert len(found.records) == 300
    assert found.outcome.size == len(body)


def test_fetching_ahead_stays_within_its_bytes() -> None:
    store = Watched()
    for n in range(40):
        store.put(f"{n:03d}", bytes(MIB))
    for turn, fetch in enumerate(fetch_files(store, files_of(store), FetchAhead(threads=8, bytes=4 * MIB)), start=1):
        assert store.opened <= turn + 5
        with ExitStack() as stack:
            assert len(fetch.enter(stack).read()) == MIB


# --- Files too large to buffer ---


def test_a_large_file_has_its_own_data_files() -> None:
    task = Task(a_store(a=numbered(3), b=numbered(900, pad=10_000), c=numbered(4)), settings=LARGE)
    found = task.read(files_of(task.store))
    assert [record["row"] for record in found.records] == [*range(3), *range(900), *range(4)]
    assert sorted(file.rows for file in found.report.data_files) == [7, 900]


def test_a_large_file_with_a_fault_leaves_no_rows_and_no_data_file() -> None:
    broken = gzip.compress(numbered(900, pad=10_000))[:-9]
    task = Task(a_store(**{"a": numbered(3), "b.gz": broken, "c": numbered(4)}), settings=LARGE)
    found = task.read(files_of(task.store))
    assert [outcome.error is None for outcome in found.outcomes] == [True, False, True]
    assert {record["file"] for record in found.records} == {"a", "c"}
    assert [info.key for info in task.table.list()] == [file.path for file in found.report.data_files]


def test_the_rows_of_a_large_file_are_written_in_order() -> None:
    task = Task(a_store(a=numbered(4000, pad=10_000)), settings=LARGE)
    (written,) = task.report(files_of(task.store)).data_files
    rows = pq.read_table(io.BytesIO(task.table.get(written.path)))["_source"].combine_chunks().field("row")
    assert rows.to_pylist() == [*range(4000)]


def test_an_aborted_large_file_leaves_nothing_of_what_was_written() -> None:
    begun = threading.Event()

    class Late(PoisonedFormat):
        """Comes to the poison once a file was begun."""

        def parse(self, blocks: Sequence[LineBlock]) -> Parsed:
            assert not any(b"poison" in block.data for block in blocks) or begun.wait(60.0)
            return super().parse(blocks)

    class Noting(MemoryStore):
        def writer(self, key: str) -> Any:
            begun.set()
            return super().writer(key)

    body = numbered(4000, pad=10_000) + b"poison"
    task = Task(a_store(a=body), settings=LARGE, file_format=Late(), table=Noting(lambda: NOW_TS))
    with pytest.raises(UnexpectedError):
        task.report(files_of(task.store))
    assert [*task.table.list()] == []


def test_a_refused_data_file_is_not_a_fault_of_the_source_file() -> None:
    class Full(MemoryStore):
        def put(self, key: str, data: bytes) -> ObjectInfo:
            raise AccessDenied(f"put {key}: no")

        def writer(self, key: str) -> Any:
            raise AccessDenied(f"put {key}: no")

    task = Task(a_store(a=numbered(3)), table=Full(lambda: NOW_TS))
    with pytest.raises(CannotWriteError, match="no"):
        task.read(files_of(task.store))


# --- Deferred records ---

UNDECODABLE = b"\xff" * 1000
TEXT = {"format": "text"}


def test_deferred_records_are_written_in_bounded_memory(tmp_path: Path) -> None:
    landing = LocalStore(tmp_path / "landing")
    for n in range(100):
        landing.put(f"{n:03d}", b"\n".join([UNDECODABLE] * 1000))
    peak, report = peak_bytes(landing, LocalStore(tmp_path / "table"), memory_bytes=4 * MIB, **TEXT)
    assert sum(outcome.rows for outcome in report.outcomes) == sum(file.rows for file in report.deferred) == 100_000
    assert peak < 64 * MIB


def test_a_deferred_record_keeps_its_file_row_number_and_bytes() -> None:
    lines = [UNDECODABLE if n % 3 == 0 else b"good" for n in range(60_000)]
    task = Task(a_store(a=b"\n".join(lines), b=b"\xfe"), settings=TEXT)
    left = task.deferred_of(task.report(files_of(task.store)))
    expected = [("a", n, UNDECODABLE) for n in range(0, 60_000, 3)] + [("b", 0, b"\xfe")]
    assert [(row["file"], row["row"], row["undecodable"]) for row in left] == expected
    assert {row["line"] for row in left} == {None}


def test_a_refused_file_of_deferred_records_is_not_a_fault_of_the_source_file() -> None:
    class Full(MemoryStore):
        def writer(self, key: str) -> Any:
            raise AccessDenied(f"put {key}: no")

    task = Task(a_store(a=UNDECODABLE), settings=TEXT, table=Full(lambda: NOW_TS))
    with pytest.raises(CannotWriteError, match="no"):
        task.report(files_of(task.store))


def test_a_task_that_cannot_write_its_rows_leaves_no_deferred_records() -> None:
    class NoRows(MemoryStore):
        def writer(self, key: str) -> Any:
            if key.startswith(DEFERRED_FOLDER):
                return super().writer(key)
            raise AccessDenied(f"put {key}: no")

    task = Task(a_store(a=b"\n".join([UNDECODABLE] * 30_000), b=b"good"), settings=TEXT, table=NoRows(lambda: NOW_TS))
    with pytest.raises(CannotWriteError, match="no"):
        task.report(files_of(task.store))
    assert [*task.table.list()] == []


class Watched(MemoryStore):
    def __init__(self) -> None:
        super().__init__(lambda: NOW_TS)
        self.opened = 0

    @contextmanager
    def open(self, key: str) -> Iterator[ObjectReader]:
        self.opened += 1
        with super().open(key) as reader:
            yield reader
