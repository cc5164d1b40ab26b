"""Nothing is lost and nothing is doubled, though the real job is killed; and what is broken on purpose is found."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.proof import kill, kill_steps, kill_variants
from tests.proof.campaign import Budget, Failed, Run
from tests.proof.kill_names import LOST_ANSWER, RANDOM_MOMENT, SHORTEST, STEPS, VARIANTS
from tests.proof.kill_stage import Stage, stage

pytestmark = pytest.mark.spark

TRIED: dict[str, frozenset[str]] = {kill.CAMPAIGN.name: frozenset(VARIANTS)}


@pytest.fixture(scope="module")
def common(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    with stage(tmp_path_factory.mktemp("kill")) as made:
        yield made


def run_of(folder: Path, variant: str = "") -> Run:
    return Run(1, Budget(time.monotonic, rounds=1), folder, variant)


def test_the_job_is_killed_on_local_files_and_on_s3_and_nothing_is_lost_or_doubled(
    tmp_path: Path, common: Stage
) -> None:
    run = run_of(tmp_path)
    kill.kill(run, common)
    assert {step for step in STEPS if run.counts[f"kills {step}"]} == {s for some in kill.SHORT for s in some} & {
        *STEPS
    }
    assert run.counts["kills with the JVM"] == 1
    assert run.counts["answers of commits lost"] == 1
    assert run.counts["comparisons on local files"] == run.counts["comparisons on S3"] == 1
    assert run.counts["rows compared"] > 0


@pytest.mark.parametrize("variant", sorted(TRIED[kill.CAMPAIGN.name]))
def test_what_is_broken_on_purpose_is_found(tmp_path: Path, common: Stage, variant: str) -> None:
    with pytest.raises(Failed) as failed:
        kill.kill(run_of(tmp_path, variant), common)
    assert VARIANTS[variant].finds(failed.value.why)
    assert failed.value.steps


def test_each_step_and_each_variant_has_its_place_in_the_product() -> None:
    assert {*kill_steps.STEPS} == {*STEPS, LOST_ANSWER}
    assert {*kill_variants.VARIANTS} == {*VARIANTS} == {*SHORTEST}
    assert {step for steps in SHORTEST.values() for step, _ in steps} <= {"", *STEPS, LOST_ANSWER}
    assert {step for some in kill.SHORT for step in some} <= {*STEPS, LOST_ANSWER, RANDOM_MOMENT}
    assert kill.CAMPAIGN.variants is VARIANTS


def test_a_step_that_nobody_died_of_is_no_proof(tmp_path: Path) -> None:
    run = run_of(tmp_path)
    run.counts.update({f"kills {step}": 1 for step in STEPS[1:]})
    with pytest.raises(Failed) as failed:
        kill.check_shown(run, STEPS)
    assert failed.value.why.endswith(f": {STEPS[0]}, {LOST_ANSWER}")
    run.counts.update({f"kills {STEPS[0]}": 1, "answers of commits lost": 1})
    kill.check_shown(run, STEPS)
