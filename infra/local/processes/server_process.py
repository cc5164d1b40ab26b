"""Starts the local AWS as a process, and makes clients for it."""

import json
import os
import selectors
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any

import boto3  # type: ignore[import-untyped]
import botocore.session  # type: ignore[import-untyped]
from botocore.config import Config  # type: ignore[import-untyped]

from blizzard.errors import PermanentError
from infra.local.processes.checkout import CHECKOUT

REGION = "eu-west-1"
ACCOUNT_ID = "123456789012"
ACCESS_KEY_ID = "local"
SECRET_ACCESS_KEY = "local-has-no-secrets"
START_TIMEOUT_SECS = 60.0
STOP_TIMEOUT_SECS = 5.0

# boto3 sessions are not thread-safe; clients are.
_session_lock = threading.Lock()


class LocalAwsFailed(PermanentError):
    """The server's process ended, or did not answer in time."""


@dataclass(frozen=True)
class LocalAws:
    """A running server. All its data is in its memory."""

    endpoint: str
    pid: int

    def client(self, service: str, principal: str = ACCESS_KEY_ID) -> Any:
        """A new, thread-safe boto3 client. `principal`: the access key id of its requests."""
        # No proxy: one that the environment sets for the internet does not reach local ports.
        config = Config(retries={"mode": "standard"}, max_pool_connections=32, proxies={})
        with _session_lock:
            return _session(principal).client(service, endpoint_url=self.endpoint, config=config)

    def environment(self, principal: str = ACCESS_KEY_ID) -> dict[str, str]:
        """Variables that point AWS SDKs of any language here, to be merged over a process's environment."""
        return {
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_ACCESS_KEY_ID": principal,
            "AWS_SECRET_ACCESS_KEY": SECRET_ACCESS_KEY,
            "AWS_REGION": REGION,
            "AWS_DEFAULT_REGION": REGION,
            "AWS_EC2_METADATA_DISABLED": "true",
            "AWS_CONFIG_FILE": os.devnull,
            "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
        }


@cache
def _session(principal: str) -> Any:
    """One for all clients of a principal: it caches service models, so a second client takes a tenth of the time.

    Ignores the user's profile, configuration file and credentials, which are for the real AWS.
    """
    no_user_settings = {
        "profile": (None, None, None, None),
        "config_file": (None, None, os.devnull, None),
        "credentials_file": (None, None, os.devnull, None),
    }
    return boto3.session.Session(
        aws_access_key_id=principal,
        aws_secret_access_key=SECRET_ACCESS_KEY,
        region_name=REGION,
        botocore_session=botocore.session.Session(no_user_settings),
    )


def server_command() -> list[str]:
    return [sys.executable, "-m", "infra.local.moto.server", "--port", "0", "--parent-pid", str(os.getpid())]


@contextmanager
def local_aws(command: Sequence[str] = (), start_timeout_secs: float = START_TIMEOUT_SECS) -> Iterator[LocalAws]:
    """Start a server, wait until it answers, and stop it at the end of the block.

    The server has its own process group: Ctrl-C in the terminal must not stop it while others still use it.
    `command` replaces `server_command()`. Raises LocalAwsFailed.
    """
    process = subprocess.Popen(
        list(command) or server_command(), cwd=CHECKOUT, stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    try:
        aws = LocalAws(_endpoint_of(process, start_timeout_secs), process.pid)
        aws.client("s3").list_buckets()
        yield aws
    finally:
        _stop(process)


def _endpoint_of(process: subprocess.Popen[str], timeout_secs: float) -> str:
    line = _first_line(process, timeout_secs)
    if not line:
        why = "did not answer" if process.poll() is None else f"ended with exit status {process.returncode}"
        raise LocalAwsFailed(
            f"The local AWS (process {process.pid}) {why} within {timeout_secs:g} s. See its output above, "
            "or start it by hand with `python -m infra.local.moto.server`."
        )
    return str(json.loads(line)["endpoint"])


def _first_line(process: subprocess.Popen[str], timeout_secs: float) -> str:
    """Empty when the process ended without one, or at the timeout."""
    assert process.stdout is not None
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        line = process.stdout.readline() if selector.select(timeout_secs) else ""
    if not line and process.poll() is None:
        _wait_briefly(process)
    return line


def _wait_briefly(process: subprocess.Popen[str]) -> None:
    """A process closes its output shortly before it ends."""
    try:
        process.wait(1)
    except subprocess.TimeoutExpired:
        return


def _stop(process: subprocess.Popen[str]) -> None:
    _signal_group(process, signal.SIGTERM)
    try:
        process.wait(STOP_TIMEOUT_SECS)
    except subprocess.TimeoutExpired:
        _signal_group(process, signal.SIGKILL)
        process.wait()
    if process.stdout is not None:
        process.stdout.close()


def _signal_group(process: subprocess.Popen[str], number: signal.Signals) -> None:
    if process.poll() is None:
        os.killpg(process.pid, number)
