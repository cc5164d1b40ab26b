"""The deployed stack as its users see it: files go in, rows come out, and what happens in between can be disturbed."""

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
from blizzard.dispatch.decide import examined_marks
from blizzard.dispatch.run_records import RunLog
from blizzard.state.dead_letters import DeadLetters
from blizzard.storage.s3 import S3Store
from blizzard.storage.s3_connection import S3Settings
from infra.local.demo.verdict import Verdict, judge, read_source
from infra.local.stack.local_stack import LocalStack

PREFIX = "raw-events/"
STATE_PREFIX = "_blizzard/events_landing"
COLUMNS = ["id", "n"]
ACTIVE = frozenset({"SUBMITTED", "QUEUED", "PENDING", "SCHEDULED", "RUNNING", "CANCELLING"})
PATIENCE_SECS = 600.0
"""For a stack on a machine that does much else; what comes sooner is not waited for."""

CONFIG = """\
pipelines:
  events:
    table_uri: s3://lake/events
    partition_by: [date]
    sources:
      landing:
        uri: s3://landing/raw-events/
        pattern: "**/*.ndjson.gz"
        schema: "id STRING NOT NULL, n BIGINT"
        partition_columns: {{date: date}}
        checkpoint: {{interval_files: {interval_files}, interval_secs: 1}}
        settle_delay_secs: 0
        sweep: {{interval_secs: 1, late_interval_secs: 1}}
"""
SOON = {"BatchingWindowSecs": "1", "WakeWindowSecs": "1", "BackoffSecs": "1"}
"""The shortest waits that the template allows."""
NOBODY_LOOKS = {"DispatchSchedule": "rate(365 days)", "SweepSchedule": "rate(365 days)"}
"""Schedules fire when a test says so."""


@dataclass
class StackWorld:
    """One deployed stack."""

    stack: LocalStack
    bodies: dict[str, bytes] = field(default_factory=dict)
    """Everything that was ever dropped, by path."""
    numbers: Iterator[int] = field(default_factory=lambda: iter(range(1, 1_000_000)))

    # What lands

    def drop(self, day: str, files: int = 1, *, rows: int = 2, event: bool = True) -> list[str]:
        """Files of this day, each with `rows` records; their paths."""
        paths = [f"date={day}/{next(self.numbers):06d}.ndjson.gz" for _ in range(files)]
        for path in paths:
            records = ({"id": f"{path}-{row}", "n": row} for row in range(rows))
            body = gzip.compress("".join(f"{json.dumps(record)}\n" for record in records).encode(), mtime=0)
            self.stack.drop(path, body, event=event)
            self.bodies[path] = body
        return paths

    # What is there

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

    def verdict(self) -> Verdict:
        """Every record that was dropped against every row of the table."""
        letters = list(DeadLetters(self.lake, STATE_PREFIX, "events:landing").letters())
        options = {**self.stack.aws.environment(), "AWS_ALLOW_HTTP": "true"}
        table = f"s3://{self.stack.lake}/events"
        return judge(read_source(self.bodies.items(), "id"), table, options, letters, COLUMNS)

    def messages(self, logical_id: str) -> int:
        """In a queue, whether visible, delayed or with somebody."""
        names = ["", "NotVisible", "Delayed"]
        wanted = [f"ApproximateNumberOfMessages{name}" for name in names]
        url = self.stack.resources[logical_id]
        found = self.stack.client("sqs").get_queue_attributes(QueueUrl=url, AttributeNames=wanted)["Attributes"]
        return sum(int(found[name]) for name in wanted)

    def active_runs(self) -> list[dict[str, Any]]:
        return [run for run in self.stack.runs() if run["state"] in ACTIVE]

    def runs_since(self, ts: float) -> list[dict[str, Any]]:
        """The oldest first."""
        found = [run for run in self.stack.runs() if _seconds(run["createdAt"]) >= ts]
        return sorted(found, key=lambda run: _seconds(run["createdAt"]))

    # What can be held up

    @contextmanager
    def runs_held(self) -> Iterator[None]:
        """Runs are asked for, and none starts before the end of the block."""
        self.stack.run_control.may_start.clear()
        try:
            yield
        finally:
            self.stack.run_control.may_start.set()

    @contextmanager
    def run_stopped(self) -> Iterator[None]:
        """The driver of the run that is under way gets no time until the end of the block; without it the run does not
        get on. Not its whole group: a process that is being made meanwhile may stay stopped for good."""
        self.until(lambda: len(self._drivers()) == 1)
        (driver,) = self._drivers()
        os.kill(driver, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(driver, signal.SIGCONT)

    def _drivers(self) -> list[int]:
        """What supervisors have started by now, each the leader of a process group."""
        found = []
        for process in list(self.stack.jobs._running.values()):
            with suppress(FileNotFoundError, ProcessLookupError):
                for child in Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split():
                    found += [int(child)] if os.getpgid(int(child)) == int(child) else []
        return found

    # What one waits for

    def until(self, true: Callable[[], bool]) -> None:
        """A condition that does not come about is a failure."""
        deadline = time.monotonic() + PATIENCE_SECS
        while not true():
            assert time.monotonic() < deadline, f"it did not come about within {PATIENCE_SECS:g} s\n{self.diagnosis()}"
            time.sleep(0.2)

    def all_in(self) -> Verdict:
        """Wait until nothing waits anywhere and no run is active; then every record of the source is judged."""
        self.until(self.told)
        self.until(lambda: not self.active_runs() and not self.waits())
        return self.verdict()

    def told(self) -> bool:
        """Whether each event has come to the manifest, and each wake to the dispatcher."""
        return self.messages("EventsQueue") == 0 and self.messages("WakeQueue") == 0

    def waits(self) -> bool:
        """Whether there is a backlog as the dispatcher sees it: duplicates that a run has looked at are none."""
        config = self.stack.parameters["ConfigKey"]
        text = self.stack.client("s3").get_object(Bucket="artifacts", Key=config)["Body"].read().decode()
        latest = RunLog(self.lake, "events", new_id=str).latest()
        pipeline = read_published(text, config).pipelines["events"]
        return read_backlog(self.lake, pipeline, examined_marks(latest)).needs_run

    def announced(self, files: int) -> None:
        """Wait until so many files are pending or ingested."""
        self.until(lambda: self.status().backlog_files >= files)

    def diagnosis(self) -> str:
        """What a person would look at when it does not come about."""
        names = ("collector", "dispatcher", "sweeper", "job")
        logs = "\n".join(f"--- {name}\n{self.stack.logs(name)[-1500:]}" for name in names)
        states = [(run["id"], run["state"], run.get("stateDetails")) for run in self.stack.runs()]
        return f"runs: {states}\nbacklog: {self.status().backlog_files}\n{logs}"


class Ticking:
    """Fires a schedule every second, as a shorter rate than the service has would."""

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
