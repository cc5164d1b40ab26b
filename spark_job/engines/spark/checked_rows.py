"""Whether the rows of a table satisfy constraints that it does not have yet."""

from collections.abc import Mapping, Sequence

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructField

from blizzard.errors import PermanentError
from spark_job.table.configured_changes import Widening
from spark_job.table.sql import quoted


def check_rows(
    rows: DataFrame,
    uri: str,
    added: Sequence[StructField],
    widened: Sequence[Widening],
    constraints: Mapping[str, str],
) -> None:
    """As they will be with the columns `added` and `widened`. Raises PermanentError if one violates a constraint. One
    that names a field which is added to a column that the table has is not checked."""
    present = {name.lower() for name in rows.columns}
    new = [field for field in added if field.name.lower() not in present]
    rows = rows.select("*", *(F.lit(None).cast(field.dataType).alias(field.name) for field in new))
    for one in widened:
        if len(one.path) == 1:
            rows = rows.withColumn(one.path[0], F.col(quoted(one.path[0])).cast(one.after))
    for name, sql in constraints.items():
        try:
            bad = rows.where(f"NOT coalesce(({sql}\n), false)").count()
        except AnalysisException:
            if len(new) == len(added):
                raise
            continue
        if bad:
            raise PermanentError(
                f"{bad} rows in {uri} violate the new CHECK constraint {name} ({sql}). Nothing was changed. Correct "
                "the rows, or take the constraint out of the configuration."
            )
