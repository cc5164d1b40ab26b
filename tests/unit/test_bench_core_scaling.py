"""Scaling with cores, and the size of a job."""

import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from benchmarks import __main__ as command
from benchmarks.core_scaling import growth, on_most_cores
from benchmarks.published_results import as_json, read_results
from benchmarks.report import as_markdown, as_text
from benchmarks.result import Result
from benchmarks.sizing import as_driver, as_sizing, core_rates
from benchmarks.stats import TIMES, Spread
from tests.unit.bench_results import BIG, BIG_ON_ONE, MACHINE, SMALL


def test_growth_is_of_all_pairs_since_they_did_not_take_turns() -> None:
    (table,) = growth(MACHINE, [BIG, SMALL, BIG_ON_ONE]).values()
    assert table.columns == ("records/s", "1 core", "2 cores", f"{TIMES.strip()}, 1 to 2")
    pairs = sorted(one / two for one in (20.0, 16.0) for two in (10.0, 8.0, 9.0))
    assert table.rows[0] == (
        "Blizzard",
        str(Spread.of([50.0, 62.5])),
        str(Spread.of([100.0, 125.0, 1000 / 9])),
        str(Spread.of(pairs)),
    )
    assert [row[0] for row in table.rows] == ["Blizzard", "Spark's own reader"]


def test_a_contender_of_one_of_them_alone_does_not_grow() -> None:
    less = {**BIG.raw, "contenders": {"blizzard": BIG.raw["contenders"]["blizzard"]}}
    (table,) = growth(MACHINE, [replace(BIG, raw=less), BIG_ON_ONE]).values()
    assert [row[0] for row in table.rows] == ["Blizzard"]


@pytest.mark.parametrize("shown", [as_text, as_markdown])
def test_fewer_cores_are_shown_as_growth_alone(shown: Callable[..., str]) -> None:
    told = shown(MACHINE, [BIG, BIG_ON_ONE])
    assert told.count("what big is") == 1
    assert "How big grows with cores" in told
    assert "on 1 of the 2 cores" not in told
    alone = shown(MACHINE, [BIG_ON_ONE])
    assert "what big is, on 1 of the 2 cores" in alone
    assert "grows" not in alone
    assert on_most_cores([BIG_ON_ONE, replace(BIG, cores=0), BIG]) == [replace(BIG, cores=0)]


def test_runs_on_few_cores_and_on_all_come_into_one_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    allowed = {0, 1}
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: allowed)
    monkeypatch.setattr(os, "sched_setaffinity", lambda _, some: allowed.intersection_update(some))
    monkeypatch.setattr(command, "machine", lambda: {**MACHINE, "cores": len(allowed)})
    monkeypatch.setattr(command, "clear_scratch", lambda: None)
    monkeypatch.setattr(command, "run", lambda name, options: BIG_ON_ONE if options.cores == 1 else BIG)
    file = tmp_path / "bench.json"
    assert command.main(["big", "--cores", "1", "--json", str(file)]) == 0
    allowed |= {0, 1}
    assert command.main(["big", "--json", str(file)]) == 0
    assert read_results(file) == (MACHINE, [BIG, BIG_ON_ONE])
    assert "How big grows with cores" in capsys.readouterr().out


def test_older_results_ran_on_the_cores_of_the_machine(tmp_path: Path) -> None:
    older = json.loads(as_json(MACHINE, [BIG]))
    del older["benchmarks"][0]["cores"]
    (tmp_path / "a.json").write_text(json.dumps(older))
    assert read_results(tmp_path / "a.json")[1][0].cores == 2


# --- Sizes ---


def s3_of(small_secs: float, big_secs: float) -> Result:
    def over(secs: float, like: Result) -> dict[str, Any]:
        return {"data": like.raw["data"], "contenders": {"s3": {"warm_secs": [secs]}}}

    return Result("s3", "both", (), raw={"small": over(small_secs, SMALL), "big": over(big_secs, BIG)}, cores=2)


def test_a_job_is_sized_by_small_files_and_by_the_bytes_of_large_ones() -> None:
    local, remote = core_rates(MACHINE, [BIG, SMALL, s3_of(8.0, 10.0)])
    assert (local.files, local.stored_mb) == (12_000, 7.5)
    assert (remote.where, remote.files, remote.stored_mb) == ("S3", 6_200, 5.0)


def test_the_example_follows_from_the_rates_over_s3() -> None:
    told = as_sizing(MACHINE, [BIG, SMALL, s3_of(8.0, 10.0)])
    # 322.6 seconds for 2,000,000 files and 40,000 for 200,000 MB are 11.2 cores, which are busy half of each hour.
    assert "| 100 kB | 2,000,000 | 323 | 40,000 | 11.2 | 6 | 80 | 68 |" in told
    assert "| none: the driver is the limit | 8,000 | 6,800 |" in told


def test_without_both_kinds_of_files_no_job_is_sized() -> None:
    assert core_rates(MACHINE, [BIG]) == []
    assert "Example: " not in as_sizing(MACHINE, [BIG])


def test_the_drivers_share_grows_with_the_executors() -> None:
    parts = {"blizzard": {"read": 8.0, "write": 1.0, "commit": 0.9, "total": 10.0}}
    told = as_driver(MACHINE, [replace(BIG, raw={**BIG.raw, "parts": parts})])
    # 18 core-seconds on 32 cores are 0.5625 seconds beside 1; nine seconds on each of 32 are 288.
    assert "takes 10 seconds. Of these, 1 are the driver's; reading and writing are 18 core-seconds" in told
    assert "64% of its time" in told
    assert "288 core-seconds, 16,000 records" in told
    assert as_driver(MACHINE, [BIG]) == ""
