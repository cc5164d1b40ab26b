"""The server's own paths below /_local/, served next to AWS's: pending work, states of job runs, recorded requests.

The client is `infra/local/processes/server_calls.py`.
"""

import json
from collections.abc import Callable, Iterable
from typing import Any
from urllib.parse import parse_qs, unquote

from moto.awslambda.models import lambda_backends

from infra.local.moto.current_request import set_current_request
from infra.local.moto.patches.emr_serverless import deliver_events, set_state
from infra.local.moto.request_record import RequestRecord
from infra.local.moto.work_queue import WORK_QUEUE
from infra.local.processes.server_process import ACCOUNT_ID, REGION

PREFIX = "/_local/"
LONG_POLL_SECS = 1.0
RECORD = RequestRecord()

Environ = dict[str, Any]
StartResponse = Callable[..., Any]
App = Callable[[Environ, StartResponse], Iterable[bytes]]


def with_local_api(aws: App) -> App:
    def app(environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        path = environ.get("PATH_INFO", "")
        if not path.startswith(PREFIX):
            RECORD.record(environ)
            set_current_request(environ)
            return aws(environ, start_response)
        status, content_type, body = _respond(environ, path.removeprefix(PREFIX).split("/"))
        start_response(status, [("Content-Type", content_type), ("Content-Length", str(len(body)))])
        return [body]

    return app


def _respond(environ: Environ, path: list[str]) -> tuple[str, str, bytes]:
    method, body = environ["REQUEST_METHOD"], environ["wsgi.input"].read()
    result: object = None
    match method, path:
        case "POST", ["work"]:
            result = WORK_QUEUE.take(LONG_POLL_SECS)
        case "POST", ["results", name]:
            WORK_QUEUE.complete(name, json.loads(body))
        case "POST", ["runs", application, run]:
            report = json.loads(body)
            set_state(ACCOUNT_ID, REGION, application, run, report["state"], report.get("details", ""))
        case "POST", ["emr-events", switch]:
            deliver_events(switch == "on")
        case "GET", ["code", name]:
            return "200 OK", "application/zip", _code(unquote(name))
        case "GET", ["requests"]:
            since = int(parse_qs(environ.get("QUERY_STRING", "")).get("since", ["0"])[0])
            result = RECORD.since(since)
        case "POST", ["requests", switch]:
            RECORD.enable(switch == "on")
        case _:
            return "404 Not Found", "text/plain", f"{method} {'/'.join(path)}: there is no such path\n".encode()
    return "200 OK", "application/json", json.dumps(result).encode()


def _code(function: str) -> bytes:
    code: bytes = lambda_backends[ACCOUNT_ID][REGION].get_function(function).code_bytes
    return code
