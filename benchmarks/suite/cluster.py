"""`cluster`: what a standalone cluster adds: executors of one core each, relative to as many cores of the driver.

Everything is on this machine and on its disk, so only what Spark does between processes is added. The time is from the
moment at which Spark has started to the end of the backlog; what starting takes is reported beside it.
"""

import json
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.contenders.session import JARS
from benchmarks.data import Dataset, dataset
from benchmarks.engine.whole_process import config_of
from benchmarks.goals import goals_of
from benchmarks.machine import load
from benchmarks.process import ROOT, ContenderFailed, scratch
from benchmarks.result import Result, Table
from benchmarks.run_options import RunOptions
from benchmarks.standalone_cluster import machine
from benchmarks.standalone_cluster.processes import Cluster, standalone_cluster
from benchmarks.stats import TIMES, Spread, evaluate_goals
from benchmarks.verify import WrongResult, found_in
from blizzard.environment import variables
from infra.package.cluster import HERE, cluster_archive

EXECUTORS = (1, 2, 4)
EXECUTOR_MB = 1024
LEVEL = 1
WORDS = {"big": "big: 5,000,000 records in 100 files", "small": "small: 100,000 files of 10 records"}
NOTE = (
    "Both read the same files of the local disk, and each table is checked. local[n] has all tasks in the driver's "
    "JVM; on the cluster each executor is a process with one core. With more executors than cores both share the cores."
)


@dataclass(frozen=True, slots=True)
class Ran:
    """Seconds: until Spark has started, which includes the first executor; from then to the end of the backlog."""

    start_secs: float
    secs: float


@dataclass(slots=True)
class Measured:
    """By data set and number of cores all rounds, in local[n] and on the cluster."""

    local: dict[tuple[str, int], list[Ran]] = field(default_factory=dict)
    cluster: dict[tuple[str, int], list[Ran]] = field(default_factory=dict)

    def ratio(self, key: tuple[str, int]) -> Spread:
        pairs = zip(self.cluster[key], self.local[key], strict=True)
        return Spread.of([one.secs / other.secs for one, other in pairs])

    def worst(self, name: str) -> Spread:
        return max((self.ratio(key) for key in self.local if key[0] == name), key=lambda spread: spread.median)


def run(options: RunOptions) -> Result:
    found, before = Measured(), load()
    data = [dataset(name, options.scale, options.report_progress, cache=options.cache) for name in WORDS]
    with _folder() as folder:
        deps = str(machine.installed(cluster_archive(folder / "archive", level=LEVEL)))
        home = machine.spark_home(folder / "image")
        for turn in range(options.rounds):
            for count in EXECUTORS:
                options.report_progress(f"cluster: round {turn + 1} of {options.rounds}, {count} executors")
                environment = machine.machine_environment(home, {})
                place = folder / f"cluster-{turn}-{count}"
                with standalone_cluster(place, environment, workers=count, executor_mb=EXECUTOR_MB) as cluster:
                    for one in data:
                        _both(one, count, cluster, deps, found)
    return Result(
        "cluster",
        "executors of one core on a standalone cluster, relative to local[n]",
        (_table(found),),
        tuple(evaluate_goals(goals_of("cluster"), measured(found), {})),
        notes=(NOTE, f"Load of the machine before: {before:.2f}."),
        raw={
            place: [[*key, [asdict(ran) for ran in runs]] for key, runs in getattr(found, place).items()]
            for place in ("local", "cluster")
        },
    )


def measured(found: Measured) -> dict[str, Spread]:
    return {name: found.worst(name) for name in WORDS}


def _both(data: Dataset, count: int, cluster: Cluster, deps: str, found: Measured) -> None:
    key = (data.name, count)
    found.local.setdefault(key, []).append(_ingested(data, f"local[{count}]", {}))
    found.cluster.setdefault(key, []).append(_ingested(data, cluster.url, cluster_conf(count, deps)))


def cluster_conf(executors: int, deps: str) -> dict[str, str]:
    return {
        "spark.cores.max": f"{executors}",
        "spark.executor.cores": "1",
        "spark.executor.memory": f"{EXECUTOR_MB}m",
        "spark.executorEnv.PYTHONPATH": deps,
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "4",
        # All of them from the first task on.
        "spark.scheduler.minRegisteredResourcesRatio": "1.0",
    }


def _ingested(data: Dataset, master: str, conf: Mapping[str, str]) -> Ran:
    """One backlog in a new process. Raises ContenderFailed, WrongResult."""
    with _folder() as folder:
        config = config_of(folder, {"events": Path(data.folder)})
        settings = [word for key, value in conf.items() for word in ("--spark-conf", f"{key}={value}")]
        words = ["--config", str(config), "--sweep", "--once", "--jars", str(JARS), "--master", master, *settings]
        python = {"PYSPARK_PYTHON": f"python{HERE}" if conf else sys.executable}
        began = time.time()
        done = subprocess.run(
            [sys.executable, "-m", "spark_job", *words],
            cwd=ROOT,
            env={**variables(), **python},
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            raise ContenderFailed(f"{master}: exit code {done.returncode}; it said:\n{done.stdout[-3000:]}")
        rows = found_in(str(folder / "tables" / "events")).rows
        if rows != data.rows:
            raise WrongResult(f"cluster: expected {data.rows} rows with {master}, found {rows}")
        return _times(began, done.stdout.splitlines())


def _times(began: float, lines: Sequence[str]) -> Ran:
    events = [json.loads(line) for line in lines if line.startswith("{")]
    at = {event["event"]: datetime.fromisoformat(event["ts"]).timestamp() for event in events}
    return Ran(at["spark_started"] - began, at["drained"] - at["spark_started"])


@contextmanager
def _folder() -> Iterator[Path]:
    with TemporaryDirectory(prefix="cluster-", dir=scratch()) as folder:
        yield Path(folder)


def _table(found: Measured) -> Table:
    rows = []
    for key, alone in found.local.items():
        on_cluster = found.cluster[key]
        name = f"{WORDS[key[0]]}, {key[1]} executor{'s' if key[1] > 1 else ''}"
        secs = [str(Spread.of([ran.secs for ran in runs])) for runs in (alone, on_cluster)]
        starts = [str(Spread.of([ran.start_secs for ran in runs])) for runs in (alone, on_cluster)]
        rows.append((name, *secs, f"{found.ratio(key)}{TIMES}", *starts))
    heads = (
        "backlog",
        "local[n], s",
        "cluster, s",
        "cluster / local[n]",
        "start of local[n], s",
        "start of cluster, s",
    )
    return Table(heads, tuple(rows))
