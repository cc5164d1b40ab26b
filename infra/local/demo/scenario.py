"""The scenario: files land, the job is killed in the middle of a batch, then a file of each kind of problem lands."""

import argparse
import json
import queue
import sys
import textwrap
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape

from blizzard.cli.source_status import source_status
from blizzard.environment import set_variables, variables
from blizzard.errors import BlizzardError, ConfigError
from blizzard.state.dead_letters import DeadLetters
from blizzard.storage.s3 import S3Store
from blizzard.storage.s3_connection import S3Settings
from infra.local.demo import data
from infra.local.demo.audited import Beside, audit
from infra.local.demo.reconcile import Reconciliation, read_source, reconcile
from infra.local.demo.view import Figures, View
from infra.local.deploy.checks import check_folder
from infra.local.processes.checkout import CHECKOUT
from infra.local.stack.local_stack import LocalStack, local_stack

FOLDER = CHECKOUT / "build" / "demo"
PREFIX = "raw-events/"
STATE_PREFIX = "_blizzard/events_landing"
SEED = 20240128
TIMEOUT_SECS = 240.0
PAUSE_SECS = 0.2
REFRESH_EVERY_SECS = 2.0
SCHEDULES_EVERY_SECS = 5.0
"""Faster than on AWS, where a schedule fires at most once a minute."""
FAST_PARAMETERS = {"WakeWindowSecs": "1", "BatchingWindowSecs": "1", "BackoffSecs": "1"}

CONFIG = """\
pipelines:
  events:
    table_uri: s3://lake/events
    linger_secs: 20
    partition_by: [date]
    sources:
      landing:
        uri: s3://landing/raw-events/
        pattern: "**/*.{ndjson.gz,csv,json,parquet}"
        schema: "id STRING NOT NULL, timestamp BIGINT, value DOUBLE, payload STRING"
        new_fields: add
        misfits: rescue
        format: mixed
        mixed:
          - {pattern: "**/*.csv", format: csv}
          - {pattern: "**/*.json", format: json}
          - {pattern: "**/*.parquet", format: parquet}
          - {pattern: "**", format: ndjson}
        partition_columns: {date: date}
        partition_filter: {prefix_template: "date=%Y-%m-%d", lookback: 7}
        checkpoint: {interval_files: 30, interval_secs: 1}
        settle_delay_secs: 2
        sweep: {interval_secs: 3, late_interval_secs: 20}
"""


@dataclass(slots=True)
class Demo:
    """The state of one run."""

    stack: LocalStack
    view: View
    events: "queue.SimpleQueue[dict[str, Any]]" = field(default_factory=queue.SimpleQueue)
    """Log events of the job and the sweeper, as they arrive."""
    figures: Figures = field(default_factory=Figures)
    started: float = field(default_factory=time.monotonic)
    timeout_secs: float = TIMEOUT_SECS
    """After this time the demo stops waiting, and reconciles."""
    schedules_fired_at: float = 0.0
    refreshed_at: float = 0.0
    batch_started_at: float | None = None
    """When the uncommitted batch was planned; None without one."""
    killed: str | None = None
    """The id of the killed run."""
    runs: dict[str, str] = field(default_factory=dict)

    @property
    def s3(self) -> Any:
        return self.stack.client("s3")

    @property
    def in_time(self) -> bool:
        return time.monotonic() - self.started < self.timeout_secs

    def add_line(self, line: str) -> None:
        if line.startswith("{"):
            self.events.put(json.loads(line))


def run() -> int:
    parser = argparse.ArgumentParser(prog="python -m infra.local.demo", description="The demo.")
    parser.add_argument("--folder", type=Path, default=FOLDER, help="for logs and other files (default: build/demo)")
    timeout_help = f"reconcile after this many seconds at the latest (default: {TIMEOUT_SECS:g})"
    parser.add_argument("--timeout-secs", type=float, default=TIMEOUT_SECS, help=timeout_help)
    options = parser.parse_args()
    folder = options.folder.absolute()
    try:
        if folder != FOLDER:
            check_folder(folder)
        with ExitStack() as stack:
            beside, secs = _run(stack, folder, options.timeout_secs)
    except KeyboardInterrupt:
        return 130
    except ConfigError as error:
        for problem in error.problems:
            print(f"demo: {problem}", file=sys.stderr)
        return 2
    except BlizzardError as error:
        Console(stderr=True).print(escape(f"demo: {error}"))
        return 1
    console = Console(highlight=False, soft_wrap=True)
    console.print()
    for line in (*beside.own.lines(), "", *beside.lines()):
        console.print(escape(wrap_line(line, console.width) if console.is_terminal else line))
    is_good = beside.own.good and beside.agree
    bad = "NOT GOOD" if beside.agree else "NOT GOOD: blizzard audit does not agree"
    summary = "nothing missing, nothing doubled" if is_good else bad
    console.print(f"{summary}, in {secs:.0f} s", style="bold green" if is_good else "bold red")
    return 0 if is_good else 1


