"""Rules about queues, event sources, and undeliverable messages."""

from collections.abc import Iterator
from typing import Any

from infra.template.evaluated import EvaluatedTemplate, as_list, as_text
from infra.template.findings import RuleFindings
from infra.template.references import references

QUEUE = "AWS::SQS::Queue"
FUNCTION = "AWS::Lambda::Function"
MAPPING = "AWS::Lambda::EventSourceMapping"
RULE = "AWS::Events::Rule"
SUBSCRIPTION = "AWS::SNS::Subscription"
ATTACHED = "Custom::LandingNotification"
LARGEST_BATCH_WITHOUT_WINDOW = 10
MIN_RECEIVES = 5
MIN_CONCURRENCY = 2
ATTEMPTS_WITHIN_VISIBILITY = 6
"""AWS recommends six times the function's timeout: Lambda retries a throttled invocation before it returns a batch."""


def messages_stay_hidden_while_they_are_processed(stack: EvaluatedTemplate) -> RuleFindings:
    for name, mapping, queue, function in _mappings(stack):
        window = stack.largest(mapping.get("MaximumBatchingWindowInSeconds", 0))
        needed = ATTEMPTS_WITHIN_VISIBILITY * stack.largest(function.get("Timeout", 3)) + window
        found = stack.smallest(queue.get("VisibilityTimeout", 30))
        if found < needed:
            expected = f"at least {needed:g}, 6 times the function's timeout and the longest window"
            yield name, f"VisibilityTimeout: expected {expected}, found {found:g}; raise it"


def large_batches_have_a_window(stack: EvaluatedTemplate) -> RuleFindings:
    for name, mapping, _, _ in _mappings(stack):
        large = stack.largest(mapping.get("BatchSize", 10)) > LARGEST_BATCH_WITHOUT_WINDOW
        if large and stack.smallest(mapping.get("MaximumBatchingWindowInSeconds", 0)) < 1:
            yield name, "a BatchSize above 10 needs a MaximumBatchingWindowInSeconds of at least 1; set it"


def pollers_are_bounded(stack: EvaluatedTemplate) -> RuleFindings:
    for name, mapping, _, _ in _mappings(stack):
        found = mapping.get("ScalingConfig", {}).get("MaximumConcurrency", 0)
        if stack.smallest(found) < MIN_CONCURRENCY:
            yield name, f"expected a MaximumConcurrency of at least {MIN_CONCURRENCY}, found {found}; set it"


def one_bad_message_fails_alone(stack: EvaluatedTemplate) -> RuleFindings:
    for name, mapping, _, _ in _mappings(stack):
        if "ReportBatchItemFailures" not in mapping.get("FunctionResponseTypes", ()):
            yield (
                name,
                "one failed message fails its whole batch; set FunctionResponseTypes: [ReportBatchItemFailures]",
            )


def failed_messages_go_to_a_dead_letter_queue(stack: EvaluatedTemplate) -> RuleFindings:
    """Each queue that a function reads has a dead-letter queue of the same type with at least the same retention."""
    queues = stack.of_type(QUEUE)
    for name in {as_text(mapping["EventSourceArn"]) for mapping in stack.of_type(MAPPING).values()}:
        source = name.removeprefix("${").removesuffix(".Arn}")
        redrive = queues[source].get("RedrivePolicy", {})
        target = next(iter(references(redrive.get("deadLetterTargetArn")) & queues.keys()), None)
        if target is None:
            yield source, "it has no dead-letter queue in this template; set RedrivePolicy"
            continue
        if redrive.get("maxReceiveCount", 0) < MIN_RECEIVES:
            yield source, f"expected a maxReceiveCount of at least {MIN_RECEIVES}: Lambda's scaling alone receives"
        if queues[target].get("FifoQueue", False) != queues[source].get("FifoQueue", False):
            yield target, f"{source} and its dead-letter queue must both be FIFO queues, or both not"
        if _retention_secs(queues[target]) < _retention_secs(queues[source]):
            yield target, f"it keeps messages for a shorter time than {source}; raise MessageRetentionPeriod"


def failed_invocations_go_to_a_queue(stack: EvaluatedTemplate) -> RuleFindings:
    """Schedules and rules need a dead-letter queue, and the functions that they invoke a destination on failure."""
    targets = [(name, p["Target"]) for name, p in stack.of_type("AWS::Scheduler::Schedule").items()]
    targets += [(name, target) for name, p in stack.of_type(RULE).items() for target in p["Targets"]]
    for name, target in targets:
        if not references(target.get("DeadLetterConfig", {})) & stack.of_type(QUEUE).keys():
            yield name, "undeliverable events are lost; set DeadLetterConfig to a queue of this template"
        if "RetryPolicy" not in target:
            yield name, "it retries for a day by default; set RetryPolicy"
    invoked = {function for _, target in targets for function in references(target["Arn"])}
    for function in sorted(invoked & stack.of_type(FUNCTION).keys()):
        if not _destination(stack, function):
            yield function, "an asynchronous invocation that fails is lost; set EventInvokeConfig with OnFailure"


