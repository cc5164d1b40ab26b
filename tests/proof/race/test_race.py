"""Whoever works on one table at once, each record enters once; and what is broken on purpose is found."""

import random
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from itertools import count
from pathlib import Path

import pytest

from tests.proof import large_file, new_fields, widening
from tests.proof.breaks import OVERWRITING_LOG, ROWS_LEFT_OUT
from tests.proof.campaign import Budget, Failed, Run, check_shown
from tests.proof.file_names import IN_PARTITIONS, RANDOM_NAMES
from tests.proof.job_engines import (
    HELPED,
    JOBS_OF,
    LOCAL,
    LOST_TO_THE_OTHER,
    RACES,
    SPARK,
    Racers,
    found_with,
    lost_to,
    races_of,
)
from tests.proof.kill.stage import Stage
from tests.proof.places import LocalPlace
from tests.proof.race import campaign as race
from tests.proof.race.names import NOT_SMALLER, OPERATIONS, SMALLER, TORN, UNREADABLE, VARIANTS
from tests.proof.race.shape import MIXES, WIDENS_EVERY, Meeting, Shape, drawn, operations_of, smallest
from tests.proof.race.wanted import WANTED_OF_WIDENED
from tests.proof.race.widenings import LOST_TO_OTHERS, LOST_TO_THE_SAME, widened_races

TRIED: dict[str, frozenset[str]] = {race.CAMPAIGN.name: frozenset(VARIANTS) - race.LONG_ONLY}
FILES_OF_WIDENED = 3
"""And half as many during the race."""
ROUNDS_TO_FIND, ROUNDS_TO_MEET = 2, 6
"""A fault is found where one job waits for another one, and these rounds come first."""
TIME_FOR_ONE = 1.5
"""Of a clock that counts how often it is read: so that one smaller race is tried."""
SHAPE = Shape("events:landing", 3, 1, 2, 1, ("VACUUM", "append", "DELETE"), 8, Meeting.ONE_WAITS, MIXES[0])
pytestmark = pytest.mark.timeout(900)


def run_of(folder: Path, rounds: int, variant: str = "", seed: int = 1) -> Run:
    return Run(seed, Budget(time.monotonic, rounds), folder, variant)


@pytest.mark.spark
def test_racing_jobs_and_another_writer_lose_and_double_nothing(tmp_path: Path, stage: Stage) -> None:
    """One with Spark, the other with the local engine. That two of them meet is for the machine to decide, so there may
    be further rounds."""
    counts: Counter[str] = Counter()
    for seed in range(1, ROUNDS_TO_MEET + 1):
        folder = tmp_path / f"{seed}"
        folder.mkdir()
        run = run_of(folder, 1, seed=seed)
        race.race(run, stage.fork_server, [stage.jvm()])
        assert run.counts["comparisons on local files"] == 1
        assert run.counts[races_of({SPARK, LOCAL})] == 1
        counts += run.counts
        if counts["races lost"] and counts["files that VACUUM removed"]:
            break
    assert counts["races lost"] > 0, "they never met, so this has shown nothing"
    assert counts["operations of others"] > 0
    assert counts["files that VACUUM removed"] > 0
    assert counts[large_file.commits_of_a_part("local files")] > 0


@pytest.mark.spark
def test_jobs_that_widen_a_column_at_once_lose_and_double_nothing(tmp_path: Path, stage: Stage) -> None:
    """The waiting job has to lose with its widening."""
    run, (raced, _) = run_of(tmp_path, 1), race.SOURCES
    shape = Shape(raced, 2, 0, 0, 0, (), FILES_OF_WIDENED, Meeting.ONE_WAITS, ("auto", "spark"), widens=True)
    race._Round(run, 0, stage.fork_server, [stage.jvm()], None).go(shape, run)
    assert run.counts["comparisons on local files"] == run.counts[widened_races("local files")] == 1
    assert run.counts[widening.widened_on("local files")] > 0
    assert run.counts[LOST_TO_THE_SAME] > 0


@pytest.mark.parametrize(
    ("meeting", "engines", "expected"),
    [
        (Meeting.ONE_WAITS, ("auto", "spark"), ["auto", "spark", "spark", "spark"]),
        (Meeting.ONE_WAITS, ("spark", "auto"), ["spark", "auto", "auto", "auto"]),
        (Meeting.BY_CHANCE, ("auto", "spark"), ["auto", "spark", "auto", "spark"]),
        (Meeting.ONE_WAITS, ("auto",), ["auto", "auto", "auto", "auto"]),
    ],
)
def test_who_waits_loses_to_the_other_engine(meeting: Meeting, engines: tuple[str, ...], expected: list[str]) -> None:
    shape = replace(SHAPE, meeting=meeting, engines=engines)
    assert [shape.engine_of(job) for job in range(4)] == expected


