"""Turns recorded requests to the local AWS into the actions and resources on which IAM would decide."""

import re
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import parse_qs, unquote

from infra.local.processes.server_process import ACCOUNT_ID, REGION
from tests.stack.policies import Call

QUEUE_ACTIONS = {
    "SendMessageBatch": "SendMessage",
    "DeleteMessageBatch": "DeleteMessage",
    "ChangeMessageVisibilityBatch": "ChangeMessageVisibility",
}
"""IAM checks a batch call as the single call."""

BUCKET_ACTIONS = {
    "location": "s3:GetBucketLocation",
    "uploads": "s3:ListBucketMultipartUploads",
    "versions": "s3:ListBucketVersions",
    "acl": "s3:GetBucketAcl",
    "policy": "s3:GetBucketPolicy",
    "versioning": "s3:GetBucketVersioning",
    "notification": "s3:GetBucketNotification",
}
RUNS = re.compile(r"/applications/([^/]+)/jobruns(?:/([^/]+))?")


def calls_of(request: Mapping[str, Any]) -> list[Call]:
    """The calls of one request. Raises ValueError for an unknown request, so that none is skipped."""
    found = {"s3": _s3, "sqs": _sqs, "emr-serverless": _emr_serverless, "logs": _logs, "glue": _glue}.get(
        request["service"]
    )
    if found is None:
        raise ValueError(f"no mapping for the service of {request}")
    return list(found(request))


def _s3(request: Mapping[str, Any]) -> Iterator[Call]:
    bucket, _, key = unquote(request["path"]).lstrip("/").partition("/")
    query = {name: values[0] for name, values in parse_qs(request["query"], keep_blank_values=True).items()}
    if not key:
        yield from _bucket(request, bucket, query)
        return
    resource = f"arn:aws:s3:::{bucket}/{key}"
    match request["method"]:
        case "GET" | "HEAD":
            yield Call("s3:GetObjectVersion" if "versionId" in query else "s3:GetObject", resource)
        case "PUT" | "POST":
            yield Call("s3:PutObject", resource)
            if source := request.get("x-amz-copy-source"):
                yield Call("s3:GetObject", f"arn:aws:s3:::{unquote(source).lstrip('/')}")
        case "DELETE":
            yield Call("s3:AbortMultipartUpload" if "uploadId" in query else "s3:DeleteObject", resource)
        case other:
            raise ValueError(f"no mapping for {other} of an object: {request}")


def _bucket(request: Mapping[str, Any], bucket: str, query: Mapping[str, str]) -> Iterator[Call]:
    resource = f"arn:aws:s3:::{bucket}"
    if request["method"] == "POST" and "delete" in query:
        yield from (Call("s3:DeleteObject", f"{resource}/{key}") for key in request["deletes"])
        return
    if request["method"] == "PUT" and "notification" in query:
        yield Call("s3:PutBucketNotification", resource)
        return
    if request["method"] not in ("GET", "HEAD"):
        raise ValueError(f"no mapping for {request['method']} of a bucket: {request}")
    special = next((action for name, action in BUCKET_ACTIONS.items() if name in query), None)
    if special is not None:
        yield Call(special, resource)
    elif request["method"] == "HEAD":
        yield Call("s3:ListBucket", resource)
    else:
        yield Call("s3:ListBucket", resource, {"s3:prefix": query["prefix"]} if "prefix" in query else {})


def _sqs(request: Mapping[str, Any]) -> Iterator[Call]:
    action = request["target"].rpartition(".")[2]
    queue = request["resource_fields"]["QueueUrl"].rpartition("/")[2]
    yield Call(f"sqs:{QUEUE_ACTIONS.get(action, action)}", f"arn:aws:sqs:{REGION}:{ACCOUNT_ID}:{queue}")


def _emr_serverless(request: Mapping[str, Any]) -> Iterator[Call]:
    found = RUNS.fullmatch(unquote(request["path"]))
    if found is None:
        raise ValueError(f"no mapping for {request}")
    application = f"arn:aws:emr-serverless:{REGION}:{ACCOUNT_ID}:/applications/{found[1]}"
    match request["method"], found[2]:
        case "POST", None:
            yield Call("emr-serverless:StartJobRun", application)
            service = {"iam:PassedToService": "emr-serverless.amazonaws.com"}
            yield Call("iam:PassRole", request["resource_fields"]["executionRoleArn"], service)
            if "tags" in request["resource_fields"]:
                yield Call("emr-serverless:TagResource", f"{application}/jobruns/new")
        case "GET", None:
            yield Call("emr-serverless:ListJobRuns", application)
        case "GET", run:
            yield Call("emr-serverless:GetJobRun", f"{application}/jobruns/{run}")
        case "DELETE", run:
            yield Call("emr-serverless:CancelJobRun", f"{application}/jobruns/{run}")
        case _:
            raise ValueError(f"no mapping for {request}")


def _logs(request: Mapping[str, Any]) -> Iterator[Call]:
    action = request["target"].rpartition(".")[2]
    group = request["resource_fields"].get("logGroupName", "")  # which a search for groups does not name
    yield Call(f"logs:{action}", f"arn:aws:logs:{REGION}:{ACCOUNT_ID}:log-group:{group}:*")


def _glue(request: Mapping[str, Any]) -> Iterator[Call]:
    """Glue asks for the right on the catalog, the database and the table."""
    action, database = request["target"].rpartition(".")[2], request["resource_fields"]["DatabaseName"]
    for resource in ("catalog", f"database/{database}", f"table/{database}/any"):
        yield Call(f"glue:{action}", f"arn:aws:glue:{REGION}:{ACCOUNT_ID}:{resource}")
