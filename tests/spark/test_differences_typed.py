"""Parquet, ORC and Avro: which types of a file each column takes, in Spark and here.

docs/format-parquet.md, docs/format-orc.md and docs/format-avro.md have the rows.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from tests.spark.format_comparison import FILE_REFUSED, REFUSED, Comparison, same
from tests.spark.format_files import avro_file
from tests.unit.table_files import orc_file, parquet

pytestmark = pytest.mark.spark

TEN = datetime(2026, 11, 21, 10, 0, 0, 123_000)  # noqa: DTZ001 - no zone is the point
TEN_UTC = TEN.replace(tzinfo=UTC)
DAY = date(2026, 11, 21)
OLD_DAY = date(1500, 1, 1)
MAX_U64 = (1 << 64) - 1
FOUND: Mapping[str, pa.Array] = {
    "bool": pa.array([True]),
    "int8": pa.array([5], pa.int8()),
    "int16": pa.array([5], pa.int16()),
    "int32": pa.array([5], pa.int32()),
    "int32 of 300": pa.array([300], pa.int32()),
    "int64": pa.array([5], pa.int64()),
    "uint8": pa.array([200], pa.uint8()),
    "uint16": pa.array([60_000], pa.uint16()),
    "uint32": pa.array([4_000_000_000], pa.uint32()),
    "uint64": pa.array([MAX_U64], pa.uint64()),
    "half": pa.array([1.5], pa.float16()),
    "float": pa.array([1.5], pa.float32()),
    "double": pa.array([1.5]),
    "decimal(4,2)": pa.array([Decimal("1.25")], pa.decimal128(4, 2)),
    "decimal(12,2)": pa.array([Decimal("1.25")], pa.decimal128(12, 2)),
    "decimal(38,10)": pa.array([Decimal("1.25")], pa.decimal128(38, 10)),
    "string": pa.array(["x"]),
    "dictionary": pa.array(["x"]).dictionary_encode(),
    "binary": pa.array([b"x"]),
    "fixed": pa.array([b"ab"], pa.binary(2)),
    "date": pa.array([DAY]),
    "old date": pa.array([OLD_DAY]),
    "ts ms": pa.array([TEN], pa.timestamp("ms")),
    "ts us": pa.array([TEN], pa.timestamp("us")),
    "ts ns": pa.array([TEN], pa.timestamp("ns")),
    "tz ms": pa.array([TEN], pa.timestamp("ms", "UTC")),
    "tz us": pa.array([TEN], pa.timestamp("us", "UTC")),
    "tz ns": pa.array([TEN], pa.timestamp("ns", "UTC")),
    "old ts": pa.array([datetime(1500, 1, 1)], pa.timestamp("us")),  # noqa: DTZ001
    "time": pa.array([time(10)], pa.time32("ms")),
    "duration": pa.array([5], pa.duration("us")),
    "list": pa.array([[1]]),
}
"""What a file may hold, one value each."""
PARQUET_EQUAL: Mapping[str, Sequence[tuple[str, Any]]] = {
    "BOOLEAN": [("bool", True)],
    "TINYINT": [("int8", 5), ("int16", 5), ("int32", 5)],
    "SMALLINT": [("int8", 5), ("int16", 5), ("int32", 5), ("int32 of 300", 300), ("uint8", 200)],
    "INT": [("int8", 5), ("int16", 5), ("int32", 5), ("uint8", 200), ("uint16", 60_000)],
    "BIGINT": [("int32", 5), ("int64", 5), ("uint16", 60_000), ("uint32", 4_000_000_000)],
    "FLOAT": [("float", 1.5)],
    "DOUBLE": [("int8", 5.0), ("int32", 5.0), ("uint16", 60_000.0), ("float", 1.5), ("double", 1.5)],
    "DECIMAL(4,2)": [("decimal(4,2)", Decimal("1.25"))],
    "DECIMAL(6,4)": [("decimal(4,2)", Decimal("1.2500"))],
    "DECIMAL(12,2)": [
        ("decimal(4,2)", Decimal("1.25")), ("decimal(12,2)", Decimal("1.25")), ("int32", Decimal("5.00")),
    ],
    "DECIMAL(20,0)": [("int32", Decimal(5)), ("int64", Decimal(5)), ("uint64", Decimal(MAX_U64))],
    "STRING": [("string", "x"), ("dictionary", "x"), ("binary", "x")],
    "BINARY": [("string", b"x"), ("binary", b"x"), ("fixed", b"ab")],
    "DATE": [("date", DAY), ("old date", OLD_DAY)],
    "TIMESTAMP": [
        ("ts ms", TEN_UTC), ("ts us", TEN_UTC), ("tz ms", TEN_UTC), ("tz us", TEN_UTC),
        ("old ts", datetime(1500, 1, 1, tzinfo=UTC)),
    ],
    "TIMESTAMP_NTZ": [("ts ms", TEN), ("ts us", TEN), ("date", datetime(2026, 11, 21))],  # noqa: DTZ001
    "ARRAY<BIGINT>": [("list", [1])],
}  # fmt: skip
"""By column: what the file holds, and the value that both read."""
PARQUET_SPARK_READS: Mapping[str, Sequence[tuple[str, Any, Any]]] = {
    # "300 in a 32-bit integer, for `TINYINT`", "unsigned integers of the column's width, for `TINYINT` and `SMALLINT`"
    "TINYINT": [("int32 of 300", 44, REFUSED), ("uint8", -56, FILE_REFUSED), ("date", 42, FILE_REFUSED)],
    "SMALLINT": [("uint16", -5_536, FILE_REFUSED)],
    # "dates, times, timestamps and durations for a number"
    "INT": [("date", 20_778, FILE_REFUSED), ("time", 36_000_000, FILE_REFUSED)],
    "BIGINT": [
        ("date", 20_778, FILE_REFUSED), ("ts ms", 1_795_255_200_123, FILE_REFUSED),
        ("tz us", 1_795_255_200_123_000, FILE_REFUSED), ("duration", 5, FILE_REFUSED),
    ],
    # "unsigned 32-bit integers for `DOUBLE`"
    "DOUBLE": [("uint32", -294_967_296.0, 4_000_000_000.0), ("date", 20_778.0, FILE_REFUSED)],
    # "32-bit integers for `DATE`"
    "DATE": [("int32", date(1970, 1, 6), FILE_REFUSED)],
    # "decimals for `BINARY`"
    "BINARY": [("decimal(4,2)", b"\x00}", FILE_REFUSED)],
    # "timestamps with a zone for `TIMESTAMP_NTZ`"
    "TIMESTAMP_NTZ": [("tz us", TEN, FILE_REFUSED)],
}  # fmt: skip
"""By column: what the file holds, Spark's value and ours."""
PARQUET_SPARK_REFUSES: Sequence[tuple[str, str, Any]] = [
    # Both refuse.
    *(("BOOLEAN", "int32", FILE_REFUSED), ("INT", "int64", FILE_REFUSED), ("INT", "uint32", FILE_REFUSED)),
    *(("INT", "double", FILE_REFUSED), ("FLOAT", "double", FILE_REFUSED), ("FLOAT", "int32", FILE_REFUSED)),
    *(("DECIMAL(4,2)", "decimal(12,2)", FILE_REFUSED), ("DECIMAL(4,2)", "int32", FILE_REFUSED)),
    *(("DATE", "ts us", FILE_REFUSED), ("TIMESTAMP", "int64", FILE_REFUSED), ("INT", "list", FILE_REFUSED)),
    # "values of other types for `STRING`; 64-bit integers and decimals for `DOUBLE`; integers of 8 and 16 bits for
    # `FLOAT`, and for a `DECIMAL` without 10 digits before the point; dates for `TIMESTAMP`"
    *(("STRING", "int32", "5"), ("STRING", "date", "2026-11-21"), ("STRING", "bool", "true")),
    *(("STRING", "time", "10:00:00.000"), ("STRING", "list", "[1]")),
    *(("DOUBLE", "int64", 5.0), ("DOUBLE", "decimal(4,2)", 1.25), ("FLOAT", "int8", 5.0), ("FLOAT", "int16", 5.0)),
    ("TIMESTAMP", "date", datetime(2026, 11, 21, tzinfo=UTC)),
    *(("DECIMAL(5,2)", "int8", Decimal("5.00")), ("DECIMAL(8,2)", "int16", Decimal("5.00"))),
    # "timestamps in nanoseconds"
    *(("TIMESTAMP", "ts ns", TEN_UTC), ("TIMESTAMP", "tz ns", TEN_UTC), ("TIMESTAMP_NTZ", "ts ns", TEN)),
    # "unsigned integers for `DECIMAL`"
    *(("DECIMAL(12,2)", "uint8", Decimal("200.00")), ("DECIMAL(10,0)", "uint32", Decimal(4_000_000_000))),
    ("DECIMAL(38,10)", "uint64", Decimal(MAX_U64)),
    # "16-bit floats; text of fixed length for `STRING`"
    *(("DOUBLE", "half", 1.5), ("FLOAT", "half", 1.5), ("STRING", "fixed", "ab")),
]
ORC_EQUAL: Mapping[str, Sequence[tuple[str, Any]]] = {
    "BOOLEAN": [("bool", True)],
    "TINYINT": [("int8", 5), ("int16", 5), ("int32", 5)],
    "INT": [("int8", 5), ("int16", 5), ("int32", 5)],
    "BIGINT": [("int8", 5), ("int32", 5), ("int64", 5)],
    "FLOAT": [("float", 1.5)],
    "DOUBLE": [("int32", 5.0), ("int64", 5.0), ("decimal(4,2)", 1.25), ("float", 1.5), ("double", 1.5)],
    "DECIMAL(12,2)": [("decimal(4,2)", Decimal("1.25")), ("decimal(12,2)", Decimal("1.25")), ("int32", Decimal(5))],
    "STRING": [
        ("string", "x"), ("int32", "5"), ("int64", "5"), ("double", "1.5"), ("decimal(4,2)", "1.25"),
        ("date", "2026-11-21"), ("ts us", "2026-11-21 10:00:00.123"),
    ],
    "BINARY": [("string", b"x"), ("binary", b"x"), ("fixed", b"ab")],
    "DATE": [("date", DAY)],
    "TIMESTAMP": [("ts us", TEN_UTC), ("date", datetime(2026, 11, 21, tzinfo=UTC))],
    "ARRAY<BIGINT>": [("list", [1])],
}  # fmt: skip
ORC_SPARK_READS: Mapping[str, Sequence[tuple[str, Any, Any]]] = {
    # The row "a number that the column cannot hold: 300 for `TINYINT`"
    "TINYINT": [("int32 of 300", None, REFUSED)],
    # "narrower types, and types of another kind, for a column but `STRING`"
    "BOOLEAN": [("int32", True, FILE_REFUSED), ("string", None, FILE_REFUSED)],
    "INT": [("int64", 5, FILE_REFUSED), ("double", 1, FILE_REFUSED), ("string", None, FILE_REFUSED)],
    "DECIMAL(4,2)": [("decimal(12,2)", Decimal("1.25"), FILE_REFUSED), ("double", Decimal("1.50"), FILE_REFUSED)],
    # "booleans for `STRING`", "bytes for `STRING`"
    "STRING": [("bool", "TRUE", "true"), ("binary", "78", "x"), ("fixed", "61 62", "ab")],
    # "dates before 1582-10-15"
    "DATE": [("old date", date(1499, 12, 23), REFUSED), ("ts us", DAY, FILE_REFUSED), ("string", None, FILE_REFUSED)],
    # "times outside the years 1678 to 2261"
    "TIMESTAMP": [
        ("int64", datetime(1970, 1, 1, 0, 0, 5, tzinfo=UTC), FILE_REFUSED),
        ("old ts", datetime(1499, 12, 23, tzinfo=UTC), FILE_REFUSED),
    ],
}  # fmt: skip
ORC_SPARK_REFUSES: Sequence[tuple[str, str, Any]] = [
    *(("INT", "binary", FILE_REFUSED), ("INT", "list", FILE_REFUSED)),
    # "timestamps with local time zone"
    ("TIMESTAMP", "tz us", TEN_UTC),
    # "`TIMESTAMP_NTZ`"
    *(("TIMESTAMP_NTZ", "ts us", TEN), ("TIMESTAMP_NTZ", "date", datetime(2026, 11, 21))),  # noqa: DTZ001
]
WRITE: Mapping[str, Callable[[pa.Table], bytes]] = {"parquet": parquet, "orc": orc_file}


