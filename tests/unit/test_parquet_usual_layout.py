"""Parquet's headers and footers in their usual layout, which regular expressions read: the same as field by field."""

import io
import random
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_job.formats.parquet.footers import (
    UNREADABLE,
    Chunk,
    EncryptedChunk,
    Footer,
    Footers,
    _group,
    _Unusual,
    chunk_of,
)
from spark_job.formats.parquet.page_headers import _read, _usual, page_headers
from spark_job.formats.parquet.thrift_compact import CompactReader, Invalid
from spark_job.formats.parquet.usual_layout import column_chunk, number_of, page_header, path_of
from spark_job.formats.protocol import FileFault
from tests.unit.format_reading import read_file

HUGE = (1 << 31) - 1
ROWS = 60
SHORT = {
    "id": pa.array(range(ROWS)),
    "name": pa.array([f"n{n % 7}" for n in range(ROWS)]),
    "tags": pa.array([["a", "b"][: n % 3] for n in range(ROWS)]),
    "place": pa.array([{"x": n, "flag": n % 2 == 0} for n in range(ROWS)]),
    "kinds": pa.array([[("k", n)] for n in range(ROWS)], pa.map_(pa.string(), pa.int64())),
}
LONG = {"text": pa.array([f"{n:0200}" for n in range(ROWS)])}
OPTIONS: list[dict[str, Any]] = [
    {},
    {"compression": "zstd", "row_group_size": 25},
    {"use_dictionary": False, "compression": "none", "data_page_size": 50, "write_batch_size": 5},
    {"data_page_version": "2.0", "compression": "gzip", "data_page_size": 50, "write_batch_size": 5},
    {"data_page_version": "2.0", "use_dictionary": False, "write_page_checksum": True},
    {"write_page_checksum": True, "row_group_size": 4},
    {"write_page_index": True, "store_schema": False},
    {"write_statistics": False},
]


def stored(columns: dict[str, pa.Array], **options: Any) -> bytes:
    file = io.BytesIO()
    pq.write_table(pa.table(columns), file, **options)
    return file.getvalue()


def footer_of(file: bytes) -> bytes:
    size = int.from_bytes(file[-8:-4], "little")
    return file[-8 - size : -8]


def with_footer(file: bytes, footer: bytes) -> bytes:
    return file[: -8 - len(footer_of(file))] + footer + len(footer).to_bytes(4, "little") + file[-4:]


def by_fields(footer: bytes) -> list[list[Chunk | EncryptedChunk]]:
    return [[*map(chunk_of, group[1])] for group in CompactReader(footer).struct()[4]]


def outcome(read: Callable[[], Any]) -> Any:
    """What it gives, or that it raises: of which errors does not matter."""
    try:
        return read()
    except UNREADABLE:
        return None


def same(found: Footer, wanted: list[list[Chunk | EncryptedChunk]]) -> bool:
    def comparable(chunk: Chunk | EncryptedChunk) -> object:
        return (type(chunk), [*chunk.path], *([] if isinstance(chunk, EncryptedChunk) else sizes(chunk)))

    def sizes(chunk: Chunk) -> list[int]:
        return [chunk.values, chunk.uncompressed_bytes, chunk.compressed_bytes, chunk.start]

    return [[*map(comparable, group)] for group in found.groups] == [[*map(comparable, group)] for group in wanted]


def pages_of(file: bytes) -> Iterator[int]:
    """Where the headers of its pages are."""
    headers = page_headers(io.BytesIO(file))
    for chunk in (chunk for group in by_fields(footer_of(file)) for chunk in group):
        assert isinstance(chunk, Chunk)
        at = chunk.start
        while at < chunk.start + chunk.compressed_bytes:
            yield at
            _, compressed, _, length = headers.at(at)
            at += length + compressed


FILES = [stored(SHORT, **options) for options in OPTIONS]
FOOTERS = [footer_of(file) for file in [*FILES, stored(LONG), stored(SHORT | LONG)]]


@pytest.mark.parametrize("file", FILES)
def test_what_pyarrow_writes_is_usual(file: bytes) -> None:
    footer = footer_of(file)
    found = Footers()._usual(footer)
    assert found.shape is not None
    assert same(found, by_fields(footer))
    for at in pages_of(file):
        assert _usual(file, at) == _read(file[at:])
    reader = CompactReader(footer, len(found.shape[0]))
    assert len(reader.data) > sum(map(len, found.shape)) + 100 * len(found.groups)


def test_each_column_of_these_files_is_matched() -> None:
    for file in FILES:
        footer = footer_of(file)
        matched, at = 0, 0
        while (match := column_chunk().search(footer, at)) is not None:
            matched, at = matched + 1, match.end()
        assert matched == sum(map(len, by_fields(footer)))


@pytest.mark.parametrize("columns", [LONG, SHORT | LONG])
def test_statistics_with_long_texts_are_read_field_by_field(columns: dict[str, pa.Array]) -> None:
    file = stored(columns)
    footer = footer_of(file)
    assert same(Footers().read(footer), by_fields(footer))
    assert Footers().read(footer).shape is not None
    assert any(_usual(file, at) is None for at in pages_of(file))
    assert [page_headers(io.BytesIO(file)).at(at) for at in pages_of(file)] == [
        _read(file[at:]) for at in pages_of(file)
    ]


