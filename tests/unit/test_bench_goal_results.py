"""The measurements and goal results of each benchmark, from invented times: the direction of every ratio."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from benchmarks import rounds
from benchmarks.contenders import Work, blizzard
from benchmarks.data import Dataset, dataset
from benchmarks.dead_letter_check import broken_lines
from benchmarks.goals import goals_of
from benchmarks.machine import BackgroundLoad
from benchmarks.resource_monitor import ResourceUsage
from benchmarks.rounds import ContenderRuns, Measured, interleaved
from benchmarks.run_options import RunOptions
from benchmarks.stats import GoalResult, Spread, evaluate_goals
from benchmarks.suite import bulk, comparison, dirty, find, history, latency, plan, s3, skew, wide
from benchmarks.suite.latency import WARM_UP, FileLatency, Observations
from benchmarks.suite.skew import ALONE, Idle
from benchmarks.synthetic_history import SyntheticHistory
from benchmarks.verify import WrongResult
from blizzard.state.dead_letters import DeadLetter, DeadLetters, Stage
from blizzard.storage.local import LocalStore

MIB = 1 << 20
NO_DATA = Dataset("small", 1.0, "", "", 0, {}, 0, 0, 0, ())


def run_of(cold: float, *warm: float, peak_bytes: int = 0, answers: Sequence[dict[str, Any]] = ()) -> Measured:
    return Measured("somebody", 0.0, cold, warm, ResourceUsage(peak_bytes, 0, 0, 0.0, 0.0), tuple(answers))


def series_of(*runs: Measured, title: str = "somebody") -> ContenderRuns:
    return ContenderRuns(title, [*runs])


def medians(found: Mapping[str, Spread]) -> dict[str, float]:
    return {name: spread.median for name, spread in found.items()}


def verdicts(benchmark: str, found: dict[str, Spread]) -> dict[str, str]:
    return {one.goal.name: one.verdict for one in evaluate_goals(goals_of(benchmark), found, {})}


# --- Contenders beside each other ---

TIMED = {
    "blizzard": series_of(run_of(10.0, 4.0), run_of(20.0, 8.0)),
    "spark_reader": series_of(run_of(30.0, 8.0), run_of(60.0, 16.0)),
    "streaming": series_of(run_of(50.0, 24.0), run_of(100.0, 48.0)),
    "arrow_loop": series_of(run_of(1.0, 1.0), run_of(1.0, 1.0)),
    "bare_limit": series_of(run_of(1.0, 2.0), run_of(1.0, 4.0)),
}


def test_of_a_backlog_others_are_slower_by_so_much_and_the_bare_limit_is_faster() -> None:
    found = bulk.measured(TIMED)
    assert medians(found) == {
        "spark_cold": 3.0,
        "spark_warm": 2.0,
        "streaming_cold": 5.0,
        "streaming_warm": 6.0,
        "bare_limit": 2.0,
    }
    assert all(spread.low == spread.high and spread.count == 2 for spread in found.values())
    assert verdicts("big", found) == {"spark_warm": "met", "spark_cold": "met", "bare_limit": "not met"}
    assert verdicts("small", found) == {
        "spark_warm": "not met",
        "spark_cold": "not met",
        "streaming_warm": "met",
        "streaming_cold": "met",
    }


def test_of_wide_records_spark_is_slower_by_so_much_and_values_that_differ_are_added_up() -> None:
    found = wide.measured(TIMED, {"a": 0, "b": 2, "c": 3})
    assert medians(found) == {"spark_warm": 2.0, "differences": 5.0}
    assert verdicts("wide", found) == {"spark_warm": "met", "differences": "not met"}


def test_over_s3_the_throughput_is_a_part_of_that_on_the_disk() -> None:
    local, remote = series_of(run_of(5.0, 3.0)), series_of(run_of(9.0, 6.0))
    found = s3.measured({"big": {"local": local, "s3": remote}, "small": {"local": remote, "s3": remote}})
    assert medians(found) == {"big": 0.5, "small": 1.0}
    assert verdicts("s3", found) == {"big": "not met", "small": "met"}


def test_a_large_file_adds_memory_as_far_as_the_job_had_more_than_without_it() -> None:
    series = {
        "blizzard": series_of(run_of(1.0, 1.0, peak_bytes=900 * MIB), run_of(1.0, 1.0, peak_bytes=1000 * MIB)),
        ALONE: series_of(run_of(1.0, 1.0, peak_bytes=700 * MIB), run_of(1.0, 1.0, peak_bytes=600 * MIB)),
    }
    idle = {"blizzard": Idle([0.1, 0.3], [[0.0, 0.1], [0.5, 0.2]]), ALONE: Idle([0.9, 0.9], [[0.9, 0.9]] * 2)}
    found = skew.measured(series, idle, 100 * MIB)
    assert found == {"idle": Spread.of([0.1, 0.3]), "slots": Spread.of([0.1, 0.5]), "memory": Spread.of([2.0, 4.0])}
    assert verdicts("skew", found) == {"idle": "met", "slots": "not met", "memory": "not met"}


def test_parts_are_told_of_the_run_in_the_middle() -> None:
    def run(warm_secs: float, *batches: dict[str, float]) -> Measured:
        events = [{"event": "batch_committed", "secs": secs} for secs in batches]
        return run_of(9.0, warm_secs, answers=[{"events": []}, {"events": [{"event": "swept"}, *events]}])

    slow, middle, fast = run(12.0, {"read": 9.0}), run(9.0, {"read": 2.0}, {"read": 4.0, "commit": 1.0}), run(8.0)
    assert comparison.parts(series_of(middle, fast, slow)) == {"read": 6.0, "commit": 1.0}
    assert comparison.parts(series_of(slow, middle)) == {"read": 6.0, "commit": 1.0}
    assert "not logged" in comparison.parts_note(series_of(fast))


# --- One after the other ---


def test_the_slowest_size_is_held_against_the_fastest_whichever_they_are() -> None:
    found = find.measured(
        [
            {"steady": [2.0, 2.0, 9.0], "first": [3.0], "swept": [1.0]},
            {"steady": [1.0], "first": [9.0, 9.0], "swept": [2.0]},
            {"steady": [1.5], "first": [4.0], "swept": [6.0]},
        ]
    )
    assert medians(found) == {"flat": 2.0, "flat_first": 3.0, "flat_swept": 6.0}
    assert verdicts("find", found) == {"flat": "not met", "flat_first": "not met"}


def test_of_finding_the_verdict_rests_on_all_rounds_and_each_process_has_its_load(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def blizzard_of(folder: Path, histories: Sequence[SyntheticHistory], options: RunOptions) -> object:
        secs = {kind: [1.0] * options.rounds for kind in (*find.KINDS, "sweep")}
        return {known.count: {**secs} for known in histories}, BackgroundLoad(1.5, 0.25)

    monkeypatch.setattr("benchmarks.process.SCRATCH", tmp_path)
    monkeypatch.setattr(
        find, "_made", lambda folder, options: [SyntheticHistory("", count, 1, 1) for count in (10, 20)]
    )
    monkeypatch.setattr(find, "_blizzard", blizzard_of)
    monkeypatch.setattr(find, "_streaming", lambda folder, known, options: ([2.0], BackgroundLoad(known.count, 0.5)))
    result = find.run(RunOptions(1.0, 3, 2, lambda text: None))
    assert [(goal_result.verdict, goal_result.rounds) for goal_result in result.goal_results] == [("met", 3)] * 2
    assert "Blizzard, 1.50 and 0.25; Structured Streaming among 10, 10 and 0.50; " in result.notes[-1]


def test_what_a_sweep_takes_is_told_though_no_goal_is_about_it() -> None:
    told = find.swept_note(Spread.of([3.1]), [[0.5, 0.7, 0.9], [1.2], [4.0]])
    assert "3.10 \N{MULTIPLICATION SIGN} as long as the fastest" in told
    assert "0.70, 1.20 and 4 s" in told


def commit(version: int, secs: float, *, checkpoint: int = -1, state_bytes: int = 1_000) -> dict[str, Any]:
    return {
        "commit_secs": secs,
        "version": version,
        "checkpoint_version": checkpoint,
        "segments": 3 if version == 70 else 1,
        "state_bytes": state_bytes,
        "log_files": 3 + 2 * version,
    }


def test_the_last_commits_are_held_against_the_first_ones() -> None:
    commits = [commit(n, 1.0 if n < 50 else 1.5, checkpoint=n // 10 * 10, state_bytes=1_000 + n) for n in range(120)]
    commits[30]["state_bytes"] = 2_000
    commits[110]["state_bytes"] = 3_000
    commits[60]["state_bytes"] = 9_000
    commits[45]["checkpoint_version"] = 33
    found = history.measured(commits)
    assert medians(found) == {"flat": 1.5, "segments": 3.0, "log": 12.0, "state": 1.5}
    assert verdicts("history", found) == {"flat": "not met", "segments": "met", "log": "not met", "state": "not met"}
    assert "grows by 2 files a commit" in history.log_note(commits)


def test_of_the_plans_the_slower_one_and_the_larger_one_count() -> None:
    found = plan.measured(
        {
            "new": [{"secs": 0.1, "peak_mb": 90.0}, {"secs": 5.0, "peak_mb": 90.0}, {"secs": 0.2, "peak_mb": 90.0}],
            "known": [{"secs": 0.8, "peak_mb": 70.0}],
        }
    )
    assert found == {"secs": Spread.of([0.8]), "mib": Spread.of([90.0] * 3)}


# --- Latency of one file ---


def test_a_file_is_followed_by_the_commit_that_it_was_in() -> None:
    seen = Observations(
        dropped_ts={**{f"warm-{n}": float(n) for n in range(WARM_UP)}, "a": 100.0, "b": 101.0},
        visible_ts={0: 50.0, 7: 110.0},
        event_ts={"batch_planned": {0: 10.0, 7: 103.0}, "batch_read": {0: 20.0, 7: 104.5}},
        parts={0: {"plan": 9.0}, 7: {"plan": 0.5}},
    )
    sequence_of = {**{f"warm-{n}": 0 for n in range(WARM_UP)}, "a": 7, "b": 7}
    assert seen.latencies(sequence_of) == [FileLatency(3.0, 1.5, 5.5), FileLatency(2.0, 1.5, 5.5)]
    assert [one.secs for one in seen.latencies(sequence_of)] == [10.0, 9.0]
    assert seen.commits(sequence_of) == [{"plan": 0.5}]


@pytest.mark.parametrize(
    ("event", "said"),
    [
        ({"event": "drained"}, "Delta did no work in advance"),
        ({"event": "warmed_up", "secs": 4.5}, "during them Delta worked 4.50 s in advance"),
    ],
)
def test_what_the_first_files_took_is_said_though_they_do_not_count(event: dict[str, Any], said: str) -> None:
    paths = [f"warm-{n}" for n in range(WARM_UP)]
    sequence_of = {path: n for n, path in enumerate(paths)}
    times = {n: 10.0 * n for n in range(WARM_UP)}
    seen = Observations(
        dropped_ts=dict(zip(paths, times.values(), strict=True)),
        visible_ts={n: at + (30.0 if n == 0 else 0.5 + n) for n, at in times.items()},
        event_ts={"batch_planned": times, "batch_read": times},
    )
    latency._note(event, seen)
    note = latency.begin_note(seen, sequence_of)
    assert f"up to {0.5 + WARM_UP - 1:.2f} s" in note
    assert said in note


def test_of_the_ways_half_and_nearly_all_are_shorter() -> None:
    latencies = [FileLatency(float(n), 0.5, 0.5) for n in range(100)]
    found = latency.measured(latencies[::-1])
    assert medians(found) == {"p50": 50.0, "p99": 99.0}


# --- Broken lines ---


def letters_in(folder: str, broken: Sequence[tuple[str, int | None, str | None]]) -> None:
    letters = DeadLetters(LocalStore(folder), "_blizzard/events_landing", "events:landing")
    letters.write_records([DeadLetter(path, "e", Stage.PARSE, "no JSON", row, raw) for path, row, raw in broken], 0.0)


def says(data: Dataset, less: int = 0) -> dict[str, Any]:
    return {"totals": {"dead_records": data.broken - less, "dead_files": 0}, "events": []}


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("data")


@pytest.fixture
def run_dirty(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., dict[str, GoalResult]]:
    """The benchmark with contenders that take invented times and write all dead letters except a given number."""
    clean = dataset("clean", 0.002, cache=cache)
    secs = {"blizzard clean": 4.0, "blizzard dirty": 6.0, "blizzard undecided": 10.0}

    def run(stored_less: int = 0, said_less: int = 0, of: str = "dirty") -> dict[str, GoalResult]:
        def made_up(
            works: Mapping[str, Work], options: RunOptions, *, inspect_table: Callable[[Work, int], None]
        ) -> object:
            found = {}
            for name, work in works.items():
                out = tmp_path / name
                if work.contender == "blizzard":
                    broken = [] if work.data == clean else broken_lines(work.data, clean)
                    letters_in(f"{out}/0/table", broken[: len(broken) - (stored_less if work.data.name == of else 0)])
                inspect_table(replace(work, out=str(out)), 0)
                answer = says(work.data, said_less if work.data.name == of else 0)
                found[name] = series_of(run_of(1.0, secs.get(name, 1.0), answers=[answer]))
            return found

        monkeypatch.setattr(dirty, "interleaved", made_up)
        result = dirty.run(RunOptions(0.002, 1, 2, lambda text: None, cache))
        return {goal_result.goal.name: goal_result for goal_result in result.goal_results}

    return run


def test_with_broken_lines_it_takes_so_many_times_as_long(run_dirty: Callable[..., dict[str, GoalResult]]) -> None:
    assert run_dirty()["clean"].measured == Spread.of([1.5])


@pytest.mark.parametrize("of", ["dirty", "undecided"])
def test_a_letter_that_was_not_stored_fails_the_run(run_dirty: Callable[..., dict[str, GoalResult]], of: str) -> None:
    with pytest.raises(WrongResult, match=f"Blizzard on {of}: expected a letter for each of .*; 1 have none"):
        run_dirty(stored_less=1, of=of)


@pytest.mark.parametrize("of", dirty.DATA)
def test_a_broken_line_that_the_job_does_not_speak_of_fails_the_run(
    run_dirty: Callable[..., dict[str, GoalResult]], of: str
) -> None:
    with pytest.raises(WrongResult, match=f"{of}: expected .* dead records and no dead file"):
        run_dirty(said_less=1, of=of)


def test_a_file_that_was_refused_altogether_is_not_what_was_asked_for() -> None:
    data = replace(NO_DATA, broken=3)
    answer = {"totals": {"dead_records": 3, "dead_files": 1}}
    dirty.expect_dead_letter_totals([run_of(1.0, answers=[says(data)])], data)
    with pytest.raises(WrongResult, match="no dead file"):
        dirty.expect_dead_letter_totals([run_of(1.0, answers=[says(data), answer])], data)


# --- Taking turns ---


@pytest.fixture
def asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int]]:
    """Replaces measuring; records the contender and the runs of each call. The bare limit takes 100 seconds."""
    found: list[tuple[str, int]] = []

    def measure(work: Work, folder: Path, **_: object) -> Measured:
        assert folder == Path(work.out)
        found.append((work.contender, work.runs))
        return run_of(100.0 if work.contender == "bare_limit" else 10.0, *[1.0] * (work.runs - 1))

    monkeypatch.setattr(rounds, "measure", measure)
    monkeypatch.setattr("benchmarks.process.SCRATCH", tmp_path)
    return found


def turns(rounds_wanted: int, **limit: float) -> dict[str, ContenderRuns]:
    works = {name: Work(name, NO_DATA, "", 2, 2) for name in ("blizzard", "bare_limit")}
    return interleaved(works, RunOptions(1.0, rounds_wanted, 2, lambda text: None), **limit)


def test_a_slow_contender_has_two_rounds_each_with_a_warm_run(asked: list[tuple[str, int]]) -> None:
    series = turns(4)
    assert asked == [
        ("blizzard", 2),
        ("bare_limit", 2),
        ("bare_limit", 2),
        ("blizzard", 2),
        ("blizzard", 2),
        ("blizzard", 2),
    ]
    assert (len(series["bare_limit"].cold()), len(series["bare_limit"].warm())) == (2, 2)
    assert (len(series["blizzard"].cold()), len(series["blizzard"].warm())) == (4, 4)


def test_one_that_is_just_as_slow_as_allowed_is_not_slow(asked: list[tuple[str, int]]) -> None:
    turns(3, slow_secs=100.0)
    assert asked.count(("bare_limit", 2)) == 3


# --- More than was asked for ---


def test_more_commits_than_the_settings_call_for_are_wrong_work() -> None:
    data = replace(NO_DATA, paths=("a", "b", "c"))
    work = Work("blizzard", data, "", 1, 2, settings={"checkpoint": {"interval_files": 2}})
    assert blizzard.commits(work, {"totals": {"commits": 2}}) == 2
    with pytest.raises(WrongResult, match="expected 2 commits of 2 files each, found 3"):
        blizzard.commits(work, {"totals": {"commits": 3}})


def test_a_segment_that_took_two_commits_is_wrong_work() -> None:
    answers = [{"commits": 1}, {"commits": 2}]
    with pytest.raises(WrongResult, match="one commit for each of its segments"):
        history._check(NO_DATA, Work("history", NO_DATA, "", 2, 2), answers)
