"""Runs a deployed function from its bundle with its deployed settings; each instance is a process."""

import json
import os
import selectors
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

BOOTSTRAP = Path(__file__).with_name("bootstrap.py")
LAMBDA_PACKAGES = ("boto3", "botocore", "dateutil", "jmespath", "s3transfer", "six.py", "urllib3")
"""Preinstalled in Lambda's Python; everything else has to be in the bundle."""
END_OF_LOG_SECS = 5.0


@dataclass(frozen=True, slots=True)
class FunctionSettings:
    """Deployed settings. A process can be reused while they stay equal."""

    name: str
    arn: str
    principal: str
    """The access key id of its requests."""
    handler: str
    timeout_secs: float
    memory_mb: int
    log_group: str
    code_sha256: str
    variables: tuple[tuple[str, str], ...]

    @classmethod
    def from_configuration(cls, configuration: Mapping[str, Any], principal: str) -> "FunctionSettings":
        """From GetFunctionConfiguration or an item of ListFunctions."""
        return cls(
            name=configuration["FunctionName"],
            arn=configuration["FunctionArn"],
            principal=principal,
            handler=configuration["Handler"],
            timeout_secs=float(configuration["Timeout"]),
            memory_mb=int(configuration["MemorySize"]),
            log_group=configuration["LoggingConfig"]["LogGroup"],
            code_sha256=configuration["CodeSha256"],
            variables=tuple(sorted(configuration.get("Environment", {}).get("Variables", {}).items())),
        )


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of one invocation. `payload`: the response, or Lambda's description of the error."""

    error: bool
    payload: Any
    log: str
    secs: float
    peak_mb: float
    """Peak memory of the process so far; 0 if the process ended without reporting it."""


LineSink = Callable[[str, str, str], None]
"""Called with log group, log stream and line."""


