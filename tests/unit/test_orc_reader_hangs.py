"""A process that reads ORC and hangs is ended, and its file is a dead letter. The process is real, and stopped."""

import io
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa  # type: ignore[import-untyped]
import pytest

from spark_job.formats.orc import format as orc_format
from spark_job.formats.orc.pipes import SILENT_SECS
from spark_job.formats.orc.reader import OrcDescription, OrcReader, SmallRequest
from spark_job.formats.orc.small_file import MAX_BYTES
from spark_job.formats.protocol import FileFault
from tests.spark.engine_lake import EngineLake
from tests.unit.table_files import orc_file
from tests.unit.table_lake import lake

__all__ = ["lake"]

GOOD = orc_file(pa.table({"id": list(range(10))}))
WHY = "^not valid ORC, or damaged: the process that read it gave no answer for 1 s, and was ended$"


def pid_of(reader: OrcReader) -> int:
    assert reader._process is not None
    return reader._process.pid


def begun() -> OrcReader:
    """It has a process, and waits a second for it from now on, not while it starts."""
    reader = OrcReader()
    assert reader.open(io.BytesIO(GOOD)).rows == 10
    reader._silent_secs = 1
    return reader


class Stopping(io.BytesIO):
    """A file of which one read stops the process that wants to have it."""

    def __init__(self, data: bytes, reader: OrcReader) -> None:
        super().__init__(data)
        self._reader = reader

    def read(self, size: int | None = -1, /) -> bytes:
        os.kill(pid_of(self._reader), signal.SIGSTOP)
        return super().read(size)


def test_the_docs_say_how_long_a_file_may_take() -> None:
    assert f"for {SILENT_SECS} seconds" in (Path(__file__).parents[2] / "docs" / "format-orc.md").read_text()


def test_a_process_that_hangs_when_a_file_is_opened_is_ended_and_the_next_file_is_read() -> None:
    reader = begun()
    pid = pid_of(reader)
    with pytest.raises(FileFault, match=WHY):
        reader.open(Stopping(GOOD, reader))
    assert not Path(f"/proc/{pid}").exists()
    reader._silent_secs = SILENT_SECS
    assert reader.open(io.BytesIO(GOOD)).rows == 10
    reader.close()


def test_a_process_that_hangs_between_two_batches_is_ended() -> None:
    reader = begun()
    batches = reader.batches(["id"], 2)
    assert next(batches).num_rows == 2
    os.kill(pid := pid_of(reader), signal.SIGSTOP)
    with pytest.raises(FileFault, match=WHY):
        list(batches)
    assert not Path(f"/proc/{pid}").exists()


def test_a_request_that_fills_the_pipe_does_not_wait_for_ever() -> None:
    reader = begun()
    os.kill(pid_of(reader), signal.SIGSTOP)
    with pytest.raises(FileFault, match=WHY):
        list(reader.batches([f"column {number}" for number in range(20_000)], 2))


def test_a_large_request_and_a_large_answer_arrive_whole() -> None:
    names = [f"column {number}" for number in range(5_000)]
    reader = OrcReader()
    reader.open(io.BytesIO(orc_file(pa.table({name: ["x" * 100] for name in names}))))
    [batch] = reader.batches(names, 2)
    assert batch.to_pylist() == [dict.fromkeys(names, "x" * 100)]
    reader.close()


class StuckAt(OrcReader):
    """The process stops when a file of this size is read."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self._size = size

    def open(self, file: BinaryIO) -> OrcDescription:
        self._stop_if(file.seek(0, os.SEEK_END) == self._size)
        return super().open(file)

    def small(self, data: bytes, request: SmallRequest | None) -> pa.RecordBatch | bytes | None:
        self._stop_if(len(data) == self._size)
        return super().small(data, request)

    def _stop_if(self, is_its_turn: bool) -> None:
        self._silent_secs = SILENT_SECS
        if is_its_turn:
            os.kill(self._running().pid, signal.SIGSTOP)
            self._silent_secs = 1


@pytest.mark.parametrize("is_small", [True, False])
def test_its_file_is_a_dead_letter_and_the_others_are_rows(
    lake: EngineLake, monkeypatch: pytest.MonkeyPatch, is_small: bool
) -> None:
    monkeypatch.setattr(orc_format, "MAX_BYTES", MAX_BYTES if is_small else 0)
    stuck = orc_file(pa.table({"id": list(range(1_000))}))
    reader = StuckAt(len(stuck))
    monkeypatch.setattr(orc_format, "READER", reader)
    lake.settings = {"format": "orc", "schema": "id BIGINT"}
    for name, body in {"a.orc": GOOD, "b.orc": stuck, "c.orc": GOOD}.items():
        lake.put_bytes(name, body)
    lake.run()
    reader.close()
    assert lake.files() == {"a.orc": 10, "c.orc": 10}
    [letter] = lake.letters()
    assert (letter["path"], letter.get("row"), letter["stage"]) == ("b.orc", None, "parse")
    assert re.search(WHY, letter["error"])


def reads_good(code: str) -> "subprocess.Popen[bytes]":
    """A process that runs this code and has the good file as its input."""
    process = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdin is not None
    process.stdin.write(GOOD)
    process.stdin.close()
    return process


STOPPED = """
import io, os, signal, sys
from spark_job.formats.orc.reader import OrcReader
reader = OrcReader(silent_secs=4)
reader.open(io.BytesIO(sys.stdin.buffer.read()))
os.kill(reader._process.pid, signal.SIGSTOP)
print(reader._process.pid, flush=True)
print(sum(batch.num_rows for batch in reader.batches(["id"], 2)), flush=True)
"""


def test_time_in_which_the_job_itself_is_stopped_does_not_count() -> None:
    with reads_good(STOPPED) as job:
        assert job.stdout is not None
        reader = int(job.stdout.readline())
        job.send_signal(signal.SIGSTOP)
        time.sleep(5)  # longer than the limit
        job.send_signal(signal.SIGCONT)
        time.sleep(0.5)
        os.kill(reader, signal.SIGCONT)
        assert job.stdout.readline() == b"10\n"


PARENT = """
import io, os, sys, time
from spark_job.formats.orc.reader import OrcReader
reader = OrcReader()
reader.open(io.BytesIO(sys.stdin.buffer.read()))
sibling = os.fork()
if sibling == 0:
    time.sleep(600)
print(reader._process.pid, sibling, flush=True)
time.sleep(600)
"""
"""Its sibling keeps the pipes open, so that the process which reads does not see the end of its input."""


def is_there(pid: int) -> bool:
    """A zombie is not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def test_a_process_whose_parent_is_killed_ends() -> None:
    with reads_good(PARENT) as parent:
        assert parent.stdout is not None
        reader, sibling = map(int, parent.stdout.readline().split())
        assert is_there(reader)
        parent.kill()
        parent.wait()
        try:
            deadline = time.monotonic() + 30
            while is_there(reader) and time.monotonic() < deadline:
                time.sleep(0.05)
            assert is_there(sibling)
            assert not is_there(reader)
        finally:
            os.kill(sibling, signal.SIGKILL)
