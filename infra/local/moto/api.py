"""The server's own few paths below /_local/, beside AWS's: work to take, what runs report, the record of requests."""

import json
from collections.abc import Callable, Iterable
from typing import Any
from urllib.parse import parse_qs, unquote

from infra.local.moto.current_request import take_in_hand
from infra.local.moto.request_record import RequestRecord
from infra.local.moto.work import WORK

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
            RECORD.note(environ)
            take_in_hand(environ)
            return aws(environ, start_response)
        status, kind, body = _answer(environ, path.removeprefix(PREFIX).split("/"))
        start_response(status, [("Content-Type", kind), ("Content-Length", str(len(body)))])
        return [body]

    return app


def _answer(environ: Environ, path: list[str]) -> tuple[str, str, bytes]:
    method, sent = environ["REQUEST_METHOD"], environ["wsgi.input"].read()
    found: object = None
    match method, path:
        case "POST", ["work"]:
            found = WORK.take(LONG_POLL_SECS)
        case "POST", ["answers", name]:
            WORK.answer(name, json.loads(sent))
        case "POST", ["runs", application, run]:
            _report_run(application, run, json.loads(sent))
        case "POST", ["emr-events", switch]:
            from infra.local.moto.repairs.emr_serverless import deliver_events

            deliver_events(switch == "on")
        case "GET", ["code", name]:
            return "200 OK", "application/zip", _code(unquote(name))
        case "GET", ["requests"]:
            since = int(parse_qs(environ.get("QUERY_STRING", "")).get("since", ["0"])[0])
            found = RECORD.since(since)
        case "POST", ["requests", switch]:
            RECORD.switch(switch == "on")
        case _:
            return "404 Not Found", "text/plain", f"{method} {'/'.join(path)}: there is no such path\n".encode()
    return "200 OK", "application/json", json.dumps(found).encode()


def _report_run(application: str, run: str, report: dict[str, str]) -> None:
    from infra.local.moto.repairs.emr_serverless import set_state
    from infra.local.processes.process import ACCOUNT_ID, REGION

    set_state(ACCOUNT_ID, REGION, application, run, report["state"], report.get("details", ""))


def _code(name: str) -> bytes:
    from moto.awslambda.models import lambda_backends

    from infra.local.processes.process import ACCOUNT_ID, REGION

    code: bytes = lambda_backends[ACCOUNT_ID][REGION].get_function(name).code_bytes
    return code