class Instance:
    """A process. It serves one invocation at a time."""

    def __init__(
        self, settings: FunctionSettings, bundle: Path, packages: Path, aws: Mapping[str, str], sink: LineSink
    ):
        self.settings = settings
        self._sink = sink
        self._stream = f"{time.strftime('%Y/%m/%d', time.gmtime())}/[$LATEST]{uuid.uuid4().hex}"
        self._lines: list[str] = []
        self._ended = threading.Condition()
        responses, child_responses = os.pipe()
        self._responses = os.fdopen(responses, "rb", buffering=0)
        command = [sys.executable, "-I", "-S", str(BOOTSTRAP), str(bundle), str(packages), settings.handler]
        self._process = subprocess.Popen(
            [*command, str(child_responses)],
            cwd=bundle,
            env=_environment(settings, bundle, aws, self._stream),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            pass_fds=[child_responses],
            start_new_session=True,
        )
        os.close(child_responses)
        threading.Thread(target=self._read_log, daemon=True).start()

    def invoke(self, event: object) -> Outcome:
        """Never raises: errors are in the outcome."""
        request_id = str(uuid.uuid4())
        started = time.time()
        self._lines = []
        invocation = {
            "request_id": request_id,
            "event": event,
            "deadline_ts": started + self.settings.timeout_secs,
            "function_name": self.settings.name,
            "arn": self.settings.arn,
            "memory_mb": str(self.settings.memory_mb),
            "log_group": self.settings.log_group,
            "log_stream": self._stream,
        }
        response = self._send(json.dumps(invocation), started + self.settings.timeout_secs, request_id)
        secs = time.time() - started
        self._wait_for_log(f"END RequestId: {request_id}")
        peak_mb = float(response.get("peak_mb", 0.0))
        self._emit(
            f"REPORT RequestId: {request_id}\tDuration: {secs * 1000:.2f} ms\t"
            f"Memory Size: {self.settings.memory_mb} MB\tMax Memory Used: {peak_mb:.0f} MB\t"
            f"Init Duration: {response.get('init_ms', 0.0):.2f} ms"
        )
        return Outcome(response["error"], response["payload"], "\n".join(self._lines), secs, peak_mb)

    @property
    def usable(self) -> bool:
        return self._process.poll() is None

    def close(self) -> None:
        if self._process.stdin is not None:
            self._process.stdin.close()
        try:
            self._process.wait(1)
        except subprocess.TimeoutExpired:
            self._kill()
        self._responses.close()

    def _send(self, line: str, deadline_ts: float, request_id: str) -> dict[str, Any]:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(line.encode() + b"\n")
            self._process.stdin.flush()
            response = _read_line(self._responses, deadline_ts)
        except BrokenPipeError:
            response = b""
        if response.endswith(b"\n"):
            found: dict[str, Any] = json.loads(response)
            return found
        ended = response == b"" and time.time() < deadline_ts
        self._kill()
        if ended:
            status = self._process.returncode
            return _failure("Runtime.ExitError", f"RequestId: {request_id} Error: Runtime exited with status {status}")
        secs = self.settings.timeout_secs
        return _failure("Sandbox.Timedout", f"RequestId: {request_id} Error: Task timed out after {secs:.2f} seconds")

    def _kill(self) -> None:
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def _read_log(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._emit(line.decode("utf-8", "replace").rstrip("\n"))
        with self._ended:
            self._ended.notify_all()

    def _emit(self, line: str) -> None:
        with self._ended:
            self._lines.append(line)
            self._ended.notify_all()
        self._sink(self.settings.log_group, self._stream, line)

    def _wait_for_log(self, last: str) -> None:
        with self._ended:
            self._ended.wait_for(lambda: last in self._lines or not self.usable, END_OF_LOG_SECS)


class Function:
    """A function and its instances: one for each concurrent invocation, reused by later ones."""

    def __init__(
        self, settings: FunctionSettings, bundle: Path, packages: Path, aws: Mapping[str, str], sink: LineSink
    ):
        self.settings = settings
        self._bundle = bundle
        self._packages = packages
        self._aws = aws
        self._sink = sink
        self._idle: list[Instance] = []
        self._lock = threading.Lock()
        self._closed = False
        self.peak_mb = 0.0

    def invoke(self, event: object) -> Outcome:
        instance = self._take()
        try:
            outcome = instance.invoke(event)
        finally:
            self._give_back(instance)
        self.peak_mb = max(self.peak_mb, outcome.peak_mb)
        return outcome

    def close(self) -> None:
        """Invocations in flight finish; their instances close afterwards."""
        with self._lock:
            self._closed, idle, self._idle = True, self._idle, []
        for instance in idle:
            instance.close()

    def _take(self) -> Instance:
        with self._lock:
            if self._idle:
                return self._idle.pop()
        return Instance(self.settings, self._bundle, self._packages, self._aws, self._sink)

    def _give_back(self, instance: Instance) -> None:
        with self._lock:
            if instance.usable and not self._closed:
                self._idle.append(instance)
                return
        instance.close()


def _read_line(stream: IO[bytes], deadline_ts: float) -> bytes:
    """Without a line end when the process ended or the deadline passed."""
    read = b""
    with selectors.DefaultSelector() as selector:
        selector.register(stream, selectors.EVENT_READ)
        while not read.endswith(b"\n"):
            if not selector.select(max(0.0, deadline_ts - time.time())):
                return read
            chunk = stream.read(1 << 16)
            if not chunk:
                return read
            read += chunk
    return read


def _failure(kind: str, message: str) -> dict[str, Any]:
    return {"error": True, "payload": {"errorType": kind, "errorMessage": message}}


def _environment(settings: FunctionSettings, bundle: Path, aws: Mapping[str, str], stream: str) -> dict[str, str]:
    """The deployed variables and those that Lambda adds; none of this process's own."""
    return {
        **aws,
        "PATH": os.defpath,
        "LANG": "en_US.UTF-8",
        "TZ": ":UTC",
        "AWS_EXECUTION_ENV": "AWS_Lambda_python3.13",
        "AWS_LAMBDA_FUNCTION_NAME": settings.name,
        "AWS_LAMBDA_FUNCTION_VERSION": "$LATEST",
        "AWS_LAMBDA_FUNCTION_MEMORY_SIZE": str(settings.memory_mb),
        "AWS_LAMBDA_LOG_GROUP_NAME": settings.log_group,
        "AWS_LAMBDA_LOG_STREAM_NAME": stream,
        "LAMBDA_TASK_ROOT": str(bundle),
        "_HANDLER": settings.handler,
        **dict(settings.variables),
    }
