"""Lambda: as shipped, a function runs in Docker or answers nonsense, and part of its settings is forgotten."""

import base64
import json
from collections.abc import Callable
from functools import wraps
from typing import Any

from moto.awslambda.models import LambdaFunction

from infra.local.moto.repairs.patching import replace, wrap
from infra.local.moto.work_queue import WORK_QUEUE, NoRunner

KEPT = ("LoggingConfig", "DeadLetterConfig")
# The longest that Lambda lets a function run, and something for its start.
ANSWER_TIMEOUT_SECS = 960.0
Call = Callable[..., Any]


def run_functions() -> None:
    wrap(LambdaFunction, "__init__", _remember_settings)
    wrap(LambdaFunction, "update_configuration", _remember_changes)
    wrap(LambdaFunction, "get_configuration", _tell_settings)
    replace(LambdaFunction, "invoke", _invoke)


def _remember_settings(shipped: Call) -> Call:
    @wraps(shipped)
    def init(function: LambdaFunction, account_id: str, spec: dict[str, Any], region: str, version: Any = 1) -> None:
        shipped(function, account_id, spec, region, version)
        function.__dict__["kept"] = {name: spec[name] for name in KEPT if name in spec}

    return init


def _remember_changes(shipped: Call) -> Call:
    @wraps(shipped)
    def update_configuration(function: LambdaFunction, updates: dict[str, Any]) -> Any:
        function.__dict__["kept"].update({name: updates[name] for name in KEPT if name in updates})
        if "TracingConfig" in updates:
            function.tracing_config = updates["TracingConfig"]
        return shipped(function, updates)

    return update_configuration


def _tell_settings(shipped: Call) -> Call:
    @wraps(shipped)
    def get_configuration(function: LambdaFunction, on_create: bool = False) -> dict[str, Any]:
        configuration: dict[str, Any] = shipped(function, on_create) | function.__dict__.get("kept", {})
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
        WORK_QUEUE.put("invoke_later", function=function.function_name, event=event)
        return b""
    try:
        answer = WORK_QUEUE.ask("invoke", ANSWER_TIMEOUT_SECS, function=function.function_name, event=event)
    except NoRunner as error:
        answer = {"error": True, "payload": {"errorType": "NoRunner", "errorMessage": str(error)}, "log": ""}
    if answer["error"]:
        response_headers["x-amz-function-error"] = "Unhandled"
    response_headers["x-amz-log-result"] = base64.b64encode(answer["log"][-4096:].encode()).decode()
    return json.dumps(answer["payload"]).encode()
