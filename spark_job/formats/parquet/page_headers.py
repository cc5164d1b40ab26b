"""What the headers of Parquet's pages say. The numbers of fields are those of parquet.thrift."""

import io
from typing import Any, BinaryIO

from spark_job.formats.parquet.thrift_compact import CompactReader, Invalid, Struct
from spark_job.formats.parquet.usual_layout import number_of, page_header

_HEADER_BYTES = (1 << 7, 1 << 10, 1 << 16, 16 << 20)
"""How much is read for a header: at first, and if that is not enough. It counts as a part of the slice."""

Header = tuple[int, int, int, int]
"""Of a page: its uncompressed and its compressed size, the number of its values, and the size of the header."""


class PageHeaders:
    """Of a file that is read for each of them."""

    def __init__(self, stored: BinaryIO) -> None:
        self._stored = stored

    def at(self, place: int) -> Header:
        """Raises UNREADABLE."""
        for size in _HEADER_BYTES:
            data = self._bytes(place, size)
            try:
                return _usual(data, 0) or _read(data)
            except IndexError:
                continue
        raise Invalid

    def _bytes(self, place: int, size: int) -> bytes:
        self._stored.seek(place)
        return self._stored.read(size)


class _InMemory(PageHeaders):
    def __init__(self, stored: io.BytesIO) -> None:
        super().__init__(stored)
        self._data = stored.getvalue()

    def at(self, place: int) -> Header:
        return _usual(self._data, place) or super().at(place)


def page_headers(stored: BinaryIO) -> PageHeaders:
    return _InMemory(stored) if isinstance(stored, io.BytesIO) else PageHeaders(stored)


def _usual(data: bytes, place: int) -> Header | None:
    match = page_header().match(data, place)
    if match is None:
        return None
    uncompressed, compressed, values = match.group(1, 2, 4)
    of_page = number_of(values) if values else 0
    return number_of(uncompressed), number_of(compressed), of_page, match.end() - place


def _read(data: bytes) -> Header:
    reader = CompactReader(data)
    header = reader.struct()
    of_values = header.get(5) or header.get(8) or Struct()
    values: Any = of_values.get(1, 0) if isinstance(of_values, dict) else None  # which raises where they are added
    return header[2], header[3], values, reader.at
