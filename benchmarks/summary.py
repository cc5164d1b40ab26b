"""The summary tables of docs/performance.md."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from benchmarks.core_scaling import on_most_cores
from benchmarks.report import limit_of, pipes, verdict_of
from benchmarks.result import Result, Table
from benchmarks.stats import TIMES, GoalResult, Spread, number, ratio

STATES = {
    "warm": ("second run of a process (warm)", "warm_secs"),
    "cold": ("first run of a process (cold), start of interpreter and JVM included", "cold_secs"),
}
COMPARISON_COLUMNS = ("", "Blizzard, s", "Spark's own reader, s", f"{TIMES.strip()} as fast", "goal", "")
COLUMNS = ("", "measured", "goal", "")
FINDING = {
    "steady": "announced to a running job",
    "first": "announced to a new job in a warm JVM, with recovery",
    "swept": "found by the sweep of a running job, on a local disk",
    "streaming": "found by Structured Streaming, where each batch is a new query",
}
JUDGED = {
    "names": {
        "local disk": "100,000 files with random names, in batches, beside names in order: time on a local disk",
        "S3": "the same, over S3 with 30 ms a request",
    },
    "engine": {
        "few": "`blizzard run --once` of three small files by the local engine, start of process to exit",
        "big": "5,000,000 records in 100 files, whole process, time relative to a loop of pyarrow and deltalake",
        "small": "1,000,000 records in 100,000 files, the same",
        "memory": "peak memory of a run of three small files by the local engine",
        "p50": "file announced to a running job of the local engine to rows visible, median",
        "p99": "the same, 99th percentile",
    },
    "latency": {
        "p50": "file announced to a running job on Spark to rows visible, median",
        "p99": "the same, 99th percentile",
    },
    "kafka": {
        "cold": "messages of a topic into Delta, throughput relative to Structured Streaming, cold",
        "warm": "the same, warm",
        "p50": "message produced to row visible, local engine, median",
        "p99": "the same, 99th percentile",
    },
    "s3": {
        "big": "throughput over S3 with 30 ms a request, relative to a local disk, large files",
        "small": "the same, files of ten records",
    },
}


def as_summary(machine: Mapping[str, Any], results: Sequence[Result]) -> str:
    """Rows of benchmarks without a result are left out."""
    by_name = {result.name: result for result in on_most_cores(results)}
    compared = [row for name in ("big", "small") if name in by_name for row in _compared(by_name[name])]
    judged = {name: list(_judged(by_name, name)) for name in JUDGED}
    rows = [
        *judged["engine"],
        *judged["latency"],
        *judged["kafka"],
        *_finding(by_name),
        *judged["names"],
        *judged["s3"],
    ]
    lines: list[str] = []
    for columns, found in ((COMPARISON_COLUMNS, compared), (COLUMNS, rows)):
        if found:
            lines += [*pipes(Table(columns, tuple(found))), ""]
    return "\n".join(lines) + "\n"


def _compared(result: Result) -> Iterator[tuple[str, ...]]:
    goals = {goal_result.goal.name: goal_result for goal_result in result.goal_results}
    for state, (words, key) in STATES.items():
        ours, spark = (result.raw["contenders"][name][key] for name in ("blizzard", "spark_reader"))
        what = result.what if state == "warm" else "the same"
        secs = (str(Spread.of(some)) for some in (ours, spark))
        yield (f"{what}, {words}", *secs, str(ratio(spark, ours)), *_goal(goals.get(f"spark_{state}")))


def _judged(by_name: Mapping[str, Result], name: str) -> Iterator[tuple[str, ...]]:
    for goal_result in by_name[name].goal_results if name in by_name else ():
        if goal_result.goal.name in JUDGED[name] and goal_result.measured:
            words = JUDGED[name][goal_result.goal.name]
            yield (words, f"{goal_result.measured}{goal_result.goal.unit}", *_goal(goal_result))


def _goal(goal_result: GoalResult | None) -> tuple[str, str]:
    return (limit_of(goal_result.goal), verdict_of(goal_result)) if goal_result else ("", "")


def _finding(by_name: Mapping[str, Result]) -> Iterator[tuple[str, ...]]:
    """All kinds at the largest size; at the smallest size only the files announced to a running job."""
    if "find" not in by_name:
        return
    found = by_name["find"].raw["secs"]
    fewest, most = (str(edge(map(int, found))) for edge in (min, max))
    for known, kind in ((fewest, "steady"), *((most, kind) for kind in FINDING)):
        secs = number(Spread.of(found[known][kind]).median)
        yield (f"100 new files among {int(known):,} known ones, {FINDING[kind]}", f"{secs} s", "", "")
