"""What the last probe of the stack has found: it tries the job's rights as the job."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from blizzard.doctor.aws.probe_line import line_of, line_problems
from blizzard.doctor.aws.stack import Stack
from blizzard.doctor.check import Check, Finding, ok, problem, warning
from blizzard.doctor.state import DAY_SECS, age

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
    wrong = [f"{one.check}: {one.found}" for one in line_problems(line)]
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
    by_stream: dict[str, list[str]] = defaultdict(list)
    for page in islice(pages, MAX_PAGES):
        for event in page.get("events", ()):
            by_stream[str(event.get("logStreamName"))].append(str(event["message"]))
    yield from filter(None, map(line_of, by_stream.values()))


CHECKS: Sequence[Check[Stack]] = (Check("aws.probe", _probe, needs=("aws.stack",)),)
