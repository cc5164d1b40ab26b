"""The task's side of the process that reads ORC files."""

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from threading import RLock, Thread
from typing import BinaryIO

import orjson
import pyarrow as pa

from blizzard.environment import variables
from blizzard.state.dead_letters import Stage
from spark_job.formats.orc.pipes import SILENT_SECS, Silence, prepare, receive, send
from spark_job.formats.orc.reader_process import (
    ANSWER,
    AT_ONCE,
    BATCHES,
    ERROR,
    LEAVE,
    LENGTH,
    NEXT,
    OPEN,
    ROWS,
    SCHEMA,
    SMALL,
    WHERE,
)
from spark_job.formats.protocol import FileFault
from spark_job.formats.reading import read_up_to

_DAMAGED = "not valid ORC, or damaged"
PROCESS = "spark_job.formats.orc.reader_process"
_FILLED = {"MALLOC_PERTURB_": "85", "GLIBC_TUNABLES": "glibc.malloc.tcache_count=0"}
"""glibc fills the memory that it gives, with 0xAA, but for what a thread has freed itself. For some damaged files
libarrow gives values that it has never written: so they are at least the same each time, from whichever record a file
is read, and few of them fit a column."""
_MEMORY = {
    "ARROW_DEFAULT_MEMORY_POOL": "system",  # others reserve a gigabyte, in which no limit of addresses holds
    "MALLOC_ARENA_MAX": "1",
    "MALLOC_MMAP_THRESHOLD_": str(32 << 20),
    "MALLOC_TRIM_THRESHOLD_": str(64 << 20),
}
"""Of glibc: it keeps so much for the next file, and need not ask the system for the buffers of each."""


@dataclass(frozen=True, slots=True)
class OrcDescription:
    schema: pa.Schema
    rows: int
    stripes: int
    content_bytes: int


@dataclass(frozen=True, slots=True)
class SmallRequest:
    """What to read of a small file that has the schema with this digest. `types`: of the columns."""

    digest: str
    columns: list[str]
    types: pa.Schema


class _Ended(Exception):
    """The process has ended, for the reason that this names."""