def changed(data: bytes, rng: random.Random) -> bytes:
    """With some bytes changed, removed or added."""
    made = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 3))):
        at = rng.randrange(len(made))
        some = bytes(rng.choice((0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256))) for _ in range(rng.choice((1, 1, 2))))
        match rng.randrange(4):
            case 0:
                made[at] ^= 1 << rng.randrange(8)
            case 1:
                made[at : at + len(some)] = some
            case 2:
                made[at:at] = some
            case _:
                del made[at : at + len(some)]
    return bytes(made)


@given(st.sampled_from(FOOTERS), st.integers(0, 1 << 32))
@settings(max_examples=400)
def test_a_damaged_footer_is_read_as_field_by_field(footer: bytes, seed: int) -> None:
    known = Footers()
    known.read(footer)
    damaged = changed(footer, random.Random(seed))
    wanted = outcome(lambda: by_fields(damaged))
    for footers in (known, Footers()):
        found = outcome(lambda footers=footers: footers.read(damaged))  # type: ignore[misc]
        assert (found is None) == (wanted is None)
        assert found is None or same(found, wanted)


@given(st.sampled_from(FILES), st.integers(0, 1 << 32))
@settings(max_examples=400)
def test_a_damaged_page_header_is_read_as_field_by_field(file: bytes, seed: int) -> None:
    rng = random.Random(seed)
    at = rng.choice([*pages_of(file)])
    damaged = changed(file[at : at + 60], rng) + file[at + 60 :]
    match = page_header().match(damaged)
    if match is not None:
        assert _usual(damaged, 0) == _read(damaged)
        with pytest.raises((IndexError, Invalid)):
            _read(damaged[: match.end() - 1])


# --- what must not be taken for usual ---


def varint(value: int) -> bytes:
    made = bytearray()
    while value >= 0x80:
        made.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*made, value])


def number(value: int) -> bytes:
    return varint(value << 1 if value >= 0 else (-value << 1) - 1)


@pytest.mark.parametrize("value", [0, 1, -1, 63, -64, 64, 1 << 20, HUGE, -HUGE - 1, (1 << 63) - 1, -1 << 63])
def test_a_number_is_decoded_as_field_by_field(value: int) -> None:
    assert number_of(number(value)) == value == CompactReader(b"\x16" + number(value) + b"\0").struct()[1]


def data_page(*, uncompressed: int = 8, compressed: int = 8, end: bytes = b"\0") -> bytes:
    """A header: of ten values, without statistics."""
    sizes = b"\x15" + number(uncompressed) + b"\x15" + number(compressed)
    return b"\x15\0" + sizes + b"\x2c\x15\x14\x15\0\x15\x06\x15\x06\0" + end


def test_a_field_that_comes_again_counts_as_the_last_one() -> None:
    """As it does for pyarrow."""
    assert _usual(data_page(), 0) == (8, 8, 10, len(data_page()))
    again = data_page(end=b"\x05\x04" + number(HUGE) + b"\0")  # a number of its own: field 2
    assert _usual(again, 0) is None
    assert page_headers(io.BytesIO(again)).at(0) == (HUGE, 8, 10, len(again))
    inside = data_page().replace(b"\x15\x06\0", b"\x15\x06\x05\x02" + number(99) + b"\0")
    assert _usual(inside, 0) is None
    assert page_headers(io.BytesIO(inside)).at(0) == (8, 8, 99, len(inside))


@pytest.mark.parametrize(
    ("rest", "values"),
    [
        (b"\x2c\x15\x14\0\0", 10),
        (b"\x15\x08\x1c\x15\x14\0\0", 10),
        (b"\x5c\x15\x14\0\0", 10),
        (b"\x15\x08\x4c\x15\x14\0\0", 10),
        (b"\x4c\x15\x14\0\0", 0),  # a dictionary's are none of the column's
        (b"\x15\x08\x3c\x15\x14\0\0", 0),
        (b"\x15\x08\x4c\x16\x14\0\0", 10),
        (b"\x3c\x15\x14\0\0", 0),
        (b"\x1c\x15\x14\0\0", 0),
        (b"\0", 0),
    ],
)
def test_the_values_of_a_page_are_counted(rest: bytes, values: int) -> None:
    header = b"\x15\0\x15\x10\x15\x10" + rest
    assert page_headers(io.BytesIO(header)).at(0) == _read(header) == (8, 8, values, len(header))


@pytest.mark.parametrize("uncompressed", [-1, HUGE])
def test_a_page_of_an_odd_size_refuses_the_file(uncompressed: int) -> None:
    file = stored({"id": SHORT["id"]}, compression="none", use_dictionary=False, write_statistics=False)
    (at,) = pages_of(file)
    assert _usual(file, at) is not None
    size = number(_read(file[at:])[0])
    damaged = file[: at + 3] + number(uncompressed) + file[at + 3 + len(size) :]
    assert _usual(damaged, at) is not None
    why = "says that it has 2,147,483,647 bytes" if uncompressed > 0 else "has no header that can be read"
    with pytest.raises(FileFault, match=f"page 1 of id in row group 0 {why}"):
        read_file("parquet", "id BIGINT", damaged)


