"""What the engine `auto` says of what needs Spark, also on a machine that has no Spark."""

import json
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkRuntimeError
from pyspark.java_gateway import launch_gateway

from blizzard.cli import main
from blizzard.config.engine_name import EngineName
from blizzard.config.spark_master import SparkOptions
from blizzard.errors import RetryableError, SetupError
from blizzard.log import silent
from blizzard.setup.java import find_java
from blizzard.storage.s3_connection import S3Settings
from spark_job import session
from spark_job.engines.auto import AutoEngine
from spark_job.engines.choose import Engines
from spark_job.engines.local.engine import LocalEngine
from spark_job.engines.needs_spark import SparkMissing
from spark_job.start import engines_for
from spark_job.table.table_source import TableSource
from spark_job.tasks.batch_tasks import Task
from spark_job.tasks.destination import Destination
from spark_job.tasks.engine import Engine, Undecided
from spark_job.tasks.provenance import Provenance
from spark_job.tasks.read_settings import ReadSettings
from spark_job.write.data_file import TableLayout
from tests.spark.engine_lake import EngineLake
from tests.spark.lake import no_spark
from tests.unit.table_lake import set_properties

FOR_SPARK = '{"id": 7, "n": 1}'
"""A number in a text column."""
UNDECIDED = Undecided((), (), all_of_them=False, only_refused=False)
NO_JARS = "there are no jars; run `setup`"


class EngineOnMachine(EngineLake):
    """The engine `auto` as a process makes it, on a machine without the jars."""

    def engine(self) -> Engine:
        jars = str(self.folder / "none")
        engines = engines_for(self.config(), jars, SparkOptions(), S3Settings(), self._note, lambda: None)
        self._local.append(engines)  # type: ignore[arg-type] - it is closed as one
        return engines.named(EngineName.AUTO)


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[EngineLake]:
    with closing(EngineOnMachine(tmp_path, no_spark)) as made:
        yield made


