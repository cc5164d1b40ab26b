"""Records each request to the local AWS with its principal, so that a test can compare them with IAM policies."""

import io
import itertools
import json
import re
import threading
from collections import deque
from typing import Any
from urllib.parse import parse_qs
from xml.etree.ElementTree import fromstring

LIMIT = 200_000
CREDENTIAL = re.compile(r"Credential=([^/]+)/\d+/([^/]+)/([^/]+)/aws4_request")
# The fields of a body that name a resource.
RESOURCE_FIELDS = (
    "QueueUrl",
    "applicationId",
    "FunctionName",
    "logGroupName",
    "executionRoleArn",
    "tags",
    "DatabaseName",
    "Namespace",
    "SourceArn",
    "StartingMessage",
)
BODY_LIMIT_BYTES = 1024 * 1024


class RequestRecord:
    """Keeps the newest `limit` requests. Thread-safe."""

    def __init__(self, limit: int = LIMIT) -> None:
        self._requests: deque[dict[str, Any]] = deque(maxlen=limit)
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()
        self._enabled = True

    def enable(self, enabled: bool) -> None:
        self._enabled = enabled

    def record(self, environ: dict[str, Any]) -> None:
        """Record a WSGI request. Its body can be read again afterwards. Unsigned requests are not recorded."""
        if not self._enabled:
            return
        credential = CREDENTIAL.search(environ.get("HTTP_AUTHORIZATION", ""))
        if credential is None:
            return
        principal, _, service = credential.groups()
        request = {
            "principal": principal,
            "service": service,
            "method": environ["REQUEST_METHOD"],
            "path": environ.get("PATH_INFO", "").encode("latin-1").decode("utf-8", "replace"),
            "query": environ.get("QUERY_STRING", ""),
            "target": environ.get("HTTP_X_AMZ_TARGET", ""),
            "resource_fields": {} if service == "s3" else _resource_fields(environ),
        }
        if service == "s3" and request["method"] == "POST" and "delete" in parse_qs(request["query"], True):
            request["deletes"] = _deleted_keys(environ)
        for name in ("HTTP_X_AMZ_COPY_SOURCE", "HTTP_IF_NONE_MATCH"):
            if name in environ:
                request[name.removeprefix("HTTP_").lower().replace("_", "-")] = environ[name]
        with self._lock:
            self._requests.append({"number": next(self._numbers), **request})

    def since(self, number: int) -> list[dict[str, Any]]:
        """Requests with a number above `number`, oldest first."""
        with self._lock:
            return [request for request in self._requests if request["number"] > number]


def _deleted_keys(environ: dict[str, Any]) -> list[str]:
    """The keys in the body of a DeleteObjects request, the only body of an S3 request that is read."""
    return [str(key.text) for key in fromstring(_body(environ)).iter() if key.tag.rpartition("}")[2] == "Key"]


def _body(environ: dict[str, Any]) -> bytes:
    body: bytes = environ["wsgi.input"].read()
    environ["wsgi.input"] = io.BytesIO(body)
    return body


def _resource_fields(environ: dict[str, Any]) -> dict[str, str]:
    if int(environ.get("CONTENT_LENGTH") or 0) > BODY_LIMIT_BYTES:
        return {}
    body = _body(environ)
    try:
        found = json.loads(body) if body[:1] == b"{" else {name: values[0] for name, values in _form(body).items()}
    except ValueError:
        return {}
    return {name: str(found[name]) for name in (*RESOURCE_FIELDS, "Action") if name in found}


def _form(body: bytes) -> dict[str, list[str]]:
    return parse_qs(body.decode("utf-8", "replace"))
