"""Reads ORC files in a process of its own: `python -m spark_job.formats.orc.reader_process`.

pyarrow 26 may crash on a damaged ORC file. Here that ends this process alone, and not the task, which would meet the
same file again in its next attempt. The bytes of a small file come with the request; of a larger one the process asks
its parent for what it reads. Requests come on standard input, answers go to standard output. The process ends with its
input, and with its parent.
"""

import io
import json
import os
import resource
import struct
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from threading import Lock, Thread
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.dataset as ds
from pyarrow import orc

from spark_job.formats.orc.small_file import MAX_BYTES, MORE_MEMORY_BYTES, NotAtOnce, SmallFile, digest_of

SMALL, ROWS, OPEN, BATCHES, NEXT, LEAVE = "small", "rows", "open", "batches", "next", "leave"
"""What is asked. `SMALL` opens a small file, whose bytes follow the request, and `ROWS` reads it. `LEAVE` ends what is
done for a file that is not read to its end."""
LENGTH = struct.Struct("<q")
"""Before each request, and what is read of the parent's file."""
ANSWER = struct.Struct("<qq")
"""Before each answer: its kind, and its length."""
DONE, ERROR, SCHEMA, AT_ONCE, IN_BATCHES = range(5)
"""Kinds of answers. To a request about a small file: its schema, all of its rows, or that it has to be opened, and read
in batches."""
WHERE = struct.Struct("<qqq")
"""What is read of the parent's file: the number of the file, offset and size."""
_MORE_MEMORY_BYTES = 4 << 30
"""Of address space beyond what the process begins with; a damaged length must not take the machine's memory."""
_FEW_ROWS_BYTES = 192 << 20
"""Of address space beyond what there is now, for some rows of a small file."""
_LOOK_SECS = 1.0
"""Between two looks whether the parent is still there."""
_ERRORS = (pa.ArrowException, OSError, UnicodeDecodeError, OverflowError, MemoryError)


class ParentsBytes:
    """Reads of the parent's files, in pipes of their own: pyarrow may read ahead in another thread."""

    def __init__(self, wishes: BinaryIO, replies: BinaryIO) -> None:
        self._wishes = wishes
        self._replies = replies
        self._lock = Lock()

    def read(self, number: int, offset: int, size: int) -> bytes:
        with self._lock:
            self._wishes.write(WHERE.pack(number, offset, size))
            self._wishes.flush()
            return received(self._replies) or b""


def received(stream: BinaryIO) -> bytes | None:
    """One message; None at the end of the stream."""
    header = stream.read(LENGTH.size)
    return stream.read(LENGTH.unpack(header)[0]) if len(header) == LENGTH.size else None


class ParentsFile(io.RawIOBase):
    """The file that the parent has open."""

    is_left = False
    """From then on nothing can be read. A fragment that is left before its end decodes all the rest."""

    def __init__(self, parent: ParentsBytes, number: int, size: int) -> None:
        super().__init__()
        self._parent = parent
        self._number = number
        self._size = size
        self._at = 0

    def read(self, size: int = -1, /) -> bytes:
        if self.is_left:
            raise OSError("the file was left")
        wanted = self._size - self._at if size < 0 else max(0, min(size, self._size - self._at))
        data = self._parent.read(self._number, self._at, wanted) if wanted else b""
        self._at += len(data)
        return data

    def seek(self, offset: int, whence: int = os.SEEK_SET, /) -> int:
        self._at = offset + {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self._size}[whence]
        return self._at

    def tell(self) -> int:
        return self._at

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True


class OrcFile:
    """One file, and where its rows are read. `opened` opens it again."""

    def __init__(self, opened: Callable[[], ParentsFile]) -> None:
        self._opened = opened
        self._file = opened()
        self._batches: Iterator[pa.RecordBatch] = iter(())
        self.size_bytes = 0

    def description(self) -> bytes:
        found = orc.ORCFile(self._file)
        numbers = {"rows": found.nrows, "stripes": found.nstripes, "bytes": found.content_length}
        schema: bytes = found.schema.serialize().to_pybytes()
        return json.dumps(numbers).encode() + b"\n" + schema

    def begin(self, columns: list[str], rows: int, size_bytes: int) -> None:
        """A fragment reads a stripe in batches of so many rows; ORCFile only as a whole."""
        self.leave()
        self._file, self.size_bytes = self._opened(), size_bytes
        fragment = ds.OrcFileFormat().make_fragment(self._file)
        self._batches = fragment.to_batches(
            columns=columns, batch_size=rows, use_threads=False, batch_readahead=0, fragment_readahead=0
        )

    def leave(self) -> None:
        self._file.is_left = True
        self._batches = iter(())

    def next_batches(self) -> bytes:
        """At least one, and about `size_bytes`, as a stream of Arrow; b"" after the last."""
        batch = next(self._batches, None)
        if batch is None:
            return b""
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, batch.schema) as writer:
            while batch is not None:
                writer.write_batch(batch)
                batch = next(self._batches, None) if sink.tell() < self.size_bytes else None
        data: bytes = sink.getvalue().to_pybytes()
        return data


