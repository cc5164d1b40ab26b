"""How the files of a batch are spread over tasks."""

from hypothesis import given
from hypothesis import strategies as st

from blizzard.manifest.segments import FoundBy
from blizzard.paths.partition import BadPartition, partition_values
from blizzard.state.batch import PlannedFile
from spark_job.tasks.batch_tasks import (
    FILE_OVERHEAD_BYTES,
    MIN_TASK_BYTES,
    TARGET_TASK_BYTES,
    TASKS_PER_CORE,
    pack,
    task_files,
)
from spark_job.tasks.fetch import TaskFile

MIB = 1 << 20

sizes = st.lists(st.integers(0, 200) | st.integers(0, 300 * MIB), min_size=1, max_size=60)


def files_of(sizes: list[int]) -> list[TaskFile]:
    return [TaskFile(f"day={number % 3}/{number:04}", size) for number, size in enumerate(sizes)]


def cost(task: list[TaskFile]) -> int:
    return sum(file.size + FILE_OVERHEAD_BYTES for file in task)


@given(sizes, st.integers(1, 16))
def test_each_file_is_in_one_task_and_the_largest_task_comes_first(sizes: list[int], cores: int) -> None:
    files = files_of(sizes)
    tasks = pack(files, cores)
    assert sorted(file.path for task in tasks for file in task) == sorted(file.path for file in files)
    assert all(tasks)
    assert [*map(cost, tasks)] == sorted(map(cost, tasks), reverse=True)


@given(sizes, st.integers(1, 16))
def test_a_task_exceeds_its_share_by_at_most_one_file(sizes: list[int], cores: int) -> None:
    tasks = pack(files_of(sizes), cores)
    total = sum(map(cost, tasks))
    wanted = max(TASKS_PER_CORE, -(-total // (TARGET_TASK_BYTES * cores))) * cores
    share = total / max(1, min(wanted, total // MIN_TASK_BYTES))
    assert len(tasks) <= wanted + 1
    assert all(cost(task) <= 2.5 * share or len(task) == 1 for task in tasks)


@given(sizes, st.integers(1, 100))
def test_tasks_have_a_minimum_size(sizes: list[int], cores: int) -> None:
    tasks = pack(files_of(sizes), cores)
    small = [task for task in tasks if cost(task) < MIN_TASK_BYTES / 4]
    assert len(small) <= 1 + len(tasks) // 8


def test_a_hundred_small_files_are_one_task_on_any_number_of_cores() -> None:
    assert len(pack(files_of([1_000] * 100), cores=64)) == 1


def test_small_files_share_tasks_next_to_a_large_file() -> None:
    tasks = pack([TaskFile("day=0/0", 600 * MIB), *files_of([600] * 10_000)], cores=2)
    assert len(tasks) < 8
    assert min(map(cost, tasks)) > MIN_TASK_BYTES


def test_files_of_equal_size_keep_every_core_busy() -> None:
    for cores in (1, 2, 3, 4, 16):
        for count in (100, 1_000, 10_000):
            tasks = pack(files_of([2 * MIB] * count), cores)
            assert len(tasks) % cores == 0 or len(tasks) == count or cost(tasks[0]) < 2 * MIN_TASK_BYTES
            assert max(map(cost, tasks)) - min(map(cost, tasks)) <= 2 * (2 * MIB + FILE_OVERHEAD_BYTES)


def test_a_large_batch_has_more_tasks_than_cores_so_that_executors_are_requested() -> None:
    assert len(pack(files_of([MIB] * 1024), cores=4)) == 1024 * MIB // TARGET_TASK_BYTES + 4


COLUMNS = {"day": "date", "hour": "int"}
FOLDERS = [
    "day=2026-01-01/hour=07",
    "day=2026-01-02/hour=8",
    "day=today/hour=1",
    "day=2026-01-01",
    "hour=9/day=2026-01-03",
]


@given(st.lists(st.sampled_from(FOLDERS), max_size=12))
def test_each_file_has_the_partition_values_of_its_own_folder(folders: list[str]) -> None:
    """A folder's values are looked up once; a folder without values refuses each of its files by the file's name."""
    planned = [_planned(f"{folder}/{number}.ndjson") for number, folder in enumerate(folders)]
    made = task_files(planned, COLUMNS)
    assert [file.path for file in made] == [file.path for file in planned]
    assert all(file.path in file.refusal for file in made if file.refusal is not None)
    assert [(file.partitions, file.refusal) for file in made] == [_wanted(file.path) for file in planned]


def _wanted(path: str) -> tuple[tuple[str | None, ...], str | None]:
    """By a look at this path alone."""
    try:
        values = partition_values(path, COLUMNS)
    except BadPartition as error:
        return (None, None), str(error)
    return (values["day"], values["hour"]), None


def test_a_task_gets_the_plan_of_each_file() -> None:
    file = PlannedFile("a.ndjson", 5, 1.0, FoundBy.EVENT, skip_records=3, slice_bytes=4, expected_etag="e")
    assert task_files([file], {}) == [TaskFile("a.ndjson", 5, 3, 4, "e", (), None)]


def _planned(path: str) -> PlannedFile:
    return PlannedFile(path, 1, 0.0, FoundBy.EVENT)
