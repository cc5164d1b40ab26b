"""From the bytes of one object to its records: decompression, lines, JSON's outer form. Bounded memory, no Spark."""

import gzip
import json
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import IO, Any, Protocol, cast

import orjson

from blizzard.dead_letters import Stage

CHUNK_BYTES = 1 << 20
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


def decompressed(raw: Readable, compression: str) -> Callable[[int], bytes]:
    """A function that reads up to n decompressed bytes, b"" at the end. Raises FileFault."""
    if compression == "none":
        return raw.read
    stream = _gzip(raw) if compression == "gzip" else _zstd(raw)

    def read(size: int) -> bytes:
        try:
            return stream.read(size)
        except EOFError as error:
            raise FileFault(Stage.DECOMPRESS, f"truncated {compression}: it ends before its end mark") from error
        except (gzip.BadGzipFile, zlib.error) as error:
            raise FileFault(Stage.DECOMPRESS, f"not valid {compression}: {error}") from error
        except OSError as error:  # what pyarrow raises for everything that is wrong with a zstd stream
            if type(error) is not OSError:
                raise
            raise FileFault(Stage.DECOMPRESS, f"not valid {compression}, or truncated: {error}") from error

    return read


def _gzip(raw: Readable) -> Readable:
    return gzip.GzipFile(fileobj=cast("IO[bytes]", _File(raw)), mode="rb")


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

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return False

    def close(self) -> None:
        pass


def lines(read: Callable[[int], bytes], limits: Limits) -> Iterator[list[bytes]]:
    """The lines of a stream in groups, without their line ends (LF or CRLF). Raises FileFault at a limit."""
    tail, total, first = b"", 0, True
    while chunk := read(CHUNK_BYTES):
        total += len(chunk)
        if total > limits.max_file_bytes:
            raise FileFault(
                Stage.DECOMPRESS,
                f"limit max_file_bytes: it holds more than {limits.max_file_bytes} bytes when decompressed",
            )
        head, newline, rest = chunk.rpartition(b"\n")
        if newline:
            group = _split(tail + head, limits, first=first)
            tail, first = rest, False
            yield group
        else:
            tail += chunk
        _check_length(len(tail), limits)
    if tail:
        yield _split(tail, limits, first=first)


def _split(block: bytes, limits: Limits, *, first: bool) -> list[bytes]:
    if first:
        block = block.removeprefix(_BOM)
    found = block.split(b"\n")
    if b"\r" in block:
        found = [line.removesuffix(b"\r") for line in found]
    if len(block) > limits.max_record_bytes:
        _check_length(max(map(len, found)), limits)
    return found


def _check_length(length: int, limits: Limits) -> None:
    if length > limits.max_record_bytes:
        raise FileFault(
            Stage.PARSE, f"limit max_record_bytes: it holds a line of more than {limits.max_record_bytes} bytes"
        )


def utf8(group: list[bytes], row: int) -> list[str]:
    """The lines as text; `row` is the number of the group's first. Raises FileFault for the first that is no UTF-8."""
    try:
        return b"\n".join(group).decode().split("\n")
    except UnicodeDecodeError:
        for offset, line in enumerate(group):
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
        value = json.loads(line)
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return "not JSON: a lone surrogate, which no UTF-8 text can hold"
    except (ValueError, RecursionError):
        return f"not JSON: {error}"
    return None if isinstance(value, dict) else f"expected a JSON object, found {_kind(value)}"


def _kind(value: Any) -> str:
    names = {list: "an array", str: "a string", bool: "a boolean", type(None): "null"}
    return names.get(type(value), "a number")
