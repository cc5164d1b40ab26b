"""`skew`: one file of 2 GB and 10,000 small files in one batch. How long are cores idle, how much memory is used?"""

import json
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from benchmarks.contenders import Work, contender
from benchmarks.data import Dataset, dataset
from benchmarks.goals import goals_of
from benchmarks.process import scratch
from benchmarks.result import Result, Table
from benchmarks.rounds import ContenderRuns, Measured, in_turn, loads_note, measure
from benchmarks.run_options import RunOptions
from benchmarks.stats import Spread, evaluate_goals, number
from benchmarks.suite.comparison import raw
from benchmarks.verify import WrongResult

WHO = ("blizzard", "spark_reader")
ALONE = "blizzard alone"
"""A run of Blizzard without the large file."""
ONE_BATCH = {"checkpoint": {"interval_files": 25_000, "interval_bytes": "4GiB"}}
TASK_MEMORY_BYTES = 256 << 20
"""The default of `limits.task_memory_bytes`."""
COLUMNS = (
    "contender",
    "warm s",
    "idle share of cores",
    "idle share of each Spark slot",
    "peak MiB",
    "peak MiB, JVM",
    "peak MiB, Python",
)


@dataclass(frozen=True, slots=True)
class Task:
    """Start and end of a Spark task, Unix seconds."""

    start_ts: float
    end_ts: float


@dataclass(slots=True)
class Idle:
    """Idle shares during the last run of each round."""

    cores: list[float] = field(default_factory=list)
    slots: list[list[float]] = field(default_factory=list)
    """Per round, one share for each slot."""


def run(options: RunOptions) -> Result:
    data = dataset("skew", options.scale, options.report_progress, cache=options.cache)
    works = {name: Work(name, data, "", 2, options.cores, settings=ONE_BATCH) for name in WHO}
    works[ALONE] = replace(works["blizzard"], data=without_the_largest(data))
    series = {name: ContenderRuns(contender(work.contender).TITLE) for name, work in works.items()}
    series[ALONE].title += ", small files only"
    idle = {name: Idle() for name in works}
    for turn in range(options.rounds):
        for name, work in in_turn(works, turn):
            options.report_progress(f"skew, round {turn + 1} of {options.rounds}: {series[name].title}")
            _measure(work, series[name], idle[name], options)
    limit_bytes = TASK_MEMORY_BYTES * options.cores
    return Result(
        "skew",
        f"one file of {data.raw_bytes / 1e9:.2g} GB (decompressed) and {data.files - 1:,} files of 10 records, "
        "in one batch",
        (Table(COLUMNS, tuple(_row(series[name], idle[name]) for name in works)),),
        tuple(evaluate_goals(goals_of("skew"), measured(series, idle, limit_bytes), {})),
        notes=(*_notes(added_bytes(series), limit_bytes), loads_note({one.title: one for one in series.values()})),
        raw=raw(data, series)
        | {"idle": {name: {"cores": one.cores, "slots": one.slots} for name, one in idle.items()}},
    )


def measured(series: Mapping[str, ContenderRuns], idle: Mapping[str, Idle], limit_bytes: int) -> dict[str, Spread]:
    """Measurements by goal."""
    added = [bytes_ / limit_bytes for bytes_ in added_bytes(series)]
    mine = idle["blizzard"]
    return {
        "idle": Spread.of(mine.cores),
        "slots": Spread.of([max(shares) for shares in mine.slots]),
        "memory": Spread.of(added),
    }


def added_bytes(series: Mapping[str, ContenderRuns]) -> list[int]:
    """Per round, the memory that the large file adds to the peak."""
    whole, alone = ([run.usage.peak_bytes for run in series[name].runs] for name in ("blizzard", ALONE))
    return [mine - its for mine, its in zip(whole, alone, strict=True)]


def _notes(added: Sequence[int], limit_bytes: int) -> tuple[str, ...]:
    mib, own = (Spread.of([bytes_ / unit for bytes_ in added]) for unit in (2**20, TASK_MEMORY_BYTES))
    return (
        (
            "Idle cores: one minus the processor time of all processes of the job during the batch, divided by its "
            "time and the number of cores. Waiting for a disk is idle; the JVM's compiler and garbage collector are "
            "not."
        ),
        (
            "A slot runs one of Spark's tasks at a time; there is one for each core. It is idle while no task runs "
            "on it, which includes the time when the driver plans and commits. A task parses a large file with "
            "several threads, so an idle slot is not an idle core. The share of the cores is the mean of all: one of"
            " them may have been idle for longer."
        ),
        (
            f"The large file adds {mib} MiB to the peak of the same job without it. Held completely in memory it "
            f"would take some GB; `limits.task_memory_bytes` of all cores together is {number(limit_bytes / 2**20)} "
            f"MiB. The file is one task: it adds {own} of the limit of that single task."
        ),
    )


