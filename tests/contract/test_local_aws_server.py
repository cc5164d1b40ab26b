"""The local AWS as a server: what clients may rely on. It never outlives the process that started it."""

import http.client
import json
import os
import socket
import subprocess
import sys
import time
from subprocess import PIPE
from urllib.parse import urlsplit

import pytest

from infra.local.moto.patches import SUPPORTED_MOTO, UnsupportedMoto, check_version
from infra.local.processes.checkout import CHECKOUT
from infra.local.processes.server_process import LocalAws, LocalAwsFailed, local_aws, server_command

DEADLINE_SECS = 120
MIB = 1024 * 1024


def test_an_aborted_upload_leaves_no_object(aws: LocalAws, bucket: str) -> None:
    for head, body in ((b"Content-Length: 100", b"ten bytes."), (b"Transfer-Encoding: chunked", b"64\r\nten bytes.")):
        host = urlsplit(aws.endpoint)
        with socket.create_connection((host.hostname, host.port)) as connection:
            connection.sendall(b"PUT /%s/torn HTTP/1.1\r\nHost: local\r\n%s\r\n\r\n%s" % (bucket.encode(), head, body))
            connection.shutdown(socket.SHUT_WR)
            assert connection.recv(1) == b""
    assert "Contents" not in aws.client("s3").list_objects_v2(Bucket=bucket)


def test_a_connection_serves_many_requests(aws: LocalAws, bucket: str) -> None:
    host = urlsplit(aws.endpoint)
    connection = http.client.HTTPConnection(host.netloc)
    connection.connect()
    first = connection.sock
    for method in ("GET", "HEAD", "GET"):
        connection.request(method, f"/{bucket}")
        assert connection.getresponse().read() is not None
    assert connection.sock is first


def test_large_and_empty_bodies_are_returned_unchanged(aws: LocalAws, bucket: str) -> None:
    s3 = aws.client("s3")
    for body in (b"", os.urandom(3 * MIB)):
        s3.put_object(Bucket=bucket, Key="k", Body=body)
        assert s3.head_object(Bucket=bucket, Key="k")["ContentLength"] == len(body)
        assert s3.get_object(Bucket=bucket, Key="k")["Body"].read() == body


def test_requests_print_nothing_and_sigterm_ends_the_server_cleanly() -> None:
    with subprocess.Popen(server_command(), cwd=CHECKOUT, stdout=PIPE, stderr=PIPE, text=True) as process:
        assert process.stdout is not None
        aws = LocalAws(json.loads(process.stdout.readline())["endpoint"], process.pid)
        aws.client("s3").list_buckets()
        process.terminate()
        assert process.communicate() == ("", "")
    assert process.returncode == 0


def test_the_server_ends_when_its_user_fails() -> None:
    with pytest.raises(ZeroDivisionError), local_aws() as aws:
        raise ZeroDivisionError
    assert not is_running(aws.pid)


def test_the_server_ends_when_its_parent_is_killed() -> None:
    script = (
        "from infra.local.processes.server_process import local_aws\n"
        "with local_aws() as aws: print(aws.pid, flush=True); input()"
    )
    with subprocess.Popen([sys.executable, "-c", script], cwd=CHECKOUT, stdin=PIPE, stdout=PIPE, text=True) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        assert is_running(pid)
        parent.kill()
    wait_until_gone(pid)


def test_a_server_that_cannot_start_raises_an_error() -> None:
    with pytest.raises(LocalAwsFailed, match="exit status 3"), local_aws([sys.executable, "-c", "raise SystemExit(3)"]):
        pass


def test_a_silent_server_is_stopped_after_the_timeout() -> None:
    mute = [sys.executable, "-c", "import time; time.sleep(60)"]
    with pytest.raises(LocalAwsFailed, match="did not answer"), local_aws(mute, start_timeout_secs=0.2):
        pass


def test_another_version_of_moto_is_refused() -> None:
    check_version(SUPPORTED_MOTO)
    with pytest.raises(UnsupportedMoto, match=r"needs moto 5\.2\.5, and moto 5\.2\.6 is installed"):
        check_version("5.2.6")


def test_other_processes_use_the_local_aws_through_their_environment(aws: LocalAws, bucket: str) -> None:
    script = "import boto3; print([b['Name'] for b in boto3.client('s3').list_buckets()['Buckets']])"
    environment = {"PATH": os.defpath, **aws.environment()}
    listed = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True)
    assert bucket in listed.stdout


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def wait_until_gone(pid: int) -> None:
    deadline = time.monotonic() + DEADLINE_SECS
    while is_running(pid):
        assert time.monotonic() < deadline, f"process {pid} still runs"
        time.sleep(0.02)
