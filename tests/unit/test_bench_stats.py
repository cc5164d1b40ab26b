"""Statistics, goals and idle shares."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.goals import GOALS
from benchmarks.stats import Goal, Spread, evaluate_goals, number, percentile, ratio
from benchmarks.suite import BENCHMARKS
from benchmarks.suite.skew import Task, idle_cores, idle_shares

VALUES = st.lists(st.floats(0.001, 1e6), min_size=1, max_size=20)


@given(VALUES)
def test_a_median_lies_within_its_spread(values: list[float]) -> None:
    spread = Spread.of(values)
    assert spread.low <= spread.median <= spread.high
    assert (spread.low, spread.high, spread.count) == (min(values), max(values), len(values))
    assert Spread.from_json(spread.to_json()) == spread


def test_there_is_no_spread_of_nothing() -> None:
    with pytest.raises(ValueError, match="at least one value"):
        Spread.of([])


def test_ratios_are_of_the_same_round_so_that_load_cancels_out() -> None:
    assert ratio([10.0, 20.0, 40.0], [5.0, 10.0, 20.0]) == Spread(2.0, 2.0, 2.0, 3)
    assert ratio([3.0, 8.0], [1.0, 2.0, 99.0]) == Spread(3.5, 3.0, 4.0, 2)


def test_a_percentile_is_one_of_the_values() -> None:
    values = [float(n) for n in range(1, 101)]
    assert [percentile(values[::-1], share) for share in (0.0, 0.5, 0.99, 1.0)] == [1.0, 50.0, 99.0, 100.0]
    assert percentile([7.0], 0.99) == 7.0


@given(VALUES, st.floats(0, 1))
def test_a_percentile_leaves_no_larger_share_above_it(values: list[float], share: float) -> None:
    found = percentile(values, share)
    assert sum(value <= found for value in values) >= share * len(values) - 1e-3
    assert found in values


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0, "0"),
        (3, "3"),
        (0.0123456, "0.0123"),
        (1.006, "1.01"),
        (12.34, "12.3"),
        (1234.5, "1,234"),
        (5e6, "5,000,000"),
    ],
)
def test_numbers_have_three_digits_that_matter(value: float, shown: str) -> None:
    assert number(value) == shown


def test_a_spread_is_shown_with_its_ends_where_they_differ() -> None:
    assert str(Spread.of([1.5, 1.25, 2.0])) == "1.50 (1.25..2)"
    assert str(Spread.of([2.0])) == "2"


AT_LEAST = Goal("big", "spark", "throughput", "at least", 1.3)
AT_MOST = Goal("big", "bare", "time", "at most", 1.6)


@pytest.mark.parametrize(
    ("goal", "measured", "verdict"),
    [
        (AT_LEAST, 1.3, "met"),
        (AT_LEAST, 1.29, "not met"),
        (AT_MOST, 1.6, "met"),
        (AT_MOST, 1.61, "not met"),
    ],
)
def test_a_goal_is_met_by_the_median_as_measured_without_rounding(goal: Goal, measured: float, verdict: str) -> None:
    (goal_result,) = evaluate_goals([goal], {goal.name: Spread.of([measured])}, {})
    assert goal_result.verdict == verdict


@pytest.mark.parametrize(
    ("goal", "values", "divided"),
    [
        (AT_LEAST, [1.3, 1.4], False),
        (AT_LEAST, [1.29, 1.4], True),
        (AT_LEAST, [1.0, 1.29], False),
        (AT_MOST, [1.0, 1.6], False),
        (AT_MOST, [1.0, 1.61], True),
        (AT_MOST, [1.61, 2.0], False),
    ],
)
def test_rounds_are_divided_where_some_meet_the_goal_and_others_do_not(
    goal: Goal, values: list[float], divided: bool
) -> None:
    (goal_result,) = evaluate_goals([goal], {goal.name: Spread.of(values)}, {})
    assert goal_result.divided is divided


def test_a_goal_that_was_not_measured_is_not_left_out() -> None:
    goal_results = evaluate_goals([AT_LEAST, AT_MOST], {"bare": Spread.of([1.0])}, {"spark": "no JVM"})
    assert not any(one.divided for one in goal_results)
    assert [(one.verdict, one.why_not) for one in goal_results] == [("not measured", "no JVM"), ("met", "")]


def test_every_benchmark_has_goals_and_each_goal_its_own_name() -> None:
    assert {goal.benchmark for goal in GOALS} == set(BENCHMARKS)
    assert len({(goal.benchmark, goal.name) for goal in GOALS}) == len(GOALS)


OF_LATER_BENCHMARKS = {
    "engine": {
        "few": "at most 2",
        "nothing": "at most 0.7",
        "pipelines": "at most 8",
        "big": "at most 1.1",
        "small": "at most 0.4",
        "memory": "at most 250",
        "p50": "at most 0.25",
        "p99": "at most 0.6",
        "commit": "at most 0.2",
        "old_commit": "at most 0.2",
    },
    "names": {
        "local disk": "at most 1.15",
        "S3": "at most 1.15",
        "new_small": "at most 20",
        "new_middle": "at most 30",
        "new_large": "at most 60",
        "first_secs": "at most 0.3",
        "first_mb": "at most 64",
        "memory": "at most 256",
        "memory_simulated": "at most 256",
        "stored": "at most 48",
        "written": "at most 240",
        "race_secs": "at most 1",
        "race_queries": "at most 0",
        "p50": "at most 0.7",
        "p99": "at most 1.6",
        "missed": "at most 2",
        "metadata": "at most 32",
        "folders": "at most 1100",
    },
    "rules": {
        "time": "at most 1.15",
        "alone": "at most 1.15",
        "derive": "at most 1.15",
        "constraints": "at most 1.15",
        "changes": "at most 1.15",
    },
    "kafka": {
        "warm": "at least 2",
        "cold": "at least 1.5",
        "bare": "at most 2",
        "flat": "at most 1.2",
        "p50": "at most 1",
        "p99": "at most 3",
    },
}


def test_the_goals_are_those_that_were_set() -> None:
    limits: dict[str, dict[str, str]] = {}
    for goal in GOALS:
        limits.setdefault(goal.benchmark, {})[goal.name] = f"{goal.kind} {goal.limit:g}"
    assert limits == {
        "big": {"spark_warm": "at least 1.3", "spark_cold": "at least 2", "bare_limit": "at most 1.6"},
        "small": {
            "spark_warm": "at least 15",
            "spark_cold": "at least 15",
            "streaming_warm": "at least 5",
            "streaming_cold": "at least 5",
        },
        "find": {"flat": "at most 1.2", "flat_first": "at most 1.2"},
        "history": {"flat": "at most 1.2", "segments": "at most 16", "log": "at most 10", "state": "at most 1.2"},
        "wide": {"spark_warm": "at least 1", "differences": "at most 0"},
        "formats": {
            "spark_cold": "at least 2",
            "spark_warm": "at least 1.5",
            "small_cold": "at least 15",
            "small_warm": "at least 15",
            "local_spark_cold": "at least 2",
            "local_spark_warm": "at least 1.5",
            "local_small_cold": "at least 15",
            "local_small_warm": "at least 15",
            "arrow_loop": "at least 1",
            "arrow_copy": "at most 1.5",
        },
        "large": {"memory": "at most 1"},
        "dirty": {"clean": "at most 1.3"},
        "skew": {"idle": "at most 0.2", "slots": "at most 0.2", "memory": "at most 1"},
        "s3": {"big": "at least 0.8", "small": "at least 0.8"},
        "latency": {"p50": "at most 3", "p99": "at most 8"},
        "plan": {"secs": "at most 1", "mib": "at most 200"},
        "collect": {"secs": "at most 1", "mib": "at most 128"},
        "audit": {"secs": "at most 60", "mib": "at most 1024"},
        "cluster": {"big": "at most 1.15", "small": "at most 1.15"},
        **OF_LATER_BENCHMARKS,
    }


def test_idle_time_is_what_no_task_fills() -> None:
    tasks = [Task(0, 10), Task(0, 4), Task(4, 6)]
    assert idle_shares(tasks, 0, 10, 2) == pytest.approx([0.0, 0.4])


def test_tasks_of_another_run_do_not_count_and_those_across_its_edge_in_part() -> None:
    assert idle_shares([Task(-5, -1), Task(-2, 5), Task(8, 20)], 0, 10, 1) == pytest.approx([0.3])


def test_cores_are_idle_as_far_as_nothing_worked_on_them() -> None:
    assert idle_cores(15.0, 10.0, 2) == pytest.approx(0.25)
    assert idle_cores(20.02, 10.0, 2) == 0.0


def test_a_run_without_tasks_is_all_idle() -> None:
    assert idle_shares([], 0, 10, 2) == [1.0, 1.0]
