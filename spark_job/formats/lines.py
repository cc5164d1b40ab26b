"""What formats whose records are lines have in common: from decompressed bytes to numbered blocks of lines."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Self

from blizzard.state.dead_letters import Stage
from spark_job.formats.protocol import Content, FileFault, Limits, Parsed, Readable
from spark_job.formats.reading import BOM

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True, slots=True)
class LineBlock:
    """Complete lines of one file, divided by LF, without their ends (LF or CRLF)."""

    data: bytes
    count: int
    first_record: int = 0

    @property
    def size_bytes(self) -> int:
        return len(self.data)

    def lines(self) -> list[bytes]:
        return self.data.split(b"\n") if self.count else []

    def without_first(self, count: int) -> Self:
        kept = b"\n".join(self.lines()[count:])
        return replace(self, data=kept, count=self.count - count, first_record=self.first_record + count)


class LineFormat(ABC):
    """A `Format` whose records are lines."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits

    def blocks(self, content: Content, *, first_record: int) -> Iterator[LineBlock]:
        number = 0
        for data in complete_lines(content.stream(), self._limits, content.chunk_bytes):
            block = self.block_of(data, number)
            number += block.count
            if not block.count or number <= first_record:
                continue
            done = first_record - block.first_record
            wanted = block.without_first(done) if done > 0 else block
            self.check(wanted)
            yield wanted

    def block_of(self, data: bytes, first_record: int) -> LineBlock:
        """The records among these lines; every line is one."""
        return LineBlock(data, count_lines(data), first_record)

    def check(self, block: LineBlock) -> None:  # noqa: B027 - a format may have nothing to check
        """Raises FileFault for a block that makes the whole file unusable."""

    @abstractmethod
    def parse(self, blocks: Sequence[LineBlock]) -> Parsed: ...

    @abstractmethod
    def decide(self, deferred: "DataFrame") -> "DataFrame": ...


def joined(blocks: Sequence[LineBlock]) -> bytes:
    return blocks[0].data if len(blocks) == 1 else b"\n".join(block.data for block in blocks)


def complete_lines(stream: Readable, limits: Limits, chunk_bytes: int) -> Iterator[bytes]:
    """The lines of a stream, some MiB at a time, divided by LF, without a byte order mark at the stream's start. Raises
    FileFault at a limit."""
    tail, total, first = b"", 0, True
    while chunk := stream.read(chunk_bytes):
        total += len(chunk)
        limits.check_file_bytes(total)
        end = chunk.rfind(b"\n")
        if end >= 0:
            # Joined in one step: each copy is of some MiB.
            ended = b"".join((tail, memoryview(chunk)[:end])).removesuffix(b"\r")
            yield _normalized(ended, limits, first=first)
            tail, first = chunk[end + 1 :], False
        else:
            tail += chunk
        _check_length(len(tail), limits)
    if tail:
        yield _normalized(tail, limits, first=first)


def check_utf8(block: LineBlock) -> None:
    """Raises FileFault for the first line that is not UTF-8."""
    if block.data.isascii():
        return
    try:
        block.data.decode()
    except UnicodeDecodeError:
        for number, line in enumerate(block.lines(), block.first_record):
            try:
                line.decode()
            except UnicodeDecodeError as error:
                reason = f"not UTF-8: line {number} at byte {error.start}: {error.reason}"
                raise FileFault(Stage.PARSE, reason) from error
        raise


def _normalized(data: bytes, limits: Limits, *, first: bool) -> bytes:
    if first:
        data = data.removeprefix(BOM)
    if b"\r" in data:
        data = data.replace(b"\r\n", b"\n")
    if len(data) > limits.max_record_bytes:
        _check_length(max(map(len, data.split(b"\n"))), limits)
    return data


def _check_length(length: int, limits: Limits) -> None:
    if length > limits.max_record_bytes:
        raise FileFault(
            Stage.PARSE, f"limit max_record_bytes: it holds a line of more than {limits.max_record_bytes} bytes"
        )


def count_lines(data: bytes) -> int:
    return len(data) - len(data.replace(b"\n", b"")) + 1  # faster than bytes.count