def column(*fields: bytes, path: bytes = b"\x18\x02id", end: bytes = b"\0\0") -> bytes:
    """A column chunk of 10 values in 99 and 77 bytes, whose first page is at 50. `fields`: that follow."""
    begin = b"\x26\0\x1c\x15\x04\x19\x15\0\x19" + path + b"\x15\x02"
    sizes = b"".join(b"\x16" + number(value) for value in (10, 99, 77))
    return begin + sizes + b"\x26" + number(50) + b"".join(fields) + end


@pytest.mark.parametrize(
    ("chunk", "start"),
    [
        (column(), 50),
        (column(b"\x26" + number(4)), 4),
        (column(b"\x26" + number(60)), 50),
        (column(b"\x26" + number(0)), 50),
        (column(b"\x16" + number(7)), 50),  # of an index page
        (column(b"\x16" + number(7), b"\x16" + number(4)), 4),
        (column(b"\x25" + number(4)), 4),
        (column(b"\x05\x16" + number(4)), 4),
        (column(b"\x3c\x16\0\0"), 50),
        (column(b"\x3c\x16\0\0", b"\x05\x16" + number(4)), 4),
        (column(end=b"\0\x16\x02\x15\x02\0"), 50),
    ],
)
def test_a_column_begins_at_its_dictionary_if_that_is_first(chunk: bytes, start: int) -> None:
    footer = b"\x15\x02\x19\x0c\x16\x14\x19\x1c\x19\x1c" + chunk + b"\x16\x02\x16\x14\0\0"
    (((found,),), wanted) = Footers().read(footer).groups, by_fields(footer)
    assert same(Footers().read(footer), wanted)
    assert isinstance(found, Chunk)
    assert (found.start, found.values, found.uncompressed_bytes, found.compressed_bytes) == (start, 10, 99, 77)


def test_a_column_with_a_key_of_its_own_is_told() -> None:
    encrypted = column(end=b"\0\x5c\x2c\x19\x18\x02id\0\0\0")
    assert column_chunk().match(encrypted) is None
    footer = b"\x15\x02\x19\x0c\x16\x14\x19\x1c\x19\x1c" + encrypted + b"\x16\x02\x16\x14\0\0"
    assert Footers().read(footer).groups == [[EncryptedChunk([b"id"])]]


@pytest.mark.parametrize("path", [b"\x28\x02id", b"\x08"])
def test_a_path_has_as_many_names_as_it_says(path: bytes) -> None:
    with pytest.raises(Invalid):
        path_of(path)
    assert path_of(b"\x28\x02id\x01x") == (b"id", b"x")
    match = column_chunk().match(column(path=b"\x28\x02id\x01x"))
    assert match is not None
    assert match[1] == b"\x28\x02id\x01x"


def test_row_groups_that_come_again_count_as_the_last_ones() -> None:
    (one, other), end = [b"\x19\x1c" + column(b"\x26" + number(at)) + b"\x16\x02\x16\x14\0" for at in (4, 9)], b"\0"
    usual = b"\x15\x02\x19\x0c\x16\x14\x19\x1c" + one + end
    twice = b"\x15\x02\x19\x0c\x16\x14\x19\x1c" + one + b"\x09\x08\x1c" + other + end
    footers = Footers()
    assert footers.read(usual).shape == (b"\x15\x02\x19\x0c", b"\0")
    again = footers.read(twice)
    assert again.shape is None
    ((chunk,),) = again.groups
    assert isinstance(chunk, Chunk)
    assert chunk.start == 9


def test_a_group_with_an_unusual_end_is_read_field_by_field() -> None:
    group = b"\x19\x1c" + column() + b"\x16\x02\x16\x14\x17" + bytes(8) + b"\0"
    with pytest.raises(_Unusual):
        _group(CompactReader(group))
    footer = b"\x15\x02\x19\x0c\x16\x14\x19\x1c" + group + b"\0"
    assert same(Footers().read(footer), by_fields(footer))


# --- files that are read one after the other ---


def test_footers_of_one_schema_have_one_shape() -> None:
    footers = Footers()
    shapes = [footers.read(footer_of(stored({"id": pa.array(range(count))}))).shape for count in (1, 5, 700)]
    assert len({*shapes}) == 1
    others = [{"id": pa.array(["a"])}, {"ID": pa.array([1])}]
    assert len({footers.read(footer_of(stored(one))).shape for one in others} | {*shapes}) == 3


def test_footers_forget_what_they_no_longer_need() -> None:
    footers = Footers()
    for at in range(100):
        table = pa.table({f"c{at}": [1]}).replace_schema_metadata({"k": str(at)})
        file = io.BytesIO()
        pq.write_table(table, file)
        assert footers.read(footer_of(file.getvalue())).shape is not None
    assert len(footers._beginnings) <= 16
    assert len(footers._ends) <= 16
