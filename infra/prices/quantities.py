"""What the shipped stack uses, counted in its template and its code."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from blizzard.sweep.commit_counts import CommitCounts
from functions.dispatcher.report import OF_TOPICS
from functions.sweeper.composition import RoundCounts
from functions.sweeper.report import commit_metrics_of, metrics_of
from infra.template.code_facts import CodeFacts
from infra.template.translate import Template

HOURS, DAYS_SECS = 730, 86_400
MINUTES = {"minute": 1, "minutes": 1, "hour": 60}
POLLERS, POLL_SECS = 5, 20
"""Lambda polls a queue with five long polls at a time, however little there is."""
SWEEP_REQUESTS = 10
"""LIST, PUT and GET requests of one sweep of a source with seven open folders. Without a file for a day no sweep lists
a folder whole, however its files are named."""


@dataclass(frozen=True, slots=True)
class Quantities:
    """Counts, per month where the name has no other unit."""

    alarm_metrics: int
    idle_metrics: int
    busy_metrics: int
    """Those that are written only while files come."""
    dashboards: int
    queues: int
    fifo_queues: int
    sweeps: int
    dispatches: int
    sweeper_gb: float
    dispatcher_gb: float
    collector_gb: float
    batching_secs: int
    wake_secs: int

    @property
    def polls_of_a_queue(self) -> int:
        return HOURS * 3600 // POLL_SECS * POLLERS


def count_quantities(template: Template, code: CodeFacts) -> Quantities:
    """`template`: translated, with its defaults. The dispatcher publishes each metric with two dimensions."""
    resources = template["Resources"].values()
    polled = [
        template["Resources"][_target(r["Properties"]["EventSourceArn"])]["Properties"]
        for r in resources
        if r["Type"] == "AWS::Lambda::EventSourceMapping"
    ]
    fifo = sum(bool(queue.get("FifoQueue")) for queue in polled)
    defaults = {name: parameter.get("Default") for name, parameter in template["Parameters"].items()}
    return Quantities(
        alarm_metrics=_alarm_metrics(resources),
        idle_metrics=len(metrics_of(RoundCounts())) + 2 * len({*code.metrics["dispatcher"]} - OF_TOPICS),
        busy_metrics=len(code.metrics["collector"]) + len(commit_metrics_of(CommitCounts())) + _filtered(resources),
        dashboards=sum(r["Type"] == "AWS::CloudWatch::Dashboard" for r in resources),
        queues=len(polled) - fifo,
        fifo_queues=fifo,
        sweeps=_invocations(defaults["SweepSchedule"]),
        dispatches=_invocations(defaults["DispatchSchedule"]),
        sweeper_gb=_memory_gb(template, "SweeperFunction"),
        dispatcher_gb=_memory_gb(template, "DispatcherFunction"),
        collector_gb=_memory_gb(template, "CollectorFunction"),
        batching_secs=int(defaults["BatchingWindowSecs"]),
        wake_secs=int(defaults["WakeWindowSecs"]),
    )


def _alarm_metrics(resources: Iterable[Mapping[str, Any]]) -> int:
    """An alarm on an expression is billed for each metric that the expression reads."""
    alarms = [r["Properties"] for r in resources if r["Type"] == "AWS::CloudWatch::Alarm"]
    return sum(sum("MetricStat" in part for part in alarm.get("Metrics", ())) or 1 for alarm in alarms)


def _filtered(resources: Iterable[Mapping[str, Any]]) -> int:
    """Metrics that are taken from logs, without those of topics, which have dimensions."""
    filters = [r["Properties"] for r in resources if r["Type"] == "AWS::Logs::MetricFilter"]
    made = [one for each in filters for one in each["MetricTransformations"]]
    return len({one["MetricName"] for one in made if "Dimensions" not in one})


def _invocations(schedule: str) -> int:
    found = re.fullmatch(r"rate\((\d+) (\w+)\)", schedule)
    if found is None:
        raise ValueError(f"expected a default such as rate(5 minutes), found {schedule}")
    return HOURS * 60 // (int(found[1]) * MINUTES[found[2]])


def _memory_gb(template: Template, function: str) -> float:
    return float(template["Resources"][function]["Properties"]["MemorySize"]) / 1024


def _target(value: Mapping[str, Any]) -> str:
    return str(value["Fn::GetAtt"][0])
