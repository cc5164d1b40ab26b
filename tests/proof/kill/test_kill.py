"""Nothing is lost and nothing is doubled, though the real job is killed; and what is broken on purpose is found."""

import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from blizzard.environment import temporary_variables
from tests.proof import large_file, new_fields, places, widening
from tests.proof.breaks import NO_LOOK
from tests.proof.campaign import Budget, Failed, Run
from tests.proof.job_engines import BY, JOBS_OF, LOCAL, SPARK, found_with, kills_at, kills_of, resumed
from tests.proof.kill import campaign as kill
from tests.proof.kill import kill_counts
from tests.proof.kill import steps as kill_steps
from tests.proof.kill import variants as kill_variants
from tests.proof.kill.kill_counts import WIDENED_TABLE, PlannedKill, jvm_deaths
from tests.proof.kill.names import IN_THE_WRITE, JVM_STEPS, LOST_ANSWER, RANDOM_MOMENT, SHORTEST, STEPS, VARIANTS
from tests.proof.kill.stage import Stage
from tests.proof.kill.table import KilledTable
from tests.proof.places import LocalPlace
from tests.proof.reduce import reduced

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]

TRIED: dict[str, frozenset[str]] = {kill.CAMPAIGN.name: frozenset(VARIANTS)}


@pytest.fixture(scope="module")
def common(stage: Stage) -> Iterator[Stage]:
    with temporary_variables(stage.environment):
        yield stage


def run_of(folder: Path, variant: str = "") -> Run:
    return Run(1, Budget(time.monotonic, rounds=1), folder, variant)


def test_a_job_killed_on_local_files_and_s3_loses_and_doubles_nothing(tmp_path: Path, common: Stage) -> None:
    run = run_of(tmp_path)
    kill.kill(run, common)
    for place, steps in zip(kill.PLACES, kill.SHORT, strict=True):
        assert {step for step in STEPS if run.counts[f"kills {step} on {place}"]} == {*STEPS}.intersection(steps)
    assert run.counts["kills with the JVM"] == 1
    assert [step for step in JVM_STEPS if run.counts[jvm_deaths(step)]] == [kill.WITH_JVM_SHORT]
    assert run.counts["answers of commits lost on local files"] == 1
    assert run.counts["comparisons on local files"] == run.counts["comparisons on S3"] == 1
    assert run.counts["rows compared"] > 0
    assert run.counts[new_fields.ADDED] > 0
    assert all(run.counts[large_file.commits_of_a_part(place)] for place in kill.PLACES)


def test_a_job_killed_between_two_parts_of_a_file_loses_and_doubles_nothing(tmp_path: Path, common: Stage) -> None:
    place = common.local(tmp_path / "local")
    table = KilledTable(run_of(tmp_path), common, place, tmp_path / "table")
    # The fourth commit has a part of the file; one creates the table, another adds columns.
    assert table.repeat_kill(PlannedKill("before the commit", 5, "1", kill.Whom.JOB))
    *_, newest = places.log_of(place.table())
    assert large_file.parts_in([newest], place.table())
    table.run_to_end()
    table.compare()


def test_a_job_killed_between_a_widening_and_its_rows_loses_and_doubles_nothing(tmp_path: Path, common: Stage) -> None:
    run = run_of(tmp_path)
    table = KilledTable(run, common, common.local(tmp_path / "local"), tmp_path / "table", widens=True)
    table.repeat_kill(PlannedKill("", 1, "1", kill.Whom.JOB))
    assert table.repeat_kill(PlannedKill("after the commit and before its answer", 1, "2", kill.Whom.JOB))
    table.run_to_end()
    table.compare()
    assert run.counts[kill_counts.BEFORE_ITS_ROWS] == 1
    assert run.counts[kill_counts.kills("after the commit and before its answer", WIDENED_TABLE)] == 1
    assert run.counts[widening.widened_on("local files")] > 0


@pytest.mark.parametrize("variant", sorted(TRIED[kill.CAMPAIGN.name]))
def test_each_variant_broken_on_purpose_is_found(tmp_path: Path, common: Stage, variant: str) -> None:
    run = run_of(tmp_path, variant)
    with pytest.raises(Failed) as failed:
        kill.find(run, common)
    assert VARIANTS[variant].finds(failed.value.why)
    assert failed.value.steps
    assert all(run.counts[found_with(engine)] for engine in JOBS_OF)


