"""What happens to executors and workers while the job ingests the files that have just landed."""

import os
import signal

from benchmarks.standalone_cluster.processes import Cluster, Daemon, until
from tests.cluster.gate import Gate, Hold, Phase
from tests.cluster.job_on_cluster import RunningJob

SPECULATION = {
    "spark.speculation": "true",
    "spark.speculation.interval": "50ms",
    "spark.speculation.quantile": "0.5",
    "spark.speculation.multiplier": "1.1",
}
"""A straggler is noticed after a fraction of a second."""
DYNAMIC_ALLOCATION = {
    "spark.dynamicAllocation.enabled": "true",
    "spark.dynamicAllocation.shuffleTracking.enabled": "true",
    "spark.dynamicAllocation.minExecutors": "1",
    "spark.dynamicAllocation.maxExecutors": "2",
    "spark.dynamicAllocation.schedulerBacklogTimeout": "1s",
}
WAVE, RECORDS = 8, 50
"""Files that land at once, and records of each."""


def all_executors(cluster: Cluster) -> None:
    until(lambda: len(cluster.executors()) == len(cluster.workers), "each worker has an executor")


def executor_dies(job: RunningJob, cluster: Cluster, gate: Gate, phase: Phase) -> None:
    """By SIGKILL. In READ and WRITE it is the one that waits for an answer of S3."""
    with gate.holding(phase, cluster.workers) as hold:
        job.lake.land(WAVE, RECORDS, announced=True)
        job.reaches(hold)
        if phase is not Phase.COMMIT:
            kill_executor(sender_of(hold))
        else:
            if hold.sender is not None:
                raise AssertionError("expected the driver to commit, found a worker")
            kill_executor(next(worker for worker in cluster.workers if worker.executors()))
    job.commits_all()


def kill_executor(worker: Daemon) -> None:
    for executor in worker.executors():
        os.kill(executor, signal.SIGKILL)


def sender_of(hold: Hold) -> Daemon:
    if hold.sender is None:
        raise AssertionError(f"expected a request of an executor, found one of another process: {hold.path}")
    return hold.sender


def straggler(job: RunningJob, cluster: Cluster, gate: Gate) -> None:
    """One worker gets no answer for one file before the batch is in the table, however often it asks: only a copy of
    its task on another worker can read that file."""
    all_executors(cluster)
    with gate.holding(Phase.READ, cluster.workers, for_good=True) as hold:
        job.lake.land(WAVE, RECORDS, announced=True)
        job.commits_all()
        sender_of(hold)


def worker_lost(job: RunningJob, cluster: Cluster, gate: Gate) -> Daemon:
    """With its executor, while that reads. Returns the worker, which is gone."""
    with gate.holding(Phase.READ, cluster.workers) as hold:
        job.lake.land(WAVE, RECORDS, announced=True)
        job.reaches(hold)
        lost = sender_of(hold)
        lost.kill()
    job.commits_all()
    return lost


def worker_comes_back(job: RunningJob, cluster: Cluster, worker: Daemon) -> None:
    """And gets an executor."""
    cluster.restart(worker)
    until(worker.executors, "the worker that came back has an executor")
    job.lake.land(WAVE, RECORDS, announced=True)
    job.commits_all()
