"""From an object's bytes to its lines: every codec, every line end, every way a file can be broken, within bounds."""

import gzip
import io
import itertools
import tracemalloc
import zlib
from collections.abc import Callable, Iterable, Iterator

import pyarrow as pa  # type: ignore[import-untyped]
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from blizzard.state.dead_letters import Stage
from spark_job.formats.decode import (
    CHUNK_BYTES,
    SMALL_BYTES,
    Block,
    FileFault,
    Limits,
    blocks,
    check_utf8,
    compression_of,
    decompressed,
    refusal,
)

MIB = 1 << 20
SMALL = Limits(max_record_bytes=100, max_file_bytes=10_000)


def zstd(data: bytes) -> bytes:
    return bytes(pa.compress(data, codec="zstd", asbytes=True))


COMPRESS = {"none": bytes, "gzip": gzip.compress, "zstd": zstd}


def joined(found: Iterable[Block]) -> list[bytes]:
    found = list(found)
    assert all(block.count == len(block.lines()) for block in found)
    return list(itertools.chain(*(block.lines() for block in found)))


def lines_of(stored: bytes, compression: str = "none", limits: Limits = Limits()) -> list[bytes]:  # noqa: B008
    return joined(blocks(decompressed(io.BytesIO(stored), compression), limits, blank_lines=True))


class Endless:
    """An object that compresses `block`, again and again, up to `total_bytes`, as it is read: it is nowhere whole."""

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


# --- Which codec ---


@pytest.mark.parametrize(
    ("path", "codec"),
    [
        ("a.ndjson.gz", "gzip"),
        ("A.NDJSON.GZ", "gzip"),
        ("a.gzip", "gzip"),
        ("a.zst", "zstd"),
        ("a.zstd", "zstd"),
        ("a.ndjson", "none"),
        ("gz", "none"),
        ("a.gz/b", "none"),
    ],
)
def test_the_extension_tells_the_codec(path: str, codec: str) -> None:
    assert compression_of(path, "auto") == codec


def test_the_configuration_overrules_the_extension() -> None:
    assert compression_of("a.ndjson.gz", "none") == "none"


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
def test_only_line_feeds_end_lines_and_a_last_one_needs_none(codec: str, stored: bytes, expected: list[bytes]) -> None:
    assert lines_of(COMPRESS[codec](stored), codec) == expected


@given(st.lists(st.binary(max_size=40).map(lambda b: b.replace(b"\n", b"").replace(b"\r", b"")), max_size=40))
@example([b"\xef\xbb\xbf"])
def test_lines_come_back_as_they_were_written_however_they_lie_in_chunks(records: list[bytes]) -> None:
    stored = b"".join(record + b"\n" for record in records)
    for size in (1, 7, 100):
        chunks = (stored[start : start + size] for start in range(0, len(stored), size))
        found = joined(blocks(lambda _, chunks=chunks: next(chunks, b""), Limits(), blank_lines=True))
        expected = [records[0].removeprefix(b"\xef\xbb\xbf"), *records[1:]] if records else []
        assert found == expected


@given(st.lists(st.sampled_from([b"a", b"\r", b"\n", b"\r\n"]), max_size=12).map(b"".join), st.integers(1, 4))
@example(b"a\r\na\r", 2)
def test_a_carriage_return_belongs_to_the_end_of_its_line_only_before_a_line_feed(stored: bytes, size: int) -> None:
    chunks = (stored[start : start + size] for start in range(0, len(stored), size))
    found = joined(blocks(lambda _: next(chunks, b""), Limits(), blank_lines=True))
    *ended, last = stored.split(b"\n")
    assert found == [line.removesuffix(b"\r") for line in ended] + [last] * bool(last)


def test_a_line_longer_than_many_chunks_is_one_line() -> None:
    long = b"x" * (3 * CHUNK_BYTES + 5)
    assert lines_of(b"a\n" + long + b"\nb") == [b"a", long, b"b"]


def test_a_gzip_file_of_several_members_is_all_read() -> None:
    assert lines_of(gzip.compress(b"a\n", mtime=0) + gzip.compress(b"b\n"), "gzip") == [b"a", b"b"]


