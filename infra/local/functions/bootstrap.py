"""Stands in for Lambda's runtime, as a script: `python -I -S bootstrap.py BUNDLE PACKAGES HANDLER RESPONSES`.

It imports only from the standard library, the deployed bundle, and the packages that Lambda preinstalls. A bundle that
lacks a package therefore fails here as it would on AWS. An invocation is a line of JSON on stdin; its response is a
line on the file descriptor RESPONSES. The function's own output goes to stdout. The process ends when stdin closes,
which happens when its parent ends.
"""

import importlib
import json
import os
import sys
import time
import traceback
from pathlib import Path
from typing import Any

KIB = 1024


class Context:
    """Lambda's context object."""

    def __init__(self, invocation: dict[str, Any]) -> None:
        self.function_name: str = invocation["function_name"]
        self.function_version = "$LATEST"
        self.invoked_function_arn: str = invocation["arn"]
        self.memory_limit_in_mb: str = invocation["memory_mb"]
        self.aws_request_id: str = invocation["request_id"]
        self.log_group_name: str = invocation["log_group"]
        self.log_stream_name: str = invocation["log_stream"]
        self.identity = None
        self.client_context = None
        self._deadline_ts: float = invocation["deadline_ts"]

    def get_remaining_time_in_millis(self) -> int:
        return max(0, int((self._deadline_ts - time.time()) * 1000))


def main() -> None:
    bundle, packages, handler_name, responses = sys.argv[1:]
    sys.path[:0] = [bundle, packages]
    os.environ["PYTHONPATH"] = ""
    started = time.perf_counter()
    handler, failed = load(handler_name)
    init_ms = (time.perf_counter() - started) * 1000
    with os.fdopen(int(responses), "w") as out:
        for line in sys.stdin:
            invocation = json.loads(line)
            print(f"START RequestId: {invocation['request_id']} Version: $LATEST", flush=True)
            response = failed or invoke(handler, invocation)
            sys.stderr.flush()
            print(f"END RequestId: {invocation['request_id']}", flush=True)
            measured = {"init_ms": init_ms, "peak_mb": peak_mb()}
            out.write(json.dumps(response | measured) + "\n")
            out.flush()


def load(name: str) -> tuple[Any, dict[str, Any] | None]:
    module, _, function = name.rpartition(".")
    try:
        return getattr(importlib.import_module(module), function), None
    except BaseException as error:  # noqa: BLE001 - the top of a process
        traceback.print_exc()
        return None, {"error": True, "payload": described(error, f"Unable to import module '{module}': {error}")}


def invoke(handler: Any, invocation: dict[str, Any]) -> dict[str, Any]:
    try:
        response = handler(invocation["event"], Context(invocation))
        return {"error": False, "payload": json.loads(json.dumps(response))}
    except BaseException as error:  # noqa: BLE001 - the top of a process
        traceback.print_exc()
        return {"error": True, "payload": described(error, str(error))}


def described(error: BaseException, message: str) -> dict[str, Any]:
    trace = traceback.format_exception(error)
    return {"errorType": type(error).__name__, "errorMessage": message, "stackTrace": trace}


def peak_mb() -> float:
    status = Path("/proc/self/status").read_text().splitlines()
    line = next(line for line in status if line.startswith("VmHWM"))
    return int(line.split()[1]) / KIB


if __name__ == "__main__":
    main()
