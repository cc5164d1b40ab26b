"""Statistics of our data files compared with Delta's for the same rows, and queries that use them."""

import json
import random
import struct
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from blizzard.storage.local import LocalStore
from spark_job.write.data_file import DataFile, TableLayout
from spark_job.write.parquet_files import BufferBudget, DataFileWriter

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("query_defaults")]

DDL = (
    "t TINYINT, i INT, l BIGINT, f FLOAT, d DOUBLE, small DECIMAL(9,2), large DECIMAL(38,6), s STRING, day DATE, "
    "at TIMESTAMP, local TIMESTAMP_NTZ, yes BOOLEAN, raw BINARY, inner STRUCT<x: DOUBLE, deep: STRUCT<s: STRING>>"
)
LEAVES = {
    "t": pa.int8(),
    "i": pa.int32(),
    "l": pa.int64(),
    "f": pa.float32(),
    "d": pa.float64(),
    "small": pa.decimal128(9, 2),
    "large": pa.decimal128(38, 6),
    "s": pa.string(),
    "day": pa.date32(),
    "at": pa.timestamp("us", "UTC"),
    "local": pa.timestamp("us"),
    "yes": pa.bool_(),
    "raw": pa.binary(),
    "inner.x": pa.float64(),
    "inner.deep.s": pa.string(),
}
INNER = pa.struct([("x", pa.float64()), ("deep", pa.struct([("s", pa.string())]))])
SCHEMA = pa.schema(
    [*((name, kind) for name, kind in LEAVES.items() if "." not in name), ("inner", INNER), ("case", pa.int32())]
)
CHARS = 32
CASES = 45
Row = dict[str, Any]


# --- rows ----------------------------------------------------------------------------------------------------------

FLOATS = [0.0, -0.0, 0.1, -1.5, 1e30, 1e-30, 16777216.0, float("inf"), float("-inf"), float("nan")]
LETTERS = ["a", "b", "z", "é", "\x7f", "\ud7ff", "\uffff", "🎉", "\U0010ffff", "\x00", '"', "\\"]
MOMENTS = [datetime(1, 1, 1), datetime(1582, 10, 4, 23), datetime(1969, 12, 31, 23, 59, 59, 999999)]  # noqa: DTZ001
MOMENTS += [datetime(1970, 1, 1), datetime(2024, 2, 29, 12, 0, 0, 500), datetime(9999, 12, 31, 23, 59, 59)]  # noqa: DTZ001


def some_text(rng: random.Random) -> str:
    """Short strings, long ones, and many that differ only after the prefix."""
    prefix = rng.choice(["", "a" * CHARS, "é" * (CHARS - 1), "🎉" * CHARS, "z" * (CHARS - 1), "\U0010ffff" * CHARS])
    return prefix + "".join(rng.choice(LETTERS) for _ in range(rng.randrange(4)))


def some_moment(rng: random.Random) -> datetime:
    moment = rng.choice(MOMENTS)
    return moment + timedelta(microseconds=rng.choice([0, 1, 999, 1000, 999_999])) if moment.year < 9999 else moment


def some_leaf(rng: random.Random, kind: pa.DataType, lively: bool) -> Any:
    if pa.types.is_signed_integer(kind):
        limit = 1 << (kind.bit_width - 1)
        return rng.choice([-limit, limit - 1, 0, rng.randrange(-limit, limit)])
    if pa.types.is_floating(kind):
        return rng.choice(FLOATS if lively else FLOATS[:7]) if rng.random() < 0.5 else rng.uniform(-10, 10)
    if pa.types.is_decimal(kind):
        return Decimal((rng.randrange(2), [rng.randrange(10) for _ in range(kind.precision)], -kind.scale))
    if pa.types.is_string(kind):
        return some_text(rng)
    if pa.types.is_date(kind):
        return some_moment(rng).date()
    if pa.types.is_timestamp(kind):
        return some_moment(rng).replace(tzinfo=UTC if kind.tz else None)
    return rng.random() < 0.5 if pa.types.is_boolean(kind) else rng.randbytes(3)


def some_rows(case: int) -> list[Row]:
    """From few to many rows, so bounds are tight in some and wide in others. Some consist mostly of nulls."""
    rng = random.Random(case)
    null = rng.choice([0, 0.1, 0.8, 1])
    lively = case % 3 == 0

    def leaf(path: str) -> Any:
        return None if rng.random() < null else some_leaf(rng, LEAVES[path], lively)

    def row() -> Row:
        inner = {"x": leaf("inner.x"), "deep": None if rng.random() < null else {"s": leaf("inner.deep.s")}}
        flat = {path: leaf(path) for path in LEAVES if "." not in path}
        return {**flat, "inner": None if rng.random() < null else inner, "case": case}

    return [row() for _ in range(rng.choice([1, 2, 5, 40]))]


