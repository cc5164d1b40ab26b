"""Reading more from a stream than one call gives."""

from spark_job.formats.protocol import Readable

CHUNK_BYTES = 256 << 10
BOM = b"\xef\xbb\xbf"
"""The byte order mark of UTF-8."""


def read_all(stream: Readable) -> bytes:
    return b"".join(iter(lambda: stream.read(CHUNK_BYTES), b""))


def read_up_to(stream: Readable, size: int) -> bytes:
    """So many bytes; fewer only at the end."""
    data = part = stream.read(size)
    while part and len(data) < size:
        part = stream.read(size - len(data))
        data += part
    return data
