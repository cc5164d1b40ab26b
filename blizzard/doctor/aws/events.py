"""Checks of the way of an event: from the bucket by the queue to the collector."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from blizzard.doctor.aws.stack import Landing, Stack, matches, statements, texts
from blizzard.doctor.check import Check, Finding, ok, problem, warning

CREATED = "s3:ObjectCreated:*"
SEND = "sqs:SendMessage"
MIN_RECEIVES = 5
"""With fewer, a short outage moves messages to the dead-letter queue."""
SENDERS = {"create": "s3.amazonaws.com", "attach": "s3.amazonaws.com", "eventbridge": "events.amazonaws.com"}
SENDERS["sns"] = "sns.amazonaws.com"
MISSED = "docs/runbook.md#a-sweep-found-missed-files"


@dataclass(frozen=True, slots=True)
class LandingOfStack:
    stack: Stack
    landing: Landing

    @property
    def queue_arn(self) -> str:
        return self.stack.outputs["EventsQueueArn"]


# --- A landing bucket ---


def _notifications(place: LandingOfStack) -> Finding:
    bucket = place.landing.bucket
    found = place.stack.client("s3").get_bucket_notification_configuration(Bucket=bucket)
    if place.landing.mode == "eventbridge":
        return _eventbridge(place, found)
    if place.landing.mode == "sns":
        return _topic(place, found)
    entries = [each for each in found.get("QueueConfigurations", ()) if each["QueueArn"] == place.queue_arn]
    return _entries(place, entries, f"a notification of the queue {place.queue_arn}")


def _entries(place: LandingOfStack, entries: Sequence[Mapping[str, Any]], expected: str) -> Finding:
    wanted = place.stack.prefixes_in(place.landing.bucket) or [place.landing.prefix]
    missing = [prefix for prefix in wanted if not any(_announces(entry, prefix) for entry in entries)]
    if not missing:
        return ok(f"objects below {', '.join(wanted) or 'the root'} are announced")
    shown = "; ".join(map(_describe, entries)) or "no such notification"
    return problem(
        f"{shown}, so nothing announces objects below {', '.join(missing)}",
        expected=f"{expected} for {CREATED}, whose prefix is that of the source or shorter, without a suffix",
        advice=f"somebody replaced the bucket's notifications, or LandingPrefix is too narrow: {MISSED}. Sweeps find "
        "the files until then",
    )


def _announces(entry: Mapping[str, Any], prefix: str) -> bool:
    rules = _rules(entry)
    return CREATED in entry["Events"] and not rules.get("suffix") and prefix.startswith(rules.get("prefix", ""))


def _rules(entry: Mapping[str, Any]) -> dict[str, str]:
    """S3 compares the encoded key, and answers `Prefix` for `prefix`."""
    rules = entry.get("Filter", {}).get("Key", {}).get("FilterRules", ())
    return {rule["Name"].lower(): unquote(rule["Value"]) for rule in rules}


def _describe(entry: Mapping[str, Any]) -> str:
    rules = [f"{name} {value!r}" for name, value in _rules(entry).items()]
    return f"a notification for {', '.join(entry['Events'])}" + (f" with {', '.join(rules)}" if rules else "")


def _eventbridge(place: LandingOfStack, found: Mapping[str, Any]) -> Finding:
    if "EventBridgeConfiguration" not in found:
        return problem(
            "the bucket does not send to EventBridge",
            expected='the setting "Send notifications to Amazon EventBridge"',
            advice=f"switch it on; see {MISSED}. Sweeps find the files until then",
        )
    return _rule(place.stack, place.landing.rule, place.queue_arn)


def _rule(stack: Stack, logical_id: str, target_arn: str) -> Finding:
    events, name = stack.client("events"), stack.physical(logical_id).rpartition("|")[2]
    state = events.describe_rule(Name=name)["State"]
    targets = [target["Arn"] for target in events.list_targets_by_rule(Rule=name)["Targets"]]
    if state == "ENABLED" and target_arn in targets:
        return ok(f"the rule {name} is enabled")
    return problem(
        f"the rule {name} is {state}, its targets are {', '.join(targets) or 'none'}",
        expected=f"an enabled rule with the target {target_arn}",
        advice=f"aws events enable-rule --name {name}; its target: docs/runbook.md#what-somebody-changed-by-hand",
    )


def _topic(place: LandingOfStack, found: Mapping[str, Any]) -> Finding:
    topic = place.stack.parameters["LandingTopicArn"]
    entries = [each for each in found.get("TopicConfigurations", ()) if each["TopicArn"] == topic]
    answer = _entries(place, entries, f"a notification of the topic {topic}")
    if answer.expected:
        return answer
    pages = place.stack.client("sns").get_paginator("list_subscriptions_by_topic").paginate(TopicArn=topic)
    if any(each["Endpoint"] == place.queue_arn for page in pages for each in page["Subscriptions"]):
        return answer
    return problem(
        f"the queue does not subscribe to {topic}",
        expected="the subscription that the stack makes",
        advice="docs/runbook.md#what-somebody-changed-by-hand; see docs/deploy.md#a-bucket-that-another-stack-owns",
    )


def _queue_policy(place: LandingOfStack) -> Finding:
    sender = SENDERS[place.landing.mode]
    source = _source_arn(place)
    policy = place.stack.queue("EventsQueueUrl").get("Policy")
    if any(_lets_send(each, sender, source) for each in statements(policy)):
        return ok(f"{sender} may send for {source}")
    return problem(
        f"the policy of the queue does not let {sender} send for {source}",
        expected="the policy that the stack gives its queue",
        advice="docs/runbook.md#what-somebody-changed-by-hand; with another AttachAgain if the bucket is attached",
    )


def _source_arn(place: LandingOfStack) -> str:
    if place.landing.mode == "sns":
        return place.stack.parameters["LandingTopicArn"]
    if place.landing.mode == "eventbridge":
        name = place.stack.physical(place.landing.rule).rpartition("|")[2]
        return str(place.stack.client("events").describe_rule(Name=name)["Arn"])
    partition = place.queue_arn.split(":")[1]
    return f"arn:{partition}:s3:::{place.landing.bucket}"


def _lets_send(statement: Mapping[str, Any], sender: str, source_arn: str) -> bool:
    principal = statement.get("Principal", {})
    senders = [principal] if isinstance(principal, str) else texts(principal.get("Service"))
    actions = texts(statement.get("Action"))
    conditions = statement.get("Condition", {}).values()
    sources = [each for one in conditions for each in texts(one.get("aws:SourceArn"))]
    return (
        statement["Effect"] == "Allow"
        and any(matches(each, sender) for each in senders)
        and any(matches(each.lower(), SEND.lower()) for each in actions)
        and (not sources or any(matches(each, source_arn) for each in sources))
    )


# --- The queues ---


def _redrive(stack: Stack) -> Finding:
    found = json.loads(stack.queue("EventsQueueUrl").get("RedrivePolicy") or "{}")
    target, receives = found.get("deadLetterTargetArn"), int(found.get("maxReceiveCount") or 0)
    if target == stack.outputs["EventsDeadLetterQueueArn"] and receives >= MIN_RECEIVES:
        return ok(f"after {receives} receives a message moves to the dead-letter queue")
    return problem(
        f"its dead-letter queue is {target or 'none'}, after {receives} receives",
        expected=f"{stack.outputs['EventsDeadLetterQueueArn']}, after {MIN_RECEIVES} or more",
        advice="docs/runbook.md#what-somebody-changed-by-hand",
    )


def _empty(output: str, section: str) -> Callable[[Stack], Finding]:
    """A check that a queue, of which this is the output with its URL, is empty."""

    def look(stack: Stack) -> Finding:
        found = stack.queue(output)
        count = sum(int(found.get(f"ApproximateNumberOfMessages{kind}", 0)) for kind in ("", "NotVisible"))
        if not count:
            return ok("it is empty")
        return warning(f"about {count:,} messages are in it", expected="none", advice=f"docs/runbook.md#{section}")

    return look


def _event_sources(stack: Stack) -> Finding:
    """Of collector and dispatcher. That of the dispatcher is off in a paused stack."""
    wanted = [("CollectorFunctionName", stack.outputs["EventsQueueArn"])]
    if not stack.is_paused:
        wanted.append(("DispatcherFunctionName", stack.queue("WakeQueueUrl")["QueueArn"]))
    wrong = [text for output, queue in wanted for text in _mapping_problems(stack, stack.outputs[output], queue)]
    if not wrong:
        return ok("queues invoke their functions")
    return problem(
        "; ".join(wrong),
        expected="an enabled event source mapping for each queue",
        advice="aws lambda update-event-source-mapping --uuid … --enabled: docs/runbook.md#events-wait-too-long",
    )


def _mapping_problems(stack: Stack, function: str, queue_arn: str) -> Iterator[str]:
    found = stack.client("lambda").list_event_source_mappings(FunctionName=function)["EventSourceMappings"]
    ours = [each for each in found if each["EventSourceArn"] == queue_arn]
    if not ours:
        yield f"nothing takes messages of {queue_arn} to {function}"
    for each in ours:
        if each["State"] not in ("Enabled", "Enabling", "Creating", "Updating"):
            yield f"the mapping {each['UUID']} of {function} is {each['State']}"


def _regions(stack: Stack) -> Finding:
    """S3 sends to queues of the bucket's region alone, and traffic between regions is charged."""
    buckets = dict.fromkeys([*(each.bucket for each in stack.landings()), stack.parameters["LakeBucketName"]])
    wrong = [f"{bucket} is in {where}" for bucket in buckets if (where := _region_of(stack, bucket)) != stack.region]
    if not wrong:
        return ok(f"stack and buckets are in {stack.region}")
    return problem(
        f"the stack is in {stack.region}, but {', '.join(wrong)}",
        expected="one region",
        advice="deploy the stack in the region of its buckets",
    )


def _region_of(stack: Stack, bucket: str) -> str:
    found = stack.client("s3").get_bucket_location(Bucket=bucket).get("LocationConstraint")
    return str({None: "us-east-1", "EU": "eu-west-1"}.get(found, found))


LANDING_CHECKS: Sequence[Check[LandingOfStack]] = (
    Check("aws.notifications", _notifications),
    Check("aws.queue-policy", _queue_policy),
)
CHECKS: Sequence[Check[Stack]] = (
    Check("aws.regions", _regions, needs=("aws.stack",)),
    Check("aws.redrive", _redrive, needs=("aws.stack",)),
    Check("aws.event-sources", _event_sources, needs=("aws.stack",)),
    *(
        Check(f"aws.{name}", _empty(output, section), needs=("aws.stack",))
        for name, output, section in (
            ("events-dead-letters", "EventsDeadLetterQueueUrl", "dead-letter-queue-of-the-events"),
            ("wake-dead-letters", "WakeDeadLetterQueueUrl", "dead-letter-queue-of-the-wake-ups"),
            ("failed-invocations", "FailedInvocationsQueueUrl", "failed-invocations"),
        )
    ),
)
