"""Both engines make the same of the same random files, and an engine that does not is found."""

import time
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.proof.campaign import Budget, Failed, Run
from tests.proof.engines.campaign import (
    CAMPAIGN,
    ENTRIES,
    FILES,
    LETTERS,
    NEEDED,
    NOT_NEEDED,
    PEAK_MB,
    ROWS,
    WITH_RUNS,
)
from tests.proof.engines.evolving import COUNTS
from tests.spark.conftest import spark  # noqa: F401 - a fixture

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("spark")]
TRIED: dict[str, frozenset[str]] = {CAMPAIGN.name: frozenset(CAMPAIGN.variants)}


def short(folder: Path, variant: str = "") -> Run:
    return Run(3, Budget(time.monotonic, rounds=2), folder, variant)


def test_both_engines_make_the_same_of_the_same_random_files(
    tmp_path: Path,
    spark: Callable[[], SparkSession],  # noqa: F811
) -> None:
    spark()
    run = short(tmp_path)
    CAMPAIGN.run(run)
    assert run.counts[FILES] >= 30
    assert min(run.counts[what] for what in (ROWS, LETTERS, ENTRIES, WITH_RUNS, NEEDED, NOT_NEEDED, *COUNTS)) > 0


def test_it_ends_after_as_many_files_as_it_was_asked_for(
    tmp_path: Path,
    spark: Callable[[], SparkSession],  # noqa: F811
) -> None:
    spark()
    run = Run(3, Budget(time.monotonic, rounds=6), tmp_path, files=2)
    CAMPAIGN.run(run)
    assert run.counts[FILES] == 2
    assert 1 <= run.counts["rounds"] < 6
    assert run.counts[PEAK_MB] > 0


@pytest.mark.parametrize("variant", sorted(TRIED[CAMPAIGN.name]))
def test_each_variant_broken_on_purpose_is_found(
    tmp_path: Path,
    spark: Callable[[], SparkSession],  # noqa: F811
    variant: str,
) -> None:
    spark()
    with pytest.raises(Failed) as failed:
        CAMPAIGN.run(short(tmp_path, variant))
    assert CAMPAIGN.variants[variant].finds(failed.value.why)
