"""The beginning of an object, decompressed."""

import io
from dataclasses import dataclass
from typing import BinaryIO, cast

from blizzard.config.compressions import AUTO, ZIP, compression_of
from blizzard.state.dead_letters import Stage
from blizzard.storage.base import ObjectInfo, ObjectReader, ObjectStore
from blizzard.storage.ranged_file import RangedFile
from spark_job.formats.decompress import decompressed
from spark_job.formats.marks import COMPRESSED
from spark_job.formats.protocol import FileFault, Limits, Readable
from spark_job.formats.reading import read_up_to
from spark_job.formats.zip_archive import ZipArchive

STORED_BYTES = 16
ZIP_MEMBERS = 3
"""Of a zip that are looked into."""
_IN_MEMORY_BYTES = 16 << 20
_TAIL_BYTES = 64 << 10


@dataclass(frozen=True, slots=True)
class Head:
    """The first bytes of a file's content, or of a member of a zip. `is_whole`: whether they are all of it. `name`:
    with which extension. `compression`: how it is stored, whatever its extension says."""

    info: ObjectInfo
    name: str
    data: bytes
    is_whole: bool
    compression: str

    @property
    def by_extension(self) -> bool:
        return compression_of(self.info.key, AUTO) == self.compression


def compression_by_content(stored: bytes) -> str | None:
    return next((name for mark, name in COMPRESSED.items() if stored.startswith(mark)), None)


def read_heads(store: ObjectStore, info: ObjectInfo, max_bytes: int, compression: str | None = None) -> list[Head]:
    """One, or of a zip some of its members. `compression`: as the source says; None: as the first bytes say, or else
    the extension. Raises FileFault for what does not decompress, and what storage raises."""
    if (compression or compression_of(info.key, AUTO)) == ZIP:
        return _members(store, info, max_bytes)
    with store.open(info.key) as reader:
        stored = read_up_to(reader, STORED_BYTES)
        found = compression or compression_by_content(stored) or _unmarked(info.key)
        return [_head(info, info.key, decompressed(_Rejoined(stored, reader), found), max_bytes, found)]


def _head(info: ObjectInfo, name: str, stream: Readable, max_bytes: int, compression: str) -> Head:
    data = read_up_to(stream, max_bytes)
    return Head(info, name, data, len(data) < max_bytes or not stream.read(1), compression)


def _unmarked(key: str) -> str:
    """By the extension, if such a file needs no mark."""
    found = compression_of(key, AUTO)
    return "none" if found in COMPRESSED.values() and found != "snappy" else found


def _members(store: ObjectStore, info: ObjectInfo, max_bytes: int) -> list[Head]:
    archive = ZipArchive(_zip_file(store, info), Limits())
    readable = [member for member in archive.members if member.refusal is None and member.info.file_size]
    if not readable:
        reason = next((str(member.refusal) for member in archive.members if member.refusal), "it has no member")
        raise FileFault(Stage.DECOMPRESS, reason)
    heads = list[Head]()
    for member in readable[:ZIP_MEMBERS]:
        stream = decompressed(archive.open(member), compression_of(member.name, AUTO))
        heads.append(_head(info, member.name, stream, max(1, max_bytes // ZIP_MEMBERS), ZIP))
    return heads


def _zip_file(store: ObjectStore, info: ObjectInfo) -> BinaryIO:
    if info.size <= _IN_MEMORY_BYTES:
        return io.BytesIO(store.get(info.key))
    return cast("BinaryIO", RangedFile(store, info.key, info.size, tail_bytes=_TAIL_BYTES))


class _Rejoined:
    """The bytes that were read already, then the rest."""

    def __init__(self, begin: bytes, rest: ObjectReader) -> None:
        self._begin = begin
        self._rest = rest

    def read(self, size: int = -1, /) -> bytes:
        if size < 0:
            begin, self._begin = self._begin, b""
            return begin + self._rest.read()
        begin, self._begin = self._begin[:size], self._begin[size:]
        return begin or self._rest.read(size)


def unreadable(error: FileFault) -> str:
    return f"{'does not decompress' if error.stage is Stage.DECOMPRESS else 'cannot be read'}: {error.reason}"
