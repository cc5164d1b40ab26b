"""Errors in real tasks, as the driver reports them."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from blizzard.errors import RetryableError, StorageError
from blizzard.log import silent
from blizzard.manifest.segments import FoundBy
from blizzard.state.batch import PlannedFile
from blizzard.state.dead_letters import DeadLetters
from blizzard.storage.local import LocalStore
from blizzard.storage.s3_connection import S3Settings
from spark_job.engines.spark.engine import SparkEngine
from spark_job.formats.protocol import Limits
from spark_job.table.schema import columns_of
from spark_job.table.staging import Staging
from spark_job.tasks.read_settings import ReadSettings
from spark_job.tasks.reader import BatchReader
from spark_job.write.data_file import TableLayout

pytestmark = pytest.mark.spark

TAKEN_AT_ONCE, FOR_SPARK = b'{"n":1,"t":"a"}', b'{"n":2,"t":7}'


def reader_of(folder: Path, spark: Callable[[], SparkSession], line: bytes, **settings: Any) -> BatchReader:
    """Of a source with one file. A file is in the place of the folder for its data files."""
    landing, table = LocalStore(folder / "landing"), LocalStore(folder / "table")
    landing.put("day=1/a.ndjson", line)
    table.put("taken", b"")
    return BatchReader(
        SparkEngine(spark),
        uri=str(folder / "landing"),
        table_uri=str(folder / "table"),
        s3=S3Settings(),
        settings=ReadSettings("ndjson", **settings),
        record_type=lambda: columns_of("n BIGINT, t STRING"),
        partition_columns={},
        source_id="p:s",
        layout=lambda **_: TableLayout("taken/", (), (), 32, 1 << 27),
        layout_reason=lambda: None,
        staging=Staging(table, "_blizzard/x", clock=lambda: 0.0, new_id=lambda: "id"),
        dead_letters=DeadLetters(table, "_blizzard/x", "p:s"),
        clock=lambda: 0.0,
        log=silent,
        in_memory_bytes=0,
    )


PLANNED = [PlannedFile("day=1/a.ndjson", 15, 0.0, FoundBy.EVENT)]


@pytest.mark.parametrize("line", [TAKEN_AT_ONCE, FOR_SPARK], ids=["by the task", "by the slow path"])
def test_a_storage_error_of_the_table_ends_the_run_with_its_reason(
    tmp_path: Path, spark: Callable[[], SparkSession], line: bytes
) -> None:
    spark()
    reader = reader_of(tmp_path, spark, line)
    with pytest.raises(
        StorageError, match=r"^the table's storage refused the rows: put file://\S+/table/taken/part-\S+: "
    ) as raised:
        reader.read(PLANNED, sequence=3)
    assert "no file of the source is at fault" in str(raised.value)
    assert "Traceback" not in str(raised.value)


def test_an_unexpected_error_names_the_file_and_the_end_of_its_traceback(
    tmp_path: Path, spark: Callable[[], SparkSession]
) -> None:
    spark()
    nonsense: Any = "as many as fit"
    reader = reader_of(tmp_path, spark, TAKEN_AT_ONCE, limits=Limits(max_file_bytes=nonsense))
    with pytest.raises(RetryableError) as raised:
        reader.read(PLANNED, sequence=3)
    assert "\nTypeError: '>' not supported between instances of 'int' and 'str'\nwhile reading day=1/a.ndjson\n" in str(
        raised.value
    )
