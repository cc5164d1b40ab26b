"""Decompression: which codec, every way a compressed file can be broken, and small objects as large ones."""

import gzip
import io
from collections.abc import Callable

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from blizzard.config.compressions import compression_of
from blizzard.state.dead_letters import Stage
from spark_job.formats.decompress import SMALL_BYTES, decompressed
from spark_job.formats.protocol import FileFault
from tests.unit.contents import CHUNK_BYTES, COMPRESS, StoredContent, lines_of, zstd


def lines(stored: bytes, compression: str) -> list[bytes]:
    return lines_of(StoredContent(io.BytesIO(stored), compression))


# --- Which codec ---


@pytest.mark.parametrize(
    ("path", "codec"),
    [
        ("a.ndjson.gz", "gzip"),
        ("A.NDJSON.GZ", "gzip"),
        ("a.gzip", "gzip"),
        ("a.zst", "zstd"),
        ("a.zstd", "zstd"),
        ("a.csv.bz2", "bzip2"),
        ("a.bzip2", "bzip2"),
        ("a.xz", "xz"),
        ("a.lz4", "lz4"),
        ("part-0.snappy", "snappy"),
        ("a.sz", "snappy"),
        ("a.deflate", "deflate"),
        ("a.ndjson", "none"),
        ("gz", "none"),
        ("a.gz/b", "none"),
    ],
)
def test_auto_chooses_the_codec_by_extension(path: str, codec: str) -> None:
    assert compression_of(path, "auto") == codec


def test_a_configured_codec_overrides_the_extension() -> None:
    assert compression_of("a.ndjson.gz", "none") == "none"


def test_every_member_of_a_gzip_file_is_read() -> None:
    assert lines(gzip.compress(b"a\n", mtime=0) + gzip.compress(b"b\n"), "gzip") == [b"a", b"b"]


def test_every_frame_of_a_zstd_file_is_read() -> None:
    assert lines(zstd(b"a\n") + zstd(b"b\n"), "zstd") == [b"a", b"b"]


def test_zero_padding_after_a_gzip_file_is_ignored() -> None:
    assert lines(gzip.compress(b"a\n", mtime=0) + bytes(512), "gzip") == [b"a"]


# --- Broken files ---


@pytest.mark.parametrize("cut", [1, 8, 12, 40])
def test_a_truncated_gzip_is_refused_by_that_name(cut: int) -> None:
    whole = gzip.compress(bytes(range(256)) * 4)
    with pytest.raises(FileFault, match="truncated gzip") as caught:
        lines(whole[:-cut], "gzip")
    assert caught.value.stage is Stage.DECOMPRESS


@pytest.mark.parametrize("cut", [1, 4, 10, 60])
def test_a_truncated_zstd_is_refused_by_that_name(cut: int) -> None:
    whole = zstd(bytes(range(256)) * 4)
    with pytest.raises(FileFault, match=r"zstd.*truncated") as caught:
        lines(whole[:-cut], "zstd")
    assert caught.value.stage is Stage.DECOMPRESS


@pytest.mark.parametrize(
    ("stored", "codec"),
    [
        (b'{"id": 1}\n', "gzip"),
        (b'{"id": 1}\n', "zstd"),
        (zstd(b"a\n"), "gzip"),
        (gzip.compress(b"a\n", mtime=0), "zstd"),
        (gzip.compress(b"a\n", mtime=0) + b"rubbish", "gzip"),
        (zstd(b"a\n") + b"rubbish", "zstd"),
        (gzip.compress(b"a\n" * 99, mtime=0)[:-6] + b"wrong!", "gzip"),
        (gzip.compress(b"a\n", mtime=0)[:10] + b"\xff" * 9, "gzip"),
    ],
)
def test_bytes_that_are_not_valid_for_the_codec_are_refused(stored: bytes, codec: str) -> None:
    with pytest.raises(FileFault, match=f"not valid {codec}|truncated {codec}: .* or other bytes follow it") as caught:
        lines(stored, codec)
    assert caught.value.stage is Stage.DECOMPRESS


class InParts:
    """A reader that gives a few bytes at a time, as a connection may."""

    def __init__(self, stored: bytes, most: int) -> None:
        self._body = io.BytesIO(stored)
        self._most = most
        self.reads = 0

    def read(self, size: int = -1, /) -> bytes:
        self.reads += 1
        return self._body.read(min(size, self._most) if size >= 0 else self._most)


def content_or_fault(stored: bytes, size: int | None, most: int = 1 << 30) -> bytes | tuple[Stage, str]:
    try:
        stream = decompressed(InParts(stored, most), "gzip", size=size)
        return b"".join(iter(lambda: stream.read(CHUNK_BYTES), b""))
    except FileFault as fault:
        return fault.stage, fault.reason


def member(text: bytes) -> bytes:
    return gzip.compress(text, mtime=0)


damage = st.one_of(
    st.just(lambda stored: stored),
    st.integers(0, 80).map(lambda cut: lambda stored: stored[: max(0, len(stored) - cut)]),
    st.binary(max_size=20).map(lambda more: lambda stored: stored + more),
    st.tuples(st.integers(0, 300), st.integers(1, 255)).map(
        lambda at: lambda stored: bytes(b ^ at[1] if n == at[0] else b for n, b in enumerate(stored))
    ),
)


@given(st.lists(st.binary(max_size=200), max_size=3), damage, st.integers(-3, 3), st.integers(1, 400))
@example([b"a\n" * 10], lambda stored: stored, 0, 400)
@example([b"a", b"b"], lambda stored: stored, 0, 7)
@example([b"a"], lambda stored: stored + bytes(9), 0, 7)
@example([b""], lambda stored: stored + b"\x01", -1, 1)
@example([b"a", b"a"], lambda stored: stored, -21, 1)
def test_a_small_object_gives_the_same_content_or_fault_as_a_stream(
    texts: list[bytes], harm: Callable[[bytes], bytes], lie: int, most: int
) -> None:
    """Whatever its size is said to be, and in whatever parts it comes."""
    stored = harm(b"".join(map(member, texts)))
    assert content_or_fault(stored, max(0, len(stored) + lie), most) == content_or_fault(stored, None)


def test_a_small_object_that_expands_greatly_is_streamed() -> None:
    stored = member(bytes(3 * CHUNK_BYTES))
    assert len(stored) < SMALL_BYTES
    stream = decompressed(InParts(stored, 1 << 30), "gzip", size=len(stored))
    assert [len(stream.read(CHUNK_BYTES)) for _ in range(4)] == [CHUNK_BYTES, CHUNK_BYTES, CHUNK_BYTES, 0]


def test_a_small_object_is_read_in_one_call() -> None:
    reader = InParts(member(b"a\nb\n"), 1 << 30)
    assert decompressed(reader, "gzip", size=len(member(b"a\nb\n"))).read(CHUNK_BYTES) == b"a\nb\n"
    assert reader.reads == 2  # the second one finds the end


def test_a_storage_error_is_not_reported_as_a_broken_file() -> None:
    class Gone:
        def read(self, size: int = -1, /) -> bytes:
            raise ConnectionResetError("storage went away")

    for codec in COMPRESS:
        with pytest.raises(ConnectionResetError):
            lines_of(StoredContent(Gone(), codec))
