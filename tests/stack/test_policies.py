"""Tests of the policy evaluation in the IAM tests: it must find missing and unused grants."""

from typing import Any

import pytest

from tests.stack.calls import calls_of
from tests.stack.policies import Call, grants_of, not_granted, unused_grants

PENDING = "arn:aws:s3:::lake/*_blizzard/*/pending/*"
SEGMENT = "arn:aws:s3:::lake/events/_blizzard/events_landing/pending/0.json"


def statement(action: str | list[str], resource: str, **more: Any) -> dict[str, Any]:
    return {"Statement": [{"Sid": "It", "Effect": "Allow", "Action": action, "Resource": resource, **more}]}


def request(method: str, path: str, query: str = "", **more: Any) -> dict[str, Any]:
    return {
        "service": "s3",
        "method": method,
        "path": path,
        "query": query,
        "target": "",
        "resource_fields": {},
        **more,
    }


def test_a_call_with_another_resource_or_action_is_not_granted() -> None:
    grants = grants_of([statement("s3:PutObject", PENDING)])
    assert not_granted(grants, [Call("s3:PutObject", SEGMENT)]) == []
    elsewhere = "arn:aws:s3:::lake/events/part-0.parquet"
    assert not_granted(grants, [Call("s3:PutObject", elsewhere), Call("s3:GetObject", SEGMENT)]) == [
        f"s3:GetObject on {SEGMENT}",
        f"s3:PutObject on {elsewhere}",
    ]


def test_an_unused_action_is_found_in_a_used_statement() -> None:
    grants = grants_of([statement(["s3:PutObject", "s3:DeleteObject"], PENDING)])
    assert unused_grants(grants, [Call("s3:PutObject", SEGMENT)]) == [f"It: s3:DeleteObject on {PENDING}"]


def test_an_unused_resource_is_found_in_a_used_statement() -> None:
    document = statement("s3:PutObject", PENDING)
    document["Statement"][0]["Resource"] = [PENDING, "arn:aws:s3:::lake/*_sweep.json"]
    used = [Call("s3:PutObject", SEGMENT)]
    assert unused_grants(grants_of([document]), used) == ["It: s3:PutObject on arn:aws:s3:::lake/*_sweep.json"]


@pytest.mark.parametrize(
    ("operator", "context", "covered"),
    [
        ("StringLike", {"s3:prefix": "events/_blizzard/a/pending/"}, True),
        ("StringLike", {"s3:prefix": "events/"}, False),
        ("StringLike", {}, False),
        ("StringLikeIfExists", {}, True),
        ("StringLikeIfExists", {"s3:prefix": "events/"}, False),
        ("StringEquals", {"s3:prefix": "events/_blizzard/a/pending/"}, False),
    ],
)
def test_conditions_are_evaluated_as_in_iam(operator: str, context: dict[str, str], covered: bool) -> None:
    condition = {operator: {"s3:prefix": "*_blizzard/*/pending/*"}}
    grants = grants_of([statement("s3:ListBucket", "arn:aws:s3:::lake", Condition=condition)])
    assert (not_granted(grants, [Call("s3:ListBucket", "arn:aws:s3:::lake", context)]) == []) is covered


def test_an_unknown_policy_element_is_an_error() -> None:
    grants = grants_of([statement("s3:GetObject", "*", Condition={"NumericLessThan": {"a": "1"}})])
    with pytest.raises(ValueError, match="NumericLessThan"):
        not_granted(grants, [Call("s3:GetObject", "x", {"a": "0"})])
    with pytest.raises(ValueError, match="Deny"):
        grants_of([{"Statement": {"Effect": "Deny", "Action": "s3:*", "Resource": "*"}}])
    with pytest.raises(ValueError, match="dynamodb"):
        calls_of(request("POST", "/") | {"service": "dynamodb"})
    with pytest.raises(ValueError, match="PATCH"):
        calls_of(request("PATCH", "/lake/key"))


@pytest.mark.parametrize(
    ("found", "wanted"),
    [
        (request("GET", "/lake", "list-type=2&prefix=a%2Fb"), [("s3:ListBucket", "lake", {"s3:prefix": "a/b"})]),
        (request("GET", "/lake/", "list-type=2"), [("s3:ListBucket", "lake", {})]),
        (request("HEAD", "/lake/a%20b"), [("s3:GetObject", "lake/a b", {})]),
        (request("GET", "/lake/a", "versionId=1"), [("s3:GetObjectVersion", "lake/a", {})]),
        (request("PUT", "/lake/a", "partNumber=1&uploadId=x"), [("s3:PutObject", "lake/a", {})]),
        (request("DELETE", "/lake/a", "uploadId=x"), [("s3:AbortMultipartUpload", "lake/a", {})]),
        (
            request("PUT", "/lake/a", **{"x-amz-copy-source": "/landing/b"}),
            [("s3:PutObject", "lake/a", {}), ("s3:GetObject", "landing/b", {})],
        ),
        (
            request("POST", "/lake", "delete=", deletes=["a", "b/c"]),
            [("s3:DeleteObject", "lake/a", {}), ("s3:DeleteObject", "lake/b/c", {})],
        ),
    ],
)
def test_an_s3_request_maps_to_the_action_that_iam_checks(
    found: dict[str, Any], wanted: list[tuple[str, str, dict[str, str]]]
) -> None:
    assert calls_of(found) == [Call(action, f"arn:aws:s3:::{place}", context) for action, place, context in wanted]
