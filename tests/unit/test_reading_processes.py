"""The processes of the local engine: each part is read once, by whoever is free."""

import errno
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from multiprocessing.context import SpawnProcess
from pathlib import Path
from typing import Any

import pytest

from blizzard.environment import variables
from blizzard.processes import ProcessEnded, ReadingProcesses
from infra.local.processes.checkout import CHECKOUT

PARTS = 20
PATIENCE_SECS = 30.0


@pytest.fixture
def processes() -> Iterator[ReadingProcesses]:
    made = ReadingProcesses(3)
    yield made
    made.close()


def parts_in(folder: Path, count: int = PARTS) -> list[str]:
    """Each part names the folder, the job's process and itself."""
    folder.mkdir(exist_ok=True)
    return [f"{folder} {os.getpid()} {number}" for number in range(count)]


def is_job(part: str) -> bool:
    return os.getpid() == int(part.split(" ")[1])


def read(part: str) -> str:
    """Leaves a file for each call."""
    folder, _, number = part.split(" ")
    time.sleep(0.01)
    Path(folder, f"{number} {os.getpid()} {time.monotonic_ns()}").touch()
    return number


def reads_in(folder: Path) -> list[tuple[int, int]]:
    """Part and process of each call, parts in order."""
    named = [file.name.split(" ") for file in folder.iterdir()]
    return sorted((int(number), int(pid)) for number, pid, _ in named)


def fail_in_a_child(part: str) -> str:
    """The job's first part lasts until a child has failed."""
    failed = Path(f"{part.split(' ')[0]}.failed")
    if not is_job(part):
        failed.touch()
        raise ValueError("of a child")
    give_up_ts = time.monotonic() + PATIENCE_SECS
    while not failed.exists():
        assert time.monotonic() < give_up_ts
        time.sleep(0.01)
    time.sleep(0.2)  # the answer of the child is on its way
    return read(part)


def fail_in_the_job(part: str) -> str:
    if is_job(part):
        raise ValueError("of the job")
    return read(part)


def fail_beside_a_dead_child(part: str) -> str:
    if not is_job(part):
        os._exit(9)
    time.sleep(0.5)
    raise ValueError("of the job")


def die_in_a_child(part: str) -> str:
    if not is_job(part):
        os._exit(9)
    time.sleep(0.02)
    return read(part)


def test_each_part_is_read_once_and_the_job_reads_too(processes: ReadingProcesses, tmp_path: Path) -> None:
    readers = set()
    for name in ("first", "second"):
        assert processes.map(read, parts_in(tmp_path / name, 100)) == [str(number) for number in range(100)]
        reads = reads_in(tmp_path / name)
        assert [number for number, _ in reads] == [*range(100)]
        readers |= {pid for _, pid in reads}
    assert readers == {os.getpid(), *processes.pids()}
    assert len(processes.pids()) == 2


@dataclass(frozen=True)
class ReadWithPlan:
    """Leaves a file each time that it travels."""

    folder: Path

    def __call__(self, part: str) -> str:
        return read(part)

    def __getstate__(self) -> dict[str, Any]:
        (self.folder / f"{time.monotonic_ns()}").touch()
        return self.__dict__


def test_a_call_travels_once_to_each_process(processes: ReadingProcesses, tmp_path: Path) -> None:
    processes.map(read, parts_in(tmp_path / "before"))
    for name in ("one", "another"):
        (tmp_path / name).mkdir()
        call = ReadWithPlan(tmp_path / name)
        for _ in range(2):
            assert processes.map(call, parts_in(tmp_path / "parts", 50)) == [str(number) for number in range(50)]
        assert len([*(tmp_path / name).iterdir()]) == len(processes.pids())
        processes.map(read, parts_in(tmp_path / "between"))


def test_one_part_starts_no_process(tmp_path: Path) -> None:
    processes = ReadingProcesses(3)
    assert processes.map(read, parts_in(tmp_path, 1)) == ["0"]
    assert reads_in(tmp_path) == [(0, os.getpid())]
    assert processes.map(read, []) == []
    assert processes.pids() == []


def test_a_machine_with_one_processor_has_one_process(tmp_path: Path) -> None:
    processes = ReadingProcesses(1)
    processes.map(read, parts_in(tmp_path))
    assert {pid for _, pid in reads_in(tmp_path)} == {os.getpid()}
    assert processes.pids() == []


def test_an_error_of_a_child_is_raised_and_the_rest_is_left(processes: ReadingProcesses, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="of a child"):
        processes.map(fail_in_a_child, parts_in(tmp_path / "parts"))
    assert [pid for _, pid in reads_in(tmp_path / "parts")] == [os.getpid()]
    assert_goes_on(processes, tmp_path / "next")


def test_an_error_of_the_job_itself_is_raised_and_the_rest_is_left(processes: ReadingProcesses, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="of the job"):
        processes.map(fail_in_the_job, parts_in(tmp_path / "parts", 200))
    assert len(reads_in(tmp_path / "parts")) <= 2  # what children had begun
    assert_goes_on(processes, tmp_path / "next")


def test_after_a_child_died_the_next_batch_has_new_ones(processes: ReadingProcesses, tmp_path: Path) -> None:
    with pytest.raises(ProcessEnded):
        processes.map(die_in_a_child, parts_in(tmp_path / "parts", 200))
    assert_goes_on(processes, tmp_path / "next")


def test_after_an_error_beside_a_dead_child_the_next_batch_has_new_ones(
    processes: ReadingProcesses, tmp_path: Path
) -> None:
    with pytest.raises((ProcessEnded, ValueError), match=r"exit code 9|of the job"):  # whichever was first
        processes.map(fail_beside_a_dead_child, parts_in(tmp_path / "parts"))
    assert_goes_on(processes, tmp_path / "next")


