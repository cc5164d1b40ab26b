"""`blizzard plan`: what the next runs read, commit and cost, as they then do, and without a side effect."""

import json
import math
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blizzard.audit.plan import BatchCounter
from blizzard.cli import main
from blizzard.dispatch.run_records import Phase, RunLog, RunRecord
from blizzard.manifest.segments import Entry, Segment, UnconsumedSegment
from blizzard.prices.backlog import (
    BATCH_FILE_SECS,
    BATCH_SECS,
    DISPATCHER_GB,
    FILES_PER_SEC,
    MB_PER_SEC,
    MEMORY_GB,
    MESSAGES_MB_PER_SEC,
    MESSAGES_PER_SEC,
    SWEEPER_GB,
    VCPUS,
    Work,
    bill,
    commits_bill,
    estimate,
)
from blizzard.prices.price_list import FILE, read_prices
from blizzard.state.batch import BatchRules, plan_batch
from blizzard.state.checkpoint import Checkpoint
from blizzard.state.watermark import no_folder
from blizzard.storage.local import LocalStore
from infra.prices.__main__ import ROOT
from tests.unit.documents import section
from tests.unit.operator_world import OperatorWorld, files_below


def plan(world: OperatorWorld, capsys: pytest.CaptureFixture[str], *options: str) -> dict[str, Any]:
    assert main(["plan", str(world.config_file), "--json", *options]) == 0
    (found,) = json.loads(capsys.readouterr().out)
    return dict(found)