def queues_are_encrypted_and_require_tls(stack: EvaluatedTemplate) -> RuleFindings:
    sealed = {
        queue
        for policy in stack.of_type("AWS::SQS::QueuePolicy").values()
        for queue in references(policy["Queues"])
        if denies_plain_http(policy["PolicyDocument"])
    }
    for name, queue in stack.of_type(QUEUE).items():
        if not (queue.get("SqsManagedSseEnabled") is True or queue.get("KmsMasterKeyId")):
            yield name, "it is not encrypted; set SqsManagedSseEnabled: true"
        if name not in sealed:
            yield name, "it can be reached without TLS; deny that in a queue policy (aws:SecureTransport)"


def queues_accept_this_account_only(stack: EvaluatedTemplate) -> RuleFindings:
    """The ARN of a rule or of a topic contains the account; a bucket's does not, and needs aws:SourceAccount too."""
    topics = {name for it in stack.of_type(SUBSCRIPTION).values() for name in references(it["TopicArn"])}
    exact = stack.of_type(RULE).keys() | topics
    for name, policy in stack.of_type("AWS::SQS::QueuePolicy").items():
        for statement in policy["PolicyDocument"]["Statement"]:
            condition = statement.get("Condition", {})
            named = "aws:SourceArn" in str(condition) and "aws:SourceAccount" in str(condition)
            sources = as_list(condition.get("ArnEquals", {}).get("aws:SourceArn"))
            only_ours = sources and all(references(source) & exact for source in sources)
            if statement["Effect"] == "Allow" and not (named or only_ours):
                needed = "aws:SourceArn to a rule or topic of this stack, or aws:SourceArn and aws:SourceAccount"
                yield name, f"{statement.get('Sid')}: a service may send for any account; set {needed}"


def queues_accept_what_sends_to_them(stack: EvaluatedTemplate) -> RuleFindings:
    """A rule, a topic and a bucket are told nothing when the queue's policy refuses their messages."""
    for name, source, destinations in _senders(stack):
        for queue in sorted(references(destinations) & stack.of_type(QUEUE).keys()):
            if not _admits(stack, queue, source):
                yield name, f"the policy of {queue} does not let it send; allow sqs:SendMessage for its aws:SourceArn"


def _senders(stack: EvaluatedTemplate) -> Iterator[tuple[str, set[str], Any]]:
    """What sends to queues by their policies: its name, what its ARN refers to, and where it sends."""
    for name, subscription in stack.of_type(SUBSCRIPTION).items():
        yield name, references(subscription["TopicArn"]), [subscription["Endpoint"], subscription.get("RedrivePolicy")]
    for name, attached in stack.of_type(ATTACHED).items():
        yield name, references(attached["BucketName"]), attached["QueueArn"]
    for name, rule in stack.of_type(RULE).items():
        yield name, {name}, [[target["Arn"], target.get("DeadLetterConfig")] for target in rule["Targets"]]


def _admits(stack: EvaluatedTemplate, queue: str, source: set[str]) -> bool:
    return any(
        statement["Effect"] == "Allow"
        and statement["Action"] == "sqs:SendMessage"
        and references(statement["Resource"]) == {queue}
        and source in _named(statement.get("Condition", {}).get("ArnEquals", {}).get("aws:SourceArn"))
        for policy in stack.of_type("AWS::SQS::QueuePolicy").values()
        if queue in references(policy["Queues"])
        for statement in policy["PolicyDocument"]["Statement"]
    )


def _named(arns: Any) -> list[set[str]]:
    """What each ARN refers to, without pseudo parameters."""
    return [{name for name in references(arn) if not name.startswith("AWS::")} for arn in as_list(arns)]


def denies_plain_http(document: dict[str, Any]) -> bool:
    return any(
        statement["Effect"] == "Deny"
        and statement.get("Principal") == "*"
        and statement["Action"] in ("*", "s3:*", "sqs:*")
        and statement.get("Condition") == {"Bool": {"aws:SecureTransport": "false"}}
        for statement in document["Statement"]
    )


def _mappings(stack: EvaluatedTemplate) -> Iterator[tuple[str, dict[str, Any], dict[str, Any], dict[str, Any]]]:
    """Each event source mapping with its queue and its function."""
    queues, functions = stack.of_type(QUEUE), stack.of_type(FUNCTION)
    for name, mapping in stack.of_type(MAPPING).items():
        (queue,) = references(mapping["EventSourceArn"]) & queues.keys()
        (function,) = references(mapping["FunctionName"]) & functions.keys()
        yield name, mapping, queues[queue], functions[function]


def _retention_secs(queue: dict[str, Any]) -> int:
    return int(queue.get("MessageRetentionPeriod", 345600))


def _destination(stack: EvaluatedTemplate, function: str) -> bool:
    return any(
        function in references(config["FunctionName"])
        and references(config.get("DestinationConfig", {}).get("OnFailure", {})) & stack.of_type(QUEUE).keys()
        for config in stack.of_type("AWS::Lambda::EventInvokeConfig").values()
    )


RULES = (
    messages_stay_hidden_while_they_are_processed,
    large_batches_have_a_window,
    pollers_are_bounded,
    one_bad_message_fails_alone,
    failed_messages_go_to_a_dead_letter_queue,
    failed_invocations_go_to_a_queue,
    queues_are_encrypted_and_require_tls,
    queues_accept_this_account_only,
    queues_accept_what_sends_to_them,
)
