"""What reading needs of an engine, tried on each of them: tasks run, their reports come back, and lines are judged."""

import json
import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from blizzard.errors import PermanentError, RetryableError, StorageBroken, StorageError
from blizzard.log import silent
from blizzard.manifest.segments import FoundBy
from blizzard.state.batch import PlannedFile
from blizzard.state.dead_letters import DeadLetters
from blizzard.storage.local import LocalStore
from blizzard.storage.s3_connection import S3Settings
from spark_job.engines.local import refused_records
from spark_job.engines.needs_spark import NeedsSpark
from spark_job.engines.spark import engine as spark_engine
from spark_job.formats.protocol import Limits
from spark_job.table.schema import columns_of
from spark_job.table.staging import Staging
from spark_job.tasks import batch_tasks
from spark_job.tasks.batch_tasks import Task
from spark_job.tasks.destination import Destination
from spark_job.tasks.engine import Engine
from spark_job.tasks.provenance import Provenance
from spark_job.tasks.read_settings import ReadSettings
from spark_job.tasks.reader import BatchReader, BatchRows
from spark_job.write.data_file import TableLayout
from tests.spark.engine_lake import ON_SPARK, EngineLake, lake_of
from tests.spark.task_parts import Part, ScriptedTasks, as_json

GOOD, REFUSED, FOR_SPARK = '{"n":1,"t":"a"}', '{"n":"x"}', '{"n":2,"t":7}'
COLUMNS = "n BIGINT, t STRING"
DOES_NOT_FIT = "n: the value does not fit bigint"
WITH_SPARK = [*ON_SPARK, pytest.param("auto", marks=pytest.mark.spark)]


@pytest.fixture(params=["local", *WITH_SPARK])
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[EngineLake]:
    with lake_of(request, tmp_path) as made:
        yield made


@pytest.fixture
def engine(lake: EngineLake) -> Engine:
    return lake.engine()


def layout(folder: str = "") -> TableLayout:
    return TableLayout(folder, (), (), 32, 1 << 27)


# -- tasks that do as they are told


@pytest.fixture
def scripted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., Part]:
    """Makes parts; tasks do what they say."""
    for module in (batch_tasks, spark_engine):
        monkeypatch.setattr(module, "ReadTasks", ScriptedTasks)
    (tmp_path / "parts").mkdir()
    return lambda name, **more: Part(str(tmp_path / "parts"), name, job=os.getpid(), **more)


@pytest.fixture
def task(tmp_path: Path) -> Task:
    provenance = Provenance("p:s", 0, {}, False)
    destination = Destination(str(tmp_path), layout(), "_blizzard/x/", columns_of(COLUMNS).json(), provenance)
    return Task(str(tmp_path), S3Settings(), ReadSettings("ndjson"), destination)


def named(engine: Engine, task: Task, *parts: Part) -> list[str]:
    """The names in the reports, in their order."""
    with engine.translating("reading a batch"):
        return [outcome.path for report in engine.run(task, as_json(parts)) for outcome in report.outcomes]


def test_reports_are_in_the_order_of_the_parts_whichever_ends_first(
    engine: Engine, task: Task, scripted: Callable[..., Part]
) -> None:
    parts = [scripted("a", waits_for="b"), *map(scripted, "bcdef")]
    assert named(engine, task, *parts) == [*"abcdef"]
    assert engine.cores >= 2


def test_no_parts_have_no_reports(engine: Engine, task: Task, scripted: Callable[..., Part]) -> None:
    assert named(engine, task) == []


@pytest.mark.parametrize("failing", ["a", "b"])
def test_a_task_that_raises_fails_the_batch_and_the_next_one_runs(
    engine: Engine, task: Task, scripted: Callable[..., Part], failing: str
) -> None:
    """In the job's own process, or in another one; one that is busy ends first."""
    (other,) = {"a", "b"} - {failing}
    parts = {failing: scripted(failing, ends="raising"), other: scripted(other, waits_for=failing)}
    with pytest.raises(RetryableError) as raised:
        named(engine, task, parts["a"], parts["b"])
    text = str(raised.value)
    assert f"UnforeseenError: of {failing}\nwhile reading {failing}" in text
    assert "nothing was committed" in text
    assert named(engine, task, *map(scripted, "cde")) == [*"cde"]


