"""What the last probe of the stack has found: it tries the job's rights as the job."""

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from blizzard.config.spark_settings import LOG_STORES
from blizzard.doctor.aws.stack import Stack
from blizzard.doctor.check import Check, Finding, ok, problem, warning
from blizzard.doctor.state import DAY_SECS, age

EVENT = '"event": "probed"'
STREAMS = "probe-"
"""How the names of a probe's log streams begin."""
LOOKED_BACK_SECS = 90 * DAY_SECS
MAX_PAGES = 100


def _probe(stack: Stack) -> Finding:
    line = max(_lines(stack), key=lambda each: str(each.get("ts", "")), default=None)
    command = f"make probe STACK={stack.name}"
    if line is None:
        return warning(
            f"no probe has logged anything within {age(LOOKED_BACK_SECS)}",
            expected="a probe: it tries each right as the job's role, and the storage's promises",
            advice=f"{command}; see docs/deploy.md#the-probe",
        )
    wrong = list(_wrong(line))
    if not wrong:
        return ok(f"the last one, of {line.get('ts')}, found nothing wrong")
    return problem(
        f"the last one, of {line.get('ts')}: {'; '.join(wrong[:5])}",
        expected="a probe that finds nothing wrong",
        advice=f"correct it, then {command}; docs/deploy.md#what-each-field-means",
    )


def _lines(stack: Stack) -> Iterator[Mapping[str, Any]]:
    logs = stack.client("logs")
    start_ms = int((stack.clock() - LOOKED_BACK_SECS) * 1000)
    pages = logs.get_paginator("filter_log_events").paginate(
        logGroupName=stack.outputs["JobLogGroupName"], logStreamNamePrefix=STREAMS, startTime=start_ms
    )
    for page in islice(pages, MAX_PAGES):
        for event in page.get("events", ()):
            for line in str(event["message"]).splitlines():
                if EVENT in line:
                    yield json.loads(line[line.index("{") :])


def _wrong(line: Mapping[str, Any]) -> Iterator[str]:
    for one in (line.get("rights") or {}).get("denied", ()):
        yield f"{one['action']} on {one['resource']} failed: {one['error']}"
    for check, error in (line.get("failed") or {}).items():
        yield f"{check} failed: {error}"
    for scheme, store in (line.get("log_store") or {}).items():
        if store != LOG_STORES.get(scheme):
            yield f"the log of {scheme}:// is written with {store}"
    written = line.get("written") or {}
    for name in ("second_put_refused", "second_commit_refused"):
        if written.get(name) is False:
            yield f"{name} is false: two writers can win one commit"


CHECKS: Sequence[Check[Stack]] = (Check("aws.probe", _probe, needs=("aws.stack",)),)
