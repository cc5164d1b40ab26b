"""What the engine `auto` says of what needs Spark."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from blizzard.log import silent
from blizzard.storage.s3_connection import S3Settings
from spark_job.engines.auto import AutoEngine
from spark_job.engines.local.engine import LocalEngine
from spark_job.table.table_source import TableSource
from spark_job.tasks.batch_tasks import Task
from spark_job.tasks.destination import Destination
from spark_job.tasks.engine import Undecided
from spark_job.tasks.provenance import Provenance
from spark_job.tasks.task_reader import ReadSettings
from spark_job.write.parquet_files import TableLayout

FOR_SPARK = '{"id": 7, "n": 1}'
"""A number in a text column."""
UNDECIDED = Undecided((), (), all_of_them=False, only_refused=False)
NO_JARS = "there are no jars; run `setup`"


class Spark:
    """Stands for the other engine: answers with its name."""

    def judge(self, task: Task, undecided: Undecided) -> str:
        return "Spark"

    complete = judge

    def table(self, source: TableSource) -> "Spark":
        return self

    def holds_rows(self) -> str:
        return "Spark"


@pytest.fixture
def said() -> list[tuple[str, str]]:
    """Source and reason of each `spark_needed`."""
    return []


@pytest.fixture
def auto(said: list[tuple[str, str]]) -> Callable[..., AutoEngine]:
    def note(event: str, /, **fields: Any) -> None:
        assert event == "spark_needed"
        said.append((fields["source"], fields["reason"]))

    return lambda: AutoEngine(LocalEngine(S3Settings(), dict, silent), Spark, note)


def task_of(source_id: str) -> Task:
    destination = Destination("t", TableLayout("", (), (), 32, 1 << 27), "", "", Provenance(source_id, 0, {}, False))
    return Task("in", S3Settings(), ReadSettings("ndjson"), destination)


# -- reasons


def test_each_kind_of_reason_is_said_once_for_each_source(
    auto: Callable[..., AutoEngine], said: list[tuple[str, str]]
) -> None:
    engine = auto()
    for source, undecided in [
        ("p:s", replace(UNDECIDED, example="record 1 of a")),
        ("p:s", replace(UNDECIDED, example="record 2 of b")),
        ("p:s", UNDECIDED),
        ("p:s", replace(UNDECIDED, only_refused=True)),
        ("p:t", replace(UNDECIDED, example="record 3 of c")),
        ("p:s", replace(UNDECIDED, only_refused=True)),
    ]:
        assert engine.judge(task_of(source), undecided) == "Spark"
    assert said == [
        ("p:s", "deciding on records that only its parser can judge, such as record 1 of a"),
        ("p:s", "sorting more refused records than fit into memory"),
        ("p:t", "deciding on records that only its parser can judge, such as record 3 of c"),
    ]


def test_what_a_table_needs_is_said_after_what_its_records_needed(
    auto: Callable[..., AutoEngine], said: list[tuple[str, str]], tmp_path: Path
) -> None:
    engine = auto()
    engine.judge(task_of("p:s"), UNDECIDED)
    table = engine.table(TableSource(str(tmp_path / "a%20b"), "p:s", "blizzard:p:s", "id STRING", {}, ()))
    assert [table.holds_rows(), table.holds_rows()] == ["Spark", "Spark"]
    assert said == [
        ("p:s", "deciding on records that only its parser can judge"),
        ("p:s", "a table whose location has % in it"),
    ]
