"""A file for random access is in memory or in a temporary file, and the bytes that are read of a slice are counted."""

import io
import random
from contextlib import ExitStack
from pathlib import Path

import pytest

from spark_job.formats.protocol import FileFault, Limits
from spark_job.tasks.file_content import CHUNK_BYTES, IN_MEMORY_BYTES, FileContent
from tests.unit.contents import COMPRESS


def content_of(
    body: bytes, stack: ExitStack, *, slice_bytes: int | None = None, compression: str = "none", most: int = 1 << 30
) -> FileContent:
    return FileContent(
        "a",
        io.BytesIO(COMPRESS[compression](body)),
        size=len(body),
        compression=compression,
        limits=Limits(max_file_bytes=most),
        slice_bytes=slice_bytes,
        stack=stack,
    )


def open_files() -> int:
    return len([*Path("/proc/self/fd").iterdir()])


SIZES = [0, 1, CHUNK_BYTES - 1, CHUNK_BYTES, CHUNK_BYTES + 1, IN_MEMORY_BYTES, IN_MEMORY_BYTES + 1, 5 * CHUNK_BYTES + 7]


@pytest.mark.parametrize("compression", ["none", "zstd"])
@pytest.mark.parametrize("size", SIZES)
def test_all_bytes_are_there_in_order(size: int, compression: str) -> None:
    body = random.Random(size).randbytes(size)
    with ExitStack() as stack:
        file = content_of(body, stack, compression=compression).random_access()
        assert file.read() == body
        assert file.seek(-3, io.SEEK_END) == max(0, size - 3) or not size
        assert file.read() == body[-3:]
        in_memory = isinstance(file, io.BytesIO)
        assert in_memory == (size <= IN_MEMORY_BYTES)
        if in_memory:
            assert file.getvalue() == body  # type: ignore[attr-defined]


def test_what_is_read_of_a_slice_is_counted() -> None:
    with ExitStack() as stack:
        content = content_of(bytes(100), stack, slice_bytes=10)
        file = content.random_access()
        assert content.bytes_read == 0
        file.seek(-8, io.SEEK_END)
        assert file.read(5) == bytes(5)
        assert content.bytes_read == 5


def test_a_temporary_file_ends_with_its_content() -> None:
    with ExitStack() as stack:
        before = open_files()
        content_of(bytes(IN_MEMORY_BYTES + 1), stack).random_access()
        assert open_files() == before + 1
    assert open_files() == before


@pytest.mark.parametrize("most", [10, CHUNK_BYTES + 10, IN_MEMORY_BYTES + 10])
def test_a_file_above_the_limit_is_refused(most: int) -> None:
    with ExitStack() as stack, pytest.raises(FileFault, match="limit max_file_bytes"):
        content_of(bytes(most + 1), stack, most=most).random_access()