def test_a_failure_of_a_variant_broken_on_purpose_is_reduced_to_the_smallest_steps(
    tmp_path: Path, common: Stage
) -> None:
    again = kill.Again(run_of(tmp_path, NO_LOOK), common)
    planned_kills = [PlannedKill(step, 1, f"{seed}", kill.Whom.JOB) for seed, step in enumerate(("", LOST_ANSWER))]
    found = reduced(Failed("doubled"), planned_kills, again, lambda: True)
    assert VARIANTS[NO_LOOK].finds(found.steps[0])
    assert found.steps[0].startswith("on a new table 1 of 2 are enough: ")
    assert sum(LOST_ANSWER in step for step in found.steps) == 1


def test_kills_are_counted_by_process_and_for_a_jvm_only_if_in_use() -> None:
    counts: Counter[str] = Counter()
    for whom, in_use in ((kill.Whom.JOB, True), (kill.Whom.BOTH, True), (kill.Whom.JVM, True), (kill.Whom.OWN, False)):
        kill_counts.count(counts, "before the commit", "S3", whom, in_use=in_use)
    assert {name: counts[name] for name in counts if "deaths" in name} == {
        "driver deaths before the commit": 3,
        "JVM deaths before the commit": 2,
        "deaths of both before the commit": 1,
    }
    assert counts["kills before the commit on S3"] == 4
    assert counts[kill_counts.OUTLIVED] == 1


def test_a_long_run_without_a_killed_jvm_at_a_step_fails(tmp_path: Path) -> None:
    run = Run(1, Budget(time.monotonic), tmp_path)
    run.counts.update({jvm_deaths(step): 1 for step in JVM_STEPS[1:]} | {kill_counts.OUTLIVED: 1})
    run.counts["rounds"] = kill.ROUNDS_FOR_JVM - 1
    kill.check_jvms(run)
    run.counts["rounds"] = kill.ROUNDS_FOR_JVM
    with pytest.raises(Failed) as failed:
        kill.check_jvms(run)
    assert failed.value.why.endswith(f": JVM deaths {JVM_STEPS[0]}")


def test_each_step_and_each_variant_is_implemented() -> None:
    assert {*kill_steps.STEPS} == {*STEPS, LOST_ANSWER}
    assert {*kill_variants.VARIANTS} == {*VARIANTS} == {*SHORTEST}
    assert {step for steps in SHORTEST.values() for step, _ in steps} <= {"", *STEPS, LOST_ANSWER}
    assert {step for some in kill.SHORT for step in some} <= {*STEPS, LOST_ANSWER, RANDOM_MOMENT}
    assert kill.CAMPAIGN.variants is VARIANTS


def test_a_step_without_a_kill_fails_the_run(tmp_path: Path) -> None:
    run = run_of(tmp_path)
    wanted = [(step, kill.PLACES) for step in (*STEPS, LOST_ANSWER)]
    run.counts.update({f"kills {step} on S3": 1 for step in STEPS[1:]})
    with pytest.raises(Failed) as failed:
        kill.check_shown(run, wanted)
    assert failed.value.why.endswith(f": {STEPS[0]} on local files or S3, {LOST_ANSWER} on local files or S3")
    run.counts.update({f"kills {STEPS[0]} on local files": 1, "answers of commits lost on S3": 1})
    kill.check_shown(run, wanted)


