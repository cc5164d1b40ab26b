"""Executors and workers of a real cluster die while the job reads, writes and commits: each record is one row."""

from collections.abc import Iterator

import pytest

from benchmarks.standalone_cluster.processes import Cluster
from infra.local.processes.server_process import LocalAws
from tests.cluster import mishaps
from tests.cluster.gate import Gate, Phase
from tests.cluster.job_on_cluster import RunningJob, cluster_lake

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def job(
    tmp_path_factory: pytest.TempPathFactory, aws: LocalAws, cluster: Cluster, job_deps: str, gate: Gate
) -> Iterator[RunningJob]:
    """One that runs on and on, with speculation."""
    lake = cluster_lake(tmp_path_factory.mktemp("kills"), aws, cluster, job_deps, gate.endpoint)
    lake.land(mishaps.WAVE, mishaps.RECORDS)
    with lake.running("--sweep", conf=mishaps.SPECULATION) as job:
        job.commits_all()
        yield job


@pytest.mark.parametrize("phase", Phase)
def test_an_executor_that_dies_costs_no_row(job: RunningJob, cluster: Cluster, gate: Gate, phase: Phase) -> None:
    mishaps.all_executors(cluster)
    mishaps.executor_dies(job, cluster, gate, phase)
    job.lake.check_all_rows_are_there_once()


def test_a_straggler_is_overtaken_by_its_copy(job: RunningJob, cluster: Cluster, gate: Gate) -> None:
    mishaps.straggler(job, cluster, gate)
    job.lake.check_all_rows_are_there_once()


def test_a_worker_that_is_lost_and_comes_back_costs_no_row(job: RunningJob, cluster: Cluster, gate: Gate) -> None:
    mishaps.worker_comes_back(job, cluster, mishaps.worker_lost(job, cluster, gate))
    job.lake.check_all_rows_are_there_once()
