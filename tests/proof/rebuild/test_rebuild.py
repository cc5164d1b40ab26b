"""The short form of the campaign `rebuild`, and rebuilds that are broken on purpose."""

import time
from pathlib import Path

import pytest

from tests.proof.campaign import Budget, Failed, Run
from tests.proof.rebuild.campaign import CAMPAIGN
from tests.proof.rebuild.processes import BREAKS
from tests.proof.rebuild.world import KILLS, RESTORED, SWAPS

TRIED: dict[str, frozenset[str]] = {CAMPAIGN.name: frozenset(BREAKS)}
ROUNDS_OF_A_VARIANT = 30


def test_tables_are_rebuilt_and_swapped_and_nothing_is_lost_or_doubled(tmp_path: Path) -> None:
    run = Run(1, Budget(time.monotonic, rounds=3), tmp_path)
    CAMPAIGN.run(run)
    assert run.counts[KILLS] > 5
    assert run.counts[SWAPS] > 1
    assert run.counts[RESTORED] > 1
    assert run.counts["records"] > 100


@pytest.mark.parametrize("variant", sorted(BREAKS))
def test_each_variant_broken_on_purpose_is_found(tmp_path: Path, variant: str) -> None:
    with pytest.raises(Failed) as failed:
        CAMPAIGN.run(Run(1, Budget(time.monotonic, rounds=ROUNDS_OF_A_VARIANT), tmp_path, variant))
    assert CAMPAIGN.variants[variant].finds(failed.value.why), failed.value.why
