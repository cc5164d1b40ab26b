"""Checks of who would notice that something is wrong."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from blizzard.doctor.aws.stack import Stack
from blizzard.doctor.check import Check, Finding, ok, problem, warning

ALARM = "AWS::CloudWatch::Alarm"
NAMES_PER_CALL = 100
_SECTION = re.compile(r"docs/runbook\.md#[a-z0-9-]+")


def _found(stack: Stack) -> list[Mapping[str, Any]]:
    names, cloudwatch = _names(stack), stack.client("cloudwatch")
    return [
        alarm
        for start in range(0, len(names), NAMES_PER_CALL)
        for alarm in cloudwatch.describe_alarms(AlarmNames=names[start : start + NAMES_PER_CALL])["MetricAlarms"]
    ]


def _names(stack: Stack) -> list[str]:
    return [physical for kind, physical in stack.resources.values() if kind == ALARM]


def _alarms(stack: Stack) -> Finding:
    found = {alarm["AlarmName"]: alarm for alarm in _found(stack)}
    wrong = [f"{name} is gone" for name in _names(stack) if name not in found]
    wrong += [f"the actions of {name} are off" for name, alarm in found.items() if not alarm["ActionsEnabled"]]
    if not wrong:
        return ok(f"{len(found)} alarms")
    return problem(
        "; ".join(wrong),
        expected="every alarm of the template, with its actions",
        advice="aws cloudwatch enable-alarm-actions --alarm-names …; one that is gone: "
        "docs/runbook.md#what-somebody-changed-by-hand",
    )


def _told(stack: Stack) -> Finding:
    silent = [alarm["AlarmName"] for alarm in _found(stack) if not alarm.get("AlarmActions")]
    advice = "deploy with AlarmTopicArn, the ARN of an SNS topic: docs/deploy.md#what-is-created"
    if silent:
        return warning(
            f"{len(silent)} alarms tell nobody, such as {silent[0]}", expected="a topic for each alarm", advice=advice
        )
    topics = {action for alarm in _found(stack) for action in alarm["AlarmActions"] if ":sns:" in action}
    unheard = [topic for topic in sorted(topics) if not _has_reader(stack, topic)]
    if not unheard:
        return ok("somebody is told")
    return warning(
        f"nobody has subscribed to {', '.join(unheard)}",
        expected="a confirmed subscription",
        advice=f"aws sns subscribe --topic-arn {unheard[0]} --protocol email --notification-endpoint …, and confirm it",
    )


def _has_reader(stack: Stack, topic: str) -> bool:
    pages = stack.client("sns").get_paginator("list_subscriptions_by_topic").paginate(TopicArn=topic)
    return any(
        each["SubscriptionArn"] not in ("PendingConfirmation", "Deleted")
        for page in pages
        for each in page["Subscriptions"]
    )


def _states(stack: Stack) -> Finding:
    ringing = [alarm for alarm in _found(stack) if alarm["StateValue"] == "ALARM"]
    if not ringing:
        return ok("no alarm is on")
    sections = (_SECTION.search(alarm.get("AlarmDescription", "")) for alarm in ringing)
    return problem(
        f"{', '.join(alarm['AlarmName'] for alarm in ringing)} {'is' if len(ringing) == 1 else 'are'} on",
        expected="no alarm",
        advice=", ".join(section[0] for section in sections if section) or "docs/runbook.md",
    )


CHECKS: Sequence[Check[Stack]] = (
    Check("aws.alarms", _alarms, needs=("aws.stack",)),
    Check("aws.alarm-topic", _told, needs=("aws.alarms",)),
    Check("aws.alarm-states", _states, needs=("aws.alarms",)),
)
