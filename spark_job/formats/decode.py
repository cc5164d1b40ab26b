"""From the bytes of one object to its records: decompression, lines, JSON's outer form. Bounded memory, no Spark."""

import gzip
import io
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol, cast

import orjson
from isal import igzip, isal_zlib

from blizzard.state.dead_letters import Stage
from spark_job.formats.ndjson.parser_limits import matches

CHUNK_BYTES = 4 << 20
SLICE_CHUNK_BYTES = 1 << 20
"""Where a file is cut into slices, whose ends lie between two chunks."""

SMALL_BYTES = 256 << 10
"""At most, of an object that is decompressed in one go."""
_GZIP_MEMBER = 31
"""zlib's name for gzip's header and checksum."""

_BOM = b"\xef\xbb\xbf"


class FileFault(Exception):
    """The file as a whole cannot be ingested; `stage` says how far it got."""

    def __init__(self, stage: Stage, reason: str) -> None:
        super().__init__(reason)
        self.stage = stage
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Limits:
    """What one file may cost. A file that goes beyond is dead-lettered with the limit's name."""

    max_record_bytes: int = 16 << 20
    max_file_bytes: int = 64 << 30
    """Decompressed."""


class Readable(Protocol):
    def read(self, size: int = -1, /) -> bytes: ...


def compression_of(path: str, configured: str) -> str:
    """gzip, zstd or none; `auto` goes by the extension."""
    if configured != "auto":
        return configured
    lowered = path.lower()
    if lowered.endswith((".gz", ".gzip")):
        return "gzip"
    return "zstd" if lowered.endswith((".zst", ".zstd")) else "none"


def decompressed(raw: Readable, compression: str, *, size: int | None = None) -> Callable[[int], bytes]:
    """A function that reads up to n decompressed bytes, b"" at the end. Raises FileFault. `size`: of the object, in
    bytes, if it may be held as a whole."""
    if compression == "none":
        return raw.read
    if compression == "gzip" and size is not None and size <= SMALL_BYTES:
        body = _up_to(size, raw)
        content = _at_once(body) if len(body) == size else None
        if content is not None:
            return io.BytesIO(content).read
        raw = _After(io.BytesIO(body), raw)
    stream = _gzip(raw) if compression == "gzip" else _zstd(raw)

    def read(size: int) -> bytes:
        try:
            return stream.read(size)
        except EOFError as error:
            raise FileFault(
                Stage.DECOMPRESS, f"truncated {compression}: it ends before its end mark, or other bytes follow it"
            ) from error
        except (gzip.BadGzipFile, isal_zlib.error, OverflowError) as error:  # type: ignore[misc]
            # OverflowError: a header without end, of which igzip holds half a MiB.
            raise FileFault(Stage.DECOMPRESS, f"not valid {compression}: {error}") from error
        except OSError as error:  # what pyarrow raises for everything that is wrong with a zstd stream
            if type(error) is not OSError:
                raise
            raise FileFault(Stage.DECOMPRESS, f"not valid {compression}, or truncated: {error}") from error

    return read


def _up_to(size: int, raw: Readable) -> bytes:
    """What is there, and one byte more if there is more."""
    body = part = raw.read(size + 1)
    while part and len(body) <= size:
        part = raw.read(size + 1 - len(body))
        body += part
    return body


@dataclass(frozen=True, slots=True)
class _After:
    """What was read already, and then the rest."""

    begin: io.BytesIO
    rest: Readable

    def read(self, size: int = -1, /) -> bytes:
        return self.begin.read(size) + self.rest.read() if size < 0 else self.begin.read(size) or self.rest.read(size)


def _at_once(body: bytes) -> bytes | None:
    """The content of one sound member that is not large; None for whatever else it may be. For a file of some hundred
    bytes a stream takes several times as long."""
    member = isal_zlib.decompressobj(_GZIP_MEMBER)
    try:
        content = member.decompress(body, CHUNK_BYTES)
    except isal_zlib.error:  # type: ignore[misc]
        return None
    return content if member.eof and not member.unused_data else None


def _gzip(raw: Readable) -> Readable:
    return cast("Readable", igzip.IGzipFile(fileobj=_File(raw), mode="rb"))  # type: ignore[no-untyped-call]


def _zstd(raw: Readable) -> Readable:
    import pyarrow as pa

    return cast("Readable", pa.CompressedInputStream(pa.PythonFile(_File(raw), mode="r"), "zstd"))


class _File:
    """An object's reader in the form of a file, as gzip and pyarrow want it."""

    closed = False

    def __init__(self, raw: Readable) -> None:
        self._raw = raw

    def read(self, size: int = -1) -> bytes:
        return self._raw.read(size)

    def readinto(self, buffer: memoryview) -> int:
        data = self._raw.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return False

    def close(self) -> None:
        pass