def test_a_zstd_file_of_several_frames_is_all_read() -> None:
    assert lines_of(zstd(b"a\n") + zstd(b"b\n"), "zstd") == [b"a", b"b"]


def test_padding_with_zeros_behind_a_gzip_file_is_none_of_its_content() -> None:
    assert lines_of(gzip.compress(b"a\n", mtime=0) + bytes(512), "gzip") == [b"a"]


@pytest.mark.parametrize("codec", COMPRESS)
def test_an_empty_object_has_no_lines_whatever_its_codec(codec: str) -> None:
    assert lines_of(b"", codec) == []


# --- Broken files ---


@pytest.mark.parametrize("cut", [1, 8, 12, 40])
def test_a_truncated_gzip_says_so(cut: int) -> None:
    whole = gzip.compress(bytes(range(256)) * 4)
    with pytest.raises(FileFault, match="truncated gzip") as caught:
        lines_of(whole[:-cut], "gzip")
    assert caught.value.stage is Stage.DECOMPRESS


@pytest.mark.parametrize("cut", [1, 4, 10, 60])
def test_a_truncated_zstd_says_so(cut: int) -> None:
    whole = zstd(bytes(range(256)) * 4)
    with pytest.raises(FileFault, match=r"zstd.*truncated") as caught:
        lines_of(whole[:-cut], "zstd")
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
def test_what_is_not_of_its_codec_is_refused_in_decompression(stored: bytes, codec: str) -> None:
    with pytest.raises(FileFault, match=f"not valid {codec}|truncated {codec}: .* or other bytes follow it") as caught:
        lines_of(stored, codec)
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
        read = decompressed(InParts(stored, most), "gzip", size=size)
        return b"".join(iter(lambda: read(CHUNK_BYTES), b""))
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
def test_a_small_object_has_the_content_or_the_fault_of_a_stream(
    texts: list[bytes], harm: Callable[[bytes], bytes], lie: int, most: int
) -> None:
    """Whatever its size is said to be, and in whatever parts it comes."""
    stored = harm(b"".join(map(member, texts)))
    assert content_or_fault(stored, max(0, len(stored) + lie), most) == content_or_fault(stored, None)


def test_a_small_object_of_much_content_is_read_as_a_stream() -> None:
    stored = member(bytes(3 * CHUNK_BYTES))
    assert len(stored) < SMALL_BYTES
    read = decompressed(InParts(stored, 1 << 30), "gzip", size=len(stored))
    assert [len(read(CHUNK_BYTES)) for _ in range(4)] == [CHUNK_BYTES, CHUNK_BYTES, CHUNK_BYTES, 0]


def test_a_small_object_is_read_at_once() -> None:
    reader = InParts(member(b"a\nb\n"), 1 << 30)
    assert decompressed(reader, "gzip", size=len(member(b"a\nb\n")))(CHUNK_BYTES) == b"a\nb\n"
    assert reader.reads == 2  # the second one finds the end


def test_an_error_of_storage_is_not_taken_for_a_broken_file() -> None:
    class Gone:
        def read(self, size: int = -1, /) -> bytes:
            raise ConnectionResetError("storage went away")

    for codec in COMPRESS:
        with pytest.raises(ConnectionResetError):
            lines_of_reader(Gone(), codec)


def lines_of_reader(reader: object, codec: str) -> None:
    list(blocks(decompressed(reader, codec), Limits(), blank_lines=True))  # type: ignore[arg-type]


# --- Limits ---


def test_a_line_at_the_limit_passes_and_one_beyond_it_is_refused_by_the_limits_name() -> None:
    assert lines_of(b"short\n" + b"x" * 100 + b"\n", limits=SMALL) == [b"short", b"x" * 100]
    assert lines_of(b"x" * 100, limits=SMALL) == [b"x" * 100]
    with pytest.raises(FileFault, match=r"limit max_record_bytes: .* more than 100 bytes") as caught:
        lines_of(b"short\n" + b"x" * 101 + b"\nshort\n", limits=SMALL)
    assert caught.value.stage is Stage.PARSE


