"""`skew`: one file of 2 GB beside 10,000 small ones, in one batch. How long is a worker idle?"""

import json
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks.contenders import Work, contender
from benchmarks.data import dataset
from benchmarks.figures import Spread, judge
from benchmarks.goals import goals_of
from benchmarks.process import scratch
from benchmarks.result import Result, Table
from benchmarks.rounds import Series, measure
from benchmarks.setting import Setting
from benchmarks.suite.contest import raw

WHO = ("blizzard", "spark_reader")
ONE_BATCH = {"checkpoint": {"interval_files": 25_000, "interval_bytes": "4GiB"}}
COLUMNS = ("contender", "warm s", "idle share of each worker", "peak MiB", "of it the JVM", "of it Python")
NOTE = (
    "A worker is one of Spark's slots, one for each core; it is idle while no task runs on it, and so while the "
    "driver plans and commits."
)


@dataclass(frozen=True, slots=True)
class Task:
    """When one of Spark's tasks ran, Unix seconds."""

    start_ts: float
    end_ts: float


def run(setting: Setting) -> Result:
    data = dataset("skew", setting.scale, setting.say, cache=setting.cache)
    series = {name: Series(contender(name).TITLE) for name in WHO}
    idle: dict[str, list[list[float]]] = {name: [] for name in WHO}
    for turn in range(setting.rounds):
        for name in WHO:
            setting.say(f"skew, round {turn + 1} of {setting.rounds}: {series[name].title}")
            with tempfile.TemporaryDirectory(prefix="run-", dir=scratch()) as folder:
                work = Work(name, data, folder, 2, setting.cores, settings=ONE_BATCH)
                measured = measure(replace(work, spark_conf=_events_to(folder)), Path(folder), process=setting.process)
                answer = measured.answers[-1]
                tasks = tasks_of(Path(folder))
            series[name].runs.append(measured)
            idle[name].append(idle_shares(tasks, answer["began_ts"], answer["ended_ts"], setting.cores))
    worst = Spread.of([max(shares) for shares in idle["blizzard"]])
    return Result(
        "skew",
        f"one file of {data.raw_bytes / 1e9:.2g} GB (decompressed) beside {data.files - 1:,} of 10 records",
        (Table(COLUMNS, tuple(_row(series[name], idle[name]) for name in WHO)),),
        tuple(judge(goals_of("skew"), {"idle": worst}, {})),
        notes=(NOTE,),
        raw=raw(data, series) | {"idle": idle},
    )


def _row(series: Series, idle: Sequence[Sequence[float]]) -> tuple[str, ...]:
    workers = (str(Spread.of(shares)) for shares in zip(*idle, strict=True))
    java, python = (
        Spread.of([getattr(run.taken, f"peak_{kind}_bytes") / 2**20 for run in series.runs])
        for kind in ("java", "python")
    )
    return (
        series.title,
        str(Spread.of(series.warm())),
        ", ".join(workers),
        str(series.peak_mib()),
        str(java),
        str(python),
    )


def _events_to(folder: str) -> dict[str, str]:
    """Spark's own record of its tasks, as one plain file."""
    return {
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": f"file://{folder}",
        "spark.eventLog.compress": "false",
        "spark.eventLog.rolling.enabled": "false",
    }


def tasks_of(folder: Path) -> list[Task]:
    """From the event log that lies there."""
    (file,) = folder.glob("local-*")
    infos = [
        json.loads(line)["Task Info"]
        for line in file.read_text().splitlines()
        if line.startswith('{"Event":"SparkListenerTaskEnd"')
    ]
    return [Task(info["Launch Time"] / 1000, info["Finish Time"] / 1000) for info in infos]


def idle_shares(tasks: Sequence[Task], began_ts: float, ended_ts: float, workers: int) -> list[float]:
    """What share of the time from `began_ts` to `ended_ts` each worker had no task, that of the busiest first. A task
    is of the first worker that is free when it starts, so the last one's share is that for which any was idle."""
    free_ts, busy_secs = [began_ts] * workers, [0.0] * workers
    within = sorted((t for t in tasks if t.end_ts > began_ts and t.start_ts < ended_ts), key=lambda task: task.start_ts)
    for task in within:
        worker = min(
            range(workers), key=lambda n: (free_ts[n] > task.start_ts, free_ts[n] if free_ts[n] > task.start_ts else n)
        )
        busy_secs[worker] += min(task.end_ts, ended_ts) - max(task.start_ts, began_ts)
        free_ts[worker] = max(free_ts[worker], task.end_ts)
    return sorted(max(0.0, 1 - busy / (ended_ts - began_ts)) for busy in busy_secs)
