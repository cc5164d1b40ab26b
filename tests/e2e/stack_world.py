"""A deployed stack for tests: they drop files, disturb its parts, and compare its rows."""

import gzip
import json
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Any

from blizzard.cli.source_status import SourceStatus, source_status
from blizzard.config.published import read_published
from blizzard.dispatch.backlog import read_backlog
from blizzard.dispatch.decide import examined_positions
from blizzard.dispatch.run_records import RunLog
from blizzard.dispatch.topic_backlog import RunTimes
from blizzard.state.dead_letters import DeadLetters
from blizzard.storage.s3 import S3Store
from blizzard.storage.s3_connection import S3Settings
from infra.local.demo.reconcile import Reconciliation, read_source, reconcile
from infra.local.stack.local_stack import LocalStack

PREFIX = "raw-events/year=2026/"
"""With a character that a notification's filter needs encoded."""
STATE_PREFIX = "_blizzard/events_landing"
COLUMNS = ["id", "n"]
ACTIVE = frozenset({"SUBMITTED", "QUEUED", "PENDING", "SCHEDULED", "RUNNING", "CANCELLING"})
TIMEOUT_SECS = 600.0
"""Long, for a busy machine. No test waits longer than it has to."""
POLL_SECS = 0.5
"""Conditions ask the local AWS; asked more often, it would spend the time of what is waited for."""

CONFIG = """\
pipelines:
  events:
    table_uri: s3://lake/events
    partition_by: [date]
    sources:
      landing:
        uri: s3://landing/raw-events/year=2026/
        pattern: "**/*.ndjson.gz"
        schema: "id STRING NOT NULL, n BIGINT"
        partition_columns: {{date: date}}
        checkpoint: {{interval_files: {interval_files}, interval_secs: 1}}
        settle_delay_secs: 0
        sweep: {{interval_secs: 1, late_interval_secs: 1}}
"""
FAST_PARAMETERS = {"BatchingWindowSecs": "1", "WakeWindowSecs": "1", "BackoffSecs": "1"}
"""The shortest waits that the template allows."""
SCHEDULES_OFF = {"DispatchSchedule": "rate(365 days)", "SweepSchedule": "rate(365 days)"}
"""Schedules fire only when a test fires them."""


