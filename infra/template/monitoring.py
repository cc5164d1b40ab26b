"""Rules about alarms, the dashboard, and the runbook that explains them."""

import json
import re
from collections.abc import Iterator
from typing import Any

from infra.template.evaluated import EvaluatedTemplate, as_text
from infra.template.findings import RuleFindings
from infra.template.queues import FUNCTION, MAPPING, QUEUE
from infra.template.references import references

ALARM = "AWS::CloudWatch::Alarm"
WITHOUT_DATA = "InsufficientDataActions"
FILTER = "AWS::Logs::MetricFilter"
NAMESPACE = "Blizzard/${AWS::StackName}"
"""One per stack: two stacks in one account and region must not trigger each other's alarms."""
NAMESPACE_VARIABLE = "POWERTOOLS_METRICS_NAMESPACE"
SEE = re.compile(r"See docs/runbook\.md#([\w-]+)$")


def alarms_link_to_the_runbook(stack: EvaluatedTemplate) -> RuleFindings:
    sections = _sections(stack.runbook)
    for name, alarm in stack.of_type(ALARM).items():
        text = alarm.get("AlarmDescription", "")
        link = SEE.search(text)
        if "Look first at" not in text:
            yield name, "its description does not say where to look first; write: Look first at …"
        if link is None:
            yield name, "its description does not end in: See docs/runbook.md#its-section"
        elif name not in sections.get(link[1], ""):
            yield name, f"docs/runbook.md has no section {link[1]} that names it; write one"


def runbook_sections_have_an_alarm(stack: EvaluatedTemplate) -> RuleFindings:
    alarms = stack.of_type(ALARM)
    linked = {link[1] for alarm in alarms.values() if (link := SEE.search(alarm.get("AlarmDescription", "")))}
    for anchor, body in _sections(stack.runbook).items():
        named = re.findall(r"`(\w+Alarm)`", body)
        if named and anchor not in linked:
            yield named[0], f"docs/runbook.md#{anchor} explains it, but no alarm links there"


def alarms_notify(stack: EvaluatedTemplate) -> RuleFindings:
    has_topic = "AlarmTopicArn" in references(stack.of_type(ALARM))
    for name, alarm in stack.of_type(ALARM).items():
        if has_topic and "AlarmTopicArn" not in references(alarm.get("AlarmActions", [])):
            yield name, "it has no action; set AlarmActions to AlarmTopicArn, as the others do"
        missing = alarm.get("TreatMissingData")
        if missing is None:
            yield name, "missing data has no defined meaning; set TreatMissingData"
        elif missing == "breaching":
            yield name, "it would fire before a new stack has data; set TreatMissingData: missing, and what it notifies"
        elif missing == "missing" and has_topic and "AlarmTopicArn" not in references(alarm.get(WITHOUT_DATA, [])):
            yield name, "nobody learns that its data are missing; set InsufficientDataActions to AlarmTopicArn"


def unread_queues_have_an_alarm(stack: EvaluatedTemplate) -> RuleFindings:
    """A queue that no function reads needs a person, whom an alarm has to notify."""
    read = references([mapping["EventSourceArn"] for mapping in stack.of_type(MAPPING).values()])
    watched = references([metrics_of(alarm) for alarm in stack.of_type(ALARM).values()])
    for name in sorted(stack.of_type(QUEUE).keys() - read - watched):
        yield name, "no alarm watches its messages; add one"


def watched_metrics_exist(stack: EvaluatedTemplate) -> RuleFindings:
    """Our metrics in alarms and on the dashboard are emitted by a handler or by a metric filter."""
    filtered = [t for _, t in _transformations(stack) if as_text(t["MetricNamespace"]) == NAMESPACE]
    emitted: set[tuple[str, str | None]] = {(t["MetricName"], None) for t in filtered}
    emitted |= {(name, service) for service, names in stack.code.metrics.items() for name in names}
    shown = [(where, m) for where, alarm in stack.of_type(ALARM).items() for m in metrics_of(alarm)]
    shown += [(where, m) for where, body in _dashboards(stack) for m in _shown(body)]
    for where, (namespace, name, dimensions) in shown:
        found = (name, dimensions.get("service"))
        if namespace == NAMESPACE and found not in emitted:
            yield where, f"nothing emits {name} of {found[1] or 'the job'}; expected it in a handler or a metric filter"


