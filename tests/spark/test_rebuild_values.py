"""Values that Spark has changed in a table are found before another one takes its place, and only those: what Spark's
writer has only copied is the same, whatever its type."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.unit.rebuild_lake import CONFIG, RebuildLake, told_by_process

pytestmark = pytest.mark.spark

SCHEMA = (
    "id STRING NOT NULL, amount BIGINT, small TINYINT, d DOUBLE, f FLOAT, n DECIMAL(9,2), t TIMESTAMP, "
    "z TIMESTAMP_NTZ, day DATE, flag BOOLEAN, b BINARY, "
    "items ARRAY<STRUCT<sku: STRING, at: TIMESTAMP>>, m MAP<STRING, DOUBLE>, s STRUCT<x: INT, y: STRUCT<z: STRING>>"
)
FULL = {
    "small": 7,
    "d": 0.1,
    "f": 0.1,
    "n": 1.5,
    "t": "2026-01-02T03:04:05.678901Z",
    "z": "2026-01-02T03:04:05.678901",
    "day": "2026-01-02",
    "flag": True,
    "b": "YWJj",
    "items": [{"sku": "a", "at": "1999-12-31T23:59:59Z"}, {"sku": None}],
    "m": {"k": 1.5, "l": None},
    "s": {"x": 1, "y": {"z": "é"}},
}


@pytest.mark.parametrize("has_vectors", [False, True])
def test_values_that_spark_has_changed(
    has_vectors: bool, tmp_path: Path, spark: Callable[[], SparkSession], monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = RebuildLake(tmp_path, CONFIG.replace("id STRING NOT NULL, amount BIGINT", SCHEMA))
    records = [{"id": f"{n}", "amount": n, **(FULL if n % 2 else {})} for n in range(6)]
    for name in ("a", "b"):
        (tmp_path / f"incoming/{name}.ndjson").write_text("\n".join(map(json.dumps, records)) + "\n")
    assert lake.run() == 0
    assert lake.rebuild_table(swap=False) == 0
    told = told_by_process(monkeypatch)
    table = f"delta.`{tmp_path}/lake`"
    value = str(has_vectors).lower()
    spark().sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('delta.enableDeletionVectors' = '{value}')")
    spark().sql(f"UPDATE {table} SET m = map('k', 1.5D) WHERE id = '3' AND _source.file = 'b.ndjson'")
    assert lake.rebuild_table() == 1
    found = told[-1]["compared"]
    assert (found["names"], found["changed_rows"], found["problem"]) == ({"changed": ["b.ndjson"]}, 1, None)
