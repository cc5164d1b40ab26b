"""Objects' bytes as formats read them, for tests."""

import gzip
import io
from collections.abc import Iterable
from typing import BinaryIO

import pyarrow as pa  # type: ignore[import-untyped]

from spark_job.formats.decompress import decompressed
from spark_job.formats.protocol import Content, Limits, Readable
from spark_job.formats.text.format import TextFormat
from spark_job.tasks.file_content import CHUNK_BYTES
from tests.unit.plain_lines import TEXT_SCHEMA


def zstd(data: bytes) -> bytes:
    return bytes(pa.compress(data, codec="zstd", asbytes=True))


COMPRESS = {"none": bytes, "gzip": gzip.compress, "zstd": zstd}


class StoredContent:
    """A `Content` over any reader."""

    path = "a.file"

    def __init__(self, reader: Readable, compression: str = "none", chunk_bytes: int = CHUNK_BYTES) -> None:
        self._reader = reader
        self._compression = compression
        self.chunk_bytes = chunk_bytes

    def stream(self) -> Readable:
        return decompressed(self._reader, self._compression)

    def random_access(self) -> BinaryIO:
        return io.BytesIO(self.stream().read())


class Chunks:
    """A reader that returns these chunks, whatever size is asked for."""

    def __init__(self, chunks: Iterable[bytes]) -> None:
        self._chunks = iter(chunks)

    def read(self, size: int = -1, /) -> bytes:
        return next(self._chunks, b"")


def lines_of(content: Content, limits: Limits = Limits()) -> list[bytes]:  # noqa: B008 - frozen
    """All lines of a file of text."""
    blocks = list(TextFormat(TEXT_SCHEMA, limits).blocks(content, first_record=0))
    assert all(block.count == len(block.lines()) for block in blocks)
    assert [block.first_record for block in blocks] == [
        sum(before.count for before in blocks[:number]) for number in range(len(blocks))
    ]
    return [line for block in blocks for line in block.lines()]
