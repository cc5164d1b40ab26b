"""Topics lose and double nothing while jobs and brokers die, and jobs that are broken on purpose are found out."""

import time
from pathlib import Path

import pytest

from tests.proof.campaign import Budget, Failed, Run
from tests.proof.kafka.campaign import CAMPAIGN, COMPARED
from tests.proof.kafka.variants import LATE_LETTERS, ONE_TOO_LATE, READ_UNCOMMITTED

ROUNDS = 3
"""At most: not each has what the variant shows at."""
TRIED: dict[str, frozenset[str]] = {CAMPAIGN.name: frozenset({ONE_TOO_LATE, READ_UNCOMMITTED, LATE_LETTERS})}


def go(folder: Path, rounds: int, variant: str = "") -> Run:
    run = Run(11, Budget(time.monotonic, rounds=rounds), folder, variant)
    CAMPAIGN.run(run)
    return run


def test_a_round_loses_and_doubles_nothing(tmp_path: Path) -> None:
    assert go(tmp_path, 1).counts[COMPARED] > 100


@pytest.mark.parametrize("variant", sorted(TRIED[CAMPAIGN.name]))
def test_a_broken_job_is_found(tmp_path: Path, variant: str) -> None:
    with pytest.raises(Failed) as failed:
        go(tmp_path, ROUNDS, variant)
    assert CAMPAIGN.variants[variant].finds(failed.value.why), failed.value
