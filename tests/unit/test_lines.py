"""From decompressed bytes to lines: line ends, blank lines, encoding, limits, memory."""

import gzip
import io
import tracemalloc
import zlib
from collections import deque
from collections.abc import Iterator

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from blizzard.state.dead_letters import Stage
from spark_job.formats.json.format import NdjsonFormat
from spark_job.formats.lines import LineBlock, check_utf8
from spark_job.formats.protocol import FileFault, Limits
from spark_job.formats.text.format import TextFormat
from tests.unit.contents import CHUNK_BYTES, COMPRESS, Chunks, StoredContent, lines_of
from tests.unit.plain_lines import TEXT_SCHEMA

MIB = 1 << 20
SMALL = Limits(max_record_bytes=100, max_file_bytes=10_000)


def lines(stored: bytes, compression: str = "none", limits: Limits = Limits()) -> list[bytes]:  # noqa: B008 - frozen
    return lines_of(StoredContent(io.BytesIO(stored), compression), limits)


class CompressedStream:
    """`total_bytes` of repeated `block`, compressed while it is read, so that memory never holds all of it."""

    def __init__(self, block: bytes, total_bytes: int) -> None:
        self._pieces = self._compressed(block, total_bytes)
        self._rest = b""

    @staticmethod
    def _compressed(block: bytes, total_bytes: int) -> Iterator[bytes]:
        packer = zlib.compressobj(1, wbits=31)
        for _ in range(total_bytes // len(block)):
            yield packer.compress(block)
        yield packer.flush()

    def read(self, size: int = -1, /) -> bytes:
        while len(self._rest) < size:
            piece = next(self._pieces, None)
            if piece is None:
                break
            self._rest += piece
        taken, self._rest = self._rest[:size], self._rest[size:]
        return taken


# --- Lines ---


@pytest.mark.parametrize(
    ("stored", "expected"),
    [
        (b"", []),
        (b"a", [b"a"]),
        (b"a\n", [b"a"]),
        (b"a\nb", [b"a", b"b"]),
        (b"a\r\nb\r\n", [b"a", b"b"]),
        (b"a\n\nb\n", [b"a", b"", b"b"]),
        (b"\n", [b""]),
        (b"\xef\xbb\xbfa\nb", [b"a", b"b"]),
        (b"\xef\xbb\xbfa", [b"a"]),
        (b"a\n\xef\xbb\xbfb", [b"a", b"\xef\xbb\xbfb"]),
        (b"a\rb\n", [b"a\rb"]),
        (b"a\r\n\r", [b"a", b"\r"]),
        (b"a\nb\r", [b"a", b"b\r"]),
        (b"a\r", [b"a\r"]),
        (b"a\r\r\nb\r\r", [b"a\r", b"b\r\r"]),
        (b"a\x0bb\xe2\x80\xa8c\n", [b"a\x0bb\xe2\x80\xa8c"]),
    ],
)
@pytest.mark.parametrize("codec", COMPRESS)
def test_lines_end_with_a_line_feed_except_perhaps_the_last(codec: str, stored: bytes, expected: list[bytes]) -> None:
    assert lines(COMPRESS[codec](stored), codec) == expected


@given(st.lists(st.binary(max_size=40).map(lambda b: b.replace(b"\n", b"").replace(b"\r", b"")), max_size=40))
@example([b"\xef\xbb\xbf"])
def test_chunk_boundaries_do_not_change_the_lines(records: list[bytes]) -> None:
    stored = b"".join(record + b"\n" for record in records)
    for size in (1, 7, 100):
        found = lines_of(StoredContent(Chunks(stored[start : start + size] for start in range(0, len(stored), size))))
        expected = [records[0].removeprefix(b"\xef\xbb\xbf"), *records[1:]] if records else []
        assert found == expected


@given(st.lists(st.sampled_from([b"a", b"\r", b"\n", b"\r\n"]), max_size=12).map(b"".join), st.integers(1, 4))
@example(b"a\r\na\r", 2)
def test_a_carriage_return_is_removed_only_before_a_line_feed(stored: bytes, size: int) -> None:
    found = lines_of(StoredContent(Chunks(stored[start : start + size] for start in range(0, len(stored), size))))
    *ended, last = stored.split(b"\n")
    assert found == [line.removesuffix(b"\r") for line in ended] + [last] * bool(last)


def test_a_line_longer_than_many_chunks_is_one_line() -> None:
    long = b"x" * (3 * CHUNK_BYTES + 5)
    assert lines(b"a\n" + long + b"\nb") == [b"a", long, b"b"]


@pytest.mark.parametrize("codec", COMPRESS)
def test_an_empty_object_has_no_lines_whatever_its_codec(codec: str) -> None:
    assert lines(b"", codec) == []


# --- Limits ---


def test_a_line_above_the_limit_is_refused_and_one_at_the_limit_is_not() -> None:
    assert lines(b"short\n" + b"x" * 100 + b"\n", limits=SMALL) == [b"short", b"x" * 100]
    assert lines(b"x" * 100, limits=SMALL) == [b"x" * 100]
    with pytest.raises(FileFault, match=r"limit max_record_bytes: .* more than 100 bytes") as caught:
        lines(b"short\n" + b"x" * 101 + b"\nshort\n", limits=SMALL)
    assert caught.value.stage is Stage.PARSE


def test_a_last_line_above_the_limit_is_refused() -> None:
    with pytest.raises(FileFault, match="limit max_record_bytes"):
        lines(b"x" * 101, limits=SMALL)


def test_a_file_above_the_limit_is_refused_and_one_at_the_limit_is_not() -> None:
    assert len(lines(b"x\n" * 5_000, limits=SMALL)) == 5_000
    with pytest.raises(FileFault, match=r"limit max_file_bytes: .* more than 10000 bytes") as caught:
        lines(gzip.compress(b"x\n" * 5_000 + b"x"), "gzip", SMALL)
    assert caught.value.stage is Stage.DECOMPRESS


def peak_bytes_of_bomb(total_bytes: int, block: bytes, max_file_bytes: int) -> int:
    """Peak of what reading a gzip of so many bytes holds, until it is refused."""
    bomb = CompressedStream(block, total_bytes)
    tracemalloc.start()
    try:
        blocks = TextFormat(TEXT_SCHEMA, Limits(max_file_bytes=max_file_bytes)).blocks(
            StoredContent(bomb, "gzip"), first_record=0
        )
        with pytest.raises(FileFault, match="limit max_"):
            deque(blocks, maxlen=0)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_memory_does_not_grow_with_the_size_of_a_decompression_bomb() -> None:
    small, large = (peak_bytes_of_bomb(mib * MIB, bytes(MIB), Limits().max_file_bytes) for mib in (200, 10_000))
    assert small < 64 * MIB
    assert large < small + MIB


def test_a_decompression_bomb_of_short_lines_is_refused_by_file_size() -> None:
    small, large = (peak_bytes_of_bomb(2 * limit, b"{}\n" * 350_000, limit) for limit in (16 * MIB, 64 * MIB))
    assert small < 64 * MIB
    assert large < small + MIB


def test_the_fault_of_a_line_that_is_not_utf8_names_line_and_byte() -> None:
    with pytest.raises(FileFault, match="not UTF-8: line 12 at byte 2") as caught:
        check_utf8(LineBlock(b"good\ngr\xc3\xbcn\nab\xff", 3, first_record=10))
    assert caught.value.stage is Stage.PARSE


class AnyEncoding(NdjsonFormat):
    def check(self, block: LineBlock) -> None:
        """b"\x85" is no UTF-8; decoded as Latin-1 it would be white space."""


@given(st.lists(st.sampled_from([b"\n", b"\n", b" ", b"\t", b"\v", b"\f", b"a", b"{}", b" a", b"\x85"]), max_size=12))
def test_ndjson_drops_blank_lines_wherever_they_are(parts: list[bytes]) -> None:
    data = b"".join(parts)
    blocks = AnyEncoding(TEXT_SCHEMA, Limits()).blocks(StoredContent(Chunks([data])), first_record=0)
    expected = [line for line in data.split(b"\n") if line.strip(b" \t\n\r\v\f")]
    assert [line for block in blocks for line in block.lines()] == expected
