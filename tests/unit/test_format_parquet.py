"""Parquet and ORC: which types widen to which columns, and what is refused."""

import base64
import io
import json
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]
import pytest

from spark_job.formats.protocol import FileFault, Limits
from spark_job.formats.registry import open_format
from spark_job.table.schema import columns_of
from tests.unit.contents import StoredContent
from tests.unit.format_reading import Read, read_file
from tests.unit.table_files import orc_file, parquet

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
NAIVE = NOON.replace(tzinfo=None)


def column(values: list[Any], kind: pa.DataType, ddl: str, **options: Any) -> Read:
    table = pa.table({"v": pa.array(values, kind)})
    return read_file("parquet", f"v {ddl}", parquet(table, **options))


@pytest.mark.parametrize(
    ("kind", "value", "ddl", "expected"),
    [
        (pa.int32(), 5, "BIGINT", 5),
        (pa.int32(), 5, "TINYINT", 5),
        (pa.int8(), 5, "SMALLINT", 5),
        (pa.uint8(), 255, "SMALLINT", 255),
        (pa.uint32(), 1 << 31, "BIGINT", 1 << 31),
        (pa.uint64(), (1 << 64) - 1, "DECIMAL(20,0)", Decimal((1 << 64) - 1)),
        (pa.int32(), 5, "DOUBLE", 5.0),
        (pa.int64(), 1 << 53, "DOUBLE", float(1 << 53)),
        (pa.int64(), -1 << 63, "DOUBLE", float(-1 << 63)),
        (pa.uint64(), 1 << 63, "DOUBLE", float(1 << 63)),
        (pa.int8(), 5, "FLOAT", 5.0),
        (pa.decimal128(12, 2), Decimal("-9999999999.99"), "DOUBLE", -9999999999.99),
        (pa.decimal128(38, 20), Decimal("0.1"), "DOUBLE", 0.1),
        (pa.decimal128(38, 0), Decimal(1 << 80), "DOUBLE", float(1 << 80)),
        (pa.int8(), 5, "DECIMAL(5,2)", Decimal("5.00")),
        (pa.int32(), 5, "DECIMAL(12,2)", Decimal("5.00")),
        (pa.float32(), 0.5, "DOUBLE", 0.5),
        (pa.float16(), 0.5, "FLOAT", 0.5),
        (pa.decimal128(5, 2), Decimal("1.50"), "DECIMAL(8,3)", Decimal("1.500")),
        (pa.decimal256(40, 2), Decimal("1.50"), "DECIMAL(38,2)", None),
        (pa.date32(), date(2026, 11, 21), "DATE", date(2026, 11, 21)),
        (pa.date32(), date(2026, 11, 21), "TIMESTAMP", datetime(2026, 11, 21, tzinfo=UTC)),
        (pa.date32(), date(2026, 11, 21), "TIMESTAMP_NTZ", datetime(2026, 11, 21)),  # noqa: DTZ001 - no zone is the point
        (pa.timestamp("ms", "UTC"), NOON, "TIMESTAMP", NOON),
        (pa.timestamp("us", "America/New_York"), NOON, "TIMESTAMP", NOON),
        (pa.timestamp("us"), NAIVE, "TIMESTAMP", NOON),
        (pa.timestamp("ns"), NAIVE, "TIMESTAMP_NTZ", NAIVE),
        (pa.string(), "é", "STRING", "é"),
        (pa.large_string(), "é", "STRING", "é"),
        (pa.binary(), b"x", "STRING", "x"),
        (pa.string(), "x", "BINARY", b"x"),
        (pa.binary(3), b"xyz", "BINARY", b"xyz"),
        (pa.dictionary(pa.int32(), pa.string()), "x", "STRING", "x"),
        (pa.int64(), -5, "STRING", "-5"),
        (pa.bool_(), True, "STRING", "true"),
        (pa.float64(), 0.1, "STRING", "0.1"),
        (pa.float32(), 0.1, "STRING", "0.1"),
        (pa.float64(), 1e7, "STRING", "1.0E7"),
        (pa.float64(), -12345.75, "STRING", "-12345.75"),
        (pa.float64(), 9.99e-4, "STRING", "9.99E-4"),
        (pa.float64(), -0.0, "STRING", "-0.0"),
        (pa.float64(), float("inf"), "STRING", "Infinity"),
        (pa.float64(), float("-nan"), "STRING", "NaN"),
        (pa.decimal128(20, 10), Decimal("0E-10"), "STRING", "0.0000000000"),
        (pa.date32(), date(5, 1, 2), "STRING", "0005-01-02"),
        (pa.timestamp("ms"), NAIVE, "STRING", "2026-11-21 12:00:00"),
        (pa.timestamp("us", "America/New_York"), NOON.replace(microsecond=120), "STRING", "2026-11-21 12:00:00.00012"),
        (pa.time64("us"), time(10), "STRING", "10:00:00.000000"),
        (pa.struct([("a", pa.list_(pa.decimal128(3, 1)))]), {"a": [Decimal("1.5")]}, "STRING", '{"a":["1.5"]}'),
        (pa.null(), None, "INT", None),
        (pa.list_(pa.int32()), [1, None], "ARRAY<BIGINT>", [1, None]),
        (pa.large_list(pa.string()), ["a"], "ARRAY<STRING>", ["a"]),
        (pa.map_(pa.string(), pa.int32()), [("a", 1)], "MAP<STRING, BIGINT>", {"a": 1}),
        (pa.map_(pa.int32(), pa.string()), [(1, "a")], "MAP<INT, STRING>", {1: "a"}),
        (
            pa.struct([("b", pa.int32()), ("a", pa.string()), ("z", pa.int8())]),
            {"b": 1, "a": "x", "z": 1},
            "STRUCT<a: STRING, b: BIGINT, c: DATE>",
            {"a": "x", "b": 1, "c": None},
        ),
    ],
)
def test_a_type_that_widens_to_the_column(kind: pa.DataType, value: Any, ddl: str, expected: Any) -> None:
    if expected is None and value is not None:
        with pytest.raises(FileFault, match="does not widen"):
            column([value], kind, ddl)
        return
    assert column([value, None], kind, ddl).values == [{"v": expected}, {"v": None}]


