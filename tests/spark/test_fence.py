"""One winner, whatever the engines of the jobs: a job that commits second notices it, discards its batch and plans
again."""

import os
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from infra.local.processes.child_process import ChildProcess
from spark_job.wiring import SourceJob
from tests.spark.engine_lake import EngineLake
from tests.spark.lake import event_of, exit_of, ids, run

pytestmark = pytest.mark.spark
PAIRS = (("spark", "spark"), ("local", "local"), ("spark", "local"), ("local", "spark"), ("auto", "auto"))
"""Of engines: that of the job which is slow, and of the one that overtakes it."""


@pytest.fixture(params=PAIRS, ids="-".join)
def pair(request: pytest.FixtureRequest) -> tuple[str, str]:
    found: tuple[str, str] = request.param
    return found


@pytest.fixture
def lake(pair: tuple[str, str], tmp_path: Path, spark: Callable[[], SparkSession]) -> Iterator[EngineLake]:
    """Of the slow job."""
    with closing(EngineLake(tmp_path, spark, chosen=pair[0])) as made:
        yield made


def alone(*engines: str) -> pytest.MarkDecorator:
    """For a test in which nobody is overtaken."""
    return pytest.mark.parametrize("pair", [(engine, engine) for engine in engines], indirect=True, ids=engines)


def two_jobs(lake: EngineLake, pair: tuple[str, str]) -> tuple[SourceJob, SourceJob]:
    """The slow one and the fast one."""
    slow, lake.chosen = lake.job(), pair[1]
    return slow, lake.job()


def slow_and_fast(lake: EngineLake, pair: tuple[str, str]) -> tuple[SourceJob, SourceJob]:
    """Of the sources of `TWO`: `landing` is slow, `partner` overtakes it."""
    landing, lake.chosen = lake.jobs(TWO)[0], pair[1]
    return landing, lake.jobs(TWO)[1]


def run_to_next_plan(job: ChildProcess) -> int:
    """Let the job run until it has planned a batch, then stop it. Returns the sequence of the batch."""
    send(job, signal.SIGCONT)
    sequence: int = event_of(job, "batch_planned")["sequence"]
    send(job, signal.SIGSTOP)
    return sequence


def send(job: ChildProcess, number: signal.Signals) -> None:
    """To the driver alone, which plans and commits. If the whole group were stopped and continued while the driver
    starts a process, such as its JVM, that process might stay stopped."""
    os.kill(job._process.pid, number)


def let_them_race(one: ChildProcess, other: ChildProcess) -> None:
    """Let both jobs plan the same batch, however far apart they start; at most one of them can commit it."""
    jobs = (one, other)
    with ThreadPoolExecutor(2) as pool:
        planned = [{sequence} for sequence in pool.map(run_to_next_plan, jobs)]
    while planned[0].isdisjoint(planned[1]):
        behind = 0 if max(planned[0]) < max(planned[1]) else 1
        planned[behind].add(run_to_next_plan(jobs[behind]))
    for job in jobs:
        send(job, signal.SIGCONT)


@pytest.mark.parametrize(
    "pair", [("spark", "spark"), ("local", "local"), ("local", "spark")], indirect=True, ids="-".join
)
def test_two_concurrent_jobs_ingest_every_row_once_and_both_succeed(lake: EngineLake, pair: tuple[str, str]) -> None:
    lake.settings |= {"checkpoint": {"interval_files": 4}}
    for n in range(24):
        lake.put(f"{n:02d}.ndjson.gz", *ids(10 * n, 10 * n + 10))
    lake.write_config()
    with lake.process(engine=pair[0]) as one, lake.process(engine=pair[1], in_this_jvm=True) as other:
        let_them_race(one, other)
        totals = [event_of(job, "drained") for job in (one, other)]
        exits = [exit_of(job) for job in (one, other)]
    assert exits == [0, 0]
    verdict = lake.verdict()
    assert verdict.good, list(verdict.lines())
    assert verdict.rows_out == 240
    assert sum(job["lost_races"] for job in totals) > 0, "the jobs did not race, so this run proves nothing"