def our_value(comparison: Comparison, name: str, data_type: str, found: str) -> Any:
    read = comparison.ours(name, f"v {data_type}", WRITE[name](pa.table({"v": FOUND[found]})))
    if isinstance(read, str):
        return read
    return read[0]["v"] if isinstance(read[0], dict) else read[0]


@pytest.mark.parametrize(
    ("name", "equal", "spark_reads"),
    [("parquet", PARQUET_EQUAL, PARQUET_SPARK_READS), ("orc", ORC_EQUAL, ORC_SPARK_READS)],
    ids=["parquet", "orc"],
)
def test_types_that_spark_reads(
    comparison: Comparison,
    name: str,
    equal: Mapping[str, Sequence[tuple[str, Any]]],
    spark_reads: Mapping[str, Sequence[tuple[str, Any, Any]]],
) -> None:
    cases = [(ddl, found, value, value) for ddl, pairs in equal.items() for found, value in pairs]
    cases += [(ddl, found, sparks, ours) for ddl, pairs in spark_reads.items() for found, sparks, ours in pairs]
    # One file with a column for each case.
    table = pa.table({f"c{number}": FOUND[found] for number, (_, found, _, _) in enumerate(cases)})
    schema = ", ".join(f"c{number} {ddl}" for number, (ddl, _, _, _) in enumerate(cases))
    rows = comparison.spark(name, schema, WRITE[name](table))
    assert not isinstance(rows, str)
    wrong = []
    for (ddl, found, sparks, ours), value in zip(cases, rows[0].values(), strict=True):
        our = our_value(comparison, name, ddl, found)
        if not same(value, sparks) or not same(our, ours):
            wrong.append(f"{found} as {ddl}: Spark's {value!r}, ours {our!r}")
    assert wrong == []


