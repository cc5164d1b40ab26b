"""EventBridge: as shipped, a rule with only a schedule matches every event, and one odd target stops all others."""

from collections.abc import Callable
from functools import wraps
from typing import Any

from moto.events.models import Rule

from infra.local.repairs.patching import shallow_copy, wrap

DELIVERABLE = ("sqs", "logs", "events")


def deliver_only_what_rules_match() -> None:
    wrap(Rule, "send_to_targets", _with_a_pattern_and_a_target)


def _with_a_pattern_and_a_target(shipped: Callable[..., None]) -> Callable[..., None]:
    @wraps(shipped)
    def send_to_targets(rule: Rule, original_event: Any, transform_input: bool = True) -> None:
        if rule.state != "DISABLED" and rule.event_pattern.get_pattern():
            shipped(_deliverable(rule), original_event, transform_input)

    return send_to_targets


def _deliverable(rule: Rule) -> Rule:
    """A copy, since other threads may be sending by the same rule."""
    copy = shallow_copy(rule)
    copy.targets = [target for target in rule.targets if target["Arn"].split(":")[2] in DELIVERABLE]
    return copy
