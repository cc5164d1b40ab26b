"""The short form of the campaign `audit`, and audits that are broken on purpose."""

import time
from pathlib import Path

import pytest

from tests.proof.audit.campaign import AUDITED, CAMPAIGN, EXAMINED, FAULTS, NO_CHECKSUMS, WORLDS
from tests.proof.campaign import Budget, Failed, Run

TRIED: dict[str, frozenset[str]] = {CAMPAIGN.name: frozenset(CAMPAIGN.variants)}
WORLDS_OF_A_VARIANT = 200
SEEDS = {NO_CHECKSUMS: 1795807041}
"""Of a variant that few worlds show, one that shows it soon; 1 for the others."""


@pytest.mark.spark
def test_healthy_worlds_give_no_alarm_and_each_planted_fault_is_found(tmp_path: Path) -> None:
    run = Run(1, Budget(time.monotonic, rounds=2 * len(FAULTS)), tmp_path)
    CAMPAIGN.run(run)
    assert run.counts[WORLDS] == 2 * len(FAULTS)
    assert run.counts[AUDITED] >= 6 * run.counts[WORLDS]
    assert run.counts[EXAMINED] >= 3 * run.counts[WORLDS]
    assert sum(run.counts[f"found: {fault.name}"] for fault in FAULTS) >= len(FAULTS)


@pytest.mark.parametrize("variant", sorted(TRIED[CAMPAIGN.name]))
def test_each_variant_broken_on_purpose_is_found(tmp_path: Path, variant: str) -> None:
    with pytest.raises(Failed) as failed:
        CAMPAIGN.run(Run(SEEDS.get(variant, 1), Budget(time.monotonic, rounds=WORLDS_OF_A_VARIANT), tmp_path, variant))
    assert CAMPAIGN.variants[variant].finds(failed.value.why), failed.value.why
