"""An error of the table's storage in a task reaches the driver with its kind and its whole text."""

import errno
import json
import os
from pathlib import Path
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]
import pytest

from blizzard.errors import (
    AccessDenied,
    BlizzardError,
    LostRace,
    PermanentError,
    RetryableError,
    StorageError,
    StorageFull,
    StorageUnavailable,
    UnreadableState,
)
from blizzard.storage.s3_connection import S3Settings
from spark_job.engines.spark.decided_records_writer import DecidedRecordsWriter
from spark_job.tasks.batch_tasks import ReadTasks, Task
from spark_job.tasks.destination import Destination
from spark_job.tasks.provenance import Provenance
from spark_job.tasks.read_settings import ReadSettings
from spark_job.tasks.report import Report
from spark_job.write.data_file import TableLayout
from spark_job.write.write_errors import RefusedWrite, raise_refused

RECORD = '{"fields":[{"metadata":{},"name":"n","nullable":true,"type":"long"}],"type":"struct"}'
ADVICE = "x" * 5_000


def a_destination(folder: Path) -> Destination:
    layout = TableLayout("", (), (), 32, 1 << 20)
    return Destination(str(folder / "table"), layout, "_blizzard/left/", RECORD, Provenance("p:s", 1, {}))


def report_of_a_task(folder: Path) -> Report:
    """Of a task that reads a file of three lines, after it was JSON."""
    (folder / "landing").mkdir(exist_ok=True)
    (folder / "landing/a").write_bytes(b'{"n":1}\n{"n":2}\n{"n":{}}\n')
    task = Task(str(folder / "landing"), S3Settings(), ReadSettings("ndjson"), a_destination(folder))
    return Report.from_json(ReadTasks(task.to_json())(json.dumps([["a", 24, 0, None, None, [], None]])))


def refusing_disk(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    def refuse(_: int) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "fsync", refuse)


@pytest.mark.parametrize(
    ("number", "kind", "branch"),
    [
        (errno.ENOSPC, StorageFull, PermanentError),
        (errno.EACCES, AccessDenied, PermanentError),
        (errno.EFBIG, StorageError, PermanentError),
        (errno.ESTALE, StorageUnavailable, RetryableError),
    ],
)
def test_the_driver_raises_the_storage_error_of_a_task(
    number: int,
    kind: type[BlizzardError],
    branch: type[BlizzardError],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    whole = report_of_a_task(tmp_path)
    assert (whole.refused_write, len(whole.data_files), len(whole.deferred)) == (None, 1, 1)
    refusing_disk(monkeypatch, number)
    with pytest.raises(branch, match=f"{os.strerror(number)}.*no file of the source is at fault") as raised:
        raise_refused([report_of_a_task(tmp_path).refused_write])
    assert type(raised.value) is kind


def parsed(*records: int | None) -> pa.RecordBatch:
    """A row of Spark's parser: the columns of `LETTERS` and more. None is a record that it refused."""
    count = len(records)
    columns = {
        "file": pa.array(["a"] * count),
        "etag": pa.array(["e"] * count),
        "row": pa.array(range(count), pa.int64()),
        "line": pa.array(["{}"] * count),
        "undecodable": pa.nulls(count, pa.binary()),
        "member": pa.nulls(count, pa.string()),
        "about": pa.nulls(count, pa.string()),
        "fault": pa.array(["no" if n is None else None for n in records], pa.string()),
        "modified": pa.array([0] * count, pa.timestamp("us", "UTC")),
        "record": pa.array([{"n": n} for n in records], pa.struct([("n", pa.int64())])),
    }
    return pa.RecordBatch.from_pydict(columns)


def report_of_the_spark_fallback(folder: Path) -> dict[str, Any]:
    stage = DecidedRecordsWriter(a_destination(folder), S3Settings(), 1 << 20)
    rows = [row for batch in stage(iter([parsed(1, None), parsed(2)])) for row in batch.to_pylist()]
    assert [row["report"] is None for row in rows] == [True, False]
    report: dict[str, Any] = json.loads(rows[-1]["report"])
    return report


def test_the_driver_raises_the_storage_error_of_the_spark_fallback(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = report_of_the_spark_fallback(tmp_path)
    assert (whole["refused_write"], sum(file["rows"] for file in whole["data_files"])) == (None, 2)
    refusing_disk(monkeypatch, errno.ENOSPC)
    report = report_of_the_spark_fallback(tmp_path)
    assert report["data_files"] == []
    with pytest.raises(StorageFull, match=r"refused the rows: put .*: No space left on device"):
        raise_refused([RefusedWrite.from_document(report["refused_write"])])


def test_any_other_error_of_the_spark_fallback_names_the_file(tmp_path: Path) -> None:
    one = parsed(1)
    misfit = one.set_column(one.schema.get_field_index("record"), "record", pa.array([{"n": {"not": "a number"}}]))
    stage = DecidedRecordsWriter(a_destination(tmp_path), S3Settings(), 1)
    with pytest.raises(pa.ArrowException) as raised:
        [*stage(iter([one, misfit]))]
    assert raised.value.__notes__ == ["while writing rows up to those of a"]
    assert [place for place in (tmp_path / "table").rglob("*") if place.is_file()] == []


def test_the_whole_text_of_a_storage_error_reaches_the_driver() -> None:
    refused = RefusedWrite.of(AccessDenied(f"put a: no. {ADVICE}"))
    with pytest.raises(AccessDenied, match=ADVICE):
        raise_refused([Report.from_json(Report(refused_write=refused).to_json()).refused_write])


def test_a_permanent_storage_error_is_raised_before_a_transient_one() -> None:
    transient, permanent = RefusedWrite.of(StorageUnavailable("503")), RefusedWrite.of(StorageFull("full"))
    raise_refused([None, None])
    with pytest.raises(StorageFull):
        raise_refused([None, transient, permanent, transient])
    with pytest.raises(StorageUnavailable):
        raise_refused([None, transient])


@pytest.mark.parametrize(
    ("error", "kind"), [(LostRace("other"), StorageUnavailable), (UnreadableState("torn"), StorageError)]
)
def test_another_error_stays_retryable_or_permanent(error: BlizzardError, kind: type[BlizzardError]) -> None:
    assert type(RefusedWrite.of(error).error()) is kind
