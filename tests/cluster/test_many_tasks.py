"""Many tasks over many files, for which the job asks a real cluster for more executors: each record is one row."""

from pathlib import Path

import pytest

from benchmarks.standalone_cluster.processes import Cluster, until
from infra.local.processes.server_process import LocalAws
from tests.cluster import mishaps
from tests.cluster.gate import Gate, Phase
from tests.cluster.job_on_cluster import cluster_lake

pytestmark = pytest.mark.spark
FILES, TASKS = 300, 50


def test_more_tasks_get_more_executors(
    tmp_path: Path, aws: LocalAws, cluster: Cluster, job_deps: str, gate: Gate
) -> None:
    lake = cluster_lake(tmp_path, aws, cluster, job_deps, gate.endpoint)
    lake.land(FILES, records=3)
    conf = {**mishaps.DYNAMIC_ALLOCATION, "spark.default.parallelism": f"{TASKS // 2}"}
    with gate.holding(Phase.READ, cluster.workers) as hold, lake.running("--sweep", "--once", conf=conf) as job:
        job.reaches(hold)
        until(lambda: len(cluster.executors()) == 2, "a second executor")
        hold.released.set()
        job.commits_all()
        assert job.ends() == 0
    lake.check_all_rows_are_there_once()