def test_a_new_source_is_a_backfill_and_then_there_is_nothing_to_do(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    limits = {"checkpoint": {"interval_files": 3}}
    world = OperatorWorld(tmp_path, {"partition_filter": {"prefix_template": "date=%Y", "lookback": 1}, **limits})
    files = [world.land(f"date=2200/{number}.ndjson.gz", "x", "y") for number in range(8)]
    world.land("date=2019/old.ndjson.gz", "x")
    world.land_bytes("date=2200/other.txt", b"x")
    assert main(["validate", str(world.config_file)]) == 0
    capsys.readouterr()
    before = [*files_below(world.folder)]
    found = plan(world, capsys)
    (source,) = found["sources"]
    assert [*files_below(world.folder)] == before
    assert (source["is_new"], source["files"], source["commits"], source["announced"]) == (True, 8, 3, 0)
    assert source["bytes"] == sum(file.stat().st_size for file in files)
    assert (source["rows_expected"], source["skipped"], source["listed"]) == (None, 1, 10)
    assert (found["runs"], found["dollars"], found["minutes"] > 0) == (1, None, True)
    world.run()
    assert world.table().version() == 2
    found = plan(world, capsys)
    assert (found["runs"], found["sources"][0]["files"], found["sources"][0]["is_new"]) == (0, 0, False)


def test_rows_are_expected_as_the_newest_commits_had_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    world = OperatorWorld(tmp_path)
    world.land("a/1.ndjson.gz", *"abcd", None)
    world.run()
    world.land("a/2.ndjson.gz", *"abcd", None)
    world.land("a/3.ndjson.gz", *"abcd", None)
    (source,) = plan(world, capsys)["sources"]
    assert (source["rows_expected"], source["rejected_expected"], source["expected_from_commits"]) == (8, 2, 1)
    (source,) = plan(world, capsys, "--since", "2200-01-01")["sources"]
    assert (source["files"], source["rows_expected"]) == (0, 0)


def test_with_an_open_circuit_no_run_is_started(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    world = OperatorWorld(tmp_path)
    world.land("a/1.ndjson.gz", "x")
    assert plan(world, capsys)["problem"] is None
    runs = RunLog(LocalStore(str(tmp_path / "lake"), may_be_missing=True), "orders", lambda: "w")
    runs.append(RunRecord(0, "orders", "e", 3, Phase.FAILED, "f", failures=4, reason="boom"), now_ts=1.0)
    assert plan(world, capsys)["problem"] is None
    runs.append(RunRecord(1, "orders", "e", 3, Phase.OPEN, "f", failures=5, reason="boom"), now_ts=1.0)
    assert main(["plan", str(world.config_file)]) == 1
    shown = capsys.readouterr().out
    assert "no run       the circuit is open after 5 failures (boom)" in shown
    assert "takes        about" in shown


def test_a_run_record_that_cannot_be_read_is_a_problem_of_the_plan_and_does_not_end_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    world = OperatorWorld(tmp_path)
    world.land("a/1.ndjson.gz", "x")
    store = LocalStore(str(tmp_path / "lake"), may_be_missing=True)
    RunLog(store, "orders", str).append(RunRecord(0, "orders", "e", 3, Phase.RUNNING, "f"), now_ts=1.0)
    (record,) = (tmp_path / "lake" / "_blizzard" / "_runs" / "orders").iterdir()
    record.write_text("{")
    assert main(["plan", str(world.config_file), "--json"]) == 1
    (found,) = json.loads(capsys.readouterr().out)
    assert "run record 0 of pipeline orders cannot be read" in found["problem"]
    assert found["sources"][0]["files"] == 1
    assert main(["plan", str(world.config_file)]) == 1
    assert "no run       run record 0 of pipeline orders cannot be read" in capsys.readouterr().out


def test_what_is_announced_and_what_nothing_announces(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    world = OperatorWorld(tmp_path, {"partition_filter": {"prefix_template": "date=%Y", "lookback": 1}})
    world.land("date=2200/1.ndjson.gz", "x")
    world.run()
    world.land("date=2020/missing.ndjson.gz", "x")
    world.land("date=2200/2.ndjson.gz", "x")
    info = world.source.files.head("date=2200/2.ndjson.gz")
    assert info is not None
    world.manifest.append([Entry(info.key, info.size, info.etag, 1.0)], writer_id="w", now_ts=1.0)
    (source,) = plan(world, capsys)["sources"]
    assert (source["files"], source["announced"], source["missing"]) == (1, 1, 1)
    assert main(["plan", str(world.config_file)]) == 0
    said = capsys.readouterr().out
    assert "  reads       1 files" in said
    assert "  misses      1 files" in said


@given(st.lists(st.integers(0, 30), max_size=30), st.integers(1, 5), st.integers(1, 20))
def test_commits_are_counted_as_batches_are_planned(sizes: list[int], files: int, size_limit: int) -> None:
    entries = tuple(Entry(f"{number:03}", size, "e", 1.0) for number, size in enumerate(sizes))
    rules = BatchRules(no_folder, interval_files=files, interval_bytes=size_limit)
    checkpoint, commits = Checkpoint("p", "s"), 0
    while True:
        position = checkpoint.position
        segments = [UnconsumedSegment(Segment(0, entries, None, None, "w", 1.0, "e"), position.entry, 0, ">e")]
        batch = plan_batch(checkpoint, segments if position.segment == 0 else [], rules)
        if batch.empty:
            break
        checkpoint = Checkpoint("p", "s", position=batch.position)
        largest = max(entry.size for entry in batch.suspects)
        commits += math.ceil(largest / size_limit) if largest > size_limit else 1
    counter = BatchCounter(files, size_limit)
    for size in sizes:
        counter.add(size)
    assert counter.total() == commits


# -- time and money


def test_a_million_files_from_s3() -> None:
    work = Work(1_000_000, 100_000_000_000, 1_000, 1_000_000)
    takes = estimate(work)
    assert takes.runs == math.ceil((takes.secs - 60 * takes.runs) / 3600)
    core_secs = 1_000_000 / 1_000 + 100_000 / 11
    assert takes.secs == pytest.approx(core_secs / 4 + 0.2 * 1_000 + 26 + 60 * takes.runs)
    items = {item.what.partition(":")[0]: item for item in bill(work, takes.secs, read_prices())}
    assert items["S3"].quantity > 0
    total = sum(item.quantity * item.price for item in bill(work, takes.secs, read_prices()))
    workers, gets, commits, logs = takes.secs / 3600 * (VCPUS * 0.042094 + MEMORY_GB * 0.004628), 0.4, 0.1, 0.25
    assert total == pytest.approx(workers + gets + commits + logs, rel=0.02)


def test_each_part_of_the_stack_that_works_for_a_backlog_is_on_its_bill() -> None:
    work = Work(10_000, 1_000_000, 10, 20_000)
    quantities = {item.what: item.quantity for item in bill(work, 600.0, read_prices())}
    segments, runs, lists = 2, 1, 20
    dispatches = segments + runs
    assert quantities["S3: GET of each file"] == 10_000
    assert quantities["S3: data files, log, receipts, PUT and LIST"] == 200
    assert quantities["S3: sweeps and segments, LIST and PUT"] == lists + 3 * segments
    assert quantities["S3: dispatcher, LIST and GET"] == 6 * dispatches
    assert quantities["SQS: wake-ups of the dispatcher"] == 3 * segments
    assert quantities["Lambda, sweeper: GB-seconds"] == pytest.approx(2.0)
    assert quantities["Lambda, dispatcher: GB-seconds"] == pytest.approx(1.5)
    assert quantities["Lambda: invocations"] == dispatches + 1
    assert quantities["CloudWatch: logs, GB"] == pytest.approx(0.005)


def test_a_job_of_this_machine_pays_for_its_requests_alone() -> None:
    assert [item.quantity for item in commits_bill(Work(5, 100, 2), read_prices())] == [40]
    assert commits_bill(Work(0, 0, 0), read_prices()) == []


def test_nothing_costs_nothing() -> None:
    assert (estimate(Work(0, 0, 0)).runs, bill(Work(0, 0, 0, 100), 0.0, read_prices())) == (0, [])


def test_rates_are_those_of_the_page_on_sizing() -> None:
    page = section("docs/sizing.md", "## How large a job has to be")
    for where, from_s3 in (("S3", True), ("a local disk", False)):
        row = re.search(rf"^\| from {where} \| ([\d,]+) \| ([\d,.]+) \|$", page, re.MULTILINE)
        assert row is not None
        assert [float(row[1].replace(",", "")), float(row[2])] == [FILES_PER_SEC[from_s3], MB_PER_SEC[from_s3]]
    assert f"{BATCH_SECS} seconds plus {BATCH_FILE_SECS * 1e6:.0f} microseconds per file" in page


def test_rates_of_topics_are_those_of_the_page_on_sizing() -> None:
    page = section("docs/sizing.md", "## How large a job has to be")
    assert f"counts {MESSAGES_PER_SEC:,.0f} messages and {MESSAGES_MB_PER_SEC:.0f} MB a second" in page
    assert pytest.approx(130_000, rel=0.01) == 1 / (1 / MESSAGES_PER_SEC + 200 / 1e6 / MESSAGES_MB_PER_SEC)
    assert "about 130,000 messages of 200 bytes a second" in page


def test_a_hundred_million_messages() -> None:
    work = Work(commits=100, messages=100_000_000, message_bytes=20_000_000_000)
    takes = estimate(work)
    core_secs = 100_000_000 / MESSAGES_PER_SEC + 20_000 / MESSAGES_MB_PER_SEC
    assert takes.secs == pytest.approx(core_secs / 4 + 0.2 * 100 + 60 * takes.runs)
    items = bill(work, takes.secs, read_prices())
    of_topics = [
        "EMR Serverless",
        "S3: data files",
        "S3: dispatcher",
        "Lambda",
        "Lambda: invocations",
        "CloudWatch: logs",
    ]
    assert [*dict.fromkeys(item.what.partition(",")[0] for item in items)] == of_topics


@pytest.mark.parametrize(("function", "memory_gb"), [("Sweeper", SWEEPER_GB), ("Dispatcher", DISPATCHER_GB)])
def test_the_memory_of_functions_is_that_of_the_template(function: str, memory_gb: float) -> None:
    text = (ROOT / "template.yaml").read_text().partition(f"\n  {function}Function:\n")[2]
    found = re.search(r"MemorySize: (\d+)", text)
    assert found is not None
    assert int(found[1]) == memory_gb * 1024


def test_another_price_list(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = json.loads(FILE.read_text()) | {"region": "eu-west-1"}
    (tmp_path / "prices.json").write_text(json.dumps(other))
    world = OperatorWorld(tmp_path)
    assert plan(world, capsys, "--prices", str(tmp_path / "prices.json"))["prices"]["region"] == "eu-west-1"
    (tmp_path / "prices.json").write_text("[]")
    assert main(["plan", str(world.config_file), "--prices", str(tmp_path / "prices.json")]) == 2
    assert "expected a price list" in capsys.readouterr().err
    for prices in ({}, [1], {"emr_vcpu_hour": "much"}):
        (tmp_path / "prices.json").write_text(json.dumps({"region": "x", "date": "y", "prices": prices}))
        assert main(["plan", str(world.config_file), "--prices", str(tmp_path / "prices.json")]) == 2
        assert "expected a price list like us-east-1.json" in capsys.readouterr().err
