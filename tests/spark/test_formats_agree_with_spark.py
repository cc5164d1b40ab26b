"""Generated files, read by each format of ours and by Spark's own reader: every row is equal.

Where the two differ on purpose is in the other modules of this folder whose names begin with `test_differences_`.
"""

import csv
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from tests.spark.format_comparison import Comparison, differences
from tests.spark.format_files import (
    arrow_table,
    avro_file,
    avro_schema,
    csv_file,
    json_file,
    xml_file,
)
from tests.spark.format_values import FLAT, INTEGER_COLUMNS, NESTED, ODD_CHARACTERS, Values, leaves_mapped
from tests.unit.table_files import orc_file, parquet

pytestmark = pytest.mark.spark

RECORDS = 150
RFC_4180 = {"header": True, "escape": '"', "multiLine": True}


def check(ours: Any, sparks: Any) -> None:
    assert differences(ours, sparks) == []
    assert len(ours) == RECORDS


def csv_texts(left_out: str = "") -> Values:
    """Not empty, since Spark reads an empty field in quotes as null; no NUL and no CR, see the differences."""
    odd = "".join(set(ODD_CHARACTERS) - set(left_out))
    some = st.characters(exclude_categories=["Cs"], exclude_characters=["\0", "\r", *left_out])
    return Values(st.text(some, min_size=1, max_size=8) | st.text(odd, min_size=1, max_size=6))


@pytest.mark.parametrize(
    ("form", "ours", "sparks"),
    [
        ({}, {}, RFC_4180),
        ({"delimiter": ";", "quoting": csv.QUOTE_MINIMAL, "lineterminator": "\n"}, {"delimiter": ";"}, {"sep": ";"}),
        ({"delimiter": "\t", "quotechar": "'"}, {"delimiter": "\t", "quote": "'"}, {"sep": "\t", "quote": "'"}),
    ],
    ids=["default", "semicolon", "tab"],
)
def test_csv(comparison: Comparison, form: dict[str, Any], ours: dict[str, Any], sparks: dict[str, Any]) -> None:
    stored = csv_file(FLAT, csv_texts().records(FLAT, RECORDS), **form)
    options = {**RFC_4180, "escape": form.get("quotechar", '"'), **sparks}
    check(comparison.ours("csv", FLAT, stored, **ours), comparison.spark("csv", FLAT, stored, **options))


@pytest.mark.parametrize("encoding", ["utf-16", "iso-8859-1"])
def test_csv_in_other_encodings(comparison: Comparison, encoding: str) -> None:
    texts = Values(st.text(st.characters(codec="latin-1", exclude_characters="\0\r"), min_size=1, max_size=8))
    ddl = "id BIGINT, `ü` STRING, v STRING"
    stored = csv_file(ddl, texts.records(ddl, RECORDS), encoding)
    ours = comparison.ours("csv", ddl, stored, encoding=encoding)
    check(ours, comparison.spark("csv", ddl, stored, **RFC_4180, encoding=encoding))


def test_csv_that_spark_wrote(comparison: Comparison, spark: Callable[[], SparkSession], tmp_path: Path) -> None:
    ddl = "id BIGINT, v STRING, w STRING"
    rows = csv_texts().records(ddl, RECORDS)
    frame = spark().createDataFrame([tuple(row.values()) for row in rows], ddl).coalesce(1)
    frame.write.option("header", True).csv(str(tmp_path / "written"))
    (file,) = (tmp_path / "written").glob("*.csv")
    ours = comparison.ours("csv", ddl, file.read_bytes(), escape="\\")
    check(ours, comparison.spark("csv", ddl, file.read_bytes(), header=True, multiLine=True))


@pytest.mark.parametrize("ensure_ascii", [True, False])
def test_json(comparison: Comparison, ensure_ascii: bool) -> None:
    ddl = f"{FLAT}, bytes BINARY, {NESTED}"
    stored = json_file(Values().records(ddl, RECORDS), ensure_ascii=ensure_ascii, indent=None if ensure_ascii else 1)
    check(comparison.ours("json", ddl, stored), comparison.spark("json", ddl, stored, multiLine=True))


@pytest.mark.parametrize("form", [{}, {"compression": "zstd", "row_group_size": 70, "use_dictionary": False}])
def test_parquet(comparison: Comparison, form: dict[str, Any]) -> None:
    ddl = f"{FLAT}, bytes BINARY, {NESTED}"
    stored = parquet(arrow_table(ddl, Values().records(ddl, RECORDS)), **form)
    check(comparison.ours("parquet", ddl, stored), comparison.spark("parquet", ddl, stored))


