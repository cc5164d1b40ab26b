"""The members of a zip file, which are read one by one."""

import struct
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import BinaryIO

from blizzard.config.compressions import ZIP, compression_of
from blizzard.state.dead_letters import Stage
from spark_job.formats.protocol import FileFault, Limits, Readable
from spark_job.formats.reading import read_all

MAX_MEMBERS = 100_000
"""Their directory is held in memory, and takes about 1 KB for each."""
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2)
_METHOD_NAMES = {9: "Deflate64", 14: "LZMA", 93: "Zstandard", 95: "XZ", 98: "PPMd", 99: "AES encryption"}
_ENCRYPTED = 0x1
_END = struct.Struct("<4s4H2LH")
_END64_LOCATOR = struct.Struct("<4sLQL")
_END64 = struct.Struct("<4sQ2H2L4Q")
_MAX_COMMENT_BYTES = (1 << 16) - 1
_ERRORS = (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, ValueError, struct.error)
"""What zipfile raises for damage: UnicodeDecodeError is a ValueError, a wrong password a RuntimeError."""


@dataclass(frozen=True, slots=True)
class Member:
    """`refusal`: why it cannot be read, as far as the zip's directory shows that."""

    info: zipfile.ZipInfo
    refusal: str | None

    @property
    def name(self) -> str:
        return self.info.filename


class ZipArchive:
    """Folders are no members. Raises FileFault for a file that is no zip, or whose directory is damaged."""

    def __init__(self, file: BinaryIO, limits: Limits) -> None:
        _check_number_of_members(file)
        with _faults("not a valid zip"):
            self._zip = zipfile.ZipFile(file)
        self._limits = limits
        self.members = tuple(self._members())

    def _members(self) -> Iterator[Member]:
        total = 0
        for info in self._zip.infolist():
            if not info.is_dir():
                total += info.file_size
                yield Member(info, _refusal(info) or self._refused_size(total))

    def _refused_size(self, total: int) -> str | None:
        most = self._limits.max_file_bytes
        if total <= most:
            return None
        return f"limit max_file_bytes: with the members before it, it holds more than {most} bytes when decompressed"

    def open(self, member: Member) -> Readable:
        """The decompressed bytes; reading raises FileFault for what does not decompress to what the directory says."""
        with _faults(_NOT_VALID):
            return _Opened(self._zip.open(member.info))


_NOT_VALID = "it cannot be decompressed"


class _Opened:
    def __init__(self, file: Readable) -> None:
        self._file = file

    def read(self, size: int = -1, /) -> bytes:
        if size < 0:
            return read_all(self)
        with _faults(_NOT_VALID):
            return self._file.read(size)


@contextmanager
def _faults(what: str) -> Iterator[None]:
    try:
        yield
    except _ERRORS as error:
        raise FileFault(Stage.DECOMPRESS, f"{what}: {str(error) or 'it is truncated'}") from error
    except OSError as error:  # bzip2's of damage have no number, those of the disk have
        if error.errno is not None:
            raise
        raise FileFault(Stage.DECOMPRESS, f"{what}: {error}") from error


def _refusal(info: zipfile.ZipInfo) -> str | None:
    name = info.filename
    if name.startswith("__MACOSX/"):
        return "it is no data but what macOS keeps about a file, which it adds to a zip"
    if info.flag_bits & _ENCRYPTED:
        return "it is encrypted; a zip is read only without a password"
    if compression_of(name, "auto") == ZIP:
        return "it is a zip itself; expected a file. Put the inner zip's files there, or upload it on its own"
    if info.compress_type not in _METHODS:
        method = _METHOD_NAMES.get(info.compress_type, "unknown")
        return f"its compression has number {info.compress_type} ({method}); expected none, Deflate or bzip2"
    return None


def _check_number_of_members(file: BinaryIO) -> None:
    """Before the directory is read into memory."""
    count = _number_of_members(file)
    if count > MAX_MEMBERS:
        raise FileFault(Stage.DECOMPRESS, f"it is a zip of {count:,} members; at most {MAX_MEMBERS:,} are read")


def _number_of_members(file: BinaryIO) -> int:
    """As the end of the file says; 0 if it has no such end, which opening the zip will find."""
    size = file.seek(0, 2)
    tail_at = max(0, size - _END.size - _MAX_COMMENT_BYTES)
    file.seek(tail_at)
    tail = file.read()
    at = tail.rfind(b"PK\x05\x06")
    if at < 0 or len(tail) - at < _END.size:
        return 0
    count = int(_END.unpack_from(tail, at)[4])
    locator_at = at - _END64_LOCATOR.size
    if locator_at < 0:
        return count
    signature, _, end64_at, _ = _END64_LOCATOR.unpack_from(tail, locator_at)
    if signature != b"PK\x06\x07" or end64_at + _END64.size > size:
        return count
    file.seek(end64_at)
    found = _END64.unpack(file.read(_END64.size))
    return int(found[7]) if found[0] == b"PK\x06\x06" else count
