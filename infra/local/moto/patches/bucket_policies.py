"""S3: unpatched, moto ignores the conditions of bucket policies: one that denies plain HTTP denies every request."""

import json
import re
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import parse_qs

from moto.iam.access_control import PermissionResult
from moto.s3.models import FakeBucket

from infra.local.moto.current_request import current_request
from infra.local.moto.patches.patching import replace

METHODS = {"GET": "s3:GetObject", "HEAD": "s3:GetObject", "DELETE": "s3:DeleteObject", "PUT": "s3:PutObject"}
SUBRESOURCES = frozenset({"acl", "tagging", "legal-hold", "retention", "attributes", "torrent", "restore"})
"""Query parameters of requests that are not about the object itself; they have other actions."""


def evaluate_conditions() -> None:
    replace(FakeBucket, "get_permission", _permission)


def denies(policy: str, action: str, resource: str, context: Mapping[str, str]) -> bool:
    """Whether a statement for all principals denies this. Raises NotImplementedError for an unsupported operator."""
    statements = json.loads(policy)["Statement"]
    for statement in statements if isinstance(statements, list) else [statements]:
        if (
            statement["Effect"] == "Deny"
            and statement.get("Principal") in ("*", {"AWS": "*"})
            and _any_matches(statement["Action"], action)
            and _any_matches(statement["Resource"], resource)
            and _conditions_hold(statement.get("Condition", {}), context)
        ):
            return True
    return False


def _permission(bucket: FakeBucket, action: str, resource: str) -> PermissionResult:
    if bucket.policy is None:
        return PermissionResult.NEUTRAL
    environ = current_request()
    query = parse_qs(environ.get("QUERY_STRING", ""), keep_blank_values=True)
    if SUBRESOURCES & query.keys():
        return PermissionResult.NEUTRAL
    method = environ.get("REQUEST_METHOD", "GET")
    requested = "s3:PutObject" if method == "POST" else METHODS.get(method, action)
    denied = denies(bucket.policy.decode(), requested, resource, _context(environ, method, query))
    return PermissionResult.DENIED if denied else PermissionResult.NEUTRAL


def _context(environ: Mapping[str, Any], method: str, query: Mapping[str, Any]) -> dict[str, str]:
    # Plain HTTP here stands for TLS on AWS.
    context = {"aws:SecureTransport": "true"}
    if method in ("PUT", "POST"):
        creates = "uploadId" in query if method == "POST" else "partNumber" not in query
        context["s3:ObjectCreationOperation"] = str(creates).lower()
    if "HTTP_IF_NONE_MATCH" in environ:
        context["s3:if-none-match"] = environ["HTTP_IF_NONE_MATCH"]
    return context


def _conditions_hold(conditions: Mapping[str, Mapping[str, Any]], context: Mapping[str, str]) -> bool:
    return all(
        _condition_holds(operator, name, expected if isinstance(expected, list) else [expected], context)
        for operator, keys in conditions.items()
        for name, expected in keys.items()
    )


def _condition_holds(operator: str, name: str, expected: list[Any], context: Mapping[str, str]) -> bool:
    found = context.get(name)
    if operator == "Null":
        return str(expected[0]).lower() == str(found is None).lower()
    plain = operator.removesuffix("IfExists")
    if found is None:
        return plain != operator or plain.startswith("StringNot")
    test = _TESTS.get(plain)
    if test is None:
        raise NotImplementedError(
            f"the condition operator {operator} is not supported by the local AWS; supported: Null, {', '.join(_TESTS)}"
        )
    return test(found, [str(one) for one in expected])


_TESTS: dict[str, Callable[[str, list[str]], bool]] = {
    "Bool": lambda found, expected: found.lower() in [one.lower() for one in expected],
    "StringEquals": lambda found, expected: found in expected,
    "StringNotEquals": lambda found, expected: found not in expected,
    "StringLike": lambda found, expected: any(_matches(one, found) for one in expected),
    "StringNotLike": lambda found, expected: not any(_matches(one, found) for one in expected),
}


def _any_matches(patterns: Any, text: str) -> bool:
    return any(_matches(pattern, text) for pattern in (patterns if isinstance(patterns, list) else [patterns]))


def _matches(pattern: str, text: str) -> bool:
    return re.fullmatch(re.escape(pattern).replace(r"\*", ".*").replace(r"\?", "."), text, re.DOTALL) is not None
