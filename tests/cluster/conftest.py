"""One standalone cluster for all tests of a file."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from infra.local.processes.server_process import LocalAws
from infra.package.cluster import cluster_archive
from tests.cluster import machine_image
from tests.cluster.standalone import Cluster, standalone_cluster


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Compressed less than a user's: half of the time, and nothing here depends on it."""
    return cluster_archive(tmp_path_factory.mktemp("archive"), level=1)


@pytest.fixture(scope="module")
def deps(archive: Path) -> str:
    return str(machine_image.installed(archive))


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, aws: LocalAws) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("cluster")
    home = machine_image.spark_home(folder / "image")
    with standalone_cluster(folder, machine_image.machine_environment(home, aws)) as running:
        yield running
