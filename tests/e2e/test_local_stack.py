"""The shipped template on the local AWS, from files to rows: the collector, the sweeper, the dispatcher and Spark."""

import gzip
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from infra.local.local_stack import LocalStack, local_stack
from infra.local.verdict import Verdict, judge, read_source

DEADLINE_SECS = 200.0
PREFIX = "raw-events/"
COLUMNS = ["id", "timestamp"]
CONFIG = """
pipelines:
  events:
    table_uri: s3://lake/events
    partition_by: [date]
    sources:
      landing:
        uri: s3://landing/raw-events/
        pattern: "**/*.ndjson.gz"
        schema: "id STRING NOT NULL, timestamp BIGINT"
        partition_columns: {date: date}
        settle_delay_secs: 0
        sweep: {interval_secs: 1, late_interval_secs: 60}
"""
SOON = {"WakeWindowSecs": "1", "BatchingWindowSecs": "1", "BackoffSecs": "1"}


@pytest.fixture
def stack(tmp_path: Path) -> Iterator[LocalStack]:
    config = tmp_path / "pipelines.yaml"
    config.write_text(CONFIG)
    with local_stack(config, parameters=SOON, folder=tmp_path / "stack") as running:
        yield running


def body(name: str) -> bytes:
    lines = [json.dumps({"id": f"{name}-{number}", "timestamp": number}) for number in range(5)]
    return gzip.compress("".join(f"{line}\n" for line in lines).encode())


def wait(
    stack: LocalStack, what: str, holds: Callable[[], bool], meanwhile: Callable[[], object] = lambda: None
) -> None:
    deadline = time.monotonic() + DEADLINE_SECS
    while not holds():
        assert time.monotonic() < deadline, f"{what}: not in time; runs: {stack.runs()}\n{stack.logs('job')[-3000:]}"
        meanwhile()
        time.sleep(1)


def verdict(stack: LocalStack) -> Verdict:
    s3 = stack.client("s3")
    keys = [found["Key"] for found in s3.list_objects_v2(Bucket=stack.landing, Prefix=PREFIX)["Contents"]]
    objects = ((key.removeprefix(PREFIX), s3.get_object(Bucket=stack.landing, Key=key)["Body"].read()) for key in keys)
    options = {**stack.aws.environment(), "AWS_ALLOW_HTTP": "true"}
    return judge(read_source(objects, "id"), f"s3://{stack.lake}/events", options, [], COLUMNS)


@pytest.mark.spark
def test_files_become_rows_though_an_event_is_lost_and_the_first_run_fails(stack: LocalStack) -> None:
    stack.orders.failures = 1
    stack.orders.go.clear()
    for number in range(4):
        stack.drop(f"date=2026-01-0{1 + number % 2}/{number}.ndjson.gz", body(f"file{number}"), event=number != 3)
    wait(stack, "a run for what events announced", lambda: bool(stack.runs()))

    stack.fire("SweepScheduled")
    wait(stack, "the sweep's report", lambda: '"listed": 4' in swept(stack) or '"listed":4' in swept(stack))
    stack.orders.go.set()
    wait(
        stack,
        "a run that goes well",
        lambda: [run["state"] for run in stack.runs()][:1] == ["SUCCESS"],
        meanwhile=lambda: stack.fire("DispatchScheduled"),
    )

    assert [run["state"] for run in stack.runs()] == ["SUCCESS", "FAILED"]
    assert "this run was made to fail" in stack.runs()[1]["stateDetails"]
    found = verdict(stack)
    assert found.good, list(found.lines())
    assert (found.files, found.rows_out) == (4, 20)
    assert {"collector", "dispatcher", "sweeper", "job"} <= {one["principal"] for one in stack.requests()}
    assert '"event": "batch_committed"' in stack.logs("job")
    for function in stack.functions.functions.values():
        assert 0 < function.peak_mb < function.settings.memory_mb


def swept(stack: LocalStack) -> str:
    s3, key = stack.client("s3"), "events/_blizzard/events_landing_sweep.json"
    if not s3.list_objects_v2(Bucket=stack.lake, Prefix=key).get("KeyCount"):
        return ""
    report: str = s3.get_object(Bucket=stack.lake, Key=key)["Body"].read().decode()
    return report
