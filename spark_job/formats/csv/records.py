"""From the lines of a CSV file to its records: a quoted field may hold line ends."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from blizzard.state.dead_letters import Stage
from spark_job.formats.csv.dialect import Dialect
from spark_job.formats.protocol import FileFault, Limits, Readable
from spark_job.formats.record_list import JoinedRecords, RecordList
from spark_job.formats.search import matches

BROKEN_QUOTE = "a broken quote: text follows the closing quote of a field; expected a delimiter or the line's end"
OPEN_QUOTE = "a broken quote: the file ends within a quoted field"


@dataclass(frozen=True, slots=True)
class CsvBlock(RecordList):
    """Records in UTF-8, without the line ends between them."""

    columns: tuple[str, ...]
    """The names of the file's fields."""


@dataclass(frozen=True, slots=True)
class Records:
    """Some records of a file, in order. `broken` as in RecordList."""

    records: Sequence[bytes]
    broken: dict[int, str]


class RecordReader:
    """Puts the lines of one stream of UTF-8 together to records. Blank lines and comments are no records."""

    def __init__(self, stream: Readable, dialect: Dialect, limits: Limits, chunk_bytes: int) -> None:
        self._stream = stream
        self._dialect = dialect
        self._limits = limits
        self._chunk_bytes = chunk_bytes
        self._skip = dialect.skip_rows
        self._open: list[bytes] = []
        """The lines so far of a record whose last field is quoted and has not ended."""
        self._open_bytes = 0
        self._blanks = b" " if dialect.delimiter != " " else b""
        self._comment = (dialect.comment or "").encode()
        self._other_starts = tuple(start for start in (b"\n", self._blanks, self._comment) if start)
        """Of lines that may be no records."""
        self._other_lines = "\n(" + "|".join(re.escape(start.decode()) for start in self._other_starts) + ")"

    def __iter__(self) -> Iterator[Records]:
        """Raises FileFault at a limit, and what the stream raises."""
        tail, total = b"", 0
        while chunk := self._stream.read(self._chunk_bytes):
            total += len(chunk)
            self._limits.check_file_bytes(total)
            end = chunk.rfind(b"\n")
            if end < 0:
                tail += chunk
            else:
                yield self._records(b"".join((tail, memoryview(chunk)[:end])))
                tail = chunk[end + 1 :]
            self._check_length(len(tail))
        if tail:
            yield self._records(tail)
        if self._open:
            yield Records([_without_cr(b"\n".join(self._open))], {0: OPEN_QUOTE})

    def _records(self, data: bytes) -> Records:
        """`data`: complete lines."""
        if self._skip:
            lines = data.split(b"\n", self._skip)
            if len(lines) <= self._skip:
                self._skip -= len(lines)
                return Records((), {})
            data, self._skip = lines[-1], 0
        if len(data) > self._limits.max_record_bytes:
            self._check_length(max(map(len, data.split(b"\n"))))
        if not self._open:
            plain = data.replace(b"\r\n", b"\n").removesuffix(b"\r") if b"\r" in data else data
            if self._dialect.are_whole(plain):
                return Records(self._plain_records(plain), {})
        return self._quoted_records(data.split(b"\n"))

    def _plain_records(self, text: bytes) -> Sequence[bytes]:
        """Of lines that are whole."""
        if self._may_have_others(text):
            text = b"\n".join(line for line in text.split(b"\n") if self._is_record(line))
        return JoinedRecords(text) if text else ()

    def _may_have_others(self, text: bytes) -> bool:
        """Whether a line may be blank or a comment."""
        return text.startswith(self._other_starts) or text.endswith(b"\n") or matches(self._other_lines, text)

    def _is_record(self, line: bytes) -> bool:
        """Of a line outside quotes."""
        if not line.strip(self._blanks) if self._blanks else not line:
            return False
        return not (self._comment and line.startswith(self._comment))

    def _quoted_records(self, lines: Sequence[bytes]) -> Records:
        found, broken = list[bytes](), dict[int, str]()
        dialect, quote = self._dialect, self._dialect.quote_byte
        for line in lines:
            bare = _without_cr(line)
            if self._open:
                self._go_on(line, bare, found, broken)
            elif not self._is_record(bare):
                continue
            elif quote not in bare or dialect.whole.fullmatch(bare):
                found.append(bare)
            elif dialect.opening.fullmatch(line):
                self._open, self._open_bytes = [line], len(line)
            else:
                broken[len(found)] = BROKEN_QUOTE
                found.append(bare)
        return Records(found, broken)

    def _go_on(self, line: bytes, bare: bytes, found: list[bytes], broken: dict[int, str]) -> None:
        """With a line of a record that has begun."""
        dialect = self._dialect
        self._open.append(line)
        self._open_bytes += len(line) + 1
        self._check_length(self._open_bytes)
        if dialect.quote_byte not in line or dialect.going_on.fullmatch(line) or dialect.reopening.fullmatch(line):
            return
        if not dialect.closing.fullmatch(bare):
            broken[len(found)] = BROKEN_QUOTE
        found.append(_without_cr(b"\n".join(self._open)))
        self._open = []

    def _check_length(self, length: int) -> None:
        if length > self._limits.max_record_bytes:
            reason = f"limit max_record_bytes: it holds a record of more than {self._limits.max_record_bytes} bytes"
            if self._open:
                reason += "; its last field is quoted, and the quote does not end"
            raise FileFault(Stage.PARSE, reason)


def _without_cr(line: bytes) -> bytes:
    return line.removesuffix(b"\r")