@pytest.mark.parametrize(
    ("kind", "value", "ddl"),
    [
        (pa.int64(), 5, "INT"),
        (pa.int64(), 5, "DECIMAL(19,0)"),
        (pa.uint32(), 5, "INT"),
        (pa.float64(), 5.0, "FLOAT"),
        (pa.float64(), 5.0, "BIGINT"),
        (pa.decimal128(5, 2), Decimal("1.50"), "DECIMAL(5,1)"),
        (pa.decimal128(5, 2), Decimal("1.50"), "DECIMAL(5,3)"),
        (pa.string(), "5", "INT"),
        (pa.bool_(), True, "INT"),
        (pa.timestamp("us", "UTC"), NOON, "TIMESTAMP_NTZ"),
        (pa.timestamp("us"), NAIVE, "DATE"),
        (pa.time64("us"), None, "TIMESTAMP"),
        (pa.int32(), 5, "ARRAY<INT>"),
        (pa.list_(pa.int64()), [1], "ARRAY<INT>"),
        (pa.struct([("a", pa.int64())]), {"a": 1}, "STRUCT<a: INT>"),
    ],
)
def test_a_type_that_does_not_widen_refuses_the_file(kind: pa.DataType, value: Any, ddl: str) -> None:
    with pytest.raises(FileFault, match=r"^v.*: expected .*, found .*, which does not widen to it$"):
        column([value], kind, ddl)


@pytest.mark.parametrize(
    ("kind", "value", "ddl", "reason"),
    [
        (pa.int32(), 300, "TINYINT", "v: the value does not fit tinyint"),
        (pa.binary(), b"\xff", "STRING", "v: the value does not fit string"),
        (pa.int64(), (1 << 53) + 1, "DOUBLE", "v: the value does not fit double"),
        (pa.int64(), (1 << 63) - 1, "DOUBLE", "v: the value does not fit double"),
        (pa.decimal128(17, 0), Decimal((1 << 53) + 1), "DOUBLE", "v: the value does not fit double"),
        (pa.timestamp("s"), 253_402_300_800, "STRING", "v: the value does not fit string"),
        (pa.date32(), -719_163, "TIMESTAMP", "v: the value does not fit timestamp"),
        (pa.timestamp("s"), 253_402_300_800, "TIMESTAMP", "v: the value does not fit timestamp"),
        (pa.date32(), -719_163, "DATE", "v: the value does not fit date"),
        (pa.int32(), None, "INT NOT NULL", "v: NOT NULL, but it is missing or null"),
        (pa.list_(pa.binary()), [b"a", b"\xff"], "ARRAY<STRING>", "v: the value does not fit array<string>"),
        (
            pa.struct([("a", pa.int32())]),
            {"a": None},
            "STRUCT<a: INT NOT NULL>",
            "v.a: NOT NULL, but it is missing or null",
        ),
    ],
)
def test_a_record_is_refused_and_the_others_are_not(kind: pa.DataType, value: Any, ddl: str, reason: str) -> None:
    good = pa.scalar(None, kind) if "NOT NULL" not in ddl or kind == pa.struct([("a", pa.int32())]) else None
    values = [good, value, good] if good is not None else [1, value, 1]
    table = pa.table({"v": pa.array([v.as_py() if isinstance(v, pa.Scalar) else v for v in values], kind)})
    found = read_file("parquet", f"v {ddl}", parquet(table))
    assert found.reasons == {1: reason}
    assert [*found.rows] == [0, 2]


