"""The measurements and costs of `audit`: a small one, and invented figures."""

from pathlib import Path

import pytest

from benchmarks.audit import dollars, measure
from benchmarks.audit_world import Shape, make_world
from benchmarks.stats import Spread
from benchmarks.suite.audit import measured
from blizzard.prices.price_list import PriceList


def test_the_goals_are_those_of_the_largest_size() -> None:
    small, large = {"secs": 5.0, "peak_mb": 300}, {"secs": 50.0, "peak_mb": 1_000}
    found = measured({10_000: [small], 1_000_000: [large, {**large, "secs": 70.0}]})
    assert found["secs"] == Spread.of([50.0, 70.0])
    assert found["mib"].median == pytest.approx(953.7, abs=0.1)


def test_s3_charges_for_writing_and_listing_and_less_for_reading() -> None:
    prices = PriceList("us-east-1", "2026-11-01", {"s3_get": 0.1, "s3_put_or_list": 1.0})
    assert dollars({"GET": 2, "HEAD": 3, "LIST": 4, "PUT": 5, "DELETE": 6}, prices) == pytest.approx(9.5)


def test_a_small_audit_finds_every_object_and_row_well(tmp_path: Path) -> None:
    found = measure(make_world(tmp_path, 60), tmp_path, latency_secs=0.0)
    assert (found["files"], found["rows"], found["data_files"]) == (60, 600, 1)
    assert found["requests"]["LIST"] > 0


def test_small_data_files_and_refused_records_are_no_fault(tmp_path: Path) -> None:
    found = measure(make_world(tmp_path, 60, Shape(per_commit=10, letters_every=20)), tmp_path, latency_secs=0.0)
    assert (found["files"], found["rows"], found["data_files"]) == (60, 597, 6)