@pytest.mark.spark
@pytest.mark.parametrize("variant", sorted(TRIED[race.CAMPAIGN.name]))
def test_each_variant_broken_on_purpose_is_found(tmp_path: Path, stage: Stage, variant: str) -> None:
    run = run_of(tmp_path, ROUNDS_TO_FIND, variant)
    with pytest.raises(Failed) as failed:
        race.find(run, stage.fork_server, [stage.jvm()])
    assert VARIANTS[variant].finds(failed.value.why)
    assert {engine: run.counts[found_with(engine)] for engine in JOBS_OF} == {"spark": 1, "auto": 1}
    assert any("which waits: ended with" in step for step in failed.value.steps)


@pytest.mark.spark
def test_commits_of_the_local_engine_that_overwrite_others_are_found(tmp_path: Path, stage: Stage) -> None:
    run = run_of(tmp_path, ROUNDS_TO_FIND, OVERWRITING_LOG)
    with pytest.raises(Failed) as failed:
        race.race(run, stage.fork_server, [stage.jvm()], mixes=[("auto",)])
    assert VARIANTS[OVERWRITING_LOG].finds(failed.value.why)


@pytest.mark.parametrize(("again", "expected"), [(True, SMALLER), (False, NOT_SMALLER)])
def test_a_failed_race_is_repeated_smaller_on_a_new_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, again: bool, expected: str
) -> None:
    came: list[tuple[Shape, Path]] = []

    def go(one: race._Race) -> None:
        came.append((one.shape, one.folder))
        one.run.counts["races"] += 1
        if again or len(came) == 1:
            raise Failed(f"race {len(came)}", ["a step"])

    monkeypatch.setattr(race._Race, "round", go)
    monkeypatch.setattr(race._Race, "__post_init__", lambda one: None)
    run = Run(1, Budget(count().__next__, 1), tmp_path, ROWS_LEFT_OUT)
    with pytest.raises(Failed) as failed:
        race.race(run, None, [], shrink_secs=TIME_FOR_ONE)  # type: ignore[arg-type]
    (whole, first), (smaller, second) = came
    assert smaller in whole.smaller()
    assert (first.name, second.name) == ("race-0-0", "race-0-1")
    assert (failed.value.why, failed.value.steps) == (f"race {1 + again}", ["a step", expected.format(1)])
    assert run.counts["races"] == 1


def race_over(folder: Path, log: str) -> race._Race:
    """That nobody runs, over a log of one commit."""
    place = LocalPlace(folder / "place")
    (folder / "place/table/_delta_log").mkdir(parents=True)
    (folder / f"place/table/_delta_log/{0:020}.json").write_text(log)
    return race._Race(run_of(folder, 1), place, folder, None, [], random.Random(1), SHAPE)  # type: ignore[arg-type]


def test_a_log_overwritten_by_two_writers_is_unreadable(tmp_path: Path) -> None:
    with pytest.raises(Failed, match=TORN) as failed:
        race_over(tmp_path, '{"commitInfo":{}}\n{"add":{"pa{"txn":{}}\n')._compare()
    assert [name for name, fault in VARIANTS.items() if fault.finds(failed.value.why)] == [OVERWRITING_LOG]


def test_a_missing_data_file_does_not_count_as_a_torn_log(tmp_path: Path) -> None:
    with pytest.raises(Failed, match=UNREADABLE) as failed:
        race_over(tmp_path, '{"commitInfo":{}}\n{"add":{"path":"gone.parquet"}}\n')._compare()
    assert not any(fault.finds(failed.value.why) for fault in VARIANTS.values())


def test_an_error_of_the_comparison_itself_is_raised(tmp_path: Path) -> None:
    with pytest.raises(KeyError):
        race_over(tmp_path, '{"add":{}}\n')._compare()


def fails_with(needed: Callable[[Shape], bool], tried: list[Shape]) -> Callable[[Shape], Failed | None]:
    def go(shape: Shape) -> Failed | None:
        tried.append(shape)
        return Failed(f"{shape}") if needed(shape) else None

    return go


def test_a_failed_race_is_reduced_as_far_as_it_still_fails() -> None:
    """Here it takes three jobs, a sweeper, and somebody who vacuums."""
    tried: list[Shape] = []

    def needed(shape: Shape) -> bool:
        return shape.jobs == 3 and shape.sweepers > 0 and "VACUUM" in shape.operations

    least, failed = smallest(SHAPE, Failed("as it was found"), fails_with(needed, tried), lambda: True)
    assert least == replace(SHAPE, others=0, collectors=0, operations=("VACUUM",), files=2, engines=("spark",))
    assert failed.why == f"{least}"
    assert len(tried) == len({str(shape) for shape in tried})


def test_a_failure_that_no_smaller_race_repeats_is_kept() -> None:
    first = Failed("as it was found")
    assert smallest(SHAPE, first, fails_with(lambda shape: False, []), lambda: True) == (SHAPE, first)


def test_reduction_of_a_race_stops_at_its_time_limit() -> None:
    tried: list[Shape] = []
    least, _ = smallest(SHAPE, Failed("found"), fails_with(lambda shape: True, tried), lambda: len(tried) < 2)
    assert len(tried) == 2
    assert least == replace(SHAPE, operations=(), collectors=0, sweepers=0)


