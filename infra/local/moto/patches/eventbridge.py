"""EventBridge: unpatched, a rule with only a schedule matches all events, and one unsupported target stops all."""

import json
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import wraps
from typing import Any

from moto.events.models import Rule
from moto.events.utils import EventTemplateParser

from infra.local.moto.patches.patching import shallow_copy, wrap
from infra.local.moto.work_queue import WORK_QUEUE

SUPPORTED_TARGETS = ("sqs", "logs", "events")


def deliver_only_matching_events() -> None:
    wrap(Rule, "send_to_targets", _matching_and_supported)


def _matching_and_supported(original: Callable[..., None]) -> Callable[..., None]:
    @wraps(original)
    def send_to_targets(rule: Rule, original_event: Any, transform_input: bool = True) -> None:
        if rule.state != "DISABLED" and rule.event_pattern.get_pattern():
            original(_with_supported_targets(rule), original_event, transform_input)
            if rule.event_pattern.matches_event(original_event):
                _invoke_functions(rule, original_event)

    return send_to_targets


def _with_supported_targets(rule: Rule) -> Rule:
    """A copy: other threads may use the same rule."""
    copy = shallow_copy(rule)
    copy.targets = [target for target in rule.targets if _service(target) in SUPPORTED_TARGETS]
    return copy


def _service(target: Mapping[str, Any]) -> str:
    return str(target["Arn"].split(":")[2])


def _invoke_functions(rule: Rule, event: Mapping[str, Any]) -> None:
    for target in [target for target in rule.targets if _service(target) == "lambda"]:
        WORK_QUEUE.put("invoke_async", function=target["Arn"].split(":")[6], event=_input_for(target, event))


def _input_for(target: Mapping[str, Any], event: Mapping[str, Any]) -> Any:
    if "Input" in target:
        return json.loads(target["Input"])
    if "InputTransformer" in target:
        transformer = target["InputTransformer"]
        paths = transformer.get("InputPathsMap", {})
        return EventTemplateParser.parse(transformer["InputTemplate"], paths, dict(event))  # type: ignore[arg-type]
    sent = dict(event)
    if isinstance(sent.get("time"), int | float):
        sent["time"] = f"{datetime.fromtimestamp(sent['time'], UTC):%Y-%m-%dT%H:%M:%SZ}"
    return sent