@pytest.mark.parametrize(
    ("name", "data_type", "found", "ours"),
    [
        *(("parquet", *case) for case in PARQUET_SPARK_REFUSES),
        *(("orc", *case) for case in ORC_SPARK_REFUSES),
    ],
)
def test_types_that_spark_refuses(comparison: Comparison, name: str, data_type: str, found: str, ours: Any) -> None:
    stored = WRITE[name](pa.table({"v": FOUND[found]}))
    assert comparison.spark(name, f"v {data_type}", stored) == FILE_REFUSED
    assert our_value(comparison, name, data_type, found) == ours


TEXTS = pa.table(
    {
        "b": pa.array([True, False, None, True, True]),
        "n": pa.array([0, -1, 1 << 62, -1 << 63, None]),
        "f": pa.array([0.1, 1e10, 1.5e-38, -0.0, 3.4028235e38], pa.float32()),
        "d": pa.array([0.001, 9.99e-4, 1e7, 9999999.0, 123456789.125]),
        "e": pa.array([float("nan"), float("-inf"), 1.7976931348623157e308, 0.1 + 0.2, -1e-10]),
        "m": pa.array([Decimal("0E-10"), Decimal("1E-10"), Decimal(12), Decimal("-1.5"), None], pa.decimal128(20, 10)),
        "day": pa.array([DAY, date(1, 1, 1), OLD_DAY, date(9999, 12, 31), None]),
        "t": pa.array([TEN, TEN.replace(microsecond=0), TEN.replace(year=1), TEN.replace(microsecond=1), None]),
        "z": pa.array([TEN, TEN.replace(hour=0), TEN.replace(year=9999), None, TEN], pa.timestamp("us", "UTC")),
    }
)