@dataclass
class StackWorld:
    """One deployed stack."""

    stack: LocalStack
    bodies: dict[str, bytes] = field(default_factory=dict)
    """Every dropped file, by path."""
    numbers: Iterator[int] = field(default_factory=lambda: iter(range(1, 1_000_000)))

    # Files

    def drop(self, day: str, files: int = 1, *, rows: int = 2, event: bool = True) -> list[str]:
        """Drop files of `rows` records each into the folder of `day`. Returns their paths."""
        paths = [f"date={day}/{next(self.numbers):06d}.ndjson.gz" for _ in range(files)]
        for path in paths:
            records = ({"id": f"{path}-{row}", "n": row} for row in range(rows))
            body = gzip.compress("".join(f"{json.dumps(record)}\n" for record in records).encode(), mtime=0)
            self.stack.drop(path, body, event=event)
            self.bodies[path] = body
        return paths

    def drop_lines(self, path: str, *lines: str, cut_bytes: int = 0) -> None:
        """Drop one gzip file of these lines, without its last bytes if `cut_bytes`."""
        body = gzip.compress("".join(f"{line}\n" for line in lines).encode(), mtime=0)
        self.bodies[path] = body[: len(body) - cut_bytes]
        self.stack.drop(path, self.bodies[path])

    # State

    @cached_property
    def lake(self) -> S3Store:
        return S3Store(self.stack.lake, "events/", S3Settings.from_environment(self.stack.aws.environment()))

    def status(self) -> SourceStatus:
        return source_status(
            self.lake,
            pipeline="events",
            source="landing",
            state_prefix=STATE_PREFIX,
            table_uri=f"s3://{self.stack.lake}/events",
            now_ts=time.time(),
        )

    def verdict(self) -> Reconciliation:
        """Compare every dropped record with every row of the table."""
        letters = list(DeadLetters(self.lake, STATE_PREFIX, "events:landing").letters())
        options = {**self.stack.aws.environment(), "AWS_ALLOW_HTTP": "true"}
        table = f"s3://{self.stack.lake}/events"
        return reconcile(read_source(self.bodies.items(), "id"), table, options, letters, COLUMNS)

    def messages(self, logical_id: str) -> int:
        """The number of messages in a queue: visible, delayed, or in flight."""
        names = ["", "NotVisible", "Delayed"]
        wanted = [f"ApproximateNumberOfMessages{name}" for name in names]
        url = self.stack.resources[logical_id]
        found = self.stack.client("sqs").get_queue_attributes(QueueUrl=url, AttributeNames=wanted)["Attributes"]
        return sum(int(found[name]) for name in wanted)

    def active_runs(self) -> list[dict[str, Any]]:
        return [run for run in self.stack.runs() if run["state"] in ACTIVE]

    def runs_since(self, ts: float) -> list[dict[str, Any]]:
        """Oldest first."""
        found = [run for run in self.stack.runs() if _seconds(run["createdAt"]) >= ts]
        return sorted(found, key=lambda run: _seconds(run["createdAt"]))

    # Disturbances

    @contextmanager
    def runs_on_hold(self) -> Iterator[None]:
        """Runs are requested, but none starts before the end of the block."""
        self.stack.run_control.may_start.clear()
        try:
            yield
        finally:
            self.stack.run_control.may_start.set()

    @contextmanager
    def driver_stopped(self) -> Iterator[None]:
        """Stop the driver of the active run until the end of the block, so that the run makes no progress.

        Not its process group: a process that is just being forked could stay stopped forever.
        """
        self.until(lambda: len(self._drivers()) == 1)
        (driver,) = self._drivers()
        os.kill(driver, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(driver, signal.SIGCONT)

    def _drivers(self) -> list[int]:
        """The process group leaders that supervisors have started."""
        found = []
        for process in list(self.stack.jobs._running.values()):
            with suppress(FileNotFoundError, ProcessLookupError):
                for child in Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split():
                    found += [int(child)] if os.getpgid(int(child)) == int(child) else []
        return found

    # Waiting

    def until(self, condition: Callable[[], bool]) -> None:
        """Wait for a condition. Fails after TIMEOUT_SECS."""
        deadline = time.monotonic() + TIMEOUT_SECS
        while not condition():
            assert time.monotonic() < deadline, (
                f"the condition did not hold within {TIMEOUT_SECS:g} s\n{self.diagnosis()}"
            )
            time.sleep(POLL_SECS)

    def wait_until_ingested(self) -> Reconciliation:
        """Wait until all queues and the backlog are empty and no run is active. Returns the verdict."""
        self.until(self.queues_are_empty)
        self.until(lambda: not self.active_runs() and not self.has_backlog())
        return self.verdict()

    def queues_are_empty(self) -> bool:
        """Whether all events are in the manifest, and all wake-ups at the dispatcher."""
        return self.messages("EventsQueue") == 0 and self.messages("WakeQueue") == 0

    def has_backlog(self) -> bool:
        """Whether the dispatcher sees a backlog. Duplicates that a run has already seen do not count."""
        config = self.stack.parameters["ConfigKey"]
        text = self.stack.client("s3").get_object(Bucket="artifacts", Key=config)["Body"].read().decode()
        latest = RunLog(self.lake, "events", new_id=str).latest()
        pipeline = read_published(text, config).pipelines["events"]
        return read_backlog(self.lake, pipeline, examined_positions(latest), RunTimes(time.time())).needs_run

    def wait_for_pending(self, files: int) -> None:
        """Wait until at least `files` files are pending."""
        self.until(lambda: self.status().backlog_files >= files)

    def diagnosis(self) -> str:
        """Runs, backlog and logs, for the error text of a timeout."""
        names = ("collector", "dispatcher", "sweeper", "job")
        logs = "\n".join(f"--- {name}\n{self.stack.logs(name)[-1500:]}" for name in names)
        states = [(run["id"], run["state"], run.get("stateDetails")) for run in self.stack.runs()]
        return f"runs: {states}\nbacklog: {self.status().backlog_files}\n{logs}"


class ScheduleTicker:
    """Fires a schedule every second, more often than EventBridge Scheduler can."""

    def __init__(self, stack: LocalStack, logical_id: str) -> None:
        self._stack = stack
        self._logical_id = logical_id
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._tick, daemon=True)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _tick(self) -> None:
        while not self._over.wait(1):
            self._stack.fire(self._logical_id)


def _seconds(when: datetime) -> float:
    return when.timestamp()
