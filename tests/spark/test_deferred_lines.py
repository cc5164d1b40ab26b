"""Rows, dead letters and counts are the same whether the fast parser or Spark decides a line."""

import gzip
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from blizzard.log import silent
from blizzard.manifest.segments import FoundBy
from blizzard.state.batch import PlannedFile
from blizzard.state.dead_letters import DeadLetters
from blizzard.storage.local import LocalStore
from blizzard.storage.s3_connection import S3Settings
from spark_job.engines.spark.engine import SparkEngine
from spark_job.table.schema import columns_of
from spark_job.table.staging import Staging
from spark_job.tasks.read_settings import ReadSettings
from spark_job.tasks.reader import BatchReader
from spark_job.write.data_file import TableLayout
from tests.spark.lake import jobs_so_far

pytestmark = pytest.mark.spark

GOOD, ODD, DEAD, DOUBTFUL = '{"n":1,"t":"a"}', '{"n":2,"t":7}', '{"n":"x"}', '{"n":{},"t":"b"}'
"""Accepted at once; deferred, and accepted by Spark; refused at once; deferred, and refused by Spark."""


def lines_of(kinds: str) -> list[str]:
    return [{"g": GOOD, "o": ODD, "d": DEAD, "?": DOUBTFUL}[kind] for kind in kinds]


FILES = {
    "a": lines_of("gdgogd?g"),
    "b": lines_of("ddd"),
    "é": lines_of("?o"),
    "z": lines_of("gdgg"),
    "z1": [*lines_of("gdo?"), "\xff"],  # not UTF-8, so that the file fails as a whole
}
SURELY_DEAD = {"a": lines_of("gdgg"), "b": ["no JSON", DEAD], "z": lines_of("gd")}


def read(
    folder: Path, spark: Callable[[], SparkSession], files: Mapping[str, list[str]], in_memory_bytes: int
) -> dict[str, Any]:
    """The result of a batch of these files."""
    landing, table = LocalStore(folder / "landing"), LocalStore(folder / "table")
    for name, lines in files.items():
        landing.put(name + ".gz", gzip.compress("\n".join(lines).encode("latin-1" if "\xff" in lines else "utf-8")))
    staging = Staging(table, "_blizzard/x", clock=lambda: 0.0, new_id=lambda: "id")
    letters = DeadLetters(table, "_blizzard/x", "p:s")
    reader = BatchReader(
        SparkEngine(spark),
        uri=str(folder / "landing"),
        table_uri=str(folder / "table"),
        s3=S3Settings(),
        settings=ReadSettings("ndjson"),
        record_type=lambda: columns_of("n BIGINT, t STRING"),
        partition_columns={},
        source_id="p:s",
        layout=lambda **_: TableLayout("", (), (), 32, 1 << 27),
        layout_reason=lambda: None,
        staging=staging,
        dead_letters=letters,
        clock=lambda: 0.0,
        log=silent,
        in_memory_bytes=in_memory_bytes,
    )
    planned = [PlannedFile(name + ".gz", 100, 0.0, FoundBy.EVENT) for name in files]
    rows = reader.read(planned, sequence=3)
    rows.write_dead_records()
    left = [info.key for info in table.list("_blizzard/x/staging/")]
    assert left
    written = spark().read.parquet(*(str(folder / "table" / file.path) for file in rows.data_files)).collect()
    rows.release()
    assert [*table.list("_blizzard/x/staging/")] == []
    return {
        "outcomes": {outcome.path: (outcome.rows, outcome.dead_records) for outcome in rows.outcomes},
        "rows": sorted((row["_source"]["file"], row["_source"]["row"], row["n"], row["t"]) for row in written),
        "letters": sorted((one["path"], one["row"], one["error"], one["raw"]) for one in letters.letters()),
    }


@pytest.mark.parametrize("in_memory_bytes", [0, 1 << 20], ids=["by Spark", "by the tasks as far as they can"])
def test_rows_dead_letters_and_counts_do_not_depend_on_who_decides(
    tmp_path: Path, spark: Callable[[], SparkSession], in_memory_bytes: int
) -> None:
    spark()
    found = read(tmp_path, spark, FILES, in_memory_bytes)
    wrong = "n: the value does not fit bigint"
    assert found["outcomes"] == {"a.gz": (5, 3), "b.gz": (0, 3), "é.gz": (1, 1), "z.gz": (3, 1), "z1.gz": (0, 0)}
    assert found["letters"] == sorted(
        [
            *(("a.gz", row, wrong, DEAD) for row in (1, 5)),
            ("a.gz", 6, wrong, DOUBTFUL),
            *(("b.gz", row, wrong, DEAD) for row in range(3)),
            ("é.gz", 0, wrong, DOUBTFUL),
            ("z.gz", 1, wrong, DEAD),
        ]
    )
    odd = [("a.gz", 3, 2, "7"), ("é.gz", 1, 2, "7")]
    good = [*(("a.gz", row, 1, "a") for row in (0, 2, 4, 7)), *(("z.gz", row, 1, "a") for row in (0, 2, 3))]
    # Rows of a small file that failed are in no data file.
    assert found["rows"] == sorted([*odd, *good])


def test_refused_records_need_no_spark_query(tmp_path: Path, spark: Callable[[], SparkSession]) -> None:
    spark()
    found = []
    for name, in_memory_bytes in (("spark", 0), ("tasks", 1 << 20)):
        before = jobs_so_far(spark())
        found.append(read(tmp_path / name, spark, SURELY_DEAD, in_memory_bytes))
        found[-1]["jobs"] = jobs_so_far(spark()) - before
    by_spark, by_tasks = found
    # The test itself asks for the rows, which takes as many in both.
    assert by_tasks.pop("jobs") < by_spark.pop("jobs")
    assert by_tasks == by_spark
    assert by_tasks["letters"][1][2].startswith("not JSON")