@dataclass(frozen=True, slots=True)
class Block:
    """Complete lines of one file, `count` of them with LF between, without their ends (LF or CRLF)."""

    data: bytes
    count: int
    braced: bool = False
    """Known to be `are_braced`."""

    def lines(self) -> list[bytes]:
        return self.data.split(b"\n") if self.count else []

    def without_first(self, count: int) -> "Block":
        return Block(b"\n".join(self.lines()[count:]), self.count - count, self.braced)


def blocks(
    read: Callable[[int], bytes], limits: Limits, *, blank_lines: bool, chunk_bytes: int = CHUNK_BYTES
) -> Iterator[Block]:
    """The lines of a stream, with or without its blank ones. Raises FileFault at a limit."""
    tail, total, first = b"", 0, True
    while chunk := read(chunk_bytes):
        total += len(chunk)
        if total > limits.max_file_bytes:
            raise FileFault(
                Stage.DECOMPRESS,
                f"limit max_file_bytes: it holds more than {limits.max_file_bytes} bytes when decompressed",
            )
        end = chunk.rfind(b"\n")
        if end >= 0:
            # Put together at once: each copy is of some MiB.
            ended = b"".join((tail, memoryview(chunk)[:end])).removesuffix(b"\r")
            block = _block(ended, limits, first=first, blank_lines=blank_lines)
            tail, first = chunk[end + 1 :], False
            if block.count:
                yield block
        else:
            tail += chunk
        _check_length(len(tail), limits)
    if tail:
        block = _block(tail, limits, first=first, blank_lines=blank_lines)
        if block.count:
            yield block


def _block(data: bytes, limits: Limits, *, first: bool, blank_lines: bool) -> Block:
    if first:
        data = data.removeprefix(_BOM)
    if b"\r" in data:
        data = data.replace(b"\r\n", b"\n")
    if len(data) > limits.max_record_bytes:
        _check_length(max(map(len, data.split(b"\n"))), limits)
    count = len(data) - len(data.replace(b"\n", b"")) + 1  # faster than bytes.count
    if blank_lines:
        return Block(data, count)
    if are_braced(data, count):
        return Block(data, count, braced=True)
    if not _may_hold_blank_line(data):
        return Block(data, count)
    found = [line for line in data.split(b"\n") if line and not line.isspace()]
    return Block(b"\n".join(found), len(found))


def _may_hold_blank_line(data: bytes) -> bool:
    """Whether a line is empty or begins with white space."""
    if data[:1].isspace() or data[-1:] in (b"", b"\n"):
        return True
    return matches(r"\n[ \t\n\r\v\f]", data)


def are_braced(data: bytes, count: int) -> bool:
    """Whether each of these lines begins with { and ends with }.

    Then each line is exactly one object, if a JSON reader takes the data as a stream of `count` values: within a value
    no line can end between } and {. In a text a line feed is a control character, and JSON has none there; outside of
    texts a comma would have to come between. So all values begin and end with a line, each line has one at least, and
    as many values as lines leave one to each.
    """
    return data.startswith(b"{") and data.endswith(b"}") and data.count(b"}\n{") == count - 1


def _check_length(length: int, limits: Limits) -> None:
    if length > limits.max_record_bytes:
        raise FileFault(
            Stage.PARSE, f"limit max_record_bytes: it holds a line of more than {limits.max_record_bytes} bytes"
        )


def check_utf8(block: Block, row: int) -> None:
    """`row` is the number of the block's first line. Raises FileFault for the first line that is no UTF-8."""
    if block.data.isascii():
        return
    try:
        block.data.decode()
    except UnicodeDecodeError:
        for offset, line in enumerate(block.lines()):
            try:
                line.decode()
            except UnicodeDecodeError as error:
                reason = f"not UTF-8: line {row + offset} at byte {error.start}: {error.reason}"
                raise FileFault(Stage.PARSE, reason) from error
        raise


def refusal(line: str) -> str | None:
    """Why a line is no JSON object, None when it is one. Exactly one value a line: Spark's parser ignores what follows
    the first."""
    try:
        value = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        return _second_opinion(line, error)
    return None if isinstance(value, dict) else f"expected a JSON object, found {_kind(value)}"


def _second_opinion(line: str, error: ValueError) -> str | None:
    """NaN and Infinity are no JSON, but many programs write them and Spark reads them as DOUBLE."""
    try:
        value = json.loads(line, object_pairs_hook=_object)
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return "not JSON: a lone surrogate, which no UTF-8 text can hold"
    except (ValueError, RecursionError):
        return f"not JSON: {error}"
    return None if isinstance(value, dict) else f"expected a JSON object, found {_kind(value)}"


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Raises UnicodeEncodeError for what UTF-8 cannot hold in the first values of keys that are there twice: in a MAP
    Spark keeps them."""
    found = dict(pairs)
    if len(found) < len(pairs):
        json.dumps(pairs, ensure_ascii=False).encode()
    return found


def _kind(value: Any) -> str:
    names = {list: "an array", str: "a string", bool: "a boolean", type(None): "null"}
    return names.get(type(value), "a number")
