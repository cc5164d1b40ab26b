"""Lambda: unpatched, moto runs functions in Docker or returns a fixed text, and drops some settings."""

import base64
import json
from collections.abc import Callable
from functools import wraps
from typing import Any

from moto.awslambda.models import LambdaFunction

from infra.local.moto.patches.patching import replace, wrap
from infra.local.moto.work_queue import WORK_QUEUE, NoRunner

STORED_HERE = ("LoggingConfig", "DeadLetterConfig")
RESULT_TIMEOUT_SECS = 960.0
"""Lambda's longest timeout, and a minute to start."""
Call = Callable[..., Any]


def run_functions() -> None:
    wrap(LambdaFunction, "__init__", _store_settings)
    wrap(LambdaFunction, "update_configuration", _store_changed_settings)
    wrap(LambdaFunction, "get_configuration", _return_settings)
    replace(LambdaFunction, "invoke", _invoke)


def _store_settings(original: Call) -> Call:
    @wraps(original)
    def init(function: LambdaFunction, account_id: str, spec: dict[str, Any], region: str, version: Any = 1) -> None:
        original(function, account_id, spec, region, version)
        function.__dict__["stored_here"] = {name: spec[name] for name in STORED_HERE if name in spec}

    return init


def _store_changed_settings(original: Call) -> Call:
    @wraps(original)
    def update_configuration(function: LambdaFunction, updates: dict[str, Any]) -> Any:
        function.__dict__["stored_here"].update({name: updates[name] for name in STORED_HERE if name in updates})
        if "TracingConfig" in updates:
            function.tracing_config = updates["TracingConfig"]
        return original(function, updates)

    return update_configuration


def _return_settings(original: Call) -> Call:
    @wraps(original)
    def get_configuration(function: LambdaFunction, on_create: bool = False) -> dict[str, Any]:
        configuration: dict[str, Any] = original(function, on_create) | function.__dict__.get("stored_here", {})
        log_group = {"LogGroup": f"/aws/lambda/{function.function_name}", "LogFormat": "Text"}
        configuration["LoggingConfig"] = log_group | configuration.get("LoggingConfig", {})
        return configuration

    return get_configuration


def _invoke(function: LambdaFunction, body: Any, request_headers: Any, response_headers: Any) -> bytes:
    event = json.loads(body) if body else {}
    kind = request_headers.get("X-Amz-Invocation-Type", "RequestResponse")
    if kind == "DryRun":
        return b""
    if kind == "Event":
        WORK_QUEUE.put("invoke_async", function=function.function_name, event=event)
        return b""
    try:
        result = WORK_QUEUE.call("invoke", RESULT_TIMEOUT_SECS, function=function.function_name, event=event)
    except NoRunner as error:
        result = {"error": True, "payload": {"errorType": "NoRunner", "errorMessage": str(error)}, "log": ""}
    if result["error"]:
        response_headers["x-amz-function-error"] = "Unhandled"
    response_headers["x-amz-log-result"] = base64.b64encode(result["log"][-4096:].encode()).decode()
    return json.dumps(result["payload"]).encode()