def test_races_with_a_waiting_job_come_first_and_on_each_place(tmp_path: Path) -> None:
    run = Run(1, Budget(time.monotonic), tmp_path)
    shapes = [drawn(run.rng(n), n, [*race.SOURCES], short=False, alone=True, places=2) for n in range(4)]
    assert [shape.meeting for shape in shapes] == [Meeting.ONE_WAITS] * 2 + [Meeting.BY_CHANCE] * 2
    assert all(2 <= shape.jobs <= 4 and not shape.operations for shape in shapes)


def test_eight_rounds_have_each_mix_of_engines_on_each_place_and_both_lose_to_the_other(tmp_path: Path) -> None:
    run = Run(1, Budget(time.monotonic), tmp_path)
    shapes = [drawn(run.rng(n), n, [*race.SOURCES], short=False, alone=True, places=2) for n in range(8)]
    assert {(shape.engines, number % 2) for number, shape in enumerate(shapes)} == {
        (mix, place) for mix in MIXES for place in range(2)
    }
    assert [shape.engines for shape in shapes if shape.meeting is Meeting.ONE_WAITS][:2] == [*MIXES[:2]]
    assert {meeting for shape in shapes if len(shape.engines) > 1 for meeting in [shape.meeting]} == {*Meeting}


def test_widened_columns_meet_each_place_mix_of_engines_way_to_meet_and_operation(tmp_path: Path) -> None:
    run = Run(1, Budget(time.monotonic), tmp_path)
    some = [(n, drawn(run.rng(n), n, [*race.SOURCES], short=False, alone=False, places=2)) for n in range(120)]
    for widens in (True, False):
        shapes = [(n % 2, shape) for n, shape in some if shape.widens is widens]
        mixes = {(shape.engines, place) for place, shape in shapes}
        assert mixes == {(mix, place) for mix in MIXES for place in range(2)}
        assert {(shape.meeting, place) for place, shape in shapes} == {
            (way, place) for way in Meeting for place in (0, 1)
        }
        operations = {(name, place) for place, shape in shapes for name in shape.operations}
        assert operations == {(name, place) for name in OPERATIONS for place in range(2)}
    assert sum(shape.widens for _, shape in some) == 120 // WIDENS_EVERY


def test_a_race_that_fails_without_a_widened_column_is_reduced_to_that() -> None:
    shape = replace(SHAPE, widens=True)
    least, _ = smallest(shape, Failed("found"), fails_with(lambda shape: True, []), lambda: True)
    assert not least.widens
    assert "a column is widened" in f"{shape}"
    assert "widened" not in f"{least}"


def test_races_are_counted_by_the_engines_that_ran_won_and_lost() -> None:
    racers, source = Racers(), "events:landing"

    def of(event: str, sequence: int) -> dict[str, object]:
        return {"event": event, "source": source, "sequence": sequence}

    racers.note(source, "spark", [of("batch_committed", 1), of("race_lost", 2), of("race_lost", 3)])
    racers.note(source, "auto", [of("race_lost", 1), of("batch_committed", 2)])
    racers.note("others:partner", "auto", [{"event": "spark_needed"}])
    assert racers.counts(source) == {
        races_of({SPARK, LOCAL}): 1,
        lost_to(SPARK, LOCAL): 1,  # who made commit 3 has not said so
        lost_to(LOCAL, SPARK): 1,
    }
    assert racers.counts("others:partner")[races_of({HELPED})] == 1


def test_an_operation_that_never_happened_on_a_place_fails_the_run(tmp_path: Path) -> None:
    run = run_of(tmp_path, 1)
    in_part = [*map(large_file.commits_of_a_part, race.PLACES)]
    run.counts.update({f"operations of others on local files: {name}": 1 for name in OPERATIONS} | {"races lost": 1})
    run.counts.update(dict.fromkeys([in_part[0], *JOBS_OF.values(), RANDOM_NAMES, IN_PARTITIONS, new_fields.ADDED], 1))
    run.counts.update(dict.fromkeys((*RACES, *LOST_TO_THE_OTHER, *WANTED_OF_WIDENED, LOST_TO_OTHERS), 1))
    with pytest.raises(Failed) as failed:
        check_shown(run, race.CAMPAIGN.wanted)
    assert failed.value.why.split(": ", 1)[1].split("; ") == [
        "files that VACUUM removed",
        in_part[1],
        *(f"operations of others on S3: {name}" for name in OPERATIONS),
    ]
    run.counts.update({"files that VACUUM removed": 1, in_part[1]: 1})
    run.counts.update({f"operations of others on S3: {name}": 1 for name in OPERATIONS})
    check_shown(run, race.CAMPAIGN.wanted)


def test_six_rounds_try_each_operation_on_each_place(tmp_path: Path) -> None:
    run = Run(1, Budget(time.monotonic), tmp_path)
    tried = {(name, number % 2) for number in range(6) for name in operations_of(number, run.rng(number), short=False)}
    assert tried == {(name, place) for name in OPERATIONS for place in range(2)}
