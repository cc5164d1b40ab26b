"""The types of derived columns."""

from collections.abc import Mapping, Sequence
from contextlib import suppress

from pyspark.sql.types import StructField, StructType

from blizzard.config.expressions.syntax import NotUnderstood
from spark_job.expressions.spark_types import spark_type
from spark_job.expressions.understood import understood
from spark_job.formats.nullable_type import nullable_type
from spark_job.table.engine import TableEngine


def derived_columns(derive: Mapping[str, str], read: Sequence[StructField], engine: TableEngine) -> list[StructField]:
    """`read`: the columns that the expressions may name. Spark is asked for the types of expressions that only it
    evaluates."""
    known = known_columns(derive, read)
    others = {name: sql for name, sql in derive.items() if name not in known}
    if others:
        nullable = StructType([StructField(f.name, nullable_type(f.dataType)) for f in read])
        known |= {
            field.name: StructField(field.name, nullable_type(field.dataType))
            for field in engine.types_of(others, nullable)
        }
    return [known[name] for name in derive]


def known_columns(derive: Mapping[str, str], read: Sequence[StructField]) -> dict[str, StructField]:
    """By name, those that the fast reader evaluates."""
    row, known = StructType([*read]), dict[str, StructField]()
    for name, sql in derive.items():
        with suppress(NotUnderstood, KeyError):
            known[name] = StructField(name, spark_type(understood(sql, row).type))
    return known
