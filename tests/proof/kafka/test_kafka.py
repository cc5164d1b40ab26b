"""Topics lose and double nothing while jobs and brokers die, and jobs that are broken on purpose are found out."""

import time
from pathlib import Path

import pytest

from tests.proof.campaign import Budget, Failed, Run
from tests.proof.kafka.audits import AUDITED, LETTER_GONE, ROW_GONE
from tests.proof.kafka.campaign import AGAIN, CAMPAIGN, COMPARED, ENGINES, TRUNCATED
from tests.proof.kafka.registry import UNANSWERED
from tests.proof.kafka.variants import (
    BLIND_AUDIT,
    CUT_IS_PASSED,
    LATE_LETTERS,
    ONE_TOO_LATE,
    OUTAGE_IS_FAULT,
    READ_UNCOMMITTED,
)

ROUNDS = 6
"""At most: not each has what the variant shows at."""
TRIED: dict[str, frozenset[str]] = {
    CAMPAIGN.name: frozenset({ONE_TOO_LATE, READ_UNCOMMITTED, LATE_LETTERS, BLIND_AUDIT})
}


def go(folder: Path, rounds: int, variant: str = "") -> Run:
    run = Run(11, Budget(time.monotonic, rounds=rounds), folder, variant, spark_share=0.0)
    CAMPAIGN.run(run)
    return run


def test_a_round_loses_and_doubles_nothing(tmp_path: Path) -> None:
    counts = go(tmp_path, 1).counts
    assert counts[COMPARED] > 100
    assert (counts[ENGINES["local"]] > 10, counts[ENGINES["spark"]]) == (True, 0)
    assert (counts[TRUNCATED], counts[AGAIN], counts[UNANSWERED] > 0) == (1, 1, True)
    assert (counts[AUDITED] >= 3, counts[ROW_GONE], counts[LETTER_GONE]) == (True, 1, 1)


def test_a_job_that_reads_on_in_a_truncated_log_is_found(tmp_path: Path) -> None:
    with pytest.raises(Failed, match="nobody's: a log that was truncated was read on, exit code 0"):
        go(tmp_path, 1, CUT_IS_PASSED)


def test_a_job_that_refuses_messages_while_the_registry_is_down_is_found(tmp_path: Path) -> None:
    with pytest.raises(Failed, match=r"^a row and no letter, or the other way round"):
        go(tmp_path, 1, OUTAGE_IS_FAULT)


@pytest.mark.parametrize("variant", sorted(TRIED[CAMPAIGN.name]))
def test_a_broken_job_is_found(tmp_path: Path, variant: str) -> None:
    with pytest.raises(Failed) as failed:
        go(tmp_path, ROUNDS, variant)
    assert CAMPAIGN.variants[variant].finds(failed.value.why), failed.value
