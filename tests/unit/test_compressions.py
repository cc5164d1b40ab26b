"""Every compression but gzip and zstd: what other programs write is read, and whatever is broken is refused."""

import bz2
import gzip
import io
import lzma
import zlib
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blizzard.state.dead_letters import Stage
from spark_job.formats.decompress import decompressed
from spark_job.formats.protocol import FileFault
from spark_job.formats.snappy import IDENTIFIER
from tests.unit.compressors import (
    NEWER,
    checked_lz4,
    frame,
    framed_snappy,
    hadoop_snappy,
    lz4,
    raw_snappy,
    skipped,
    xxh32,
    xz_with_a_dictionary_of_512_mib,
)

ALL = sorted(NEWER)
LINES = b"".join(b'{"id": %d}\n' % number for number in range(60_000))


def read(stored: bytes, name: str, size: int = 100_000) -> bytes:
    stream = decompressed(io.BytesIO(stored), name.partition(" ")[0])
    return b"".join(iter(lambda: stream.read(size), b""))


def fault_of(stored: bytes, name: str) -> str:
    with pytest.raises(FileFault) as caught:
        read(stored, name)
    assert caught.value.stage is Stage.DECOMPRESS
    return caught.value.reason


class Bounded:
    """A reader that hands out what it is asked for, and no more than a MiB of it."""

    def __init__(self, stored: bytes) -> None:
        self._body = io.BytesIO(stored)

    def read(self, size: int = -1, /) -> bytes:
        assert 0 <= size <= 1 << 20
        return self._body.read(size)


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("size", [7, 4_096, 4 << 20])
def test_what_was_compressed_is_read(name: str, size: int) -> None:
    text = LINES[: size * 50]
    assert read(NEWER[name](text), name, size) == text


@pytest.mark.parametrize("name", ALL)
def test_all_of_it_is_read_without_a_size(name: str) -> None:
    assert decompressed(io.BytesIO(NEWER[name](LINES)), name.partition(" ")[0]).read() == LINES


@pytest.mark.parametrize("name", ALL)
def test_an_object_without_bytes_has_no_content(name: str) -> None:
    assert read(b"", name) == b""


@pytest.mark.parametrize("name", ALL)
def test_streams_that_follow_each_other_are_read(name: str) -> None:
    compress = NEWER[name]
    assert read(compress(b"a\n") + compress(b"") + compress(LINES), name) == b"a\n" + LINES


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("cut", [1, 3, 9, 100, 1_000])
def test_a_truncated_file_is_refused(name: str, cut: int) -> None:
    assert "truncated" in fault_of(NEWER[name](LINES)[:-cut], name)


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("more", [b"x", b"rubbish after the end", b"\x00\x00\x00\x01"])
def test_bytes_after_the_end_are_refused(name: str, more: bytes) -> None:
    assert name.partition(" ")[0] in fault_of(NEWER[name](b"a\n") + more, name)


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("stored", [b'{"id": 1}\n' * 9, gzip.compress(b"a\n"), b"\x00", bytes(99) + b"x"])
def test_another_kind_of_file_is_refused(name: str, stored: bytes) -> None:
    assert name.partition(" ")[0] in fault_of(stored, name)


CHECKED = [name for name in ALL if name not in ("lz4", "snappy of Hadoop")]
"""Those with a checksum of the content. pyarrow writes lz4 without, and Hadoop's snappy has none."""


@pytest.mark.parametrize("name", CHECKED)
def test_a_wrong_checksum_is_refused(name: str) -> None:
    stored = bytearray(NEWER[name](b"some content that is not compressible: 0123456789"))
    position = {"xz": -30, "snappy": 15}.get(name, -3)
    stored[position] ^= 0x55
    assert "not valid" in fault_of(bytes(stored), name)


@pytest.mark.parametrize(("data", "expected"), [(b"", 0x02CC5D05), (b"a", 0x550D7456), (b"abc", 0x32D153FF)])
def test_the_checksum_that_these_tests_write_is_that_of_lz4(data: bytes, expected: int) -> None:
    assert xxh32(data) == expected


CONTENT = b"".join(b'{"id": %d}\n' % number for number in range(4_000))


@pytest.mark.parametrize("position", [-1, 100], ids=["another checksum", "another content"])
def test_a_frame_of_lz4_with_a_wrong_checksum_of_its_content_is_refused(position: int) -> None:
    """The command `lz4` writes one."""
    stored = bytearray(checked_lz4(CONTENT))
    assert read(bytes(stored), "lz4") == CONTENT
    stored[position] ^= 1
    assert "not valid lz4" in fault_of(bytes(stored), "lz4")