def test_a_task_whose_process_is_killed_fails_the_batch_and_the_next_one_runs(
    engine: Engine, task: Task, scripted: Callable[..., Part]
) -> None:
    with pytest.raises(RetryableError, match=r"(?i)nothing was committed"):
        named(engine, task, scripted("a", ends="killed"), scripted("b", ends="killed"))
    assert named(engine, task, *map(scripted, "cde")) == [*"cde"]


@pytest.mark.parametrize(
    "error", [PermanentError("as it is"), RetryableError("as it is")], ids=lambda e: type(e).__name__
)
def test_errors_of_blizzard_pass_as_they_are(engine: Engine, error: Exception) -> None:
    with pytest.raises(type(error), match=r"^as it is$"), engine.translating("reading a batch"):
        raise error


# -- tasks that read files


class Batch:
    """A source's files and its table's folder. `in_memory_bytes`: as `BatchReader` has it."""

    def __init__(self, folder: Path, engine: Engine) -> None:
        self._folder, self._engine = folder, engine
        self._landing, self._table = LocalStore(folder / "landing"), LocalStore(folder / "table")
        self._letters = DeadLetters(self._table, "_blizzard/x", "p:s")

    def put(self, name: str, *lines: str) -> PlannedFile:
        self._landing.put(name, "\n".join(lines).encode("latin-1" if "\xff" in lines else "utf-8"))
        return PlannedFile(name, 100, 0.0, FoundBy.EVENT)

    def taken(self) -> str:
        """A folder in which no data file can be written."""
        self._table.put("taken", b"")
        return "taken/"

    def read(self, *files: PlannedFile, into: str = "", in_memory_bytes: int = 1 << 20, **settings: Any) -> BatchRows:
        reader = BatchReader(
            self._engine,
            uri=str(self._folder / "landing"),
            table_uri=str(self._folder / "table"),
            s3=S3Settings(),
            settings=ReadSettings("ndjson", **settings),
            record_type=lambda: columns_of(COLUMNS),
            partition_columns={},
            source_id="p:s",
            layout=lambda **_: layout(into),
            layout_reason=lambda: None,
            staging=Staging(self._table, "_blizzard/x", clock=lambda: 0.0, new_id=lambda: "id"),
            dead_letters=self._letters,
            clock=lambda: 0.0,
            log=silent,
            in_memory_bytes=in_memory_bytes,
        )
        return reader.read(files, sequence=3)

    def files(self, folder: str = "") -> list[str]:
        """In the table's folder."""
        return [info.key for info in self._table.list(folder)]

    def letters(self, rows: BatchRows) -> list[tuple[str, int, str, str]]:
        rows.write_dead_records()
        found = [*self._letters.letters()]
        return [(one["path"], one["row"], one["error"], one["raw"]) for one in found]


@pytest.fixture
def batch(engine: Engine, tmp_path: Path) -> Batch:
    return Batch(tmp_path, engine)


@pytest.fixture
def small_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    """A task for each file."""
    monkeypatch.setattr(batch_tasks, "MIN_TASK_BYTES", 1)
    monkeypatch.setattr(batch_tasks, "TASKS_PER_CORE", 100)


