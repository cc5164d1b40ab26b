"""The benchmark `cluster` at a tiny scale: both sides write a correct table and are reported."""

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from benchmarks.run_options import RunOptions
from benchmarks.suite import cluster
from benchmarks.suite.cluster import Measured, Ran
from tests.spark.test_bench_small import reported


@pytest.mark.spark
def test_a_cluster_is_compared_with_as_many_cores_of_the_driver(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("benchmarks.process.SCRATCH", tmp_path / "runs")
    monkeypatch.setattr(cluster, "EXECUTORS", (1,))
    result = cluster.run(RunOptions(0.0005, 1, 2, lambda text: None, tmp_path / "data"))
    assert reported(result) == [f"{words}, 1 executor" for words in cluster.WORDS.values()]
    assert all(secs > 0 for _, _, (ran,) in result.raw["cluster"] for secs in ran.values())


def test_the_worst_number_of_executors_counts() -> None:
    def runs(*secs: float) -> list[Ran]:
        return [Ran(5.0, each) for each in secs]

    found = Measured(
        {("big", 1): runs(10, 10, 10), ("big", 2): runs(5, 5, 5), ("small", 1): runs(1.0)},
        {("big", 1): runs(10, 11, 30), ("big", 2): runs(5, 6, 5.5), ("small", 1): runs(1.5)},
    )
    spread = cluster.measured(found)["big"]
    assert (spread.median, spread.low, spread.high) == (1.1, 1.0, 3.0)
    assert cluster.measured(found)["small"].median == 1.5


def test_a_run_is_divided_where_spark_has_started() -> None:
    lines = ["a line of Spark"]
    for name, secs in (("swept", 1), ("spark_started", 7), ("batch_committed", 9), ("drained", 10)):
        lines.append(json.dumps({"ts": datetime.fromtimestamp(100 + secs, UTC).isoformat(), "event": name}))
    assert cluster._times(100.0, lines) == Ran(7.0, 3.0)
