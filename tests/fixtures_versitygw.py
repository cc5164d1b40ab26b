"""A real S3 server for tests: versitygw over a folder, as a process."""

import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from shutil import which
from typing import Any

import pytest

from blizzard.environment import variables
from infra.local.processes.checkout import CHECKOUT
from infra.tools.go_programs import VERSITYGW, GoTools, GoUnavailable
from tests.fixtures_s3 import BUCKET, CREDENTIALS

REGION = "us-east-1"
START_SECS = 60.0
STARTS = 5
"""Another process may take the port between the look for a free one and the server's start."""


@dataclass(frozen=True)
class S3Server:
    """`folder` has a folder for each bucket, and in it a file for each object."""

    endpoint: str
    folder: Path

    def environment(self) -> dict[str, str]:
        """Variables that point AWS SDKs of any language here."""
        return {**CREDENTIALS, "AWS_ENDPOINT_URL": self.endpoint, "AWS_REGION": REGION, "AWS_DEFAULT_REGION": REGION}

    def client(self) -> Any:
        """boto3's, without retries."""
        import boto3  # type: ignore[import-untyped]
        from botocore.config import Config  # type: ignore[import-untyped]

        config = Config(retries={"total_max_attempts": 1}, s3={"addressing_style": "path"}, proxies={})
        keys = (CREDENTIALS["AWS_ACCESS_KEY_ID"], CREDENTIALS["AWS_SECRET_ACCESS_KEY"])
        return boto3.client("s3", REGION, endpoint_url=self.endpoint, config=config,
                            aws_access_key_id=keys[0], aws_secret_access_key=keys[1])  # fmt: skip

    def new_bucket(self, name: str, *, versioned: bool = False) -> str:
        client = self.client()
        client.create_bucket(Bucket=name)
        if versioned:
            client.put_bucket_versioning(Bucket=name, VersioningConfiguration={"Status": "Enabled"})
        return name


@pytest.fixture(scope="session")
def versitygw_program() -> Path:
    """Built at first use. Skips where there is no Go, or where it cannot build; only CI, which has no reader of the
    skipped tests, fails when Go is there and does not build."""
    try:
        return GoTools(CHECKOUT).program(VERSITYGW)
    except GoUnavailable as error:
        if variables().get("CI") and which("go"):
            raise
        pytest.skip(f"NOT TESTED against a real S3 server: {' '.join(str(error).split())}")


@pytest.fixture(scope="session")
def versitygw(versitygw_program: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    """A server with an empty bucket BUCKET. Credentials for it are in the environment."""
    with pytest.MonkeyPatch.context() as patch, serving(versitygw_program, tmp_path_factory.mktemp("gw")) as server:
        for name, value in CREDENTIALS.items():
            patch.setenv(name, value)
        server.new_bucket(BUCKET)
        yield server


@contextmanager
def serving(program: Path, folder: Path, *options: str) -> Iterator[S3Server]:
    """A server over new folders below `folder`, with versions of objects beside the buckets."""
    for name in ("buckets", "versions"):
        (folder / name).mkdir(exist_ok=True)
    for _ in range(STARTS):
        port = _free_port()
        process = _start(program, folder, port, *options)
        try:
            if _answers(process, port):
                yield S3Server(f"http://127.0.0.1:{port}", folder / "buckets")
                return
        finally:
            process.send_signal(signal.SIGKILL)
            process.wait()
    pytest.fail(f"versitygw did not start: {(folder / 'log').read_text()[-2000:]}")


def _start(program: Path, folder: Path, port: int, *options: str) -> "subprocess.Popen[bytes]":
    environ = {
        **variables(),
        "ROOT_ACCESS_KEY": CREDENTIALS["AWS_ACCESS_KEY_ID"],
        "ROOT_SECRET_KEY": CREDENTIALS["AWS_SECRET_ACCESS_KEY"],
    }
    command = [str(program), "--port", f"127.0.0.1:{port}", "--region", REGION, "--quiet", *options, "posix"]
    folders = ["--versioning-dir", str(folder / "versions"), str(folder / "buckets")]
    with (folder / "log").open("ab") as log:
        return subprocess.Popen([*command, *folders], env=environ, stdout=log, stderr=log, cwd=os.sep)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _answers(process: "subprocess.Popen[bytes]", port: int) -> bool:
    """Whether the server accepts connections; False once it has ended."""
    deadline = time.monotonic() + START_SECS
    while process.poll() is None and time.monotonic() < deadline:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            time.sleep(0.02)
        else:
            return process.poll() is None
    return False
