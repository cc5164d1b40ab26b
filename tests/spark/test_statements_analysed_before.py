"""SQL of others that Delta has analysed before a column is added, and runs afterwards (docs/schemas.md)."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

BEFORE, AFTER = [("a", 1)], [("b", 2, "kept"), ("c", 3, "gone")]
STATEMENTS = {"DELETE": "DELETE FROM {} WHERE n = 3", "UPDATE": "UPDATE {} SET id = 'd' WHERE n = 3"}
MERGE = "MERGE INTO {} t USING (SELECT 3 AS n) s ON t.n = s.n WHEN MATCHED THEN DELETE"


def run_after_a_new_column(spark: SparkSession, table: Path, statement: str, *, deletion_vectors: bool) -> Any:
    """What column `f` has in the row with n = 2 at the end."""
    name = f"delta.`{table}`"
    properties = f"TBLPROPERTIES ('delta.enableDeletionVectors' = '{str(deletion_vectors).lower()}')"
    spark.sql(f"CREATE TABLE {name} (id STRING, n BIGINT) USING delta {properties}")
    spark.createDataFrame(BEFORE, "id STRING, n BIGINT").write.format("delta").mode("append").save(f"{table}")
    jvm, state = spark._jvm, spark._jsparkSession.sessionState()
    modes = singleton(jvm, "org.apache.spark.sql.execution.CommandExecutionMode")
    analysed = state.executePlan(state.sqlParser().parsePlan(statement.format(name)), modes.SKIP()).analyzed()
    spark.sql(f"ALTER TABLE {name} ADD COLUMNS (f STRING)")
    rows = spark.createDataFrame(AFTER, "id STRING, n BIGINT, f STRING").coalesce(1)
    rows.write.format("delta").mode("append").save(f"{table}")
    singleton(jvm, "org.apache.spark.sql.classic.Dataset").ofRows(spark._jsparkSession, analysed)
    return spark.read.format("delta").load(f"{table}").where("n = 2").collect()[0]["f"]


def singleton(jvm: Any, name: str) -> Any:
    """An object of Scala."""
    return jvm.java.lang.Class.forName(f"{name}$").getField("MODULE$").get(None)


@pytest.mark.parametrize("statement", STATEMENTS.values(), ids=STATEMENTS)
@pytest.mark.parametrize(("deletion_vectors", "kept"), [(False, None), (True, "kept")], ids=["rewritten", "marked"])
def test_a_statement_loses_values_in_a_column_that_it_does_not_know_unless_rows_are_only_marked(
    spark: Callable[[], SparkSession], tmp_path: Path, statement: str, deletion_vectors: bool, kept: str | None
) -> None:
    """Delta's own fault. If it is mended, docs/schemas.md and the campaign `race` need not allow for it any more."""
    table = tmp_path / "table"
    assert run_after_a_new_column(spark(), table, statement, deletion_vectors=deletion_vectors) == kept


def test_a_merge_notices_a_column_that_it_does_not_know(spark: Callable[[], SparkSession], tmp_path: Path) -> None:
    with pytest.raises(AnalysisException, match="DELTA_SCHEMA_CHANGE_SINCE_ANALYSIS"):
        run_after_a_new_column(spark(), tmp_path / "table", MERGE, deletion_vectors=False)
