"""Reads ORC files in a process of its own: `python -m spark_job.formats.orc.reader_process`.

pyarrow 26 may crash on a damaged ORC file. Here that ends this process alone, and not the task, which would meet the
same file again in its next attempt. The process asks its parent for the bytes that it reads. Requests come on standard
input, answers go to standard output. The process ends with its input, and with its parent.
"""

import io
import json
import os
import resource
import struct
import sys
import time
from collections.abc import Iterator
from threading import Lock, Thread
from typing import BinaryIO

import pyarrow as pa
import pyarrow.dataset as ds
from pyarrow import orc

OPEN, BATCHES, NEXT = "open", "batches", "next"
LENGTH = struct.Struct("<q")
"""Before each message. Of an answer it is negative if that is an error."""
WHERE = struct.Struct("<qqq")
"""What is read of the parent's file: the number of the file, offset and size."""
_MORE_MEMORY_BYTES = 4 << 30
"""Of address space beyond what the process begins with; a damaged length must not take the machine's memory."""
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

    def __init__(self, parent: ParentsBytes, number: int, size: int) -> None:
        super().__init__()
        self._parent = parent
        self._number = number
        self._size = size
        self._at = 0

    def read(self, size: int = -1, /) -> bytes:
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
    """One file, and where its rows are read."""

    def __init__(self, file: ParentsFile) -> None:
        self._file = file
        self._batches: Iterator[pa.RecordBatch] = iter(())

    def description(self) -> bytes:
        found = orc.ORCFile(self._file)
        numbers = {"rows": found.nrows, "stripes": found.nstripes, "bytes": found.content_length}
        schema: bytes = found.schema.serialize().to_pybytes()
        return json.dumps(numbers).encode() + b"\n" + schema

    def begin(self, columns: list[str], rows: int) -> None:
        """A fragment reads a stripe in batches of so many rows; ORCFile only as a whole."""
        fragment = ds.OrcFileFormat().make_fragment(self._file)
        self._batches = fragment.to_batches(
            columns=columns, batch_size=rows, use_threads=False, batch_readahead=0, fragment_readahead=0
        )

    def next_batch(self) -> bytes:
        """As a stream of Arrow; b"" after the last."""
        batch = next(self._batches, None)
        if batch is None:
            return b""
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, batch.schema) as writer:
            writer.write_batch(batch)
        data: bytes = sink.getvalue().to_pybytes()
        return data


def main() -> None:
    parent = ParentsBytes(os.fdopen(int(sys.argv[1]), "wb"), os.fdopen(int(sys.argv[2]), "rb"))
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(2, 1)  # whatever a library prints is no answer
    _limit_memory()
    Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()
    file: OrcFile | None = None
    number = 0
    while (data := received(sys.stdin.buffer)) is not None:
        request, sign = json.loads(data), 1
        try:
            if request["do"] == OPEN:
                number += 1
                file = OrcFile(ParentsFile(parent, number, request["size"]))
                answer = file.description()
            elif file is not None and request["do"] == BATCHES:
                file.begin(request["columns"], request["rows"])
                answer = b""
            else:
                answer = file.next_batch() if file is not None else b""
        except _ERRORS as error:
            answer, sign = str(error).encode() or b"?", -1
        answers.write(LENGTH.pack(sign * len(answer)) + answer)
        answers.flush()


def _end_with(parent: int) -> None:
    """A parent that is killed while libarrow loops would leave a process that nobody ends."""
    while os.getppid() == parent:
        time.sleep(_LOOK_SECS)
    os._exit(1)


def _limit_memory() -> None:
    with open("/proc/self/statm") as file:  # noqa: PTH123 - no file of the project
        pages = int(file.read().split()[0])
    limit = pages * resource.getpagesize() + _MORE_MEMORY_BYTES
    resource.setrlimit(resource.RLIMIT_AS, (limit, resource.RLIM_INFINITY))


if __name__ == "__main__":
    main()