def wrap_line(line: str, width: int) -> str:
    """Break between words only."""
    wrapper = textwrap.TextWrapper(
        width, subsequent_indent="    ", break_long_words=False, break_on_hyphens=False, drop_whitespace=True
    )
    return wrapper.fill(line)


def _run(stack: ExitStack, folder: Path, timeout_secs: float) -> tuple[Beside, float]:
    view = stack.enter_context(View())
    started = time.monotonic()
    config = folder.with_name(f"{folder.name}.yaml")
    config.parent.mkdir(parents=True, exist_ok=True)
    config.write_text(CONFIG)
    running = stack.enter_context(
        local_stack(config, parameters=FAST_PARAMETERS, folder=folder, report_progress=view.print)
    )
    set_variables(running.aws.environment())
    demo = Demo(running, view, started=started, timeout_secs=timeout_secs)
    running.listen("job", demo.add_line)
    running.listen("sweeper", demo.add_line)
    _drop(demo, data.first_wave(time.time(), SEED))
    _kill_during_batch(demo)
    _drop(demo, data.second_wave(time.time(), SEED))
    own = _wait_for_result(demo)
    demo.view.print("blizzard audit compares the same files and rows")
    beside = Beside(own, audit(config, {**variables(), **running.aws.environment()}))
    return beside, time.monotonic() - demo.started


def _drop(demo: Demo, drops: Iterable[data.Drop]) -> None:
    count = 0
    for drop in drops:
        demo.stack.drop(drop.path, drop.body, event=drop.events > 0)
        if drop.events == 2:
            _send_event_again(demo, PREFIX + drop.path, len(drop.body))
        demo.figures.seen += 1
        count += 1
        if drop.what != "plain":
            demo.view.print(f"dropped {drop.path}: {drop.what}")
    demo.view.print(f"dropped {count} files")


def _send_event_again(demo: Demo, key: str, size: int) -> None:
    landing = demo.stack.landing
    etag = demo.s3.head_object(Bucket=landing, Key=key)["ETag"].strip('"')
    record = {
        "eventVersion": "2.1",
        "eventSource": "aws:s3",
        "eventName": "ObjectCreated:Put",
        "eventTime": time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime()),
        "s3": {"bucket": {"name": landing}, "object": {"key": key, "size": size, "eTag": etag, "sequencer": "00"}},
    }
    url = demo.stack.resources["EventsQueue"]
    demo.stack.client("sqs").send_message(QueueUrl=url, MessageBody=json.dumps({"Records": [record]}))


def _kill_during_batch(demo: Demo) -> None:
    """Let the job commit once, then kill it when the next batch is read but not committed."""
    for event in _events(demo):
        if event.get("event") == "batch_read" and event["sequence"] >= 1:
            demo.killed = demo.stack.kill_run()
            demo.figures.rows_per_sec = None
            demo.view.print(f"killed the Spark job in the middle of batch {event['sequence']}; the dispatcher's turn")
            return
    raise BlizzardError(
        f"the Spark job did not reach its second batch in time; see the logs in {demo.stack.folder / 'logs'}"
    )


def _events(demo: Demo) -> Iterator[Mapping[str, Any]]:
    """Events as they arrive, with an empty one after each pause. Also fires schedules and refreshes the view."""
    while demo.in_time:
        _fire_schedules(demo)
        if time.monotonic() - demo.refreshed_at >= REFRESH_EVERY_SECS:
            demo.refreshed_at = time.monotonic()
            _refresh(demo)
            _print_run_changes(demo)
        while not demo.events.empty():
            event = demo.events.get()
            _handle_event(demo, event)
            yield event
        yield {}
        time.sleep(PAUSE_SECS)