@pytest.mark.usefixtures("small_tasks")
def test_what_each_file_gave_is_told_in_a_batch_of_several_tasks(batch: Batch) -> None:
    rows = batch.read(
        batch.put("a", GOOD, REFUSED, GOOD),
        batch.put("b"),
        batch.put("c", REFUSED, REFUSED),
        batch.put("d", GOOD, "\xff", REFUSED),
        PlannedFile("missing", 1, 0.0, FoundBy.EVENT),
    )
    told = {one.path: (one.rows, one.dead_records, one.stage) for one in rows.outcomes}
    stages = {name: told[name][2] for name in ("d", "missing")}
    assert told == {
        "a": (2, 1, None),
        "b": (0, 0, None),
        "c": (0, 2, None),
        "d": (0, 0, stages["d"]),
        "missing": (0, 0, stages["missing"]),
    }
    assert None not in stages.values()
    assert rows.row_count == 2
    refused = [("a", 1), ("c", 0), ("c", 1)]
    assert batch.letters(rows) == [(path, row, DOES_NOT_FIT, REFUSED) for path, row in refused]


@pytest.mark.usefixtures("small_tasks")
def test_a_refusal_of_the_tables_storage_ends_the_run_with_its_reason(batch: Batch) -> None:
    files = [batch.put(name, GOOD) for name in "abc"]
    with pytest.raises(StorageError, match=r"^the table's storage refused the rows: put file://\S+/taken/part-\S+: "):
        batch.read(*files, into=batch.taken())


@pytest.mark.usefixtures("small_tasks")
def test_an_unforeseen_error_of_a_parser_names_the_file(batch: Batch) -> None:
    nonsense: Any = "as many as fit"
    files = [batch.put(name, GOOD) for name in "abc"]
    with pytest.raises(RetryableError, match=r"TypeError: '>' not supported .*\nwhile reading [abc]\n"):
        batch.read(*files, limits=Limits(max_file_bytes=nonsense))


# -- lines that only Spark judges


@pytest.mark.parametrize("lake", ["local"], indirect=True)
def test_the_local_engine_judges_no_line_and_says_which(batch: Batch) -> None:
    files = [batch.put("b", GOOD, FOR_SPARK), batch.put("a", GOOD, GOOD, REFUSED, FOR_SPARK)]
    with pytest.raises(NeedsSpark, match=r"only its parser can judge, such as record 3 of a\. Nothing is lost"):
        batch.read(*files)
    with pytest.raises(NeedsSpark, match=r"only its parser can judge\. Nothing is lost"):
        batch.read(*files, in_memory_bytes=0)
    assert batch.files() == []


