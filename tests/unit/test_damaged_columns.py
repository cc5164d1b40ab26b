"""Parquet and ORC that a library reads although a part of it is damaged."""

import base64
import io
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.parquet as pq  # type: ignore[import-untyped]
import pytest
from pyarrow import orc

from spark_job.formats.columns import _check_maps, counted
from spark_job.formats.parquet import format as parquet_format
from spark_job.formats.parquet.footers import chunk_of
from spark_job.formats.parquet.page_headers import page_headers
from spark_job.formats.parquet.page_sizes import PageSizes, page_bytes
from spark_job.formats.parquet.thrift_compact import CompactReader, Invalid
from spark_job.formats.protocol import FileFault
from tests.unit.format_reading import read_file

ROWS = 40


def parquet(**options: Any) -> bytes:
    file = io.BytesIO()
    table = pa.table({"id": range(ROWS), "n": pa.array([float(n) for n in range(ROWS)])})
    pq.write_table(table, file, **{"compression": "none", "use_dictionary": False} | options)
    return file.getvalue()


def page_of_n(stored: bytes) -> int:
    """The place of the second column's only page."""
    return int(pq.ParquetFile(io.BytesIO(stored)).metadata.row_group(0).column(1).data_page_offset)


def with_bytes(stored: bytes, at: int, found: bytes, wanted: bytes) -> bytes:
    """With other bytes in the first place from there on that has these."""
    assert len(found) == len(wanted)
    place = stored.index(found, at)
    return stored[:place] + wanted + stored[place + len(found) :]


def varint(value: int) -> bytes:
    value, made = value << 1, bytearray()
    while value >= 0x80:
        made.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*made, value])


def test_a_page_is_compared_with_its_checksum() -> None:
    for checksum in (True, False):
        stored = parquet(write_page_checksum=checksum)
        damaged = with_bytes(stored, page_of_n(stored), b"\0\0\0\0\0\0\x14@", b"\0\0\0\0\0\0\x15@")
        if checksum:
            with pytest.raises(FileFault, match="CRC checksum"):
                read_file("parquet", "n DOUBLE", damaged)
        else:
            assert read_file("parquet", "n DOUBLE", damaged).values[5] == {"n": 5.25}


def test_a_column_without_values_is_no_file_without_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """pyarrow passes over a page of a kind that it does not know, and gives as many rows as the shortest column has."""
    monkeypatch.setattr(PageSizes, "check", lambda *_: None)
    stored = parquet()
    page = page_of_n(stored)
    assert stored[page : page + 2] == b"\x15\0"
    damaged = stored[: page + 1] + varint(7) + stored[page + 2 :]
    with pytest.raises(FileFault, match="it says that row group 0 has 40 rows, and it has 0"):
        read_file("parquet", "id BIGINT, n DOUBLE", damaged)


@pytest.mark.parametrize(("sizes", "found"), [([3, 2], "5"), ([3, 4, 5], "7 or more"), ([], "0")])
def test_rows_are_counted(sizes: list[int], found: str) -> None:
    batches = [pa.record_batch({"a": [0] * size}) for size in sizes]
    assert [batch.num_rows for batch in counted("X", iter(batches), sum(sizes), "it")] == sizes
    with pytest.raises(FileFault, match=f"it says that it has 6 rows, and it has {found}$"):
        list(counted("X", iter(batches), 6, "it"))


def test_a_page_that_says_it_is_huge_takes_no_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    stored = parquet(compression="snappy")
    page = page_of_n(stored)
    size = CompactReader(stored[page:]).struct()[2]
    before, value = varint(size), varint((1 << 31) - 1)
    place = stored.index(before, page)
    # The page's header is longer now; that of the footer has to follow it only for what comes after it.
    damaged = stored[:place] + value + stored[place + len(before) :]
    monkeypatch.setattr(parquet_format, "_batches", lambda *_: pytest.fail("pyarrow was asked"))
    with pytest.raises(FileFault, match="page 1 of n in row group 0 says that it has 2,147,483,647 bytes"):
        read_file("parquet", "n DOUBLE", damaged)


def test_a_page_that_says_it_is_long_as_it_is_stored_takes_no_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    stored = parquet(compression="snappy")
    page = page_of_n(stored)
    header = CompactReader(stored[page:]).struct()
    before, value = varint(header[2]) + b"\x15" + varint(header[3]), varint(header[2]) + b"\x15" + varint(1 << 38)
    place = stored.index(before, page)
    damaged = stored[:place] + value + stored[place + len(before) :]
    monkeypatch.setattr(parquet_format, "_batches", lambda *_: pytest.fail("pyarrow was asked"))
    with pytest.raises(FileFault, match="page 1 of n in row group 0 has no header that can be read"):
        read_file("parquet", "n DOUBLE", damaged)


@pytest.mark.parametrize(("field", "value"), [(3, {}), (3, []), (3, [1]), (5, None), (6, b"6"), (9, {})])
def test_a_column_chunk_whose_fields_are_of_another_kind_is_invalid(field: int, value: object) -> None:
    good = {3: [b"n"], 5: 40, 6: 320, 7: 320, 9: 4}
    assert chunk_of({3: good}).path == [b"n"]
    with pytest.raises(Invalid):
        chunk_of({3: {**good, field: value}})


