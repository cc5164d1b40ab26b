"""LocalStack (localstack.cloud) as a process on a free port, with its files in a folder of its own, without Docker."""

import json
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from blizzard.environment import variables
from infra.local.functions.function import LAMBDA_PACKAGES
from infra.local.jobs.runner import SUPERVISOR
from infra.local.processes.checkout import CHECKOUT
from infra.local.processes.platform_packages import link_packages

PLUGIN = Path(__file__).with_name("lambda_processes.py")
START_TIMEOUT_SECS = 180.0
STOP_TIMEOUT_SECS = 20.0
KEPT = ("PATH", "LANG", "LC_ALL")
"""Of this process's environment; a user's own settings for LocalStack must not change the test."""


class LocalStackFailed(Exception):
    """LocalStack's process ended, or did not answer in time."""


@contextmanager
def localstack(python: Path, folder: Path, function_variables: Mapping[str, str]) -> Iterator[str]:
    """Start LocalStack, wait until it answers, and stop it at the end of the block. Yields its endpoint.

    `python`: the interpreter of its environment. `folder`: for its data and logs, and for nothing else.
    `function_variables`: added to the environment of each function. Raises LocalStackFailed.
    """
    for name in ("home", "tmp", "logs"):
        (folder / name).mkdir(parents=True)
    endpoint = f"http://127.0.0.1:{_free_port()}"
    out, err = folder / "localstack.log", folder / "localstack-errors.log"
    process = subprocess.Popen(
        # It ends with this process, however that ends.
        [sys.executable, "-I", "-S", SUPERVISOR, out, err, python, "-m", "localstack.runtime.main"],
        cwd=folder,
        env=_environment(folder, endpoint, function_variables),
        stdin=subprocess.PIPE,
        start_new_session=True,
    )
    try:
        _wait_until_ready(process, endpoint, [out, err])
        yield endpoint
    finally:
        _stop(process)


def tail(file: Path, lines: int = 30) -> str:
    """The last lines of a log, under its name."""
    text = file.read_text(errors="replace").splitlines() if file.exists() else []
    return "\n".join([f"--- the end of {file} ({len(text)} lines)", *text[-lines:]])


def _environment(folder: Path, endpoint: str, function_variables: Mapping[str, str]) -> dict[str, str]:
    host = endpoint.removeprefix("http://")
    return {
        **{name: value for name, value in variables().items() if name in KEPT},
        "HOME": str(folder / "home"),
        "TMPDIR": str(folder / "tmp"),
        "FILESYSTEM_ROOT": str(folder / "data"),
        "PYTHONPATH": str(_plugin(folder)),
        "GATEWAY_LISTEN": host,
        "LOCALSTACK_HOST": host,
        # Nothing asks another machine: no usage reports, certificates, name server, or names that need one.
        "DISABLE_EVENTS": "1",
        "SKIP_SSL_CERT_DOWNLOAD": "1",
        "DNS_ADDRESS": "0",
        "SQS_ENDPOINT_STRATEGY": "path",
        "LAMBDA_RUNTIME_EXECUTOR": "processes",
        "BLIZZARD_LAMBDA_PACKAGES": str(link_packages(folder / "lambda-packages", LAMBDA_PACKAGES)),
        "BLIZZARD_LAMBDA_LOGS": str(folder / "logs"),
        "BLIZZARD_LAMBDA_VARIABLES": json.dumps({**function_variables, "AWS_ENDPOINT_URL": endpoint}),
    }


def _plugin(folder: Path) -> Path:
    """An installed package, as LocalStack looks for plugins: the module, what it imports of `infra`, and metadata."""
    site = folder / "plugin"
    metadata = site / "lambda_processes-1.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: lambda-processes\nVersion: 1\n")
    (metadata / "entry_points.txt").write_text(
        f"[localstack.lambda.runtime_executor]\nprocesses = {PLUGIN.stem}:ProcessExecutorPlugin\n"
    )
    (site / PLUGIN.name).symlink_to(PLUGIN)
    (site / "infra").symlink_to(CHECKOUT / "infra")
    return site


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def _wait_until_ready(process: "subprocess.Popen[bytes]", endpoint: str, logs: list[Path]) -> None:
    deadline = time.monotonic() + START_TIMEOUT_SECS
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    while time.monotonic() < deadline and process.poll() is None:
        try:
            opener.open(f"{endpoint}/_localstack/health", timeout=10).close()
        except (urllib.error.URLError, OSError):
            time.sleep(0.2)
        else:
            return
    why = "did not answer" if process.poll() is None else f"ended with exit status {process.returncode}"
    tails = "\n".join(map(tail, logs))
    raise LocalStackFailed(f"LocalStack {why} within {START_TIMEOUT_SECS:g} s.\n{tails}")


def _stop(process: "subprocess.Popen[bytes]") -> None:
    assert process.stdin is not None
    if process.poll() is None:
        process.stdin.write(b"term\n")
        process.stdin.flush()
    with suppress(subprocess.TimeoutExpired):
        process.wait(STOP_TIMEOUT_SECS)
    process.stdin.close()
    process.wait()
