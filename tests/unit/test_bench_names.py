"""The measurements and goal results of `names`, from invented figures."""

from collections.abc import Sequence
from typing import Any

from benchmarks.ledger.many_folders import ManyFolders
from benchmarks.ledger.measurements import LookUps
from benchmarks.ledger.missed_events import MissedEvents
from benchmarks.ledger.stored import StoredLedger
from benchmarks.suite import names
from tests.unit.test_bench_goal_results import medians, verdicts


def batch_of(kind: str, secs: float) -> dict[str, Any]:
    return {"kind": kind, "commit_secs": secs, "files": 10, "suspects": 0, "parts": [{"suspects": 0.0}]}


def look_ups_of(files: int, new_secs: Sequence[float]) -> LookUps:
    """On the local disk everything takes twice as long, so that the places cannot be confused."""
    s3 = {"new_secs": [*new_secs], "first_secs": 0.2, "first_bytes": 50_000_000, "peak_bytes": 200_000_000}
    disk = {"new_secs": [2 * secs for secs in new_secs], "first_secs": 0.4, "first_bytes": 0, "peak_bytes": 400_000_000}
    return LookUps(StoredLedger("", files, 3, files, 47 * files), {"local disk": [disk], "S3": [s3]})


def test_random_names_are_held_against_names_in_order_round_by_round() -> None:
    rounds = [
        [batch_of("in order", 1.0), batch_of("random", 1.5), batch_of("random", 1.5), batch_of("in order", 1.0)],
        [batch_of("random", 2.0), batch_of("in order", 2.0)],
    ]
    race = {"planned_secs": 0.5, "spark_jobs": 0}
    found = names.measured(
        names.Measured(
            {"local disk": rounds, "S3": rounds[1:]},
            [look_ups_of(10, [0.001, 0.003, 0.5]), look_ups_of(100, [0.04]), look_ups_of(1_000, [0.05])],
            look_ups_of(10_000, [0.0]),
            {100: {"ledger_bytes": 2_000, "files": 10}, 20_000: {"ledger_bytes": 3_000, "files": 10}},
            [{}, race, {**race, "spark_jobs": 2}, race],
            {"in order": {"secs": [9.0]}, "random": {"secs": [0.6, 0.6, 0.6, 2.0]}},
            MissedEvents(10, {60: {"most_sweeps": 3}, 30: {"most_sweeps": 9}}),
            ManyFolders(10, 2, [{"lists": 90}, {"lists": 7}, {"lists": 8}], {2: {"user_metadata_max_bytes": 2048}}),
        )
    )
    assert medians(found) == {
        "local disk": 1.25,
        "S3": 1.0,
        "new_small": 3.0,
        "new_middle": 40.0,
        "new_large": 50.0,
        "first_secs": 0.2,
        "first_mb": 50.0,
        "memory": 200.0,
        "memory_simulated": 400.0,
        "stored": 47.0,
        "written": 300.0,
        "race_secs": 0.5,
        "race_queries": 0.0,
        "p50": 0.6,
        "p99": 2.0,
        "missed": 3.0,
        "metadata": 2.0,
        "folders": 8.0,
    }
    not_met = {name for name, verdict in verdicts("names", found).items() if verdict == "not met"}
    assert not_met == {"local disk", "new_middle", "memory_simulated", "written", "p99", "missed"}
