"""Invented results of benchmarks, for tests."""

from benchmarks.goals import goals_of
from benchmarks.result import Result
from benchmarks.stats import Spread, evaluate_goals

MACHINE = {
    "cpu": "a processor",
    "cores": 2,
    "memory_gib": 16,
    "kernel": "Linux 6",
    "python": "3.11.7",
    "versions": {"pyspark": "4.1.1"},
}


def result_of(name: str, ours: list[float], spark: list[float], cores: int = 2, **facts: int) -> Result:
    """Like `big` and `small`. Cold runs take three times as long as warm ones, with Spark four times."""
    told = {
        "blizzard": {"title": "Blizzard", "warm_secs": ours, "cold_secs": [3 * secs for secs in ours]},
        "spark_reader": {"title": "Spark's own reader", "warm_secs": spark, "cold_secs": [4 * s for s in spark]},
    }
    data = {"files": 100, "records": 1_000, "stored_bytes": 10**8, "raw_bytes": 3 * 10**8} | facts
    warm, cold = (
        [s / o for s, o in zip(spark, ours, strict=True)],
        [4 * s / 3 / o for s, o in zip(spark, ours, strict=True)],
    )
    goal_results = tuple(
        evaluate_goals(goals_of(name), {"spark_warm": Spread.of(warm), "spark_cold": Spread.of(cold)}, {})
    )
    bars = {"Blizzard": Spread.of(ours).median, "Spark's own reader": Spread.of(spark).median}
    raw = {"data": data, "contenders": told}
    return Result(name, f"what {name} is", (), goal_results, bars=bars, raw=raw, cores=cores)


BIG = result_of("big", [10.0, 8.0, 9.0], [20.0, 24.0, 18.0])
BIG_ON_ONE = result_of("big", [20.0, 16.0], [18.0, 27.0], cores=1)
SMALL = result_of("small", [4.0], [100.0], files=100_000, stored_bytes=6 * 10**7)
