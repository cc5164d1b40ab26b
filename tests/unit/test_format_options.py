"""The options of a format: from the fields of a source to `open_format`. No format has any today."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.types import StringType, StructField, StructType

from blizzard.config.formats import FILE_FORMATS
from blizzard.log import silent
from blizzard.storage.s3_connection import S3Settings
from spark_job.engines.spark.engine import SparkEngine
from spark_job.tasks.batch_tasks import Task
from spark_job.tasks.destination import Destination
from spark_job.tasks.provenance import Provenance
from spark_job.tasks.reader import BatchReader
from spark_job.tasks.task_reader import ReadSettings
from spark_job.wiring import source_job
from spark_job.write.parquet_files import TableLayout
from tests.unit.config_files import config, problems, source_lines

TEXT = StructType([StructField("value", StringType())])


def test_a_task_without_options_is_read_as_one_with_none() -> None:
    """As JSON of the version before, in which there were no options."""
    layout, provenance = TableLayout("", (), (), 32, 1 << 27), Provenance("events:landing", 7, {})
    destination = Destination("table", layout, "deferred/", TEXT.json(), provenance)
    task = Task("landing", S3Settings(), ReadSettings("text"), destination)
    document = json.loads(task.to_json())
    assert document["settings"].pop("options") == {}
    assert Task.from_json(json.dumps(document)) == task


def options_of_text(monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
    """As if these fields were options of `text` alone."""
    with_options = {**FILE_FORMATS, "text": replace(FILE_FORMATS["text"], options=names)}
    for module in ("model", "checks"):
        monkeypatch.setattr(f"blizzard.config.{module}.FILE_FORMATS", with_options)


def test_the_options_of_a_format_are_what_its_source_sets_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = list[ReadSettings]()

    class Noting(BatchReader):
        def __init__(self, *args: Any, **parts: Any) -> None:
            found.append(parts["settings"])
            super().__init__(*args, **parts)

    def started() -> Any:
        raise AssertionError("nothing may start the session")

    options_of_text(monkeypatch, "pattern", "sweep")
    monkeypatch.setattr("spark_job.wiring.BatchReader", Noting)
    lines = source_lines(f"uri: {tmp_path}/in", "format: text", "pattern: '*.x'", table=f"{tmp_path}/table")
    ((pipeline, source),) = config(lines).sources()
    source_job(pipeline, source, engine=SparkEngine(started), s3=S3Settings(), log=silent)
    sweep = {
        "interval_secs": 60.0,
        "late_interval_secs": 3600.0,
        "late_overlap_secs": 86400.0,
        "unordered_requests": 60,
        "quiet_secs": 86400.0,
    }
    assert [settings.options for settings in found] == [{"pattern": "*.x", "sweep": sweep}]


def test_no_format_has_options_today() -> None:
    lines = source_lines("uri: s3://landing", "schema: id STRING", "pattern: '*.x'")
    assert [source.format_options for _, source in config(lines).sources()] == [{}]


def test_an_option_of_another_format_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    options_of_text(monkeypatch, "pattern")
    (found,) = problems(source_lines("uri: s3://landing", "schema: id STRING", "pattern: '*.x'"))
    assert found.endswith("s.pattern: has no effect with `format: ndjson`, only with text; remove it")
    assert config(source_lines("uri: s3://landing", "format: text", "pattern: '*.x'")).pipelines