@pytest.mark.usefixtures("small_tasks")
@pytest.mark.parametrize("run_bytes", [1, 1 << 20], ids=["a run for each task", "one run"])
def test_refused_records_that_do_not_fit_into_memory_are_sorted(
    batch: Batch, run_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without Spark as well. Those of a file that failed as a whole do not count."""
    monkeypatch.setattr(refused_records, "RUN_BYTES", run_bytes)
    monkeypatch.setattr(refused_records, "BATCH_BYTES", 1)
    files = [batch.put(name, *[GOOD] * at, REFUSED, GOOD, REFUSED) for at, name in enumerate("cab")]
    rows = batch.read(*files, batch.put("failed", REFUSED, "\xff"), in_memory_bytes=0)
    told = {one.path: (one.rows, one.dead_records, one.error is None) for one in rows.outcomes}
    assert told == {"a": (2, 2, True), "b": (3, 2, True), "c": (1, 2, True), "failed": (0, 0, False)}
    refused = [(path, at + n) for path, at in (("a", 1), ("b", 2), ("c", 0)) for n in (0, 2)]
    assert [(one.path, one.row) for one in rows.refused_records()] == refused
    assert batch.letters(rows) == [(*one, DOES_NOT_FIT, REFUSED) for one in refused]
    rows.release()
    assert batch.files("_blizzard/x/staging/") == []


@pytest.mark.parametrize("lake", ["local"], indirect=True)
def test_a_disk_that_has_no_room_to_sort_is_named(batch: Batch, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", "/dev/full")
    with pytest.raises(StorageBroken, match=r"sorting refused records on the disk of /dev/full.*Nothing was committed"):
        batch.read(batch.put("c", REFUSED), in_memory_bytes=0)
    assert batch.files() == []


@pytest.mark.parametrize("lake", WITH_SPARK, indirect=True)
@pytest.mark.parametrize("in_memory_bytes", [0, 1 << 20], ids=["by Spark", "by the tasks as far as they can"])
def test_lines_are_judged_and_those_of_a_failed_file_do_not_count(batch: Batch, in_memory_bytes: int) -> None:
    rows = batch.read(
        batch.put("a", GOOD, FOR_SPARK, REFUSED),
        batch.put("b", FOR_SPARK, "\xff"),
        batch.put("c", REFUSED),
        in_memory_bytes=in_memory_bytes,
    )
    told = {one.path: (one.rows, one.dead_records, one.error is None) for one in rows.outcomes}
    assert told == {"a": (2, 1, True), "b": (0, 0, False), "c": (0, 1, True)}
    assert rows.row_count == 2
    assert batch.letters(rows) == [("a", 2, DOES_NOT_FIT, REFUSED), ("c", 0, DOES_NOT_FIT, REFUSED)]
    assert batch.files("_blizzard/x/staging/") != []
    rows.release()
    assert batch.files("_blizzard/x/staging/") == []


@pytest.mark.parametrize("lake", WITH_SPARK, indirect=True)
def test_a_refusal_of_the_tables_storage_is_told_of_judged_lines_too(batch: Batch) -> None:
    with pytest.raises(StorageError, match=r"^the table's storage refused the rows: put file://\S+/taken/part-\S+: "):
        batch.read(batch.put("a", FOR_SPARK), into=batch.taken())


# -- a whole run


def test_rows_receipts_and_letters_of_a_run(lake: EngineLake) -> None:
    lake.put("a.ndjson", {"id": "1", "n": 1}, '{"id": ', {"id": "2", "n": 2})
    lake.run(late=True)
    lake.put("b.ndjson.gz", {"id": "3", "n": "x"})
    lake.put_bytes("c.ndjson.gz", b"no gzip")
    lake.run(late=True)
    assert [(row["id"], row["_source"]["file"], row["_source"]["row"]) for row in lake.rows()] == [
        ("1", "a.ndjson", 0),
        ("2", "a.ndjson", 2),
    ]
    letters = sorted((one["path"], one.get("row"), one["stage"]) for one in lake.letters())
    assert letters == [
        ("a.ndjson", 1, "parse"),
        ("b.ndjson.gz", 0, "parse"),
        ("c.ndjson.gz", None, "decompress"),
    ]
    told = [
        [(one["path"], one["rows"], one["dead_records"], bool(one["error"])) for one in receipt["files"]]
        for receipt in lake.receipts()
    ]
    assert [sorted(files) for files in told] == [
        [("a.ndjson", 2, 1, False)],
        [("b.ndjson.gz", 0, 1, False), ("c.ndjson.gz", 0, 0, True)],
    ]
    assert json.loads(lake.copy.read_text())["sequence"] == lake.state_beside().sequence == 1


def refuse_a_rule(lake: EngineLake) -> None:
    lake.settings = {"derive": {"ratio": "100 / n"}}
    lake.put("a.ndjson", {"id": "1", "n": 4}, {"id": "2", "n": 0})
    lake.chosen = "local"
    with pytest.raises(NeedsSpark, match="evaluating column ratio: 100 / n"):
        lake.run()
    assert (lake.versions(), [*lake.table.rglob("*.parquet")]) == ([], [])


@pytest.mark.parametrize("lake", ["local"], indirect=True)
def test_the_local_engine_refuses_rules_that_only_spark_evaluates(lake: EngineLake) -> None:
    refuse_a_rule(lake)


@pytest.mark.parametrize("lake", WITH_SPARK, indirect=True)
def test_rules_that_only_spark_evaluates(lake: EngineLake) -> None:
    chosen = lake.chosen
    refuse_a_rule(lake)
    lake.chosen = chosen
    lake.run()
    assert [row["ratio"] for row in lake.rows()] == [25.0]
    assert [(one["row"], one["error"]) for one in lake.letters()] == [(1, "column ratio: 100 / n fails on the record")]