def test_a_page_without_a_header_refuses_the_file() -> None:
    stored = parquet()
    page = page_of_n(stored)
    with pytest.raises(FileFault, match="page 1 of n in row group 0 has no header that can be read"):
        read_file("parquet", "n DOUBLE", stored[:page] + b"\xff" * 30 + stored[page + 30 :])
    assert len(read_file("parquet", "id BIGINT", stored[:page] + b"\xff" * 30 + stored[page + 30 :]).rows) == ROWS


@pytest.mark.parametrize("version", ["1.0", "2.0"])
@pytest.mark.parametrize("dictionary", [True, False])
@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_all_pages_of_a_file_are_seen(version: str, dictionary: bool, codec: str) -> None:
    texts = pa.array([f"{n % 50:0100}" for n in range(3_000)])
    nested = pa.array([[{"a": "x" * 90, "b": n}] for n in range(3_000)])
    file = io.BytesIO()
    pq.write_table(
        pa.table({"t": texts, "l": nested}),
        file,
        data_page_version=version,
        use_dictionary=dictionary,
        compression=codec,
        data_page_size=1_000,
        write_batch_size=50,
        row_group_size=1_000,
    )
    metadata = pq.ParquetFile(file).metadata
    sizes = PageSizes(file)
    for group, chunks in enumerate(sizes.check_footer().groups):
        for at, chunk in enumerate(chunks):
            column = metadata.row_group(group).column(at)
            assert b".".join(chunk.path).decode() == column.path_in_schema
            pages = [*page_bytes(page_headers(file), chunk)]
            headers = 300 * len(pages)
            assert column.total_uncompressed_size - headers < sum(pages) <= column.total_uncompressed_size
            assert len(pages) >= 2


def test_a_struct_of_any_fields_is_passed_over() -> None:
    # A list of booleans, a map, a set of structs, a double, a byte, a UUID, and a field whose number stands apart.
    data = b"\x19\x22\1\2\x1b\1\x85\3abc\x06\x1a\x1c\x15\2\0\x17" + bytes(8) + b"\x13\7\x1d" + bytes(16)
    data += b"\x05\x14\x0a\x11\x12\0rest"
    reader = CompactReader(data)
    assert reader.struct() == {
        1: [None, None],
        2: [b"abc", 3],
        3: [{1: 1}],
        4: None,
        5: None,
        6: None,
        10: 5,
        11: None,
        12: None,
    }
    assert data[reader.at :] == b"rest"


@pytest.mark.parametrize(
    "data", [b"\x1e\0", b"\x1c" * 100 + b"\0" * 100, b"\x15" + b"\xff" * 20, b"\x19\xf5\xff\xff\x7f"]
)
def test_what_is_no_struct_is_invalid(data: bytes) -> None:
    with pytest.raises(Invalid):
        CompactReader(data).struct()


def test_names_that_are_not_utf8_refuse_the_file() -> None:
    file = io.BytesIO()
    orc.write_table(pa.table({"id": [1], "name": [2]}), file, compression="uncompressed")
    with pytest.raises(FileFault, match="not valid ORC: 'utf-8' codec"):
        read_file("orc", "id BIGINT", file.getvalue().replace(b"name", b"nam\xe5"))


@pytest.mark.parametrize("nested", [False, True])
def test_a_time_zone_that_is_not_utf8_refuses_the_file(nested: bool) -> None:
    """pyarrow takes it from Arrow's schema, which it has put beside Parquet's own."""
    zoned = pa.array([0], pa.timestamp("us", tz="Asia/Tokyo"))
    column = pa.StructArray.from_arrays([zoned], names=["t"]) if nested else zoned
    file = io.BytesIO()
    pq.write_table(pa.table({"at": column}), file)
    said = pq.read_metadata(file).metadata[b"ARROW:schema"]
    odd = base64.b64encode(base64.b64decode(said).replace(b"Asia/Tokyo", b"Asia/\xffokyo"))
    schema = "at STRUCT<t: TIMESTAMP>" if nested else "at TIMESTAMP"
    with pytest.raises(FileFault, match="not valid Parquet: 'utf-8' codec"):
        read_file("parquet", schema, file.getvalue().replace(said, odd))


def test_maps_have_as_many_values_as_keys() -> None:
    maps = pa.array([[("a", 1)], [("b", 2)]], pa.map_(pa.string(), pa.int64()))
    entries = pa.StructArray.from_arrays([maps.keys, maps.items], names=["key", "value"])
    _check_maps(pa.ListArray.from_arrays([0, 1, 2], pa.StructArray.from_arrays([maps], names=["m"])))
    fields = [entries.type.field(at) for at in range(2)]
    odd = pa.Array.from_buffers(
        pa.struct(fields), 2, [None], children=[maps.keys, pa.concat_arrays([maps.items, pa.array([3])])]
    )
    made = pa.Array.from_buffers(maps.type, 2, [None, maps.offsets.buffers()[1]], children=[odd])
    with pytest.raises(pa.ArrowInvalid, match="a map has 2 keys and 3 values"):
        _check_maps(pa.ListArray.from_arrays([0, 2], made))
