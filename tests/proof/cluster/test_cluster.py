"""What is broken on purpose is found by campaign `cluster`. Its short form is tests/cluster."""

import time
from pathlib import Path

import pytest

from benchmarks.standalone_cluster.processes import Cluster
from infra.local.processes.server_process import LocalAws
from tests.cluster.gate import Gate
from tests.proof.campaign import Budget, Failed, Run
from tests.proof.cluster.campaign import CAMPAIGN, Stage

pytestmark = pytest.mark.spark
TRIED: dict[str, frozenset[str]] = {CAMPAIGN.name: frozenset(CAMPAIGN.variants)}


@pytest.mark.parametrize("variant", sorted(TRIED[CAMPAIGN.name]))
def test_each_variant_broken_on_purpose_is_found(
    tmp_path: Path,
    aws: LocalAws,
    gate: Gate,
    cluster: Cluster,
    job_deps: str,
    variant: str,
) -> None:
    run = Run(1, Budget(time.monotonic, rounds=1), tmp_path, variant)
    with pytest.raises(Failed) as failed:
        CAMPAIGN.rounds(run, Stage(aws, gate, cluster, job_deps))
    assert CAMPAIGN.variants[variant].finds(failed.value.why)