def test_a_line_beyond_the_limit_is_refused_without_a_line_end_too() -> None:
    with pytest.raises(FileFault, match="limit max_record_bytes"):
        lines_of(b"x" * 101, limits=SMALL)


def test_a_file_at_the_limit_passes_and_one_beyond_it_is_refused_by_the_limits_name() -> None:
    assert len(lines_of(b"x\n" * 5_000, limits=SMALL)) == 5_000
    with pytest.raises(FileFault, match=r"limit max_file_bytes: .* more than 10000 bytes") as caught:
        lines_of(gzip.compress(b"x\n" * 5_000 + b"x"), "gzip", SMALL)
    assert caught.value.stage is Stage.DECOMPRESS


def peak_bytes_of_bomb(total_bytes: int, block: bytes, max_file_bytes: int) -> int:
    """Peak of what reading a gzip of so many bytes holds, until it is refused."""
    bomb = Endless(block, total_bytes)
    tracemalloc.start()
    try:
        with pytest.raises(FileFault, match="limit max_"):
            for _ in blocks(decompressed(bomb, "gzip"), Limits(max_file_bytes=max_file_bytes), blank_lines=True):
                pass
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_a_bomb_of_ten_gigabytes_costs_the_memory_of_one_of_two_hundred_megabytes() -> None:
    small, large = (peak_bytes_of_bomb(mib * MIB, bytes(MIB), Limits().max_file_bytes) for mib in (200, 10_000))
    assert small < 64 * MIB
    assert large < small + MIB


def test_a_bomb_of_short_lines_is_stopped_by_the_size_of_the_file() -> None:
    small, large = (peak_bytes_of_bomb(2 * limit, b"{}\n" * 350_000, limit) for limit in (16 * MIB, 64 * MIB))
    assert small < 64 * MIB
    assert large < small + MIB


# --- Records ---


@pytest.mark.parametrize(
    "line",
    [
        "{}",
        ' {"a": 1} ',
        '{"a": NaN, "b": -Infinity}',
        '{"a": "\\u00e9\\ud83d\\ude00"}',
        '{"a": 123456789012345678901}',
    ],
)
def test_one_object_is_a_record(line: str) -> None:
    assert refusal(line) is None


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ('{"a": 1', "not JSON"),
        ('{"a": 1} {"a": 2}', "not JSON"),
        ('{"a": 1},', "not JSON"),
        ("{'a': 1}", "not JSON"),
        ("[1]", "found an array"),
        ('"a"', "found a string"),
        ("1.5", "found a number"),
        ("true", "found a boolean"),
        ("null", "found null"),
        ("NaN", "found a number"),
        ('{"a": +INF}', "not JSON"),
        ('{"a": -INF}', "not JSON"),
        ('{"a": +Infinity}', "not JSON"),
        ('{"a": "\\ud800"}', "lone surrogate"),
        ('{"\\udfff": 1}', "lone surrogate"),
        ('{"a": {"b": "\\ud800", "b": 1}}', "lone surrogate"),
        ("[" * 5000, "not JSON"),
        ('{"a":' * 5000, "not JSON"),
        ('{"a": ' + "9" * 5000 + ', "b": NaN}', "not JSON"),
    ],
)
def test_everything_else_is_refused_with_its_reason(line: str, reason: str) -> None:
    assert reason in str(refusal(line))


def test_text_that_is_no_utf8_names_the_line_and_the_byte() -> None:
    with pytest.raises(FileFault, match="not UTF-8: line 12 at byte 2") as caught:
        check_utf8(Block(b"good\ngr\xc3\xbcn\nab\xff", 3), row=10)
    assert caught.value.stage is Stage.PARSE


@given(st.lists(st.sampled_from([b"\n", b"\n", b" ", b"\t", b"\v", b"\f", b"a", b"{}", b" a", b"\x85"]), max_size=12))
def test_blank_lines_are_found_wherever_they_stand(parts: list[bytes]) -> None:
    data = b"".join(parts)
    chunks = iter([data])
    found = joined(blocks(lambda _: next(chunks, b""), Limits(), blank_lines=False))
    assert found == [line for line in data.split(b"\n") if line.strip(b" \t\n\r\v\f")]
