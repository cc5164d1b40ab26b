"""`blizzard run --master` on a real standalone cluster, whose executors have nothing of the checkout."""

import socket
import time
from pathlib import Path

import pytest

from benchmarks.standalone_cluster.processes import Cluster
from infra.local.processes.server_process import LocalAws
from tests.cluster.job_on_cluster import ClusterLake, cluster_conf
from tests.proof.places import S3Place

pytestmark = pytest.mark.spark
SOON_SECS = 60.0
"""Much longer than it takes, and much shorter than for ever."""


@pytest.fixture
def lake(tmp_path: Path, aws: LocalAws, bucket: str, cluster: Cluster, job_deps: str) -> ClusterLake:
    lake = ClusterLake(S3Place(aws, bucket), tmp_path / "driver", cluster, cluster_conf(job_deps))
    lake.land(files=6, records=200)
    return lake


def test_executors_need_no_more_than_the_archive(lake: ClusterLake, job_archive: Path) -> None:
    conf = {**lake.conf, "spark.archives": f"{job_archive}#deps", "spark.executorEnv.PYTHONPATH": "./deps"}
    done = lake.blizzard_run("--master", lake.cluster.url, conf=conf)
    assert (done.returncode, done.stderr) == (0, "")
    verdict = lake.verdict()
    assert (verdict.good, verdict.rows_out) == (True, 1_200), [*verdict.lines()]


def test_executors_without_the_archive_are_named_with_what_they_lack(lake: ClusterLake) -> None:
    conf = {name: value for name, value in lake.conf.items() if name != "spark.executorEnv.PYTHONPATH"}
    done = lake.blizzard_run("--master", lake.cluster.url, conf=conf)
    assert done.returncode == 1
    assert (
        f"the executors of {lake.cluster.url} cannot run the job: No module named 'spark_job' (Python " in done.stderr
    )
    assert "Ship the job and its packages" in done.stderr


def test_a_cluster_without_room_for_an_executor_is_given_up(lake: ClusterLake) -> None:
    conf = {**lake.conf, "spark.executor.memory": "64g", "spark.blizzard.startSecs": "3"}
    done = lake.blizzard_run("--master", lake.cluster.url, conf=conf)
    assert done.returncode == 1
    # A busy machine may need all of that time for Spark's own start.
    waited = f"no executor of {lake.cluster.url} has started a task within 3 s. Expected one with free cores and memory"
    assert waited in done.stderr or f"{lake.cluster.url} did not accept the job within 3 s" in done.stderr


def test_a_cluster_that_nobody_runs_is_given_up_at_once(lake: ClusterLake) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        nobody = f"127.0.0.1:{taken.getsockname()[1]}"  # bound, and not listening
        began = time.monotonic()
        done = lake.blizzard_run("--master", f"spark://{nobody}")
    assert (done.returncode, time.monotonic() - began < SOON_SECS) == (1, True)
    assert f"the cluster spark://{nobody} cannot be reached: {nobody}: [Errno 111] Connection refused" in done.stderr


def test_a_wrong_master_and_the_local_engine_are_wrong_input(lake: ClusterLake) -> None:
    wrong = lake.blizzard_run("--master", "spark:/somewhere")
    assert (wrong.returncode, "expected local, local[N]" in wrong.stderr) == (2, True), wrong.stderr
    both = lake.blizzard_run("--master", lake.cluster.url, "--engine", "local")
    assert (both.returncode, "--engine local: expected spark" in both.stderr) == (2, True), both.stderr