def test_the_text_of_a_value_is_that_of_sparks_cast(
    comparison: Comparison, spark: Callable[[], SparkSession], tmp_path: Path
) -> None:
    (tmp_path / "file").write_bytes(stored := parquet(TEXTS))
    frame = spark().read.parquet(str(tmp_path / "file"))
    rows = frame.selectExpr(*(f"CAST({name} AS STRING) AS {name}" for name in TEXTS.column_names)).collect()
    ours = comparison.ours("parquet", ", ".join(f"{name} STRING" for name in TEXTS.column_names), stored)
    assert ours == [row.asDict() for row in rows]


@pytest.mark.parametrize("name", ["parquet", "orc"])
def test_names_and_nulls(comparison: Comparison, name: str) -> None:
    """names that differ in case, text that is not UTF-8, null in a NOT NULL column, no column of the schema: of ORC
    as of Parquet."""
    stored = WRITE[name](pa.table({"ID": pa.array([1]), "w": pa.array([None], pa.int64())}))
    # "names that differ in case"
    assert comparison.spark(name, "id BIGINT, w BIGINT", stored) == [{"id": 1, "w": None}]
    assert comparison.ours(name, "id BIGINT, w BIGINT", stored) == [{"id": None, "w": None}]
    # "null in a NOT NULL column"
    assert comparison.spark(name, "ID BIGINT, w BIGINT NOT NULL", stored) == [{"ID": 1, "w": None}]
    assert comparison.ours(name, "ID BIGINT, w BIGINT NOT NULL", stored) == [REFUSED]
    # "a file with no column of the schema"
    assert comparison.spark(name, "x BIGINT", stored) == [{"x": None}]
    assert comparison.ours(name, "x BIGINT", stored) == FILE_REFUSED
    # Fields that only one of the two has.
    assert comparison.spark(name, "w BIGINT, x INT", stored) == comparison.ours(name, "w BIGINT, x INT", stored)