@pytest.mark.parametrize("working", [0, 1])
def test_a_process_that_cannot_be_started_fails_the_batch(
    processes: ReadingProcesses, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, working: int
) -> None:
    whole, calls = SpawnProcess.start, 0

    def start(self: SpawnProcess) -> None:
        nonlocal calls
        calls += 1
        if calls > working:
            raise OSError(errno.EAGAIN, "no more processes")
        whole(self)

    with monkeypatch.context() as patched:
        patched.setattr(SpawnProcess, "start", start)
        with pytest.raises(ProcessEnded, match=r"no process could be started: .*no more processes"):
            processes.map(read, parts_in(tmp_path / "parts"))
    assert reads_in(tmp_path / "parts") == []
    assert_goes_on(processes, tmp_path / "next")


@pytest.mark.parametrize("then", ["read", "close"])
def test_a_process_that_was_killed_while_it_had_nothing_to_do_is_replaced(
    processes: ReadingProcesses, tmp_path: Path, then: str
) -> None:
    processes.map(read, parts_in(tmp_path / "parts"))
    killed, other = processes.pids()
    os.kill(killed, signal.SIGKILL)
    os.waitid(os.P_PID, killed, os.WEXITED | os.WNOWAIT)
    if then == "read":
        assert_goes_on(processes, tmp_path / "next")
        assert other in processes.pids()
        assert killed not in processes.pids()
    processes.close()
    assert not Path(f"/proc/{other}").exists()


def large_answer(part: str) -> str:
    if is_job(part):
        raise ValueError("of the job")
    return "x" * (4 << 20)


def test_an_error_while_a_child_gives_a_large_answer(processes: ReadingProcesses, tmp_path: Path) -> None:
    for _ in range(5):
        with pytest.raises(ValueError, match="of the job"):
            processes.map(large_answer, parts_in(tmp_path))
    assert_goes_on(processes, tmp_path / "next")


class Unportable(Exception):
    def __init__(self, one: str, two: str) -> None:
        super().__init__(one)


def fail_in_an_own_way(part: str) -> str:
    if is_job(part):
        time.sleep(0.5)
        return part
    raise Unportable("one", "two")


def test_an_error_of_a_child_that_cannot_travel_is_told(processes: ReadingProcesses, tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="Unportable: one") as caught:
        processes.map(fail_in_an_own_way, parts_in(tmp_path))
    assert "in fail_in_an_own_way" in str(caught.value.__cause__)


def test_a_program_that_forgets_to_close_them_ends(tmp_path: Path) -> None:
    script = tmp_path / "job.py"
    script.write_text(
        "from blizzard.processes import ReadingProcesses\n"
        "if __name__ == '__main__':\n"
        "    print(*ReadingProcesses(3).map(str, ['a', 'b', 'c']))\n"
    )
    environment = {**variables(), "PYTHONPATH": str(CHECKOUT)}
    done = subprocess.run(
        [sys.executable, script], env=environment, capture_output=True, text=True, check=True, timeout=60
    )
    assert (done.stdout, done.stderr) == ("a b c\n", "")


class Signalling:
    """In the job, a signal to all children follows each call. Children get the call alone."""

    def __init__(self, call: Callable[[str], str], signal_all: Callable[[], None] = lambda: None) -> None:
        self._call, self._signal_all = call, signal_all

    def __reduce__(self) -> tuple[Any, ...]:
        return Signalling, (self._call,)

    def __call__(self, part: str) -> str:
        answer = self._call(part)
        self._signal_all()
        return answer


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_to_all_leaves_the_children_to_the_job(
    processes: ReadingProcesses, tmp_path: Path, number: signal.Signals
) -> None:
    """As a terminal sends it, or a service manager: from the moment at which they start."""

    def signal_all() -> None:
        for pid in processes.pids():
            os.kill(pid, number)

    for name in ("as-they-start", "as-they-read"):
        processes.map(Signalling(read, signal_all), parts_in(tmp_path / name, 100))
        assert [part for part, _ in reads_in(tmp_path / name)] == [*range(100)]
    assert {pid for _, pid in reads_in(tmp_path / "as-they-read")} > {os.getpid()}


def test_the_first_child_too_starts_with_signals_blocked(tmp_path: Path) -> None:
    """In a process of its own: the first child of a process comes with Python's resource tracker."""
    script = tmp_path / "first_child.py"
    script.write_text(
        """import signal
from multiprocessing import util

from blizzard.processes import ReadingProcesses

spawn = util.spawnv_passfds


def seen(path, arguments, fds):
    if any("spawn_main" in str(each) for each in arguments):
        print(*sorted(each.name for each in signal.pthread_sigmask(signal.SIG_BLOCK, ())))
    return spawn(path, arguments, fds)


if __name__ == "__main__":
    util.spawnv_passfds = seen
    processes = ReadingProcesses(3)
    processes.map(str.upper, ["a", "b", "c"])
    print(*signal.pthread_sigmask(signal.SIG_BLOCK, ()))
    processes.close()
"""
    )
    environment = variables() | {"PYTHONPATH": str(CHECKOUT)}
    done = subprocess.run(
        [sys.executable, script], env=environment, capture_output=True, text=True, check=True, timeout=60
    )
    assert (done.stdout, done.stderr) == ("SIGINT SIGTERM\n" * 2 + "\n", "")


def assert_goes_on(processes: ReadingProcesses, folder: Path) -> None:
    assert processes.map(read, parts_in(folder)) == [str(number) for number in range(PARTS)]
