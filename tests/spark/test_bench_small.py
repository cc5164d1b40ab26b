"""Each benchmark at a tiny scale: every contender writes a correct table and is reported.

Most contenders run in this process, with the Spark session of all tests of this folder. Those that need other Spark
settings or variables share another process.
"""

import json
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable, Field, Schema

from benchmarks import timeline
from benchmarks.__main__ import main
from benchmarks.contenders import CONTENDERS, Work, contender
from benchmarks.contenders.__main__ import answers_of
from benchmarks.format_data import FORMATS
from benchmarks.goals import goals_of
from benchmarks.ledger import measurements
from benchmarks.resource_monitor import ResourceUsage
from benchmarks.result import Result
from benchmarks.run_options import RunOptions
from benchmarks.suite import bulk, dirty, engine, find, formats, history, latency, names, rules, s3, skew, wide
from benchmarks.verify import WrongResult
from infra.local.processes.child_process import ChildProcess
from tests.spark.contender_process import Contenders, contender_process
from tests.spark.lake import SHORT_JOB, conf_options

USAGE_HERE = ResourceUsage(1, 1, 1, 0.0, 0.0)


@pytest.fixture(scope="module")
def others(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Contenders]:
    with contender_process(tmp_path_factory.mktemp("contenders") / "output.log") as process:
        yield process


@dataclass(frozen=True, slots=True)
class Here:
    """Runs in this process, where that is possible."""

    others: Contenders

    def __call__(
        self, work: Work, folder: Path, environment: Mapping[str, str], tick: Callable[[], None] = lambda: None
    ) -> tuple[list[dict[str, Any]], ResourceUsage]:
        work = replace(work, started=time.monotonic())
        if environment or work.spark_conf:
            return self.others(work, folder, environment)
        answers = answers_of(work)
        tick()
        return json.loads(json.dumps(answers)), USAGE_HERE


def short_job(command: list[str], environment: Mapping[str, str], log: Path) -> ChildProcess:
    return ChildProcess([*command, *conf_options(SHORT_JOB)], environment, log)


@pytest.fixture
def options(
    request: pytest.FixtureRequest, tmp_path: Path, others: Contenders, monkeypatch: pytest.MonkeyPatch
) -> RunOptions:
    monkeypatch.setattr("benchmarks.contenders.session.session_of", lambda work: request.getfixturevalue("spark"))
    monkeypatch.setattr("benchmarks.process.SCRATCH", tmp_path / "runs")
    return RunOptions(0.0005, 1, 2, lambda text: None, tmp_path / "data", Here(others))


def reported(result: Result) -> list[str]:
    """Names of the rows. Asserts that every goal has a result, and that the report is complete and survives JSON."""
    assert [goal_result.goal for goal_result in result.goal_results] == goals_of(result.name)
    assert all(goal_result.measured is not None for goal_result in result.goal_results)
    for table in result.tables:
        assert all(len(row) == len(table.columns) for row in table.rows)
    assert Result.from_json(json.loads(json.dumps(result.to_json()))).to_json() == result.to_json()
    return [row[0] for table in result.tables for row in table.rows]


@pytest.mark.spark
def test_every_contender_ingests_the_same_records(options: RunOptions) -> None:
    """`big` and `small` differ only in their data; the test over S3 has the other."""
    result = bulk.small(options)
    assert reported(result) == [*(contender(name).TITLE for name in CONTENDERS), *timeline.MOMENTS.values()]
    assert set(result.bars) == {contender(name).TITLE for name in CONTENDERS}


@pytest.mark.spark
def test_wide_records_have_the_values_that_spark_reads(options: RunOptions) -> None:
    result = wide.run(options)
    reported(result)
    assert {goal_result.goal.name: goal_result.verdict for goal_result in result.goal_results}[
        "differences"
    ] == "met", result.notes
    assert [row[0] for row in result.tables[0].rows if row[1].startswith("not supported")] == [
        "deltalake, Arrow loop",
        "bare limit",
    ]


