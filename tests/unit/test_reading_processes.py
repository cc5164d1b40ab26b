"""The processes of the local engine: each part is read once, by whoever is free."""

import os
import time
from collections.abc import Iterator
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

import pytest

from spark_job.engines.local.processes import ReadingProcesses

PARTS = [f"part {number}" for number in range(20)]


@pytest.fixture
def processes() -> Iterator[ReadingProcesses]:
    made = ReadingProcesses(3)
    yield made
    made.close()


def who_read(part: str) -> str:
    time.sleep(0.02)
    return f"{part}: {os.getpid()}"


def fail_in_a_child(part: str) -> str:
    """`part` names the file that shows that the others began."""
    name, job = part.split(" ")
    if os.getpid() == int(job):
        while not Path(name).exists():
            time.sleep(0.01)
        return part
    Path(name).touch()
    raise ValueError("of a child")


def fail_in_the_job(part: str) -> str:
    folder, job, number = part.split(" ")
    if os.getpid() == int(job):
        raise ValueError("of the job")
    Path(folder, number).touch()
    return part


def die_in_a_child(part: str) -> str:
    if os.getpid() != int(part):
        os._exit(9)
    time.sleep(0.05)
    return part


def test_each_part_is_read_once_and_the_job_reads_too(processes: ReadingProcesses) -> None:
    readers = set()
    for _ in range(2):
        answers = processes.map(who_read, PARTS)
        assert [answer.partition(":")[0] for answer in answers] == PARTS
        readers |= {int(answer.partition(": ")[2]) for answer in answers}
        assert os.getpid() in readers
    assert 1 < len(readers) <= 3


def test_one_part_starts_no_process() -> None:
    processes = ReadingProcesses(3)
    assert processes.map(who_read, PARTS[:1]) == [f"{PARTS[0]}: {os.getpid()}"]
    assert processes._pool is None
    assert processes.map(who_read, []) == []


def test_a_machine_with_one_processor_has_one_process() -> None:
    processes = ReadingProcesses(1)
    assert {answer.partition(": ")[2] for answer in processes.map(who_read, PARTS)} == {str(os.getpid())}
    assert processes._pool is None


def test_an_error_of_a_child_is_raised_and_the_rest_is_left(processes: ReadingProcesses, tmp_path: Path) -> None:
    begun = tmp_path / "begun"
    with pytest.raises(ValueError, match="of a child"):
        processes.map(fail_in_a_child, [f"{begun} {os.getpid()}"] * 20)
    assert len(processes.map(who_read, PARTS)) == len(PARTS)


def test_an_error_of_the_job_itself_is_raised_and_the_rest_is_left(processes: ReadingProcesses, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="of the job"):
        processes.map(fail_in_the_job, [f"{tmp_path} {os.getpid()} {number}" for number in range(500)])
    processes.close()
    assert len([*tmp_path.iterdir()]) < 500


def test_after_a_child_died_the_next_batch_has_new_ones(processes: ReadingProcesses) -> None:
    with pytest.raises(BrokenProcessPool):
        processes.map(die_in_a_child, [str(os.getpid())] * 200)
    assert [answer.partition(":")[0] for answer in processes.map(who_read, PARTS)] == PARTS
