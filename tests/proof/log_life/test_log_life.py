"""The job goes on exactly, or refuses with the reason, whatever becomes of the log; what is broken is found."""

import time
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.proof.campaign import Budget, Failed, Run
from tests.proof.job_engines import JOBS_OF
from tests.proof.log_life import checkpoints, events, rows
from tests.proof.log_life.campaign import CAMPAIGN, VARIANTS, LogLife
from tests.spark.conftest import spark  # noqa: F401 - a fixture

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("spark")]

SHORT = {
    checkpoints.the_log_is_cleaned_up_and_the_copy_is_lost,
    checkpoints.the_log_is_cleaned_up_and_the_copy_is_old,
    checkpoints.a_clean_up_forgets_the_txn,
    checkpoints.the_pointer_to_the_last_checkpoint_is_torn,
    events.somebody_lets_delta_forget_txns,
    events.the_table_is_dropped_but_not_what_blizzard_put_beside_it,
    events.a_backup_of_the_log_and_the_data_takes_their_place,
    events.the_table_is_restored_to_an_older_version,
    events.the_pipeline_has_another_name,
    rows.a_user_deletes_old_rows_and_removes_their_files,
    rows.a_user_merges_changes_and_deletions,
    rows.a_user_deletes_rows_and_the_ledger_is_lost,
    rows.a_user_deletes_rows_and_the_bases_are_lost,
    rows.a_user_deletes_rows_and_ledger_and_receipts_are_lost,
}
TRIED: dict[str, frozenset[str]] = {CAMPAIGN.name: frozenset(VARIANTS)}
SEED = 478
"""Drops the table while it is small, so that little is ingested again."""


def campaign(chosen: set[Callable[..., object]]) -> LogLife:
    return LogLife([event for event in events.EVENTS if event.do in chosen])


def short(folder: Path, rounds: int, variant: str = "") -> Run:
    return Run(SEED, Budget(time.monotonic, rounds=rounds), folder, variant)


def test_the_job_resumes_or_refuses_after_each_event(tmp_path: Path, spark: Callable[[], SparkSession]) -> None:  # noqa: F811
    spark()
    run = short(tmp_path, len(SHORT))
    campaign(SHORT).run(run)
    assert run.counts["refused with the reason"] == 3
    assert run.counts[events.FROM_ROWS] >= 1
    assert run.counts[events.FROM_COPY] >= 1
    assert all(run.counts[event.__name__.replace("_", " ")] == 1 for event in SHORT)
    assert all(run.counts[jobs] >= len(SHORT) // 2 for jobs in JOBS_OF.values())
    forms = {name for name in run.counts if name.startswith("clean-ups behind ")}
    assert len(forms) == 2
    assert len({name for name in forms if " v2 " in name}) == 1


@pytest.mark.parametrize("variant", sorted(TRIED[CAMPAIGN.name]))
def test_each_variant_broken_on_purpose_is_found(
    tmp_path: Path,
    variant: str,
    spark: Callable[[], SparkSession],  # noqa: F811
) -> None:
    spark()
    with pytest.raises(Failed) as failed:
        campaign({VARIANTS[variant].shown_by}).run(short(tmp_path, 6, variant))
    assert CAMPAIGN.variants[variant].finds(failed.value.why)
