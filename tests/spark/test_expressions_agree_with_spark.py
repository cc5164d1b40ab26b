"""The fast reader's values of expressions are those of Spark."""

import random
import unicodedata
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from spark_job.engines.spark.expressions import _VALUE, _tried, strict_session
from spark_job.expressions.row_checker import RowChecker
from spark_job.expressions.rules import Derived, RowRules
from spark_job.table.schema import columns_of
from tests.spark.expression_values import EXPRESSIONS, SCHEMA, random_rows

pytestmark = pytest.mark.spark


def _by_reader(rows: pa.Table, at_once: int) -> dict[str, list[Any]]:
    """For each expression its values; `fails` where it fails. `at_once`: so many rows are evaluated together: of few,
    all may be usual ones."""
    schema, numbers = columns_of(SCHEMA).json(), pa.array(range(rows.num_rows), pa.int64())
    numbered = rows.append_column("at", numbers)
    return {sql: _values(_twice(sql, schema), numbered, at_once) for sql in EXPRESSIONS}


def _twice(sql: str, columns: str) -> RowChecker:
    """As two columns, of which the second has what was evaluated for the first."""
    return RowChecker(RowRules(tuple(Derived(name, sql, by_spark=False) for name in "vw"), (), columns))


def _values(checker: RowChecker, numbered: pa.Table, at_once: int) -> list[Any]:
    values: list[Any] = ["fails"] * numbered.num_rows
    for start in range(0, numbered.num_rows, at_once):
        made = checker.apply(numbered.slice(start, at_once)).rows
        first, second = _plain(made["v"]), _plain(made["w"])
        assert first == second
        for at, value in zip(made["at"].to_pylist(), first, strict=True):
            values[at] = value
    return values


def _plain(column: pa.ChunkedArray) -> list[Any]:
    kind = column.type
    if pa.types.is_timestamp(kind):
        column = column.cast(pa.int64())
    elif pa.types.is_date(kind):
        column = column.cast(pa.int32())
    return [repr(value) if isinstance(value, float) else value for value in column.to_pylist()]


@pytest.mark.parametrize(("count", "at_once"), [(1_000, 1_000), (300, 4)])
def test_the_readers_values_are_those_of_spark(
    spark: Callable[[], SparkSession], tmp_path: Path, query_defaults: None, count: int, at_once: int
) -> None:
    """Values at every limit and at random, by a fixed seed. The generated code of Spark is compared."""
    rows = random_rows(random.Random(22), count)
    by_reader = _by_reader(rows, at_once)
    session = strict_session(spark())
    file = tmp_path / "rows.parquet"
    pq.write_table(rows, file)
    tried = [_tried(sql).alias(f"v{index}") for index, sql in enumerate(EXPRESSIONS)]
    found = session.read.schema(columns_of(SCHEMA)).parquet(str(file)).select(tried).toArrow()
    wrong = {}
    for index, (sql, expected) in enumerate(by_reader.items()):
        column = found[f"v{index}"].combine_chunks()
        values = _plain(pa.chunked_array([column.field(_VALUE)]))
        of_spark = [
            value if valid else "fails" for value, valid in zip(values, column.is_valid().to_pylist(), strict=True)
        ]
        differing = [
            (at, one, other) for at, (one, other) in enumerate(zip(expected, of_spark, strict=True)) if one != other
        ]
        if differing:
            wrong[sql] = differing[:3]
    assert wrong == {}


def test_small_and_capital_letters_are_those_of_spark(spark: Callable[[], SparkSession], tmp_path: Path) -> None:
    """Of all characters that have both, or that Python may not know yet."""
    known = (chr(code) for code in [*range(0xD800), *range(0xE000, 0x20000)])
    cased = [c for c in known if c.lower() != c or c.upper() != c or unicodedata.category(c) == "Cn"]
    characters = pa.table({"s": cased})
    file = tmp_path / "characters.parquet"
    pq.write_table(characters, file)
    found = spark().read.parquet(str(file)).selectExpr("s", "lower(s) AS lower", "upper(s) AS upper").toArrow()
    rules = RowRules(
        tuple(Derived(f"own_{of}", f"{of}(s)", by_spark=False) for of in ("lower", "upper")),
        (),
        columns_of("s STRING").json(),
    )
    own = RowChecker(rules).apply(found).rows
    assert own["own_lower"].equals(own["lower"])
    assert own["own_upper"].equals(own["upper"])
