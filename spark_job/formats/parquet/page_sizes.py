"""The sizes that the headers of Parquet's pages say, compared before pyarrow takes the memory for them."""

import io
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import BinaryIO, NoReturn

from blizzard.state.dead_letters import Stage
from spark_job.formats.parquet.footers import UNREADABLE, Chunk, EncryptedChunk, Footer, Footers, Shape
from spark_job.formats.parquet.page_headers import PageHeaders, page_headers
from spark_job.formats.parquet.thrift_compact import Invalid
from spark_job.formats.protocol import FileFault

TRUSTED_BYTES = 16 << 20
"""A page up to this size is read even if its column chunk should be smaller."""
_TAIL_BYTES = 8
_ENCRYPTED_MAGIC = b"PARE"
_NO_KEYS = "and no keys can be given. Write it without encryption"


class PageSizes:
    """Of one file. `footers` may have read others."""

    def __init__(self, stored: BinaryIO, footers: Footers | None = None) -> None:
        self._headers = page_headers(stored)
        stored.seek(-_TAIL_BYTES, io.SEEK_END)
        size = int.from_bytes(stored.read(_TAIL_BYTES // 2), "little")
        stored.seek(-_TAIL_BYTES - size, io.SEEK_END)
        self._footer: Footer | None = None
        with suppress(*UNREADABLE):
            self._footer = (footers or Footers()).read(stored.read(size))

    @property
    def shape(self) -> Shape | None:
        """As in `Footer`; None if it cannot be read."""
        return None if self._footer is None else self._footer.shape

    def check_footer(self) -> Footer:
        """Raises FileFault if it cannot be read."""
        if self._footer is None:
            _refuse("its footer cannot be read")
        return self._footer

    def check(self, group: int, columns: Sequence[str]) -> None:
        """Raises FileFault for a page that says that it is larger than all of its column in this row group, by which a
        damaged byte could take gigabytes of memory, for one whose header cannot be read, and for what is encrypted."""
        wanted = {column.encode() for column in columns}
        for chunk in self.check_footer().groups[group]:
            if isinstance(chunk, EncryptedChunk):
                if not chunk.path or chunk.path[0] in wanted:
                    _refuse_encrypted(chunk.path)
            elif chunk.path[0] in wanted:
                self._check(group, chunk)

    def _check(self, group: int, chunk: Chunk) -> None:
        most, page = max(TRUSTED_BYTES, chunk.uncompressed_bytes), 0
        try:
            for page, size in enumerate(page_bytes(self._headers, chunk), 1):
                if size > most:
                    what = f"says that it has {size:,} bytes, more than all of that column has"
                    _refuse(f"page {page} {_place(group, chunk)} {what}")
        except UNREADABLE:
            _refuse(f"page {page + 1} {_place(group, chunk)} has no header that can be read")


def _place(group: int, chunk: Chunk) -> str:
    return f"of {_text(chunk.path)} in row group {group}"


def refuse_encrypted_footer(stored: BinaryIO) -> None:
    """Raises FileFault for a file that ends as one with such a footer."""
    size = stored.seek(0, io.SEEK_END)
    stored.seek(max(0, size - len(_ENCRYPTED_MAGIC)))
    if stored.read() == _ENCRYPTED_MAGIC:
        raise FileFault(Stage.PARSE, f"encrypted Parquet: its footer is encrypted, {_NO_KEYS}")
    stored.seek(0)


def _refuse_encrypted(path: Sequence[bytes]) -> NoReturn:
    what = f"column {_text(path)} is" if path else "one of its columns is"
    raise FileFault(Stage.PARSE, f"encrypted Parquet: {what} encrypted, {_NO_KEYS}")


def _text(path: Sequence[bytes]) -> str:
    return b".".join(path).decode(errors="replace")


def _refuse(why: str) -> NoReturn:
    raise FileFault(Stage.PARSE, f"not valid Parquet, or damaged: {why}")


def page_bytes(headers: PageHeaders, chunk: Chunk) -> Iterator[int]:
    """The uncompressed size of each page, up to the last value."""
    at, end, values = chunk.start, chunk.start + chunk.compressed_bytes, 0
    most = max(TRUSTED_BYTES, chunk.compressed_bytes)
    while values < chunk.values and 0 <= at < end:
        uncompressed, compressed, of_page, length = headers.at(at)
        # pyarrow takes as much memory as a header says that a page is long, whatever of it is there.
        if uncompressed < 0 or not 0 <= compressed <= most:
            raise Invalid
        yield uncompressed
        at += length + compressed
        values += max(0, of_page)
