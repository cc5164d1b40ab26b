"""Ships log lines of functions and job runs to CloudWatch Logs, to files, and to metrics."""

import queue
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import IO, Any

from botocore.exceptions import BotoCoreError, ClientError  # type: ignore[import-untyped]

from blizzard.log import Log
from infra.local.logs.metrics import MetricFilter, emf_data, filter_data, matches

SHIP_EVERY_SECS = 0.3
MAX_EVENTS = 5_000
Clients = Callable[[str, str], Any]
"""Called with service and principal; returns a boto3 client."""


class LogShipping:
    """Ships what `add` gets, in a thread. `close` ships the rest."""

    def __init__(self, folder: Path, client: Clients, log: Log) -> None:
        self._folder = folder
        self._client = client
        self._log = log
        self._lines: queue.SimpleQueue[tuple[str, str, str, str, int] | None] = queue.SimpleQueue()
        self._streams: set[tuple[str, str]] = set()
        self._files: dict[str, IO[str]] = {}
        self._filters: dict[str, list[MetricFilter]] = {}
        self._listeners: list[tuple[str, Callable[[str], None]]] = []
        self._thread = threading.Thread(target=self._run, name="log-shipping", daemon=True)
        folder.mkdir(parents=True, exist_ok=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        self._lines.put(None)
        if self._thread.is_alive():
            self._thread.join(10)
        for file in self._files.values():
            file.close()

    def listen(self, group: str, listener: Callable[[str], None]) -> None:
        """Call `listener` with each further line of a log group, in the thread that calls `add`."""
        self._listeners.append((group, listener))

    def add(self, principal: str, group: str, stream: str, line: str) -> None:
        for listened_group, listener in self._listeners:
            if listened_group == group:
                listener(line)
        self._lines.put((principal, group, stream, line, int(time.time() * 1000)))

    def use_filters(self, filters: Iterable[MetricFilter]) -> None:
        by_group: dict[str, list[MetricFilter]] = defaultdict(list)
        for found in filters:
            try:
                matches(found.pattern, {})
                by_group[found.log_group].append(found)
            except ValueError as error:
                self._log("metric_filter_not_run", group=found.log_group, error=str(error))
        self._filters = by_group

    def _run(self) -> None:
        is_open = True
        while is_open:
            batch, is_open = self._take()
            for (principal, group, stream), events in batch.items():
                try:
                    self._ship(principal, group, stream, events)
                except (BotoCoreError, ClientError) as error:
                    self._log("log_shipping_failed", group=group, stream=stream, error=repr(error))

    def _take(self) -> tuple[dict[tuple[str, str, str], list[dict[str, Any]]], bool]:
        batch: dict[tuple[str, str, str], list[dict[str, Any]]] = defaultdict(list)
        deadline = time.monotonic() + SHIP_EVERY_SECS
        for _ in range(MAX_EVENTS):
            try:
                item = self._lines.get(timeout=max(0.0, deadline - time.monotonic()))
            except queue.Empty:
                break
            if item is None:
                return batch, False
            principal, group, stream, line, ts_ms = item
            self._write(group, line)
            if line:
                batch[principal, group, stream].append({"timestamp": ts_ms, "message": line})
        return batch, True

    def _write(self, group: str, line: str) -> None:
        name = group.strip("/").replace("/", "-")
        if name not in self._files:
            self._files[name] = (self._folder / f"{name}.log").open("a", buffering=1)
        self._files[name].write(line + "\n")

    def _ship(self, principal: str, group: str, stream: str, events: list[dict[str, Any]]) -> None:
        logs = self._client("logs", principal)
        if (group, stream) not in self._streams:
            logs.create_log_stream(logGroupName=group, logStreamName=stream)
            self._streams.add((group, stream))
        logs.put_log_events(logGroupName=group, logStreamName=stream, logEvents=events)
        lines = [str(event["message"]) for event in events]
        data = [datum for line in lines for datum in emf_data(line)]
        data += [
            datum for found in self._filters.get(group, []) for line in lines for datum in filter_data(found, line)
        ]
        for namespace, metrics in _by_namespace(data).items():
            self._client("cloudwatch", "logs").put_metric_data(Namespace=namespace, MetricData=metrics)


def _by_namespace(data: Iterable[tuple[str, dict[str, Any]]]) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for namespace, datum in data:
        found[namespace].append(datum)
    return found
