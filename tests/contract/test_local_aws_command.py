"""`make local-aws` as its user has it, and that nothing which it started outlives it."""

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from subprocess import PIPE

from infra.local.job_runner import SUPERVISOR
from infra.local.process import CHECKOUT, LocalAws

DEADLINE_SECS = 60.0


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
        for child in tasks.read_text().split():
            found |= {int(child)} | descendants(int(child))
    return found


def test_it_prints_where_everything_is_and_leaves_nothing_after_an_interrupt(tmp_path: Path) -> None:
    words = [sys.executable, "-m", "infra.local.aws", "--json", "--set", "MaxFailures=7"]
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
        started = descendants(process.pid)
        assert len(started) >= 2
        process.send_signal(signal.SIGINT)
        assert process.communicate(timeout=DEADLINE_SECS) == ("", "")
    assert process.returncode == 0
    until(lambda: not any(is_running(pid) for pid in started))


def test_a_configuration_that_does_not_fit_is_refused_in_so_many_words(tmp_path: Path) -> None:
    config = tmp_path / "local.yaml"
    config.write_text(
        "pipelines:\n  p:\n    table_uri: /data/t\n    sources:\n      s: {uri: /data/in, format: text}\n"
    )
    words = [sys.executable, "-m", "infra.local.aws", "--config", str(config)]
    done = subprocess.run(words, cwd=CHECKOUT, capture_output=True, text=True, check=False, timeout=DEADLINE_SECS)
    assert done.returncode == 1
    assert "expected s3://bucket/" in done.stderr
    assert "Traceback" not in done.stderr


def supervised(folder: Path, script: str) -> subprocess.Popen[bytes]:
    words = [sys.executable, "-I", "-S", str(SUPERVISOR), str(folder / "out"), str(folder / "err"), "/bin/sh", "-c"]
    return subprocess.Popen([*words, script], stdin=PIPE, start_new_session=True)


def test_a_supervised_command_leaves_its_output_and_its_status(tmp_path: Path) -> None:
    process = supervised(tmp_path, "echo hello; echo trouble >&2; exit 3")
    assert process.wait(DEADLINE_SECS) == 3
    assert ((tmp_path / "out").read_text(), (tmp_path / "err").read_text()) == ("hello\n", "trouble\n")


def test_a_supervised_command_ends_with_its_starter_and_by_its_orders(tmp_path: Path) -> None:
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