class OpenFile:
    """What the process has open: a small file, or one of its parent's."""

    def __init__(self, parent: ParentsBytes) -> None:
        self._parent = parent
        self._memory = MemoryLimit()
        self._small: SmallFile | None = None
        self._file: OrcFile | None = None
        self._number = 0
        self._ahead: tuple[int, bytes] | None = None

    def answer(self, request: Mapping[str, Any], body: bytes) -> tuple[int, bytes | pa.Buffer]:
        ahead, self._ahead = self._ahead, None
        if request["do"] in (SMALL, ROWS):
            return self._at_once(request, body)
        return ahead if ahead is not None and request["do"] == NEXT else self._tried(request)

    def read_ahead(self, request: Mapping[str, Any]) -> None:
        """What comes after this request probably, while the parent uses what it has got."""
        if request["do"] in (BATCHES, NEXT) and self._file is not None and self._file.size_bytes:
            self._ahead = self._tried({"do": NEXT})

    def _tried(self, request: Mapping[str, Any]) -> tuple[int, bytes]:
        try:
            return DONE, self._in_batches(request)
        except _ERRORS as error:
            return ERROR, str(error).encode() or b"?"

    def _at_once(self, request: Mapping[str, Any], body: bytes) -> tuple[int, bytes | pa.Buffer]:
        self._memory.allow_little()
        try:
            if request["do"] == SMALL:
                self._small, self._file = SmallFile(body), None
                if digest_of(self._small.schema) != request["schema"]:
                    return SCHEMA, self._small.schema
            if self._small is not None:
                return AT_ONCE, self._small.rows(request["columns"])
        except (*_ERRORS, NotAtOnce, KeyError):
            self._small = None
        return IN_BATCHES, b""

    def _in_batches(self, request: Mapping[str, Any]) -> bytes:
        if request["do"] == OPEN:
            self._memory.allow_for(request["size"])
            self._number += 1
            self._small = None
            self._file = OrcFile(partial(ParentsFile, self._parent, self._number, request["size"]))
            return self._file.description()
        if self._file is not None and request["do"] == BATCHES:
            self._file.begin(request["columns"], request["rows"], request["bytes"])
            return b""
        if self._file is not None and request["do"] == LEAVE:
            self._file.leave()
        return self._file.next_batches() if self._file is not None else b""


class MemoryLimit:
    """Of the address space of this process."""

    def __init__(self) -> None:
        self._much = _address_bytes() + _MORE_MEMORY_BYTES
        self._is_little = False
        self._allow(self._much)

    def allow_for(self, size: int) -> None:
        """What a file of this size may take that is read in batches."""
        self._is_little = False
        self._allow(min(self._much, _address_bytes() + _FEW_ROWS_BYTES) if size <= MAX_BYTES else self._much)

    def allow_little(self) -> None:
        """More than there is now, what a small file may take."""
        if not self._is_little:
            self._is_little = True
            self._allow(min(self._much, _address_bytes() + MORE_MEMORY_BYTES))

    def _allow(self, most: int) -> None:
        resource.setrlimit(resource.RLIMIT_AS, (most, resource.RLIM_INFINITY))


def _address_bytes() -> int:
    with open("/proc/self/statm") as file:  # noqa: PTH123 - no file of the project
        return int(file.read().split()[0]) * resource.getpagesize()


def main() -> None:
    parent = ParentsBytes(os.fdopen(int(sys.argv[1]), "wb"), os.fdopen(int(sys.argv[2]), "rb"))
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(2, 1)  # whatever a library prints is no answer
    file = OpenFile(parent)
    Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()
    requests = sys.stdin.buffer
    while (data := received(requests)) is not None:
        request = json.loads(data)
        body = requests.read(request["size"]) if request["do"] == SMALL else b""
        kind, answer = file.answer(request, body)
        answers.write(ANSWER.pack(kind, len(answer)))
        answers.write(answer)
        answers.flush()
        file.read_ahead(request)


def _end_with(parent: int) -> None:
    """A parent that is killed while libarrow loops would leave a process that nobody ends."""
    while os.getppid() == parent:
        time.sleep(_LOOK_SECS)
    os._exit(1)


if __name__ == "__main__":
    main()