class Spark:
    """Stands for the other engine: answers with its name, once it could be started."""

    def __init__(self, *missing: str) -> None:
        self._missing = iter(missing)

    def __call__(self) -> Any:
        for problem in self._missing:
            raise SetupError(problem)
        return self

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
    """Takes what the machine lacks, each time that Spark is asked for."""

    def note(event: str, /, **fields: Any) -> None:
        assert event == "spark_needed"
        said.append((fields["source"], fields["reason"]))

    return lambda *missing: AutoEngine(LocalEngine(S3Settings(), dict, silent), Spark(*missing), note)


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
        ("p:t", replace(UNDECIDED, example="record 3 of c")),
    ]:
        assert engine.judge(task_of(source), undecided) == "Spark"
    assert said == [
        ("p:s", "deciding on records that only its parser can judge, such as record 1 of a"),
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


# -- a machine without Spark


def test_each_error_says_why_spark_is_needed_and_what_to_do_until_it_starts(
    auto: Callable[..., AutoEngine], said: list[tuple[str, str]], tmp_path: Path
) -> None:
    engine = auto(NO_JARS, NO_JARS, NO_JARS)
    table = engine.table(TableSource(str(tmp_path / "a%20b"), "p:s", "blizzard:p:s", "id STRING", {}, ()))
    judging = "deciding on records that only its parser can judge, such as record"
    for call, reason in [
        (lambda: engine.judge(task_of("p:s"), replace(UNDECIDED, example="record 1 of a")), f"{judging} 1 of a"),
        (lambda: engine.judge(task_of("p:s"), replace(UNDECIDED, example="record 2 of b")), f"{judging} 2 of b"),
        (table.holds_rows, "a table whose location has % in it"),
    ]:
        with pytest.raises(SparkMissing) as error:
            call()
        assert str(error.value) == (
            f"Spark is needed for {reason}. Nothing is lost: the next run goes on here. {NO_JARS}"
        )
    assert (engine.judge(task_of("p:s"), UNDECIDED), table.holds_rows()) == ("Spark", "Spark")
    assert len(said) == 2


@pytest.mark.usefixtures("signals_as_before")
def test_a_run_without_jars_ends_with_the_reason_and_the_next_one_goes_on(
    lake: EngineLake, capsys: pytest.CaptureFixture[str]
) -> None:
    lake.put("a.ndjson", {"id": "good", "n": 1}, FOR_SPARK)
    words = ["run", str(lake.write_config()), "--once", "--json", "--jars", str(lake.folder / "none")]
    assert main(words) == 1
    events = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    (failed,) = [event["error"] for event in events if event["event"] == "source_failed"]
    assert not [event for event in events if event["event"] == "spark_needed"]  # the error says it
    assert failed.startswith(
        "Spark is needed for deciding on records that only its parser can judge, such as record 1 of a.ndjson. "
        "Nothing is lost: the next run goes on here. Spark needs Delta's jars, and found "
    )
    assert "setup`" in failed
    assert not lake.log_folder.exists()
    lake.put("a.ndjson", {"id": "good", "n": 1}, {"id": "7", "n": 1})
    assert main(words) == 0
    assert (lake.ids(), lake.letters()) == (["good", "7"], [])


def test_a_run_without_jars_says_why_a_table_needs_sparks_writer(lake: EngineLake) -> None:
    lake.put("a.ndjson", {"id": "0"})
    lake.run()
    set_properties(lake, delta__autoOptimize__autoCompact="true")
    lake.put("b.ndjson", {"id": "1"})
    with pytest.raises(SparkMissing) as error:
        lake.run()
    assert str(error.value).startswith(
        f"Spark is needed for writing to table file://{lake.table}, because of optimized writes or automatic "
        "compaction (delta.autoOptimize.autoCompact). Nothing is lost: the next run goes on here. "
        "Spark needs Delta's jars, "
    )


def test_without_java_the_run_says_what_to_install(
    lake: EngineLake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "problem_of", lambda jars: None)
    monkeypatch.setattr(session, "find_java", lambda: find_java(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    lake.put("a.ndjson", FOR_SPARK)
    with pytest.raises(SparkMissing, match=r"Nothing is lost: .* found no Java at all: sudo apt install openjdk-17"):
        lake.run()
    assert not lake.log_folder.exists()


def test_a_column_that_only_spark_widens_stays_and_the_log_says_why(lake: EngineLake) -> None:
    lake.settings = {"schema": "id STRING, n INT", "misfits": "widen"}
    lake.put("a.ndjson", {"id": "1", "n": 1})
    lake.run()
    for name in ("b", "c"):
        lake.put(f"{name}.ndjson", {"id": name, "n": 5_000_000_000})
        lake.run()
    assert [(row["n"], row["_rescued"]) for row in lake.rows()] == [
        (1, None),
        (None, '{"n":5000000000}'),
        (None, '{"n":5000000000}'),
    ]
    reasons = [field["reason"] for line in lake.logged("schema_not_changed") for field in line["fields"]]
    assert len(reasons) == 2
    assert set(reasons) == {reasons[0]}
    assert reasons[0].startswith(
        "widening a column: deltalake commits to no table with widened columns, and Spark cannot start: "
        "Spark needs Delta's jars, and found "
    )


@pytest.mark.parametrize("path", ["/usr/bin:/bin", "/nonexistent"])
def test_java_that_ends_at_once_is_started_once_more_and_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    home = tmp_path / "java"
    (home / "bin").mkdir(parents=True)
    (home / "release").write_text('JAVA_VERSION="17.0.1"\n')
    (home / "bin" / "java").write_text(f"#!/bin/sh\necho started >> {tmp_path}/starts\nexit 1\n")
    (home / "bin" / "java").chmod(0o755)
    monkeypatch.setattr(session, "problem_of", lambda jars: None)
    places = {"PATH": path, "JAVA_HOME": str(home), "SPARK_CONF_DIR": str(tmp_path)}  # a checkout's names another Java
    for name, value in {**places, "SPARK_LOCAL_IP": "127.0.0.1"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("PYSPARK_GATEWAY_PORT", raising=False)
    asked = []

    def start() -> Any:
        asked.append("start")
        return launch_gateway()

    engines = Engines(session.with_java_and_jars(start, tmp_path), S3Settings(), dict, silent)
    with (
        closing(engines),
        pytest.raises(SparkMissing, match=f"process with Java 17 .*in {home} ended 2 times") as error,
    ):
        engines.named(EngineName.AUTO).judge(task_of("p:s"), UNDECIDED)
    assert "PATH has `bash`" in str(error.value)
    assert len(asked) == 2
    assert (tmp_path / "starts").exists() == (path != "/nonexistent")


def test_another_failure_of_a_starting_spark_may_pass() -> None:
    def start() -> Any:
        raise PySparkRuntimeError("NO_ACTIVE_SESSION", messageParameters={})

    engines = Engines(start, S3Settings(), dict, silent)
    with closing(engines), pytest.raises(RetryableError, match="starting Spark: Spark failed, nothing was committed"):
        engines.named(EngineName.AUTO).judge(task_of("p:s"), UNDECIDED)
