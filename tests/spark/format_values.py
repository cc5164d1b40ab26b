"""Values of all types of columns, and records of them, for files that two readers are to read alike."""

import random
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime
from decimal import Context, Decimal
from functools import cache
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    MapType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from spark_job.formats.nested_columns import INTEGERS
from spark_job.table.schema import columns_of

INTEGER_COLUMNS = "i8 TINYINT, i16 SMALLINT, i32 INT, i64 BIGINT"
FLAT = f"""id BIGINT, `a-b` STRING, `ü` STRING, UPPER BOOLEAN, `dotted.name` INT, {INTEGER_COLUMNS}, f32 FLOAT,
    f64 DOUBLE, money DECIMAL(4,2), exact DECIMAL(38,18), whole DECIMAL(20,0), day DATE, at TIMESTAMP,
    wall TIMESTAMP_NTZ"""
NESTED = """point STRUCT<`a-b`: INT, `Ü`: STRING, deep: STRUCT<m: DECIMAL(10,2), at: TIMESTAMP>>, numbers ARRAY<BIGINT>,
    points ARRAY<STRUCT<x: INT, words: ARRAY<STRING>>>, words MAP<STRING, DOUBLE>, days MAP<STRING, STRUCT<d: DATE>>"""
ODD_CHARACTERS = " \t\n,;:|\"'\\/#<>&{}[]=%\u00e9\u00df\u4e2d\u2028\u0085\u00a0\ufeff\U0001f600\u0301aB0-_.\u007f"
DRAWN = 30
NULL_SHARE = 0.15


@cache
def _limits(first_year: int, last_year: int) -> tuple[datetime, datetime]:
    return datetime(first_year, 1, 1), datetime(last_year, 12, 31, 23, 59, 59, 999_999)  # noqa: DTZ001 - some have none


class Values:
    """The values of a format. `texts`: its strings. `keys`: those of maps. `years`: of its dates and times."""

    def __init__(
        self,
        texts: st.SearchStrategy[str] | None = None,
        keys: st.SearchStrategy[str] | None = None,
        years: tuple[int, int] = (1, 9999),
    ) -> None:
        self._texts = st.text(max_size=8) | st.text(ODD_CHARACTERS, max_size=6) if texts is None else texts
        self._keys = st.text("abc-\u00fc", min_size=1, max_size=3) if keys is None else keys
        self._first, self._last = _limits(*years)

    def records(self, ddl: str, count: int, seed: int = 1) -> list[dict[str, Any]]:
        """Each value that was drawn for a column is in one of them, if there are enough."""
        order = random.Random(seed)
        columns = {field.name: self._column(field.dataType, count, order) for field in columns_of(ddl)}
        return [
            {name: number if name == "id" else values[number] for name, values in columns.items()}
            for number in range(count)
        ]

    def _column(self, data_type: DataType, count: int, order: random.Random) -> list[Any]:
        pool = drawn(self.of(data_type), DRAWN)
        chosen = [*pool, *(order.choice(pool) for _ in range(max(0, count - len(pool))))]
        order.shuffle(chosen)
        return [None if order.random() < NULL_SHARE else value for value in chosen]

    def of(self, data_type: DataType) -> st.SearchStrategy[Any]:
        """Not null itself; its parts may be."""
        if isinstance(data_type, StructType):
            fields = {field.name: self.of(field.dataType) | st.none() for field in data_type}
            return st.fixed_dictionaries(fields)
        if isinstance(data_type, ArrayType):
            return st.lists(self.of(data_type.elementType) | st.none(), max_size=3)
        if isinstance(data_type, MapType):
            return st.dictionaries(self._keys, self.of(data_type.valueType) | st.none(), max_size=3)
        if isinstance(data_type, DecimalType):
            return _decimals(data_type)
        if type(data_type) in INTEGERS:
            half = 1 << (INTEGERS[type(data_type)].bit_width - 1)
            return st.integers(-half, half - 1) | st.sampled_from([-half, half - 1, 0, -1])
        return self._leaves()[type(data_type)]

    def _leaves(self) -> Mapping[type[DataType], st.SearchStrategy[Any]]:
        naive = st.datetimes(self._first, self._last)
        return {
            StringType: self._texts,
            BooleanType: st.booleans(),
            BinaryType: st.binary(max_size=6),
            FloatType: st.floats(width=32),
            DoubleType: st.floats(),
            DateType: st.dates(self._first.date(), self._last.date())
            | st.sampled_from([self._first.date(), self._last.date(), date(2024, 2, 29)]),
            TimestampNTZType: naive | st.sampled_from([self._first, self._last]),
            TimestampType: naive.map(lambda moment: moment.replace(tzinfo=UTC)),
        }


def _decimals(data_type: DecimalType) -> st.SearchStrategy[Any]:
    last = 10**data_type.precision - 1
    unscaled = st.integers(-last, last) | st.sampled_from([last, -last, 0, 1])
    return unscaled.map(lambda number: scaled(number, data_type.scale))


def scaled(number: int, scale: int) -> Decimal:
    return Decimal(number).scaleb(-scale, Context(prec=60))


def drawn(strategy: st.SearchStrategy[Any], count: int) -> list[Any]:
    """Many examples at once: a Spark job for each would take hours. As many times `count` as the profile has more
    examples than Hypothesis's default."""
    found: list[Any] = []

    @settings(
        max_examples=count * settings().max_examples // 100, database=None, suppress_health_check=list(HealthCheck)
    )
    @given(strategy)
    def collect(value: Any) -> None:
        found.append(value)

    collect()
    return found


def leaves_mapped(record: Any, change: Callable[[Any], Any]) -> Any:
    """The record with each leaf changed; None stays."""
    if isinstance(record, dict):
        return {name: leaves_mapped(value, change) for name, value in record.items()}
    if isinstance(record, list):
        return [leaves_mapped(value, change) for value in record]
    return None if record is None else change(record)
