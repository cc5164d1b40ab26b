"""A record of the requests that the local AWS got: who asked for what, so that a test can hold it against a policy."""

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
# Of a body, what names the resource.
NAMING = (
    "QueueUrl",
    "applicationId",
    "FunctionName",
    "logGroupName",
    "executionRoleArn",
    "Namespace",
    "SourceArn",
    "StartingMessage",
)
BODY_LIMIT_BYTES = 1024 * 1024


class RequestRecord:
    """Bounded: the oldest requests are forgotten. Safe for threads."""

    def __init__(self, limit: int = LIMIT) -> None:
        self._requests: deque[dict[str, Any]] = deque(maxlen=limit)
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()
        self._on = True

    def switch(self, on: bool) -> None:
        self._on = on

    def note(self, environ: dict[str, Any]) -> None:
        """Take down a WSGI request; its body is put back for whoever serves it."""
        if not self._on:
            return
        found = CREDENTIAL.search(environ.get("HTTP_AUTHORIZATION", ""))
        if found is None:
            return
        principal, _, service = found.groups()
        request = {
            "principal": principal,
            "service": service,
            "method": environ["REQUEST_METHOD"],
            "path": environ.get("PATH_INFO", "").encode("latin-1").decode("utf-8", "replace"),
            "query": environ.get("QUERY_STRING", ""),
            "target": environ.get("HTTP_X_AMZ_TARGET", ""),
            "named": {} if service == "s3" else _named(environ),
        }
        if service == "s3" and request["method"] == "POST" and "delete" in parse_qs(request["query"], True):
            request["deletes"] = _deleted(environ)
        for name in ("HTTP_X_AMZ_COPY_SOURCE", "HTTP_IF_NONE_MATCH"):
            if name in environ:
                request[name.removeprefix("HTTP_").lower().replace("_", "-")] = environ[name]
        with self._lock:
            self._requests.append({"number": next(self._numbers), **request})

    def since(self, number: int) -> list[dict[str, Any]]:
        """Those with a higher number, the oldest first."""
        with self._lock:
            return [request for request in self._requests if request["number"] > number]


def _deleted(environ: dict[str, Any]) -> list[str]:
    """The keys that a request for many deletions names, in the only body of S3's that is looked at."""
    return [str(key.text) for key in fromstring(_body(environ)).iter() if key.tag.rpartition("}")[2] == "Key"]


def _body(environ: dict[str, Any]) -> bytes:
    body: bytes = environ["wsgi.input"].read()
    environ["wsgi.input"] = io.BytesIO(body)
    return body


def _named(environ: dict[str, Any]) -> dict[str, str]:
    if int(environ.get("CONTENT_LENGTH") or 0) > BODY_LIMIT_BYTES:
        return {}
    body = _body(environ)
    try:
        found = json.loads(body) if body[:1] == b"{" else {name: values[0] for name, values in _form(body).items()}
    except ValueError:
        return {}
    return {name: str(found[name]) for name in (*NAMING, "Action") if name in found}


def _form(body: bytes) -> dict[str, list[str]]:
    return parse_qs(body.decode("utf-8", "replace"))