def test_a_job_that_loses_a_race_discards_its_batch(lake: EngineLake, pair: tuple[str, str]) -> None:
    lake.put("a.ndjson.gz", *ids(0, 3))
    lake.run()
    lake.put("b.ndjson.gz", *ids(3, 6))
    slow, fast = two_jobs(lake, pair)
    lake.meanwhile["batch_read"] = lambda: run(fast)
    totals = run(slow)
    assert (totals.lost_races, totals.commits) == (1, 0)
    assert lake.verdict().good


def test_of_two_first_commits_one_creates_the_table(lake: EngineLake, pair: tuple[str, str]) -> None:
    lake.put("a.ndjson.gz", *ids(0, 3))
    slow, fast = two_jobs(lake, pair)
    lake.meanwhile["batch_read"] = lambda: run(fast)
    assert run(slow).lost_races == 1
    assert lake.versions() == [0]
    assert lake.verdict().good


def test_the_loser_continues_with_the_files_that_the_winner_left(lake: EngineLake, pair: tuple[str, str]) -> None:
    lake.settings |= {"checkpoint": {"interval_files": 1}}
    for n in range(3):
        lake.put(f"{n}.ndjson.gz", *ids(n, n + 1))
    slow, fast = two_jobs(lake, pair)
    fast.sweep(late=False, record_if_empty=True)
    lake.meanwhile["batch_read"] = lambda: fast.ingest.step(draining=True)
    totals = run(slow)
    assert (totals.lost_races, totals.commits) == (1, 2)
    assert lake.verdict().good


TWO = {
    "landing": {"schema": "id STRING NOT NULL, n BIGINT"},
    "partner": {"schema": "id STRING NOT NULL, region STRING", "pattern": "**/*.ndjson"},
}


@alone("spark", "local")
def test_two_sources_with_the_same_paths_do_not_interfere(lake: EngineLake) -> None:
    for start, (name, more) in enumerate([("landing", {"n": 7}), ("partner", {"region": "north"})]):
        lake.put("day/a.ndjson", {"id": f"{start}-a", **more}, source=name)
        lake.put("day/b.ndjson", {"id": f"{start}-b", **more}, source=name)
    for _ in range(2):
        for job in lake.jobs(TWO):
            run(job, late=True)
    found = [(row["_source"]["source"], row["_source"]["file"], row["id"]) for row in lake.rows()]
    assert found == [
        ("events:landing", "day/a.ndjson", "0-a"),
        ("events:landing", "day/b.ndjson", "0-b"),
        ("events:partner", "day/a.ndjson", "1-a"),
        ("events:partner", "day/b.ndjson", "1-b"),
    ]
    assert [(row["n"], row["region"]) for row in lake.rows()][1:3] == [(7, None), (None, "north")]


@alone("spark", "auto")
def test_an_overwrite_in_one_source_leaves_the_same_path_of_another_alone(lake: EngineLake) -> None:
    wanted = {name: settings | {"on_overwrite": "replace"} for name, settings in TWO.items()}
    for name in wanted:
        lake.put("a.ndjson", {"id": f"old {name}"}, source=name)
    for job in lake.jobs(wanted):
        run(job)
    lake.put("a.ndjson", {"id": "new landing"}, source="landing")
    for job in lake.jobs(wanted):
        run(job, late=True)
    assert lake.ids() == ["new landing", "old partner"]


def test_two_sources_that_create_the_table_concurrently_both_get_their_columns(
    lake: EngineLake, pair: tuple[str, str]
) -> None:
    for name in TWO:
        lake.put("a.ndjson", {"id": name, "n": 1, "region": "north"}, source=name)
    landing, partner = slow_and_fast(lake, pair)
    lake.meanwhile["batch_read"] = lambda: run(partner)
    run(landing)
    assert [(row["id"], row["n"], row["region"]) for row in lake.rows()] == [
        ("landing", 1, None),
        ("partner", None, "north"),
    ]


def test_a_commit_of_another_source_in_between_is_not_a_race(lake: EngineLake, pair: tuple[str, str]) -> None:
    for name in TWO:
        lake.put("a.ndjson", {"id": name}, source=name)
    landing, partner = slow_and_fast(lake, pair)
    run(landing)
    lake.put("b.ndjson", {"id": "second"}, source="landing")
    lake.meanwhile["batch_read"] = lambda: run(partner)
    assert run(landing).lost_races == 0
    assert lake.ids() == ["landing", "second", "partner"]
