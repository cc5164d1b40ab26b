"""`make local-aws` as a user runs it. No process that it starts outlives it."""

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from subprocess import PIPE
from typing import Any

import pytest

from infra.local.jobs.runner import SUPERVISOR
from infra.local.processes.checkout import CHECKOUT
from infra.local.processes.server_process import LocalAws

DEADLINE_SECS = 180.0
LOCAL_AWS = [sys.executable, "-m", "infra.local.aws"]


def run(module: str, *arguments: str) -> "subprocess.CompletedProcess[str]":
    words = [sys.executable, "-m", module, *arguments]
    return subprocess.run(words, cwd=CHECKOUT, capture_output=True, text=True, check=False, timeout=DEADLINE_SECS)


def local_aws(*arguments: str) -> "subprocess.CompletedProcess[str]":
    return run("infra.local.aws", *arguments)


def until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + DEADLINE_SECS
    while not holds():
        assert time.monotonic() < deadline, "it did not come about in time"
        time.sleep(0.05)


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def descendants(pid: int) -> set[int]:
    found: set[int] = set()
    for tasks in Path(f"/proc/{pid}/task").glob("*/children"):
        with suppress(FileNotFoundError, ProcessLookupError):  # a thread may just have ended
            for child in tasks.read_text().split():
                found |= {int(child)} | descendants(int(child))
    return found


def is_run(emr: Any, application: str) -> bool:
    """Whether the job was started for the dropped files."""
    runs = emr.list_job_runs(applicationId=application)["jobRuns"]
    return any(run["state"] in ("RUNNING", "SUCCESS") for run in runs)


def test_it_prints_where_everything_is_and_cleans_up_after_an_interrupt(tmp_path: Path) -> None:
    words = [*LOCAL_AWS, "--json", "--set", "MaxFailures=7", "--folder", str(tmp_path / "stack")]
    with subprocess.Popen(words, cwd=CHECKOUT, stdout=PIPE, stderr=PIPE, text=True) as process:
        assert process.stdout is not None
        found = json.loads(process.stdout.readline())
        aws = LocalAws(found["endpoint"], process.pid)
        functions = aws.client("lambda")
        name = found["resources"]["DispatcherFunction"]
        deployed = functions.get_function_configuration(FunctionName=name)["Environment"]["Variables"]
        assert deployed["BLIZZARD_MAX_FAILURES"] == "7"
        answer = functions.invoke(FunctionName=found["resources"]["SweeperFunction"], Payload='{"schedule": "sweep"}')
        assert "FunctionError" not in answer, answer["Payload"].read()
        assert (found["landing"], found["outputs"]["LakeBucketName"]) == ("s3://landing/", "lake")
        second = local_aws("--folder", str(tmp_path / "stack"))
        assert second.returncode == 1
        assert second.stderr.startswith(
            f"local-aws: another stack is running in {tmp_path / 'stack'} (pid {process.pid})"
        )
        file = tmp_path / "first.ndjson.gz"
        file.write_bytes(b"content")
        dropped = run("infra.local.drop", str(file), "--folder", str(tmp_path / "stack"))
        uri = dropped.stdout.removeprefix("dropped ").strip()
        assert (uri.startswith("s3://landing/raw-events/date="), uri.endswith("/first.ndjson.gz")) == (True, True)
        key = uri.removeprefix("s3://landing/")
        assert aws.client("s3").get_object(Bucket="landing", Key=key)["Body"].read() == b"content"
        emr = aws.client("emr-serverless")
        until(lambda: is_run(emr, found["resources"]["JobApplication"]))
        started = descendants(process.pid)
        assert len(started) >= 2
        process.send_signal(signal.SIGINT)
        assert process.communicate(timeout=DEADLINE_SECS) == ("", "")
    assert process.returncode == 0
    until(lambda: not any(is_running(pid) for pid in started))