@given(st.sampled_from(ALL), st.binary(max_size=300), st.integers(0, 400), st.integers(1, 255))
def test_a_changed_byte_gives_a_fault_or_content_and_no_other_error(
    name: str, content: bytes, position: int, change: int
) -> None:
    stored = bytes(b ^ change if n == position else b for n, b in enumerate(NEWER[name](content)))
    try:
        found = read(stored, name)
    except FileFault:
        return
    assert name not in CHECKED or found == content, "a change of what is not content, such as a level"


@pytest.mark.parametrize("name", ALL)
def test_a_bomb_is_read_in_pieces(name: str) -> None:
    stored = NEWER[name](bytes(200 << 20))
    stream = decompressed(Bounded(stored), name.partition(" ")[0])
    assert len(stream.read(1 << 20)) <= 1 << 20
    assert len(stream.read(1 << 20)) <= 1 << 20


def test_zero_padding_after_an_xz_stream_is_ignored() -> None:
    assert read(lzma.compress(b"a\n") + bytes(8) + lzma.compress(b"b\n") + bytes(4), "xz") == b"a\nb\n"


def test_xz_that_asks_for_too_much_memory_is_refused() -> None:
    assert "emory" in fault_of(xz_with_a_dictionary_of_512_mib(b"a\n"), "xz")


def test_deflate_without_zlibs_header_is_refused() -> None:
    raw = zlib.compressobj(wbits=-15)
    assert "not valid deflate" in fault_of(raw.compress(LINES) + raw.flush(), "deflate")


def test_the_blocks_of_hadoop_may_have_several_chunks() -> None:
    assert read(hadoop_snappy(LINES, chunk_bytes=1_000), "snappy") == LINES


def test_other_chunks_of_a_framed_stream_are_skipped() -> None:
    stored = framed_snappy(b"a\n") + skipped(9) + skipped(0) + skipped(70_000, 0x81) + framed_snappy(b"b\n")
    assert read(stored, "snappy") == b"a\nb\n"


@pytest.mark.parametrize(
    ("chunk", "reason"),
    [
        (skipped(5, 0x02), "unknown kind 0x2"),
        (frame(1, bytes(70_000), bytes(70_000)), "at most 65,536"),
        (frame(0, bytes(70_000), raw_snappy(bytes(70_000))), "65,536"),
        (frame(0, b"", b""), "no size"),
        (bytes([0, 2, 0, 0, 1, 1]), "without its checksum"),
        (b"\xff\x06\x00\x00sNaPpX", "identifier"),
    ],
)
def test_a_framed_stream_that_breaks_its_rules_is_refused(chunk: bytes, reason: str) -> None:
    assert reason in fault_of(framed_snappy(b"a\n") + chunk, "snappy")


@pytest.mark.parametrize("size", [2**31, 65 << 20])
def test_a_block_that_claims_to_be_huge_is_refused_before_it_takes_memory(size: int) -> None:
    assert "is it snappy at all" in fault_of(size.to_bytes(4, "big") + bytes(99), "snappy")
    chunk = b"\xff\xff\xff\xff\x0f" + bytes(20)
    stored = (1000).to_bytes(4, "big") + len(chunk).to_bytes(4, "big") + chunk
    assert "expected 1 to 1,000" in fault_of(stored, "snappy")


@pytest.mark.parametrize("name", ["bzip2", "xz", "lz4", "snappy", "deflate"])
def test_an_error_of_storage_is_not_a_broken_file(name: str) -> None:
    class Gone:
        def read(self, size: int = -1, /) -> bytes:
            raise ConnectionResetError("storage went away")

    with pytest.raises(ConnectionResetError):
        decompressed(Gone(), name).read(10)


@pytest.mark.parametrize(("compress", "name"), [(bz2.compress, "bzip2"), (lz4, "lz4")])
def test_a_few_bytes_at_a_time_are_enough(compress: Callable[[bytes], bytes], name: str) -> None:
    class Trickle:
        def __init__(self) -> None:
            self._body = io.BytesIO(compress(LINES))

        def read(self, size: int = -1, /) -> bytes:
            return self._body.read(min(size, 11))

    stream = decompressed(Trickle(), name)
    assert b"".join(iter(lambda: stream.read(1 << 20), b"")) == LINES


def test_tiny_frames_of_snappy_are_read_together() -> None:
    """One read gives what was asked for, however small the frames are, so that a caller does not add up tiny pieces."""
    frames = [frame(1, bytes([at % 256]), bytes([at % 256])) for at in range(5_000)]
    stream = decompressed(io.BytesIO(b"".join([IDENTIFIER, *frames])), "snappy")
    assert [len(stream.read(2_000)) for _ in range(4)] == [2_000, 2_000, 1_000, 0]