def _fire_schedules(demo: Demo) -> None:
    if time.monotonic() - demo.schedules_fired_at >= SCHEDULES_EVERY_SECS:
        demo.schedules_fired_at = time.monotonic()
        for schedule in ("SweepScheduled", "DispatchScheduled"):
            demo.stack.fire(schedule)


def _print_run_changes(demo: Demo) -> None:
    for run in reversed(demo.stack.runs()):
        if run["id"] not in demo.runs:
            demo.view.print(f"the dispatcher started run {len(demo.runs) + 1}")
            demo.view.print("Spark is starting (20 s or more)")
        elif demo.runs[run["id"]] != run["state"] and run["state"] in ("SUCCESS", "FAILED"):
            demo.figures.rows_per_sec = None
            demo.view.print(f"a run ended: {run['state']}{' (it was killed)' if run['id'] == demo.killed else ''}")
        demo.runs[run["id"]] = run["state"]


def _handle_event(demo: Demo, event: Mapping[str, Any]) -> None:
    figures = demo.figures
    name = event.get("event") or event.get("message")
    if name == "batch_planned":
        demo.batch_started_at = time.monotonic()
    elif name == "batch_committed":
        figures.committed_files += event["files"] - event["dead_files"]
        figures.committed_rows += event["rows"]
        figures.dead_files += event["dead_files"]
        if demo.batch_started_at is not None:
            figures.rows_per_sec = event["rows"] / max(0.1, time.monotonic() - demo.batch_started_at)
        demo.batch_started_at = None
        demo.view.print(f"committed batch {event['sequence']}: {event['files']} files, {event['rows']} rows")
    elif name in ("source_failed", "race_lost", "state_repaired"):
        demo.view.print(f"{name}: {event.get('error', '')}")
    elif name == "sweeps_done" and event["FilesFound"]:
        demo.view.print(f"the sweep found {event['FilesFound']} files that no event had announced yet")


def _refresh(demo: Demo) -> None:
    status = source_status(
        _lake(demo),
        pipeline="events",
        source="landing",
        state_prefix=STATE_PREFIX,
        table_uri="s3://lake/events",
        now_ts=time.time(),
    )
    figures = demo.figures
    figures.pending, figures.sequence = status.backlog_files, status.sequence
    figures.watermarks = status.partition_watermarks
    if not status.backlog_files and demo.batch_started_at is None:
        figures.rows_per_sec = None
    demo.view.update(figures)


def _lake(demo: Demo) -> S3Store:
    return S3Store(demo.stack.lake, "events/", S3Settings.from_environment(demo.stack.aws.environment()))


def _wait_for_result(demo: Demo) -> Reconciliation:
    """Wait until everything is ingested and idle, or until the timeout; then reconcile."""
    checked = 0.0
    for _ in _events(demo):
        if time.monotonic() - checked >= 2:
            checked = time.monotonic()
            if _is_idle(demo) and _reconcile(demo).good:
                break
    return _reconcile(demo)


def _is_idle(demo: Demo) -> bool:
    """The queue and the backlog are empty, so no duplicate can still arrive."""
    names = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
    url = demo.stack.resources["EventsQueue"]
    found = demo.stack.client("sqs").get_queue_attributes(QueueUrl=url, AttributeNames=names)["Attributes"]
    return demo.figures.pending == 0 and not any(int(found[name]) for name in names)


def _reconcile(demo: Demo) -> Reconciliation:
    letters = list(DeadLetters(_lake(demo), STATE_PREFIX, "events:landing").letters())
    options = demo.stack.aws.environment() | {"AWS_ALLOW_HTTP": "true"}
    return reconcile(read_source(_objects(demo), "id"), "s3://lake/events", options, letters)


def _objects(demo: Demo) -> Iterator[tuple[str, bytes]]:
    s3 = demo.s3
    for page in s3.get_paginator("list_objects_v2").paginate(Bucket=demo.stack.landing, Prefix=PREFIX):
        for found in page.get("Contents", []):
            body = s3.get_object(Bucket=demo.stack.landing, Key=found["Key"])["Body"].read()
            yield found["Key"].removeprefix(PREFIX), body