@pytest.mark.spark
def test_each_contender_ingests_each_format_that_it_can_read(
    options: RunOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The unit tests have large files, too; for Spark these differ only in their number."""
    monkeypatch.setattr(formats, "SIZES", ("small",))
    result = formats.run(options)
    assert [goal.goal for goal in result.goal_results] == goals_of("formats")
    measured = {goal.goal.name for goal in result.goal_results if goal.measured}
    local = {"local_small_cold", "local_small_warm"}
    assert measured == {"small_cold", "small_warm", "arrow_loop"} | local
    (table,) = result.tables
    titles = [contender(who).TITLE for who in formats.WHO]
    spark = {contender(who).TITLE for who in ("spark_reader", "streaming")}
    shown = {form: [row[0].partition(", ")[2] for row in table.rows if row[0].startswith(form)] for form in FORMATS}
    assert shown["csv"] == shown["json"] == shown["parquet"] == titles
    assert shown["avro"] == [title for title in shown["orc"] if title not in spark]
    assert all(len(row) == len(table.columns) for row in table.rows)


@pytest.mark.spark
def test_broken_records_are_told_apart_by_those_who_can(options: RunOptions) -> None:
    result = dirty.run(replace(options, scale=0.002))
    reported(result)
    by_title = {row[0]: row for row in result.tables[0].rows}
    assert by_title["Blizzard"][4] == f"{result.raw['broken']:,}"
    assert int(by_title["Blizzard, with lines that only Spark's parser can decide"][4]) > 0
    assert by_title["bare limit"][2].startswith("not supported: ")


@pytest.mark.spark
def test_rules_are_measured_on_tables_that_have_them(options: RunOptions) -> None:
    result = rules.run(replace(options, scale=0.0005))
    assert reported(result) == [*rules.TITLES.values()]
    plain = replace(rules.works_of(options)[rules.PLAIN], out=str(options.cache), settings={"derive": rules.DERIVED})
    DeltaTable.create(plain.table(0), Schema([Field("day", "date")]))
    with pytest.raises(WrongResult, match="neither column nor constraint filled, hour, key"):
        rules.expect_columns(plain, 0)


@pytest.mark.spark
def test_the_idle_time_of_workers_is_taken_from_sparks_own_record(
    options: RunOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(skew, "WHO", ("blizzard",))
    result = skew.run(options)
    assert reported(result) == ["Blizzard", "Blizzard, small files only"]
    for idle in result.raw["idle"].values():
        (shares,), (cores,) = idle["slots"], idle["cores"]
        assert len(shares) == 2
        # So little is one task, which leaves the other slot idle throughout.
        assert 0 < min(shares) < 1
        assert max(shares) == 1
        assert 0 < cores < 1


@pytest.mark.spark
def test_files_and_table_may_be_on_s3(options: RunOptions) -> None:
    result = s3.run(options)
    sides = ["big, local", "big, s3", "small, local", "small, s3"]
    assert [row[0] for row in result.tables[0].rows] == sides
    assert result.tables[1].columns == ("seconds of a warm run", *sides)
    told = {row[0]: [float(cell) for cell in row[1:]] for row in result.tables[1].rows}
    assert all(0 < secs <= whole for secs, whole in zip(told["read"], told["total"], strict=True))
    reported(result)


@pytest.mark.spark
def test_new_files_are_found_behind_a_history_of_each_size(
    options: RunOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(find, "SIZES", (10_000, 1_000_000))
    result = find.run(options)
    assert reported(result) == ["20", "500"]


@pytest.mark.spark
def test_random_names_are_held_against_names_in_order_and_the_ledger_is_measured(
    options: RunOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(measurements, "BATCHES", 2)
    monkeypatch.setattr(measurements, "RACES", 1)
    monkeypatch.setattr(measurements, "DROPPED_KINDS", ("random",))
    monkeypatch.setattr(latency, "PAUSE_SECS", (0.01, 0.2))
    monkeypatch.setattr(latency, "ChildProcess", short_job)
    result = names.run(options)
    ingested, looked_up, first, lives, rebuild, dropped, missed, folders = result.tables
    assert [row[0] for row in ingested.rows[:2]] == ["local disk, in order", "local disk, random"]
    suspects = {row[0]: int(row[3]) for row in ingested.rows if row[3]}
    assert suspects
    assert all(count > 0 for count in suspects.values()), suspects
    places = [*measurements.PLACES] * len(measurements.SIZES)
    assert [row[0].partition(" known, ")[2] for row in looked_up.rows] == places
    assert first.rows[-1][0].endswith(" simulated")
    assert [row[0] for row in lives.rows] == ["500 in commits of 10", "500 in commits of 10"]
    facts = dict(rebuild.rows)
    assert (facts["files rebuilt from it"], facts["rows of the table"]) == ("600", "50,000")
    assert facts["jobs of Spark in this time"] == "0"
    assert [row[0] for row in dropped.rows] == ["random"]
    assert [row[0] for row in missed.rows] == ["30", "60", "120"]
    assert dict(folders.rows)["LIST requests of an ordinary sweep, most"] == "22"
    reported(result)


def test_whole_processes_are_compared_with_a_loop(options: RunOptions, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the engine Spark, which takes half a minute."""
    monkeypatch.setattr(engine, "ENGINES", ("local",))
    monkeypatch.setattr(engine, "COMMITS", 2)
    monkeypatch.setattr(latency, "PAUSE_SECS", (0.01, 0.2))
    result = engine.run(options)
    whole, dropped, commits = result.tables
    assert [row[0].rpartition(", ")[2] for row in whole.rows] == [
        *("local", "deltalake loop", "bare limit", "local", "local"),
        *(2 * ("local", "deltalake loop", "deltalake loop on each core", "bare limit")),
    ]
    assert [row[0] for row in dropped.rows] == ["local, names in order", "local, random names"]
    assert [row[0] for row in commits.rows] == [
        f"version {versions:,}, {files:,} data files" for versions, files in engine.OLD_TABLES.values()
    ]
    assert all(goal.measured for goal in result.goal_results)
    reported(result)


@pytest.mark.spark
def test_a_history_is_measured_commit_by_commit(options: RunOptions, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("benchmarks.suite.history.LEAST_COMMITS", 12)  # one of them makes a Delta checkpoint
    monkeypatch.setattr("benchmarks.suite.history.START", 2)
    result = history.run(options)
    assert reported(result)[-2:] == ["with a Delta checkpoint", "without"]
    commits = result.raw["commits"]
    assert [commit["version"] for commit in commits] == [*range(len(commits))]


@pytest.mark.spark
def test_a_file_is_followed_until_its_rows_are_visible(options: RunOptions, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(latency, "PAUSE_SECS", (0.01, 0.2))
    monkeypatch.setattr(latency, "ChildProcess", short_job)
    result = latency.run(options)
    assert {"announced → planned", "planned → read", "read → visible", "in all"} <= set(reported(result))
    assert all(secs > 0 for secs in result.raw["secs"])


def test_what_needs_no_spark_is_run_from_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "bench.json"
    for name in ("plan", "collect"):
        assert main([name, "--scale", "0.01", "--rounds", "1", "--json", str(file)]) == 0
    capsys.readouterr()
    assert main(["--read", str(file), "--markdown", "--svg", str(tmp_path / "bench.svg")]) == 0
    shown = capsys.readouterr().out
    for name in ("plan", "collect"):
        assert f"### {name}" in shown
        assert all(goal.text in shown for goal in goals_of(name))