def test_two_of_three_kills_are_on_one_table_and_every_step_comes_on_both(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    tried: list[tuple[str, str]] = []
    monkeypatch.setattr(kill, "_kill_at_step", lambda place, step, *_: tried.append((step, place)))
    run = Run(1, Budget(time.monotonic), tmp_path)
    for number in range(kill.ROUNDS_FOR_ALL):
        kill._long_round(kill.PLACES, number, run.rng(number), run)  # type: ignore[arg-type]
    steps = (*STEPS, LOST_ANSWER, RANDOM_MOMENT, RANDOM_MOMENT)
    assert sorted(tried) == sorted([(step, place) for step in steps for place in (*kill.PLACES, kill.PLACES[0])])


def test_each_step_comes_over_a_widened_table_within_three_rounds_that_have_one(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    tried: list[tuple[str, str]] = []
    monkeypatch.setattr(kill, "_kill_at_step", lambda place, step, *_: tried.append((step, place)))
    run = Run(1, Budget(time.monotonic), tmp_path)
    for number in range(1, 3 * kill.WIDENED_EVERY, kill.WIDENED_EVERY):
        kill._long_round((*kill.PLACES, "widened"), number, run.rng(number), run)  # type: ignore[arg-type]
    assert sorted(step for step, place in tried if place == "widened") == sorted((*kill.ALL_STEPS, RANDOM_MOMENT))


def test_a_long_run_requires_each_step_over_a_widened_table(tmp_path: Path) -> None:
    run = Run(1, Budget(time.monotonic), tmp_path)
    run.counts["rounds"] = kill.ROUNDS_FOR_WIDENED
    over_widened = [step for step, places in kill.wanted(run, kill.PLACES) if places == [WIDENED_TABLE]]
    assert over_widened == [*kill.ALL_STEPS]


def test_most_kills_over_one_table_is_the_largest_count(tmp_path: Path) -> None:
    run = run_of(tmp_path)
    table = KilledTable(run, None, LocalPlace(tmp_path), tmp_path / "one")  # type: ignore[arg-type]
    other = KilledTable(run, None, LocalPlace(tmp_path, "S3"), tmp_path / "other")  # type: ignore[arg-type]
    for one in (table, other, table, table, other):
        one._count_kill(RANDOM_MOMENT, kill.Whom.JOB, in_use=True)
    assert run.counts["most kills over one table"] == 3
    assert run.counts["kills"] == 5


def test_kills_and_the_jobs_that_go_on_are_counted_by_engine(tmp_path: Path) -> None:
    run = run_of(tmp_path)
    table = KilledTable(run, None, LocalPlace(tmp_path), tmp_path / "one")  # type: ignore[arg-type]
    recovered = [{"event": "recovered"}]
    for engine, events, died in (
        ("spark", recovered, True),
        ("auto", [], True),  # it dies before it has recovered anything
        ("", recovered, True),
        ("spark", recovered, False),
        ("auto", recovered, False),
    ):
        table._started_with = engine
        table._count_engines(events, IN_THE_WRITE, died=died)
    assert run.counts == {
        **{count: 1 for by in (SPARK, LOCAL) for count in (kills_of(by), kills_at(IN_THE_WRITE, by))},
        resumed(LOCAL, SPARK): 1,
    }


@pytest.mark.parametrize("engine", JOBS_OF)
def test_a_job_of_each_engine_dies_in_the_write_of_a_data_file(tmp_path: Path, common: Stage, engine: str) -> None:
    run = run_of(tmp_path)
    table = KilledTable(run, common, common.local(tmp_path / "local"), tmp_path / "table", engines=(engine,))
    assert table.repeat_kill(PlannedKill(IN_THE_WRITE, 1, "1", kill.Whom.JOB))
    assert run.counts[kills_at(IN_THE_WRITE, BY[engine])] == 1
    table.run_to_end()
    table.compare()


def test_a_long_run_requires_each_step_on_each_place(tmp_path: Path) -> None:
    run = Run(1, Budget(time.monotonic), tmp_path)
    run.counts["rounds"] = kill.ROUNDS_FOR_ALL - 1
    assert not kill.wanted(run, kill.PLACES)
    run.counts["rounds"] = kill.ROUNDS_FOR_ALL
    assert {*kill.wanted(run, kill.PLACES)} == {(step, kill.PLACES) for step in (*STEPS, LOST_ANSWER, RANDOM_MOMENT)}
    run.counts["rounds"] = kill.ROUNDS_FOR_EACH_PLACE
    run.counts.update({f"kills {step} on {place}": 1 for step in (*STEPS, RANDOM_MOMENT) for place in kill.PLACES})
    run.counts["answers of commits lost on S3"] = 1
    del run.counts["kills in the sweep on S3"]
    with pytest.raises(Failed) as failed:
        kill.check_shown(run, kill.wanted(run, kill.PLACES))
    assert failed.value.why.endswith(f": {LOST_ANSWER} on local files, in the sweep on S3")
