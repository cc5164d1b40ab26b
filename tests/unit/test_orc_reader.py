"""The process that reads ORC: what it reads, and that its end is a fault of the file alone."""

import contextlib
import io
import os
import signal

import pyarrow as pa  # type: ignore[import-untyped]
import pytest

from spark_job.formats.orc.reader import READER, OrcReader
from spark_job.formats.protocol import FileFault
from tests.unit.format_reading import read_file
from tests.unit.table_files import orc_file

GOOD = orc_file(pa.table({"id": list(range(10))}))


def crashing() -> bytes:
    """A file on which pyarrow 26 crashes: one bit of a valid one is another."""
    stored = bytearray(orc_file(pa.table({"t": [["a"], ["b", "c"], []] * 4})))
    stored[58] ^= 1
    return bytes(stored)


def test_a_file_that_crashes_the_reader_is_refused_and_the_next_one_is_read() -> None:
    for _ in range(2):
        with pytest.raises(FileFault, match="not valid ORC, or damaged"):
            read_file("orc", "t ARRAY<STRING>", crashing())
        assert [row["id"] for row in read_file("orc", "id BIGINT", GOOD).values] == list(range(10))


def test_a_process_that_is_killed_while_it_reads_is_a_fault_of_the_file() -> None:
    reader = OrcReader()
    reader.open(io.BytesIO(GOOD))
    batches = reader.batches(["id"], 2)
    assert next(batches).num_rows == 2
    assert reader._process is not None
    os.kill(reader._process.pid, signal.SIGKILL)
    reader._process.wait()
    with pytest.raises(FileFault, match="the process that read it ended"):
        list(batches)
    assert reader.open(io.BytesIO(GOOD)).rows == 10
    reader.close()


def test_batches_may_be_left_before_their_end() -> None:
    reader = OrcReader()
    for _ in range(3):
        assert reader.open(io.BytesIO(GOOD)).rows == 10
        assert next(reader.batches(["id"], 2)).num_rows == 2
    assert [batch.num_rows for batch in reader.batches(["id"], 4)] == [4, 4, 2]
    reader.close()


def test_files_share_one_process() -> None:
    read_file("orc", "id BIGINT", GOOD)
    process = READER._process
    read_file("orc", "id BIGINT", GOOD)
    assert READER._process is process


def test_a_forked_process_has_a_reader_of_its_own() -> None:
    read_file("orc", "id BIGINT", GOOD)
    pid = os.fork()
    if pid == 0:
        os._exit(0 if len(read_file("orc", "id BIGINT", GOOD).rows) == 10 else 1)
    assert os.waitpid(pid, 0)[1] == 0
    assert len(read_file("orc", "id BIGINT", GOOD).rows) == 10


def test_a_damaged_file_is_read_alike_from_its_start_and_from_a_record() -> None:
    """libarrow takes some values from memory that it has not written; without a fill they are of whatever was there."""
    names = ["Ada", "Grace", None, "\u00c9mile", "\u674e"] * 240
    table = pa.table({"id": [n * 1_000_003 - 7 for n in range(1200)], "name": names})
    whole = orc_file(table, compression="zstd", row_index_stride=1000)
    read = 0
    for at in range(len(whole) // 4, len(whole) // 2):
        damaged = whole[:at] + b"\0" + whole[at + 1 :]
        with contextlib.suppress(FileFault):
            rows = read_file("orc", "id BIGINT, name STRING", damaged).rows
            rest = read_file("orc", "id BIGINT, name STRING", damaged, first_record=120).rows
            assert rest == {number: row for number, row in rows.items() if number >= 120}, at
            read += 1
    assert read > 20