@pytest.mark.parametrize(
    ("kind", "key", "ddl"),
    [(pa.binary(), b"\xff", "MAP<STRING, INT>"), (pa.int32(), 300, "MAP<TINYINT, INT>")],
)
def test_a_key_that_does_not_fit_refuses_its_record(kind: pa.DataType, key: Any, ddl: str) -> None:
    good: Any = b"a" if kind == pa.binary() else 1
    rows = [[(good, 1)], [(good, 1), (key, 2)], None, [(good, 3)]]
    found = read_file("parquet", f"m {ddl}", parquet(pa.table({"m": pa.array(rows, pa.map_(kind, pa.int32()))})))
    assert [*found.rows] == [0, 2, 3]
    assert found.reasons == {1: f"m: the value does not fit {ddl.lower().replace(', ', ',')}"}


def test_a_file_with_very_many_columns_is_refused_at_once() -> None:
    with pytest.raises(FileFault, match="it has 200,001 columns; expected at most 20,000"):
        read_file("csv", "id INT", b"id" + b"".join(b",c%d" % n for n in range(200_000)) + b"\n", limits=Limits())


def test_the_text_of_a_refused_record_is_json() -> None:
    table = pa.table(
        {
            "id": pa.array([None], pa.int32()),
            "b": pa.array([b"\xff\x00"], pa.binary()),
            "t": pa.array([1], pa.timestamp("ns")),
            "m": pa.array([Decimal("1.50")], pa.decimal128(5, 2)),
            "s": pa.array([{"x": [b"y"]}], pa.struct([("x", pa.list_(pa.binary()))])),
        }
    )
    ddl = "id INT NOT NULL, b BINARY, t TIMESTAMP, m DECIMAL(5,2), s STRUCT<x: ARRAY<BINARY>>"
    found = read_file("parquet", ddl, parquet(table))
    assert json.loads(found.texts[0]) == {
        "id": None,
        "b": base64.b64encode(b"\xff\x00").decode(),
        "t": "1970-01-01 00:00:00.000000001",
        "m": "1.50",
        "s": {"x": [base64.b64encode(b"y").decode()]},
    }


def test_nanoseconds_are_cut_off_downwards_as_sparks_are() -> None:
    expected = datetime(1969, 12, 31, 23, 59, 59, 999_999)  # noqa: DTZ001 - no zone is the point
    assert column([-1], pa.timestamp("ns"), "TIMESTAMP_NTZ").values == [{"v": expected}]


def test_int96_holds_the_years_that_nanoseconds_do_not() -> None:
    table = pa.table({"v": pa.array([datetime(9999, 1, 1), datetime(1, 1, 1)], pa.timestamp("us"))})  # noqa: DTZ001
    stored = parquet(table, use_deprecated_int96_timestamps=True)
    assert [row["v"].year for row in read_file("parquet", "v TIMESTAMP", stored).values] == [9999, 1]


@pytest.mark.parametrize("codec", ["none", "snappy", "gzip", "zstd", "lz4", "brotli"])
def test_codecs_and_dictionaries(codec: str) -> None:
    table = pa.table({"v": pa.array(["a", "b"] * 500)})
    for use_dictionary in (True, False):
        stored = parquet(table, compression=codec, use_dictionary=use_dictionary, row_group_size=300)
        assert [row["v"] for row in read_file("parquet", "v STRING", stored, chunk_bytes=64).values] == ["a", "b"] * 500


