"""Expressions over columns of Spark's types."""

from pyspark.sql.types import StructType

from blizzard.config.expressions.syntax import Expression
from blizzard.config.expressions.typed import Columns, understand
from spark_job.expressions.spark_types import ddl_types


def understood(sql: str, columns: StructType) -> Expression:
    """Raises NotUnderstood for an expression that only Spark evaluates."""
    return understand(sql, Columns(ddl_types(columns.fields)))
