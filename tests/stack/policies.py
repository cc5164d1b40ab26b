"""Evaluates a role's policies as IAM does, for the operators that the template uses."""

import fnmatch
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Call:
    """One call as IAM checks it. `context`: the condition keys of the request."""

    action: str
    resource: str
    context: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.action} on {self.resource}"


@dataclass(frozen=True, slots=True)
class Grant:
    """One action pattern of one Allow statement, on one of its resources."""

    sid: str
    action: str
    resource: str
    conditions: Mapping[str, Mapping[str, Sequence[str]]] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.sid}: {self.action} on {self.resource}"

    def covers(self, call: Call) -> bool:
        return (
            _matches(self.action.lower(), call.action.lower())
            and _matches(self.resource, call.resource)
            and all(_holds(op, keys, call.context) for op, keys in self.conditions.items())
        )


def grants_of(documents: Iterable[Mapping[str, Any]]) -> list[Grant]:
    """The Allow statements of policy documents. A Deny in a role's policy is an error: none is expected."""
    found = []
    for document in documents:
        for number, statement in enumerate(_listed(document["Statement"])):
            if statement["Effect"] != "Allow" or "NotAction" in statement or "NotResource" in statement:
                raise ValueError(f"expected Allow with Action and Resource, found {statement}")
            conditions = {
                op: {k: _listed(v) for k, v in keys.items()} for op, keys in statement.get("Condition", {}).items()
            }
            for action in _listed(statement["Action"]):
                sid = statement.get("Sid", f"statement {number}")
                found += [Grant(sid, action, resource, conditions) for resource in _listed(statement["Resource"])]
    return found


def not_granted(grants: Sequence[Grant], calls: Iterable[Call]) -> list[str]:
    """The calls that no grant allows, without duplicates."""
    return sorted({str(call) for call in calls if not any(grant.covers(call) for grant in grants)})


def unused_grants(grants: Sequence[Grant], calls: Sequence[Call]) -> list[str]:
    """The grants that allow none of the calls."""
    return sorted({str(grant) for grant in grants if not any(grant.covers(call) for call in calls)})


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _matches(pattern: str, text: str) -> bool:
    """`*` and `?` are wildcards as in IAM; brackets are literal."""
    escaped = pattern.replace("[", "[[]")
    return re.match(fnmatch.translate(escaped), text) is not None


def _holds(operator: str, keys: Mapping[str, Sequence[str]], context: Mapping[str, str]) -> bool:
    """All keys must match, each with one of its values. A key that the request lacks fails the condition, unless the
    operator ends in IfExists."""
    base = operator.removesuffix("IfExists")
    if base not in _OPERATORS:
        raise ValueError(f"the condition operator {operator} is not known here; teach this module what it means")
    compare, optional = _OPERATORS[base], base != operator
    return all(
        any(compare(wanted, context[key]) for wanted in values) if key in context else optional
        for key, values in keys.items()
    )


_OPERATORS: dict[str, Callable[[str, str], bool]] = {
    "StringEquals": str.__eq__,
    "ArnEquals": _matches,
    "StringLike": _matches,
    "ArnLike": _matches,
}