def at(row: Mapping[str, Any], path: str) -> Any:
    value: Any = row
    for name in path.split("."):
        value = None if value is None else value[name]
    return value


# --- two tables of the same rows -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Tables:
    ours: DataFrame
    plain: DataFrame
    """The same files, read without statistics."""
    stats: Mapping[int, tuple[dict[str, Any], dict[str, Any]]]
    """For each case: ours, and Delta's."""
    rows: Sequence[Row]


@pytest.fixture(scope="module")
def tables(spark: Callable[[], SparkSession], tmp_path_factory: pytest.TempPathFactory) -> Tables:
    folder = tmp_path_factory.mktemp("stats")
    rows = [row for case in range(CASES) for row in some_rows(case)]
    files = write_files(folder / "ours", pa.Table.from_pylist(rows, SCHEMA))
    session = spark()
    schema = session.createDataFrame([], f"{DDL}, case INT").schema
    adopt(folder / "ours", files, schema.json())
    plain = session.read.schema(schema).parquet(*map(str, (folder / "ours").glob("case=*")))
    plain = plain.drop("case").withColumn("case", F.regexp_extract(F.input_file_name(), "case=([0-9]+)", 1).cast("int"))
    plain.write.format("delta").partitionBy("case").save(str(folder / "deltas"))
    theirs = {int(add["partitionValues"]["case"]): json.loads(add["stats"], **EXACT) for add in adds(folder / "deltas")}
    own = {int(file.partition_values["case"] or -1): json.loads(file.stats, **EXACT) for file in files}
    assert own.keys() == theirs.keys() == set(range(CASES))
    ours = session.read.format("delta").load(str(folder / "ours"))
    return Tables(ours, plain, {case: (own[case], theirs[case]) for case in own}, rows)


EXACT: Any = {"parse_float": str, "parse_int": str}


def write_files(root: Path, table: pa.Table) -> list[DataFile]:
    layout = TableLayout("", ("case",), tuple(LEAVES), CHARS, 128 << 20)
    names = map(str, range(10_000))
    writer = DataFileWriter(
        LocalStore(root), layout, SCHEMA, buffer=BufferBudget(64 << 20), new_name=names.__next__, clock=time.time
    )
    for start in range(0, table.num_rows, 100):
        writer.write(table.slice(start, 100))
    return writer.close()


def adopt(root: Path, files: Sequence[DataFile], schema: str) -> None:
    """A Delta table of these files, with a commit written by hand."""
    features = ["timestampNtz"]
    protocol = {
        "minReaderVersion": 3,
        "minWriterVersion": 7,
        "readerFeatures": features,
        "writerFeatures": features,
    }
    metadata = {
        "id": "00000000-0000-0000-0000-000000000001",
        "format": {"provider": "parquet", "options": {}},
        "schemaString": schema,
        "partitionColumns": ["case"],
        "configuration": {},
        "createdTime": 0,
    }
    added = [
        {
            "path": file.path,
            "partitionValues": dict(file.partition_values),
            "size": file.size,
            "modificationTime": int(file.modified_ts * 1000),
            "dataChange": True,
            "stats": file.stats,
        }
        for file in files
    ]
    actions = [{"protocol": protocol}, {"metaData": metadata}, *({"add": add} for add in added)]
    (root / "_delta_log").mkdir()
    (root / "_delta_log" / f"{0:020}.json").write_text("".join(json.dumps(action) + "\n" for action in actions))


def adds(root: Path) -> list[dict[str, Any]]:
    lines = (line for path in sorted(root.glob("_delta_log/*.json")) for line in path.read_text().splitlines())
    return [action["add"] for action in map(json.loads, lines) if "add" in action]


# --- statistics ----------------------------------------------------------------------------------------------------


def order(value: Any, kind: pa.DataType) -> Any:
    """In Spark's order: strings by their UTF-8 bytes."""
    if pa.types.is_floating(kind):
        number = float(value) if kind.bit_width == 64 else struct.unpack("f", struct.pack("f", float(value)))[0]
        return (number != number, 0.0 if number != number else number)
    if pa.types.is_string(kind):
        return str(value).encode()
    if pa.types.is_date(kind):
        return date.fromisoformat(str(value))
    if pa.types.is_timestamp(kind):
        return datetime.fromisoformat(str(value))
    return Decimal(value)


@pytest.mark.parametrize("path", LEAVES)
def test_statistics_are_equal_to_deltas_or_wider(tables: Tables, path: str) -> None:
    kind = LEAVES[path]
    bounded = 0
    for case, (ours, theirs) in tables.stats.items():
        assert ours["numRecords"] == theirs["numRecords"]
        assert at(ours["nullCount"], path) == at(theirs["nullCount"], path)
        lows, highs = ([section(stats, name, path) for stats in (ours, theirs)] for name in ("minValues", "maxValues"))
        if lows[0] is not None:
            assert order(lows[0], kind) <= order(lows[1], kind), case
            bounded += 1
        if highs[0] is not None:
            slack = 0 if not pa.types.is_timestamp(kind) else 1
            values = [at(row, path) for row in tables.rows if row["case"] == case]
            assert all(order(highs[0], kind) >= order(value, kind) for value in values if value is not None), case
            if not pa.types.is_string(kind):
                assert order(highs[0], kind) >= order(highs[1], kind), case
                assert not slack or order(highs[0], kind) - order(highs[1], kind) <= timedelta(milliseconds=slack)
    with_values = sum(section(theirs, "minValues", path) is not None for _, theirs in tables.stats.values())
    assert with_values >= bounded >= with_values * 0.5