class OrcReader:
    """One process, which is started when it is needed, and again after it ended. Reads one file at a time. Raises
    FileFault for what the process cannot read, and if it ends or gives no answer while it reads."""

    def __init__(self, silent_secs: int = SILENT_SECS) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._files = _Files()
        self._owner = os.getpid()
        self._silent_secs = silent_secs
        self._is_ahead = False
        """Whether the process may read what nobody asks for."""

    def small(self, data: bytes, request: SmallRequest | None) -> pa.RecordBatch | bytes | None:
        """The rows of a small file with these bytes, if it has the schema of the request; else its schema, serialized,
        after which `rows` reads them. None if it has to be read in batches, which tells why it cannot be read."""
        wanted = (request.digest, request.columns) if request is not None else ("", [])
        document = {"do": SMALL, "size": len(data), "schema": wanted[0], "columns": wanted[1]}
        return self._at_once(self._running(), document, request, data)

    def rows(self, request: SmallRequest) -> pa.RecordBatch | None:
        """Of the small file that is open. None: as for `small`."""
        if self._process is None:
            return None
        found = self._at_once(self._process, {"do": ROWS, "columns": request.columns}, request)
        return None if isinstance(found, bytes) else found

    def _at_once(
        self,
        process: "subprocess.Popen[bytes]",
        document: dict[str, object],
        request: SmallRequest | None,
        body: bytes = b"",
    ) -> pa.RecordBatch | bytes | None:
        try:
            kind, data = self._ask(process, document, body)
        except _Ended:  # it has less memory for a small file
            return None
        if kind == SCHEMA:
            return bytes(data)
        return pa.ipc.read_record_batch(pa.py_buffer(data), request.types) if kind == AT_ONCE and request else None

    def open(self, file: BinaryIO) -> OrcDescription:
        """`file`: whose bytes the process reads until the next one is opened."""
        process = self._running()
        size = file.seek(0, os.SEEK_END)
        self._files.begin(file)
        numbers, _, schema = self._done(process, {"do": OPEN, "size": size}).partition(b"\n")
        found = json.loads(numbers)
        return OrcDescription(pa.ipc.read_schema(pa.py_buffer(schema)), found["rows"], found["stripes"], found["bytes"])

    def batches(self, columns: list[str], rows: int, size_bytes: int = 0) -> Iterator[pa.RecordBatch]:
        """Of the file that is open, from its start. They come with answers of about `size_bytes`, while the process
        reads those of the next one; with 0 one by one, and nothing is read ahead."""
        process = self._process
        if process is None:
            raise FileFault(Stage.PARSE, f"{_DAMAGED}: the process that read it ended")
        self._is_ahead = True
        self._done(process, {"do": BATCHES, "columns": columns, "rows": rows, "bytes": size_bytes})
        while data := self._done(process, {"do": NEXT}):
            with pa.ipc.open_stream(pa.py_buffer(data)) as stream:
                yield from stream
        self._is_ahead = False

    def _leave(self, process: "subprocess.Popen[bytes]") -> None:
        """Whatever becomes of a file that was not read to its end is not the fault of the next one."""
        self._is_ahead = False
        with contextlib.suppress(FileFault):
            self._done(process, {"do": LEAVE})

    def _done(self, process: "subprocess.Popen[bytes]", request: dict[str, object]) -> bytearray:
        """The answer."""
        try:
            kind, data = self._ask(process, request)
        except _Ended as ended:
            raise FileFault(Stage.PARSE, f"{_DAMAGED}: {ended}") from ended
        if kind == ERROR:
            raise FileFault(Stage.PARSE, f"{_DAMAGED}: {data.decode(errors='replace')}")
        return data

    def _ask(
        self, process: "subprocess.Popen[bytes]", request: dict[str, object], body: bytes = b""
    ) -> tuple[int, bytearray]:
        """The kind of the answer, and the answer. Raises _Ended, and FileFault if there is none."""
        text = orjson.dumps(request)
        try:
            answer = self._answer(process, b"".join((LENGTH.pack(len(text)), text, body)))
        except Silence as silence:
            self.close()
            why = f"the process that read it gave no answer for {self._silent_secs} s, and was ended"
            raise FileFault(Stage.PARSE, f"{_DAMAGED}: {why}") from silence
        if answer is None:
            self.close()
            raise _Ended(f"the process that read it ended ({_how(process.wait())})")
        return answer

    def _answer(self, process: "subprocess.Popen[bytes]", request: bytes) -> tuple[int, bytearray] | None:
        """None if the process has ended. Raises Silence."""
        assert process.stdin is not None
        assert process.stdout is not None
        with contextlib.suppress(BrokenPipeError):  # that nothing comes back says it
            send(process.stdin.fileno(), request, self._silent_secs)
        end = process.stdout.fileno()
        header = receive(end, ANSWER.size, self._silent_secs)
        if len(header) < ANSWER.size:
            return None
        kind, length = ANSWER.unpack(header)
        data = receive(end, length, self._silent_secs)
        return (kind, data) if len(data) == length else None

    def _running(self) -> "subprocess.Popen[bytes]":
        if self._owner != os.getpid():  # this process was forked, and the pipes are those of its parent
            self._process, self._files, self._owner = None, _Files(), os.getpid()
        if self._process is not None and self._is_ahead:
            self._leave(self._process)
        if self._process is not None and self._process.poll() is not None:
            self.close()
        if self._process is None:
            with self._files.ends_of_the_process() as ends:
                self._process = subprocess.Popen(
                    [sys.executable, "-m", PROCESS, *map(str, ends)],
                    bufsize=0,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.DEVNULL,
                    pass_fds=ends,
                    # A worker of Spark gets some of its folders after its start.
                    env={**variables(), **_FILLED, **_MEMORY, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
                )
                assert self._process.stdin is not None
                assert self._process.stdout is not None
                prepare(self._process.stdin.fileno(), self._process.stdout.fileno())
        return self._process

    def close(self) -> None:
        """A later call starts a process again."""
        process, self._process = self._process, None
        self._is_ahead = False
        if process is not None:
            process.kill()
            process.communicate()


class _Files:
    """Serves the bytes of the open file to the process, in a thread of its own."""

    def __init__(self) -> None:
        self._file: BinaryIO | None = None
        self._number = 0

    def begin(self, file: BinaryIO) -> None:
        self._file, self._number = file, self._number + 1

    @contextlib.contextmanager
    def ends_of_the_process(self) -> Iterator[tuple[int, int]]:
        """The pipes' ends that a new process gets: for what it wants to read, and for the bytes."""
        self._number = 0
        wishes, wishes_end = os.pipe()
        replies_end, replies = os.pipe()
        Thread(target=self._serve, args=(wishes, replies), name="orc bytes", daemon=True).start()
        try:
            yield wishes_end, replies_end
        finally:
            os.close(wishes_end)
            os.close(replies_end)

    def _serve(self, wishes: int, replies: int) -> None:
        """Until the process has ended."""
        with contextlib.suppress(BrokenPipeError), open(wishes, "rb") as asked, open(replies, "wb") as given:
            while len(wish := asked.read(WHERE.size)) == WHERE.size:
                number, offset, size = WHERE.unpack(wish)
                data = self._bytes(number, offset, size)
                given.write(LENGTH.pack(len(data)) + data)
                given.flush()

    def _bytes(self, number: int, offset: int, size: int) -> bytes:
        """Empty for a file that is not read any more, of which the process may still read ahead."""
        if number != self._number or self._file is None:
            return b""
        try:
            self._file.seek(offset)
            return read_up_to(self._file, size)
        except (ValueError, OSError):  # it is closed
            return b""


def _how(exit_code: int) -> str:
    return f"signal {-exit_code}" if exit_code < 0 else f"exit code {exit_code}"


READER = OrcReader()
"""Of this process."""
LOCK = RLock()
"""Held while a file is read: threads take turns."""
