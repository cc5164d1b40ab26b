"""One standalone cluster for all tests, which run in one worker (tests/workers.py)."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.standalone_cluster import machine
from benchmarks.standalone_cluster.processes import Cluster, standalone_cluster
from infra.local.processes.server_process import LocalAws
from infra.package.cluster import cluster_archive
from tests.cluster.gate import Gate, gate_before


@pytest.fixture(scope="session")
def job_archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Compressed less than a user's: half of the time, and nothing here depends on it."""
    return cluster_archive(tmp_path_factory.mktemp("archive"), level=1)


@pytest.fixture(scope="session")
def job_deps(job_archive: Path) -> str:
    return str(machine.installed(job_archive))


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory, aws: LocalAws) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("cluster")
    home = machine.spark_home(folder / "image")
    with standalone_cluster(folder, machine.machine_environment(home, aws.environment())) as running:
        yield running


@pytest.fixture(scope="session")
def gate(aws: LocalAws) -> Iterator[Gate]:
    with gate_before(aws.endpoint) as gate:
        yield gate