@pytest.mark.parametrize("name", ["parquet", "orc"])
def test_text_that_is_not_utf8(
    comparison: Comparison, spark: Callable[[], SparkSession], name: str, tmp_path: Path
) -> None:
    stored = WRITE[name](pa.table({"v": pa.array([b"\xff"]).view(pa.string())}))
    (tmp_path / "file").write_bytes(stored)
    frame = spark().read.schema("v STRING").format(name).load(str(tmp_path / "file"))
    assert frame.selectExpr("hex(v) AS v").collect()[0]["v"] == "FF"
    assert comparison.ours(name, "v STRING", stored) == [REFUSED]


def test_orc_timestamps_without_a_zone_that_spark_wrote(
    comparison: Comparison, spark: Callable[[], SparkSession], tmp_path: Path
) -> None:
    spark().createDataFrame([(TEN,)], "v TIMESTAMP_NTZ").coalesce(1).write.orc(str(tmp_path / "written"))
    (file,) = (tmp_path / "written").glob("*.orc")
    stored = file.read_bytes()
    assert comparison.spark("orc", "v TIMESTAMP_NTZ", stored) == [{"v": TEN}]
    assert comparison.ours("orc", "v TIMESTAMP_NTZ", stored) == FILE_REFUSED
    assert comparison.ours("orc", "v BIGINT", stored) == [{"v": MICROS}]


def avro(kind: Any, *values: Any, aliases: Sequence[str] = (), name: str = "v") -> bytes:
    field = {"name": name, "type": kind, "aliases": list(aliases)}
    return avro_file({"type": "record", "name": "r", "fields": [field]}, [{name: value} for value in values])


def logical(kind: str, name: str) -> dict[str, str]:
    return {"type": kind, "logicalType": name}