def _measure(work: Work, series: ContenderRuns, idle: Idle, options: RunOptions) -> None:
    with tempfile.TemporaryDirectory(prefix="run-", dir=scratch()) as folder:
        asked = replace(work, out=folder, spark_conf=_events_to(folder))
        run = measure(asked, Path(folder), process=options.process)
        answer, tasks = run.answers[-1], tasks_of(Path(folder))
    if answer.get("totals", {"commits": 1})["commits"] != 1:
        raise WrongResult(f"skew: expected all files in one commit, found {answer['totals']}")
    series.runs.append(run)
    idle.cores.append(idle_cores(answer["cpu_secs"], answer["secs"], options.cores))
    idle.slots.append(idle_shares(tasks, answer["began_ts"], answer["ended_ts"], options.cores))


def without_the_largest(data: Dataset) -> Dataset:
    """The data set without its first file, which is the largest and has the first records."""
    rows = 10 * (data.files - 1)
    large = data.rows - rows
    size = Path(data.folder, data.paths[0]).stat().st_size
    return replace(
        data,
        rows=rows,
        checksums={"n": data.checksums["n"] - large * (large - 1) // 2},
        stored_bytes=data.stored_bytes - size,
        raw_bytes=0,
        paths=data.paths[1:],
    )


def _row(series: ContenderRuns, idle: Idle) -> tuple[str, ...]:
    slots = (str(Spread.of(shares)) for shares in zip(*idle.slots, strict=True))
    return (
        series.title,
        str(Spread.of(series.warm())),
        str(Spread.of(idle.cores)),
        ", ".join(slots),
        str(series.peak_mib()),
        *(_mib(series.runs, kind) for kind in ("java", "python")),
    )


def _mib(runs: Sequence[Measured], kind: str) -> str:
    return str(Spread.of([getattr(run.usage, f"peak_{kind}_bytes") / 2**20 for run in runs]))


def idle_cores(cpu_secs: float, secs: float, cores: int) -> float:
    """Share of the cores' time without work. CPU times have the resolution of a clock tick, so the difference can be
    slightly negative; then it is 0."""
    return max(0.0, 1 - cpu_secs / (secs * cores))


def _events_to(folder: str) -> dict[str, str]:
    """Settings for an uncompressed event log in one file."""
    return {
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": f"file://{folder}",
        "spark.eventLog.compress": "false",
        "spark.eventLog.rolling.enabled": "false",
    }


def tasks_of(folder: Path) -> list[Task]:
    """Reads the tasks from the event log in this folder."""
    (file,) = folder.glob("local-*")
    infos = [
        json.loads(line)["Task Info"]
        for line in file.read_text().splitlines()
        if line.startswith('{"Event":"SparkListenerTaskEnd"')
    ]
    return [Task(info["Launch Time"] / 1000, info["Finish Time"] / 1000) for info in infos]


def idle_shares(tasks: Sequence[Task], began_ts: float, ended_ts: float, workers: int) -> list[float]:
    """For each worker, the share of the time from `began_ts` to `ended_ts` without a task, busiest worker first. A task
    is assigned to the first worker that is free at its start, so the last share is the time in which any was idle."""
    free_ts, busy_secs = [began_ts] * workers, [0.0] * workers
    within = sorted((t for t in tasks if t.end_ts > began_ts and t.start_ts < ended_ts), key=lambda task: task.start_ts)
    for task in within:
        worker = min(
            range(workers), key=lambda n: (free_ts[n] > task.start_ts, free_ts[n] if free_ts[n] > task.start_ts else n)
        )
        busy_secs[worker] += min(task.end_ts, ended_ts) - max(task.start_ts, began_ts)
        free_ts[worker] = max(free_ts[worker], task.end_ts)
    return sorted(max(0.0, 1 - busy / (ended_ts - began_ts)) for busy in busy_secs)