FORMATS = {"parquet": parquet, "orc": orc_file}
each_format = pytest.mark.parametrize("name", FORMATS)


@each_format
@pytest.mark.parametrize("first_record", [0, 1, 7, 10, 11])
def test_nested_columns_are_read_from_any_record_on(name: str, first_record: int) -> None:
    rows = [
        {"id": n, "tags": [f"t{n}"] * (n % 3), "m": {"k": n}, "s": {"x": n, "y": None if n % 2 else "y"}}
        for n in range(10)
    ]
    kinds = [
        ("id", pa.int32()),
        ("tags", pa.list_(pa.string())),
        ("m", pa.map_(pa.string(), pa.int32())),
        ("s", pa.struct([("x", pa.int32()), ("y", pa.string())])),
    ]
    stored = FORMATS[name](pa.Table.from_pylist([row | {"m": [*row["m"].items()]} for row in rows], pa.schema(kinds)))  # type: ignore[attr-defined]
    ddl = "id BIGINT, tags ARRAY<STRING>, m MAP<STRING, INT>, s STRUCT<y: STRING, x: BIGINT>"
    for chunk_bytes in (64, 1 << 20):
        found = read_file(name, ddl, stored, first_record=first_record, chunk_bytes=chunk_bytes)
        assert found.rows == dict(enumerate(rows[first_record:], first_record))


@each_format
@pytest.mark.parametrize(
    ("table", "ddl", "reason"),
    [
        ({"ID": [1]}, "id INT NOT NULL", "id: NOT NULL, but the file has no such column; it has ID"),
        ({"x": [1], "y": [1]}, "id INT", "it has none of the schema's columns; it has x, y"),
        ({"id": ["a"]}, "id INT", "id: expected int, found string, which does not widen to it"),
        ({"id": ["x" * 5_000]}, "id STRING", "limit max_record_bytes: record 0 takes more than 4096 bytes"),
    ],
)
def test_a_file_that_does_not_fit_is_refused(name: str, table: dict[str, list[Any]], ddl: str, reason: str) -> None:
    with pytest.raises(FileFault) as fault:
        read_file(name, ddl, FORMATS[name](pa.table(table)), limits=Limits(max_record_bytes=4_096))
    assert fault.value.reason == reason


@each_format
def test_what_is_damaged_is_refused(name: str) -> None:
    stored = FORMATS[name](pa.table({"id": list(range(1_000))}))
    for damaged in (
        b"",
        b"\x89PNG\r\n\x1a\n",
        stored[: len(stored) // 2],
        stored[:-5],
        stored[len(stored) // 2 :][:-3],
    ):
        with pytest.raises(FileFault, match="not valid"):
            read_file(name, "id BIGINT", damaged)


def test_dictionaries_of_several_files_are_read_together() -> None:
    """Each has more values than both together would have room for."""
    kind = pa.dictionary(pa.int8(), pa.string())
    file_format = open_format("parquet", columns_of("v STRING"), Limits(), {})
    blocks = []
    for number in range(3):
        values = [f"{number} {n}" for n in range(100)]
        stored = parquet(pa.table({"v": pa.array(values).dictionary_encode().cast(kind)}))
        blocks += file_format.blocks(StoredContent(io.BytesIO(stored)), first_record=0)
    assert file_format.parse(blocks).records.num_rows == 300


@each_format
def test_blocks_of_a_value_that_repeats_are_bounded(name: str) -> None:
    """The file is small, since it has the value once."""
    small = ["x"] * 200_000
    table = pa.table({"v": pa.array(small + ["y" * 4_000] * 20_000)})
    stored = parquet(table) if name == "parquet" else orc_file(table, compression="zstd")
    assert len(stored) < 1_000_000
    file_format = open_format(name, columns_of("v STRING"), Limits(), {})
    sizes, count = list[int](), 0
    for block in file_format.blocks(StoredContent(io.BytesIO(stored), chunk_bytes=1 << 20), first_record=0):
        assert block.first_record == count
        count += block.count
        sizes.append(block.size_bytes)
    assert count == 220_000
    assert sum(sizes) > 80_000_000
    assert sorted(sizes)[-2] < 8_000_000  # one shows that the rows have become larger


def test_a_column_that_a_file_has_twice_refuses_it() -> None:
    table = pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["id", "id"])
    with pytest.raises(FileFault, match="it has the column 'id' twice"):
        read_file("parquet", "id BIGINT", parquet(table))
