"""Campaign `cluster`: the job on a standalone Spark cluster, whose executors and workers die while it reads, writes and
commits. The driver lives; campaign `kill` kills that one."""

import random
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from benchmarks.standalone_cluster import machine
from benchmarks.standalone_cluster.processes import Cluster, standalone_cluster
from infra.local.processes.server_process import LocalAws, local_aws
from infra.package.cluster import cluster_archive
from tests.cluster import mishaps
from tests.cluster.gate import Gate, Phase, gate_before
from tests.cluster.job_on_cluster import DRIVER, ClusterLake, RunningJob, cluster_conf
from tests.proof.campaign import Failed, Fault, Run
from tests.proof.cluster.variants import LOST_FILES_COUNT, NOT_READ_AGAIN
from tests.proof.places import S3Place

KILLS = {phase: f"kills of an executor in a {phase}" for phase in Phase}
LOST, STRAGGLERS = "workers lost and come back", "stragglers overtaken by a copy"
DYNAMIC, FIXED = "rounds with dynamic allocation", "rounds with all executors from the start"
MANY_TASKS, MANY_FILES = "batches of 500 tasks", "sources of 20,000 files"
TASKS, FILES, RECORDS_OF_MANY = 500, 20_000, 3
RECORDS = "records"
MANY_EVERY = 3
"""Of so many rounds, the last one has many files in many tasks."""
MISHAPS = 6
MANY_SECS = 1_800.0
"""The longest wait for a source of many files."""


@dataclass(frozen=True, slots=True)
class Stage:
    """What all rounds share."""

    aws: LocalAws
    gate: Gate
    cluster: Cluster
    deps: str

    def lake(self, folder: Path) -> ClusterLake:
        place = S3Place.made(self.aws, f"cluster-{uuid.uuid4().hex}")
        settings = {"checkpoint": {"interval_secs": 1, "interval_files": 25_000}, "sweep": {"interval_secs": 60}}
        return ClusterLake(place, folder, self.cluster, cluster_conf(self.deps), self.gate.endpoint, settings)


@contextmanager
def stage(folder: Path) -> Iterator[Stage]:
    deps = machine.installed(cluster_archive(folder / "archive", level=1))
    home = machine.spark_home(folder / "image")
    with (
        local_aws() as aws,
        gate_before(aws.endpoint) as gate,
        standalone_cluster(folder, machine.machine_environment(home, aws.environment())) as cluster,
    ):
        yield Stage(aws, gate, cluster, str(deps))


class OnACluster:
    name = "cluster"
    about = "the job on a Spark cluster of processes, while executors are killed and workers lost"
    variants: Mapping[str, Fault] = {
        LOST_FILES_COUNT: Fault(
            "an executor dies after its data file is whole, and the rows are in the table twice", "^doubled"
        ),
        NOT_READ_AGAIN: Fault("an executor dies, and what its task had read is in no row", "^missing"),
    }
    wanted = (*KILLS.values(), LOST, STRAGGLERS, DYNAMIC, FIXED, MANY_TASKS, MANY_FILES)

    def run(self, run: Run) -> None:
        run.say("starting a cluster")
        with stage(run.folder) as made:
            self.rounds(run, made)

    def rounds(self, run: Run, made: Stage) -> None:
        for number, rng in run.rounds():
            lake = made.lake(run.folder / f"driver-{number}")
            if number % MANY_EVERY == MANY_EVERY - 1 and not run.variant:
                _many_files(run, made, lake)
            else:
                _mishaps(run, made, lake, rng, dynamic=number % 2 == 1)


CAMPAIGN = OnACluster()


def _mishaps(run: Run, made: Stage, lake: ClusterLake, rng: random.Random, *, dynamic: bool) -> None:
    """One job that lives through them, in a random order. A broken one has only to live through a kill."""
    conf = {**mishaps.SPECULATION, **(mishaps.DYNAMIC_ALLOCATION if dynamic else {})}
    steps = [f"a job starts, {'with' if dynamic else 'without'} dynamic allocation"]
    lake.land(mishaps.WAVE, mishaps.RECORDS, f"{rng.random()}")
    with _running(run, lake, conf) as job:
        job.commits_all()
        planned = [KILLS[Phase.WRITE]] if run.variant else _planned(rng, dynamic=dynamic)
        for what in planned:
            run.say(what)
            _happens(what)(job, made.cluster, made.gate)
            steps.append(what)
            _compare(run, lake, steps)
            run.counts[what] += 1
    run.counts[DYNAMIC if dynamic else FIXED] += 1


def _planned(rng: random.Random, *, dynamic: bool) -> list[str]:
    """Each once, and some again. A straggler's copy needs an executor on the other worker, for which only a job that
    keeps all its executors does not have to ask."""
    kinds = [*KILLS.values(), LOST, *(() if dynamic else (STRAGGLERS,))]
    return rng.sample(kinds, len(kinds)) + rng.choices(kinds, k=MISHAPS - len(kinds))


def _happens(what: str) -> Callable[[RunningJob, Cluster, Gate], None]:
    if what == STRAGGLERS:
        return mishaps.straggler
    if what == LOST:
        return _lost_and_come_back
    return partial(_dies, next(phase for phase, name in KILLS.items() if name == what))


def _dies(phase: Phase, job: RunningJob, cluster: Cluster, gate: Gate) -> None:
    mishaps.executor_dies(job, cluster, gate, phase)


def _lost_and_come_back(job: RunningJob, cluster: Cluster, gate: Gate) -> None:
    lost = mishaps.worker_lost(job, cluster, gate)
    cluster.restart(lost)
    job.lake.land(mishaps.WAVE, mishaps.RECORDS, announced=True)
    job.commits_all()


def _many_files(run: Run, made: Stage, lake: ClusterLake) -> None:
    """In one batch of many tasks, in whose middle an executor dies."""
    run.say(f"{FILES:,} files land")
    lake.land(FILES, RECORDS_OF_MANY)
    conf = {**mishaps.SPECULATION, **mishaps.DYNAMIC_ALLOCATION, "spark.default.parallelism": f"{TASKS // 2}"}
    with made.gate.holding(Phase.WRITE, made.cluster.workers) as hold, _running(run, lake, conf, "--once") as job:
        job.reaches(hold)
        run.say(f"{TASKS} tasks run, and an executor dies")
        mishaps.kill_executor(mishaps.sender_of(hold))
        hold.released.set()
        job.commits_all(MANY_SECS)
        if (ended := job.ends()) != 0:
            raise Failed(f"the job ended with {ended}: {job.last_lines()}")
    _compare(run, lake, [f"{FILES} files, {TASKS} tasks, and an executor that died in a write"])
    run.counts.update({MANY_FILES: 1, MANY_TASKS: 1})


def _running(run: Run, lake: ClusterLake, conf: Mapping[str, str], *words: str) -> AbstractContextManager[RunningJob]:
    driver = ("tests.proof.cluster.driver", run.variant) if run.variant else (DRIVER,)
    return lake.running("--sweep", *words, conf=conf, driver=driver)


def _compare(run: Run, lake: ClusterLake, steps: list[str]) -> None:
    """Raises Failed."""
    found = lake.verdict()
    for name in ("missing", "doubled", "changed", "unexpected", "silent"):
        if wrong := getattr(found, name):
            raise Failed(f"{name} {len(wrong)} of {found.rows_in} records, such as {wrong[:3]}", steps)
    if found.files != lake.landed or found.dead_letters:
        raise Failed(f"expected {lake.landed} files and no dead letter, found {[*found.lines()]}", steps)
    run.counts[RECORDS] += found.rows_in