@pytest.mark.parametrize("compression", ["uncompressed", "zstd"])
def test_orc(comparison: Comparison, compression: str) -> None:
    ddl = f"{FLAT}, bytes BINARY, {NESTED}".replace("wall TIMESTAMP_NTZ", "z INT")
    # pyarrow holds times of ORC in nanoseconds, and Spark cannot read fractions of seconds that it wrote before 1970.
    records = Values(years=(1970, 2261)).records(ddl, RECORDS)
    table = arrow_table(ddl.replace("TIMESTAMP", "TIMESTAMP_NTZ"), without_zones(records))
    stored = orc_file(table, compression=compression)
    check(comparison.ours("orc", ddl, stored), comparison.spark("orc", ddl, stored))


def test_orc_that_spark_wrote(comparison: Comparison, spark: Callable[[], SparkSession], tmp_path: Path) -> None:
    ddl = "id BIGINT, `a-b` STRING, `ü` DOUBLE, money DECIMAL(10,2), day DATE, at TIMESTAMP"
    rows = Values(years=(1678, 2261)).records(ddl, RECORDS)
    frame = spark().createDataFrame([tuple(row.values()) for row in rows], ddl).coalesce(1)
    frame.write.orc(str(tmp_path / "written"))
    (file,) = (tmp_path / "written").glob("*.orc")
    check(comparison.ours("orc", ddl, file.read_bytes()), comparison.spark("orc", ddl, file.read_bytes()))


def without_zones(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    def bare(value: Any) -> Any:
        return value.replace(tzinfo=None) if getattr(value, "tzinfo", None) else value

    return [leaves_mapped(record, bare) for record in records]


def test_avro(comparison: Comparison, spark_avro: None) -> None:
    # Names of Avro are made of letters, digits and underscores, and its integers are of two sizes.
    ddl = f"{FLAT}, bytes BINARY, {NESTED}".replace("`a-b`", "a_b").replace("`ü`", "_u").replace("`Ü`", "U")
    ddl = ddl.replace("`dotted.name`", "named").replace(INTEGER_COLUMNS, "i32 INT, i64 BIGINT")
    stored = avro_file(avro_schema(ddl), Values().records(ddl, RECORDS))
    check(comparison.ours("avro", ddl, stored), comparison.spark("avro", ddl, stored))


@pytest.mark.parametrize("codec", ["uncompressed", "deflate", "snappy", "zstandard", "bzip2", "xz"])
def test_avro_that_spark_wrote(
    comparison: Comparison, spark: Callable[[], SparkSession], spark_avro: None, tmp_path: Path, codec: str
) -> None:
    ddl = "id BIGINT, v STRING, money DECIMAL(10,2), at TIMESTAMP"
    rows = Values().records(ddl, RECORDS)
    frame = spark().createDataFrame([tuple(row.values()) for row in rows], ddl).coalesce(1)
    frame.write.format("avro").option("compression", codec).save(str(tmp_path / "written"))
    (file,) = (tmp_path / "written").glob("*.avro")
    check(comparison.ours("avro", ddl, file.read_bytes()), comparison.spark("avro", ddl, file.read_bytes()))


XML_DDL = f"""_id BIGINT, `_ü` STRING, {FLAT.replace("id BIGINT, ", "")},
    point STRUCT<`a-b`: INT, `Ü`: STRING, deep: STRUCT<m: DECIMAL(10,2), at: TIMESTAMP>>, numbers ARRAY<BIGINT>,
    price STRUCT<_currency: STRING, _VALUE: DECIMAL(5,2)>, points ARRAY<STRUCT<x: INT, day: ARRAY<DATE>>>,
    words MAP<STRING, DOUBLE>"""


def test_xml(comparison: Comparison) -> None:
    some = st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="\ufffe\uffff")
    odd = st.text(ODD_CHARACTERS.replace("\u007f", "").replace("\u0085", ""), max_size=6)
    values = Values(st.text(some, max_size=8) | odd, keys=st.text("abc\u00fc", min_size=1, max_size=3))
    stored = xml_file(values.records(XML_DDL, RECORDS))
    for bits in (31, 63):  # Spark does not read the least ones
        stored = stored.replace(f"{-(1 << bits)}".encode(), b"-1")
    ours = comparison.ours("xml", XML_DDL, stored, row_tag="one")
    check(ours, comparison.spark("xml", XML_DDL, stored, rowTag="one"))