def test_a_configuration_that_a_stack_cannot_run_is_refused_with_the_reason(tmp_path: Path) -> None:
    config = tmp_path / "local.yaml"
    config.write_text(
        "pipelines:\n  p:\n    table_uri: /data/t\n    sources:\n      s: {uri: /data/in, format: text}\n"
    )
    done = local_aws("--config", str(config), "--folder", str(tmp_path / "stack"))
    assert done.returncode == 2
    lines = done.stderr.splitlines()
    assert len(lines) == 2
    assert all(line.startswith("local-aws: ") and "expected s3://bucket/" in line for line in lines)
    assert not (tmp_path / "stack").exists()


def test_settings_that_the_template_refuses_are_named_before_anything_starts(tmp_path: Path) -> None:
    settings = ["MaxFailures=x", "Foo=1", "Bar", "LakeBucketName=other", "Dispatching=maybe"]
    words = [word for setting in settings for word in ("--set", setting)]
    done = local_aws(*words, "--folder", str(tmp_path / "stack"))
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.splitlines() == [
        "local-aws: --set Bar: expected NAME=VALUE, found no =",
        "local-aws: --set LakeBucketName: publishing the configuration sets it; change the configuration instead",
        "local-aws: --set Dispatching: expected one of on, off, found 'maybe'",
        "local-aws: --set Foo: the template has no such parameter",
        "local-aws: --set MaxFailures: expected Number from 1 to 100, found 'x'",
    ]
    assert not (tmp_path / "stack").exists()


@pytest.mark.parametrize("module", ["infra.local.aws", "infra.local.demo"])
def test_a_folder_with_other_files_is_not_touched(module: str, tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").touch()
    done = run(module, "--folder", str(tmp_path))
    assert done.returncode == 2
    assert f"--folder {tmp_path}: expected a folder that is empty, new, or of an earlier stack" in done.stderr
    assert [file.name for file in tmp_path.iterdir()] == ["thesis.txt"]


def test_a_drop_without_a_stack_says_how_to_start_one(tmp_path: Path) -> None:
    file = tmp_path / "first.ndjson.gz"
    file.touch()
    done = run("infra.local.drop", str(file), "--folder", str(tmp_path))
    assert done.returncode == 1
    assert done.stderr == f"drop: found no stack in {tmp_path}; start one with `make local-aws`\n"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_during_a_commands_import_ends_it_without_output(number: signal.Signals) -> None:
    script = (
        "import os, sys\nfrom infra.local.processes.interrupts import run_interruptible\n"
        f"def load():\n    os.kill(os.getpid(), {int(number)})\n    raise AssertionError\n"
        "sys.exit(run_interruptible(load, 130))"
    )
    words = [sys.executable, "-c", script]
    done = subprocess.run(words, cwd=CHECKOUT, capture_output=True, text=True, check=False, timeout=DEADLINE_SECS)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


def supervised(folder: Path, script: str) -> subprocess.Popen[bytes]:
    words = [sys.executable, "-I", "-S", str(SUPERVISOR), str(folder / "out"), str(folder / "err"), "/bin/sh", "-c"]
    return subprocess.Popen([*words, script], stdin=PIPE, start_new_session=True)


def test_a_supervised_command_keeps_its_output_and_status(tmp_path: Path) -> None:
    process = supervised(tmp_path, "echo hello; echo trouble >&2; exit 3")
    assert process.wait(DEADLINE_SECS) == 3
    assert ((tmp_path / "out").read_text(), (tmp_path / "err").read_text()) == ("hello\n", "trouble\n")


def test_a_supervised_command_ends_with_its_parent_and_by_a_signal(tmp_path: Path) -> None:
    for number, end in enumerate([lambda stdin: stdin.close(), lambda stdin: (stdin.write(b"kill\n"), stdin.flush())]):
        folder = tmp_path / str(number)
        folder.mkdir()
        process = supervised(folder, "sleep 100 & echo $! $$; wait")
        assert process.stdin is not None
        until(lambda folder=folder: (folder / "out").exists() and (folder / "out").read_text().endswith("\n"))  # type: ignore[misc]
        pids = [int(pid) for pid in (folder / "out").read_text().split()]
        assert all(is_running(pid) for pid in pids)
        end(process.stdin)
        assert process.wait(DEADLINE_SECS) == 256 - signal.SIGKILL
        until(lambda pids=pids: not any(is_running(pid) for pid in pids))  # type: ignore[misc]