DECIMAL_4_2 = {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2}
MICROS = 1_795_255_200_123_000
AVRO: Mapping[str, tuple[str, bytes, Any, Any]] = {
    "int": ("INT", avro("int", 5), 5, 5),
    "int for BIGINT": ("BIGINT", avro("int", 5), 5, 5),
    "float for DOUBLE": ("DOUBLE", avro("float", 1.5), 1.5, 1.5),
    "int for DOUBLE": ("DOUBLE", avro("int", 5), 5.0, 5.0),
    "long for INT": ("INT", avro("long", 5), FILE_REFUSED, FILE_REFUSED),
    "string": ("STRING", avro("string", "x"), "x", "x"),
    "enum": ("STRING", avro({"type": "enum", "name": "e", "symbols": ["A"]}, "A"), "A", "A"),
    "fixed": ("BINARY", avro({"type": "fixed", "name": "f", "size": 2}, b"ab"), b"ab", b"ab"),
    "int and long": ("BIGINT", avro(["int", "long"], 5), 5, 5),
    "float and double": ("DOUBLE", avro(["float", "double"], 1.5), 1.5, 1.5),
    "timestamp-millis": ("TIMESTAMP", avro(logical("long", "timestamp-millis"), TEN_UTC), TEN_UTC, TEN_UTC),
    "local-timestamp-micros": ("TIMESTAMP_NTZ", avro(logical("long", "local-timestamp-micros"), TEN), TEN, TEN),
    "decimal": ("DECIMAL(6,4)", avro(DECIMAL_4_2, Decimal("1.25")), Decimal("1.2500"), Decimal("1.2500")),
    # "a union of several types"
    "several types": (
        "STRUCT<member0: INT, member1: STRING>", avro(["int", "string"], 5), {"member0": 5, "member1": None},
        FILE_REFUSED,
    ),
    # "`int` for `TINYINT`, `SMALLINT` and `DECIMAL`; `string` for `BINARY`; `bytes` for `STRING`"
    "bytes for STRING": ("STRING", avro("bytes", b"x"), FILE_REFUSED, "x"),
    "aliases": ("INT", avro("int", 5, aliases=["v"], name="old"), None, 5),
    # "names that differ in case, null in a NOT NULL column, no column of the schema"
    "names in another case": ("INT", avro("int", 5, name="V"), 5, FILE_REFUSED),
    "no column": ("INT", avro("int", 5, name="w"), None, FILE_REFUSED),
    "null": ("INT NOT NULL", avro(["null", "int"], None), None, REFUSED),
    "int for TINYINT": ("TINYINT", avro("int", 300), FILE_REFUSED, REFUSED),
    "string for BINARY": ("BINARY", avro("string", "x"), FILE_REFUSED, b"x"),
    "int for DECIMAL": ("DECIMAL(12,2)", avro("int", 5), FILE_REFUSED, Decimal("5.00")),
    # "the `local-` forms for `TIMESTAMP`"
    "local-timestamp-micros for TIMESTAMP": (
        "TIMESTAMP", avro(logical("long", "local-timestamp-micros"), TEN), FILE_REFUSED, TEN_UTC,
    ),
    "timestamp-micros for TIMESTAMP_NTZ": (
        "TIMESTAMP_NTZ", avro(logical("long", "timestamp-micros"), TEN_UTC), FILE_REFUSED, FILE_REFUSED,
    ),
    # "`timestamp-nanos`"
    "timestamp-nanos": ("TIMESTAMP", avro(logical("long", "timestamp-nanos"), MICROS * 1000), FILE_REFUSED, TEN_UTC),
    # "values of other types for `STRING`, `long` for `DOUBLE`, `date` for `TIMESTAMP`"
    "int for STRING": ("STRING", avro("int", 5), FILE_REFUSED, "5"),
    "several types for STRING": ("STRING", avro(["int", "string"], 5), FILE_REFUSED, "5"),
    "long for DOUBLE": ("DOUBLE", avro("long", 5), FILE_REFUSED, 5.0),
    "date for TIMESTAMP": (
        "TIMESTAMP", avro(logical("int", "date"), DAY), FILE_REFUSED, datetime(2026, 11, 21, tzinfo=UTC),
    ),
    # "dates and timestamps for a number"
    "date for INT": ("INT", avro(logical("int", "date"), DAY), 20_778, FILE_REFUSED),
    "timestamp-micros for BIGINT": ("BIGINT", avro(logical("long", "timestamp-micros"), TEN_UTC), MICROS, FILE_REFUSED),
    # "numbers for `DATE` and `TIMESTAMP`"
    "int for DATE": ("DATE", avro("int", 5), date(1970, 1, 6), FILE_REFUSED),
    "long for TIMESTAMP": ("TIMESTAMP", avro("long", MICROS // 1000), TEN_UTC, FILE_REFUSED),
}  # fmt: skip
"""By name: the column, the file, Spark's value and ours."""


@pytest.mark.parametrize("name", AVRO)
def test_avro(comparison: Comparison, spark_avro: None, name: str) -> None:
    data_type, stored, sparks, ours = AVRO[name]
    ddl = f"v {data_type}"
    read, by_us = comparison.spark("avro", ddl, stored), comparison.ours("avro", ddl, stored)
    assert (read if isinstance(read, str) else read[0]["v"]) == sparks
    assert (by_us[0]["v"] if isinstance(by_us[0], dict) else by_us if isinstance(by_us, str) else by_us[0]) == ours