def section(stats: Mapping[str, Any], name: str, path: str) -> Any:
    value: Any = stats.get(name)
    for part in path.split("."):
        value = None if value is None else value.get(part)
    return value


@pytest.mark.parametrize("path", [path for path, kind in LEAVES.items() if not pa.types.is_floating(kind)])
def test_only_floats_and_the_last_character_of_unicode_leave_out_a_bound(tables: Tables, path: str) -> None:
    for ours, theirs in tables.stats.values():
        for name in ("minValues", "maxValues"):
            if section(theirs, name, path) is not None and section(ours, name, path) is None:
                assert name == "maxValues"
                assert pa.types.is_string(LEAVES[path])
                assert "\U0010ffff" in section(theirs, name, path)


# --- queries -------------------------------------------------------------------------------------------------------


def literal(value: Any, kind: pa.DataType) -> Column:
    if pa.types.is_timestamp(kind):
        return F.expr(f"timestamp{'' if kind.tz else '_ntz'}'{value.replace(tzinfo=None).isoformat(' ')}'")
    if pa.types.is_date(kind):
        return F.expr(f"date'{value.isoformat()}'")
    return F.lit(value)


def conditions(rows: Sequence[Row], path: str) -> list[Column]:
    """Conditions that wrong statistics would fail: comparisons with values of rows, some of each case."""
    rng = random.Random(path)
    kind, column = LEAVES[path], F.col(path)
    there = [at(row, path) for row in rows if at(row, path) is not None]
    if pa.types.is_boolean(kind):
        return [column.isNull(), column == F.lit(True)]
    values = [literal(value, kind) for value in rng.sample(there, 3)]
    found = [column == values[0], column <= values[1], column >= values[2], column.isNull()]
    if pa.types.is_string(kind):
        found += [column == F.lit(max(there, key=str.encode)), column.startswith("é" * (CHARS - 1))]
    if pa.types.is_floating(kind):
        found += [F.isnan(column), column == F.lit(0.0), column > F.lit(1e29)]
    return found


@pytest.mark.parametrize("path", LEAVES)
def test_no_query_misses_a_row_because_of_the_statistics(
    tables: Tables, path: str, spark: Callable[[], SparkSession], request: pytest.FixtureRequest
) -> None:
    if pa.types.is_floating(LEAVES[path]):
        # Within a file Spark itself takes 0.0 and -0.0 for two numbers, in tables of its own, too.
        spark().conf.set("spark.sql.parquet.filterPushdown", "false")
        request.addfinalizer(lambda: spark().conf.unset("spark.sql.parquet.filterPushdown"))
    asked = conditions(tables.rows, path)
    (wanted,) = tables.plain.agg(*(F.count_if(condition) for condition in asked)).collect()
    counts = [
        tables.ours.where(condition).agg(F.lit(number).alias("number"), F.count("*").alias("rows"))
        for number, condition in enumerate(asked)
    ]
    together = counts[0]
    for count in counts[1:]:
        together = together.unionAll(count)
    found = {row["number"]: row["rows"] for row in together.collect()}
    assert [found[number] for number in range(len(asked))] == list(wanted)


def test_queries_skip_files_by_the_statistics(tables: Tables) -> None:
    assert len(tables.ours.where("l < -9000000000000000000").inputFiles()) < CASES // 2
    assert len(tables.ours.where("s > 'é'").inputFiles()) < CASES
    assert len(tables.ours.where("at < timestamp'0001-06-01 00:00:00'").inputFiles()) < CASES


def test_metadata_only_queries_are_right(tables: Tables) -> None:
    names = ["t", "i", "l", "f", "d", "day"]
    asked = [F.count("*"), *(F.min(name) for name in names), *(F.max(name) for name in names)]
    assert repr(tables.ours.agg(*asked).collect()) == repr(tables.plain.agg(*asked).collect())


def test_spark_reads_our_files_as_they_were_written(tables: Tables) -> None:
    """Read through Arrow: collecting would convert times of year 1 with the C library's calendar."""
    read = tables.ours.select(*SCHEMA.names).toArrow()
    given = pa.Table.from_pylist(list(tables.rows), SCHEMA)
    assert sorted(map(repr, read.to_pylist())) == sorted(map(repr, given.to_pylist()))
