"""Rules about alarms, the dashboard, and the runbook that explains them."""

import json
import re
from collections.abc import Iterator
from typing import Any

from infra.template.delivery import FUNCTION, MAPPING, QUEUE
from infra.template.findings import Found
from infra.template.stack import Stack, references, written

ALARM = "AWS::CloudWatch::Alarm"
FILTER = "AWS::Logs::MetricFilter"
NAMESPACE = "Blizzard/${AWS::StackName}"
"""Of each stack its own, or two of one account and region would alarm for each other."""
NAMESPACE_VARIABLE = "POWERTOOLS_METRICS_NAMESPACE"
SEE = re.compile(r"See docs/runbook\.md#([\w-]+)$")


def alarms_say_where_to_look(stack: Stack) -> Found:
    sections = _sections(stack.runbook)
    for name, alarm in stack.of_type(ALARM).items():
        text = alarm.get("AlarmDescription", "")
        link = SEE.search(text)
        if "Look first at" not in text:
            yield name, "its description does not say what to look at first; write: Look first at …"
        if link is None:
            yield name, "its description does not end in: See docs/runbook.md#its-section"
        elif name not in sections.get(link[1], ""):
            yield name, f"docs/runbook.md has no section {link[1]} that names it; write one"


def runbook_sections_have_an_alarm(stack: Stack) -> Found:
    alarms = stack.of_type(ALARM)
    linked = {link[1] for alarm in alarms.values() if (link := SEE.search(alarm.get("AlarmDescription", "")))}
    for anchor, body in _sections(stack.runbook).items():
        named = re.findall(r"`(\w+Alarm)`", body)
        if named and anchor not in linked:
            yield named[0], f"docs/runbook.md#{anchor} explains it, and no alarm leads there"


def alarms_tell_somebody(stack: Stack) -> Found:
    has_topic = "AlarmTopicArn" in references(stack.of_type(ALARM))
    for name, alarm in stack.of_type(ALARM).items():
        if has_topic and "AlarmTopicArn" not in references(alarm.get("AlarmActions", [])):
            yield name, "it tells nobody; set AlarmActions to AlarmTopicArn, as the others do"
        if "TreatMissingData" not in alarm:
            yield name, "nobody has thought of what it means when there are no data; set TreatMissingData"


def what_is_put_aside_is_watched(stack: Stack) -> Found:
    """A queue that no function reads is for people, who have to hear of what is in it."""
    read = references([mapping["EventSourceArn"] for mapping in stack.of_type(MAPPING).values()])
    watched = references([metrics_of(alarm) for alarm in stack.of_type(ALARM).values()])
    for name in sorted(stack.of_type(QUEUE).keys() - read - watched):
        yield name, "nobody hears of what is in it; add an alarm"


def watched_metrics_exist(stack: Stack) -> Found:
    """What alarms and dashboard show of ours is emitted by the code or by a filter of the job's log."""
    filtered = [t for _, t in _transformations(stack) if written(t["MetricNamespace"]) == NAMESPACE]
    emitted: set[tuple[str, str | None]] = {(t["MetricName"], None) for t in filtered}
    emitted |= {(name, service) for service, names in stack.code.metrics.items() for name in names}
    shown = [(where, m) for where, alarm in stack.of_type(ALARM).items() for m in metrics_of(alarm)]
    shown += [(where, m) for where, body in _dashboards(stack) for m in _shown(body)]
    for where, (namespace, name, dimensions) in shown:
        found = (name, dimensions.get("service"))
        if namespace == NAMESPACE and found not in emitted:
            yield where, f"nothing emits {name} of {found[1] or 'the job'}; expected it in a handler or a metric filter"


def metrics_are_the_stacks_own(stack: Stack) -> Found:
    named = [(where, m[0]) for where, alarm in stack.of_type(ALARM).items() for m in metrics_of(alarm)]
    named += [(where, m[0]) for where, body in _dashboards(stack) for m in _shown(body)]
    named += [(where, written(t["MetricNamespace"])) for where, t in _transformations(stack)]
    for where, function in stack.of_type(FUNCTION).items():
        variables = function.get("Environment", {}).get("Variables", {})
        named.append((where, written(variables.get(NAMESPACE_VARIABLE, ""))))
    for where, namespace in named:
        if namespace != NAMESPACE and not namespace.startswith("AWS/"):
            yield where, f"expected metrics in the namespace {NAMESPACE}, found {namespace or 'none'}"


def the_job_logs_what_is_filtered(stack: Stack) -> Found:
    for where, properties in stack.of_type(FILTER).items():
        event = re.fullmatch(r'\{ \$\.event = "(\w+)" \}', properties["FilterPattern"])
        fields = {t["MetricValue"].removeprefix("$.") for t in properties["MetricTransformations"]}
        logged = stack.code.job_events.get(event[1]) if event else None
        if logged is None or not fields <= logged:
            yield where, f"the job logs no {properties['FilterPattern']} with {', '.join(sorted(fields))}"


def the_dashboard_shows_every_alarm(stack: Stack) -> Found:
    for where, body in _dashboards(stack):
        shown = {arn for widget in body["widgets"] for arn in widget["properties"].get("alarms", ())}
        for name in stack.of_type(ALARM):
            if f"${{{name}.Arn}}" not in shown:
                yield where, f"it does not show {name}; add it to the alarms"


Metric = tuple[str, str, dict[str, Any]]
"""Namespace, name, dimensions."""


def metrics_of(alarm: dict[str, Any]) -> list[Metric]:
    """What an alarm looks at, one metric or several."""
    stats = [query["MetricStat"]["Metric"] for query in alarm.get("Metrics", ()) if "MetricStat" in query]
    return [
        (written(m["Namespace"]), m["MetricName"], {d["Name"]: d["Value"] for d in m.get("Dimensions", ())})
        for m in stats or [alarm]
    ]


def _transformations(stack: Stack) -> Iterator[tuple[str, dict[str, Any]]]:
    for where, properties in stack.of_type(FILTER).items():
        yield from ((where, transformation) for transformation in properties["MetricTransformations"])


def _dashboards(stack: Stack) -> Iterator[tuple[str, dict[str, Any]]]:
    for where, properties in stack.of_type("AWS::CloudWatch::Dashboard").items():
        yield where, json.loads(written(properties["DashboardBody"]))


def _shown(body: dict[str, Any]) -> Iterator[Metric]:
    for widget in body["widgets"]:
        for row in widget["properties"].get("metrics", ()):
            namespace, name, *rest = [part for part in row if isinstance(part, str)]
            yield namespace, name, dict(zip(rest[::2], rest[1::2], strict=True))


def _sections(markdown: str) -> dict[str, str]:
    """By anchor, as GitHub makes it of a heading of the second level."""
    parts = re.split(r"^## (.+)$", markdown, flags=re.MULTILINE)
    return {_anchor(heading): body for heading, body in zip(parts[1::2], parts[2::2], strict=True)}


def _anchor(heading: str) -> str:
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


RULES = (
    alarms_say_where_to_look,
    runbook_sections_have_an_alarm,
    alarms_tell_somebody,
    what_is_put_aside_is_watched,
    watched_metrics_exist,
    metrics_are_the_stacks_own,
    the_job_logs_what_is_filtered,
    the_dashboard_shows_every_alarm,
)