def alarms_do_not_read_the_log(stack: EvaluatedTemplate) -> RuleFindings:
    """A line of the driver's output need not be one log event, so a metric filter may miss it."""
    filtered = {t["MetricName"] for _, t in _transformations(stack)}
    for where, alarm in stack.of_type(ALARM).items():
        for namespace, name, dimensions in metrics_of(alarm):
            if namespace == NAMESPACE and name in filtered and "service" not in dimensions:
                yield where, f"it reads {name} of the job's log; expected a metric that a function emits from the state"


def metrics_are_the_stacks_own(stack: EvaluatedTemplate) -> RuleFindings:
    named = [(where, m[0]) for where, alarm in stack.of_type(ALARM).items() for m in metrics_of(alarm)]
    named += [(where, m[0]) for where, body in _dashboards(stack) for m in _shown(body)]
    named += [(where, as_text(t["MetricNamespace"])) for where, t in _transformations(stack)]
    for where, function in stack.of_type(FUNCTION).items():
        variables = function.get("Environment", {}).get("Variables", {})
        named.append((where, as_text(variables.get(NAMESPACE_VARIABLE, ""))))
    for where, namespace in named:
        if namespace != NAMESPACE and not namespace.startswith("AWS/"):
            yield where, f"expected metrics in the namespace {NAMESPACE}, found {namespace or 'none'}"


def the_job_logs_the_filtered_events(stack: EvaluatedTemplate) -> RuleFindings:
    for where, properties in stack.of_type(FILTER).items():
        event = re.fullmatch(r'\{ \$\.event = "(\w+)" \}', properties["FilterPattern"])
        made = properties["MetricTransformations"]
        fields = {t["MetricValue"].removeprefix("$.") for t in made}
        fields |= {d["Value"].removeprefix("$.") for t in made for d in t.get("Dimensions", ())}
        logged = stack.code.job_events.get(event[1]) if event else None
        if logged is None or not fields <= logged:
            yield where, f"the job logs no {properties['FilterPattern']} with {', '.join(sorted(fields))}"


def the_dashboard_shows_every_alarm(stack: EvaluatedTemplate) -> RuleFindings:
    for where, body in _dashboards(stack):
        shown = {arn for widget in body["widgets"] for arn in widget["properties"].get("alarms", ())}
        for name in stack.of_type(ALARM):
            if f"${{{name}.Arn}}" not in shown:
                yield where, f"it does not show {name}; add it to the alarms"


Metric = tuple[str, str, dict[str, Any]]
"""Namespace, name, dimensions."""


def metrics_of(alarm: dict[str, Any]) -> list[Metric]:
    """All metrics of an alarm."""
    stats = [query["MetricStat"]["Metric"] for query in alarm.get("Metrics", ()) if "MetricStat" in query]
    return [
        (as_text(m["Namespace"]), m["MetricName"], {d["Name"]: d["Value"] for d in m.get("Dimensions", ())})
        for m in stats or [alarm]
    ]


def _transformations(stack: EvaluatedTemplate) -> Iterator[tuple[str, dict[str, Any]]]:
    for where, properties in stack.of_type(FILTER).items():
        yield from ((where, transformation) for transformation in properties["MetricTransformations"])


def _dashboards(stack: EvaluatedTemplate) -> Iterator[tuple[str, dict[str, Any]]]:
    for where, properties in stack.of_type("AWS::CloudWatch::Dashboard").items():
        yield where, json.loads(as_text(properties["DashboardBody"]))


def _shown(body: dict[str, Any]) -> Iterator[Metric]:
    for widget in body["widgets"]:
        for row in widget["properties"].get("metrics", ()):
            parts = [part for part in row if isinstance(part, str)]
            if parts:  # an expression has none
                namespace, name, *rest = parts
                yield namespace, name, dict(zip(rest[::2], rest[1::2], strict=True))


def _sections(markdown: str) -> dict[str, str]:
    """The text of each second-level section, by its anchor on GitHub."""
    parts = re.split(r"^## (.+)$", markdown, flags=re.MULTILINE)
    return {_anchor(heading): body for heading, body in zip(parts[1::2], parts[2::2], strict=True)}


def _anchor(heading: str) -> str:
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


RULES = (
    alarms_link_to_the_runbook,
    runbook_sections_have_an_alarm,
    alarms_notify,
    unread_queues_have_an_alarm,
    watched_metrics_exist,
    alarms_do_not_read_the_log,
    metrics_are_the_stacks_own,
    the_job_logs_the_filtered_events,
    the_dashboard_shows_every_alarm,
)
