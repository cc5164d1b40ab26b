"""The line of a probe in CloudWatch Logs."""

import time
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from blizzard.doctor.aws.probe_line import EVENT, line_of
from infra.deployed.calls import Clients, translating
from infra.probe.run import POLL_SECS, log_prefix

LAST_LINES = 5
MAX_PAGES = 100
CLOCK_SECS = 3600.0
"""How wrong this machine's clock may be. The log of a month takes long to search."""


@dataclass(frozen=True, slots=True)
class Found:
    """`line`: None if it has not arrived. `secs`: from its print to its arrival. `last_lines`: without a line, the last
    ones of the run; empty if none at all has arrived."""

    line: dict[str, Any] | None = None
    secs: float | None = None
    last_lines: tuple[str, ...] = ()


def wait_for_line(
    clients: Clients, group: str, probe_id: str, *, since_ts: float, max_secs: float, expected: bool
) -> Found:
    """Looks until the line is there. `since_ts`: the start of the run, by this machine's clock. `expected`: if the run
    has failed, any lines are enough, which may say why."""
    logs, deadline = clients.client("logs"), time.monotonic() + max_secs
    while True:
        with translating("logs:FilterLogEvents", f"the log group {group}"):
            found = find_line(_events(logs, group, log_prefix(probe_id), since_ts), probe_id)
        if found.line is not None or (found.last_lines and not expected) or time.monotonic() >= deadline:
            return found
        time.sleep(min(POLL_SECS, max_secs))


def _events(logs: Any, group: str, prefix: str, since_ts: float) -> list[dict[str, Any]]:
    """Of all streams of the run, however the service names them after the prefix."""
    start_ms = int((since_ts - CLOCK_SECS) * 1000)
    request: dict[str, Any] = {"logGroupName": group, "logStreamNamePrefix": prefix, "startTime": start_ms}
    events: list[dict[str, Any]] = []
    for _ in range(MAX_PAGES):
        page = logs.filter_log_events(**request)
        events += page.get("events", ())
        if not page.get("nextToken"):
            break
        request["nextToken"] = page["nextToken"]
    return events


def find_line(events: Sequence[Mapping[str, Any]], probe_id: str) -> Found:
    by_stream: dict[str, list[str]] = defaultdict(list)
    for event in events:
        by_stream[str(event.get("logStreamName"))].append(str(event["message"]))
    for messages in by_stream.values():
        if (line := line_of(messages, probe_id)) is not None:
            return Found(line, _secs_until_arrival(line, events))
    return Found(last_lines=_last_lines(by_stream.values()))


def _secs_until_arrival(line: Mapping[str, Any], events: Iterable[Mapping[str, Any]]) -> float | None:
    """Both times are AWS's: the driver's clock, and the one of CloudWatch Logs."""
    arrived_ms = [int(event.get("ingestionTime") or 0) for event in events if EVENT in str(event["message"])]
    if not arrived_ms or not all(arrived_ms):
        return None
    printed_ts = datetime.fromisoformat(line["ts"]).timestamp()
    return round(max(0.0, min(arrived_ms) / 1000 - printed_ts), 1)


def _last_lines(streams: Iterable[Sequence[str]]) -> tuple[str, ...]:
    """Those that say something is wrong, else whatever came last. Java frames explain little."""
    lines = [line.strip() for messages in streams for message in messages for line in message.splitlines()]
    said = [line for line in lines if line and not line.startswith(("at ", "... "))]
    wrong = [line for line in said if "error" in line.lower() or "exception" in line.lower() or "blizzard:" in line]
    return tuple(line[:500] for line in (wrong or said)[-LAST_LINES:])
