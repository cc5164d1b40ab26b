"""The sizes of many files take few requests."""

import threading

from hypothesis import given
from hypothesis import strategies as st

from blizzard.storage.memory import MemoryStore
from spark_job.loop.files.file_sizes import FileSizes
from tests.unit.recoveries import CountingStore

names = st.integers(0, 400).map(lambda n: f"{n:03}")
folders = st.sampled_from(["", "a/", "a/b/", "c/"])
paths = st.builds(str.__add__, folders, names)


@given(
    there=st.sets(paths, max_size=40),
    crowded=st.sets(folders),
    wanted=st.sets(paths, max_size=60),
)
def test_sizes_are_right_from_listings_and_from_heads(there: set[str], crowded: set[str], wanted: set[str]) -> None:
    objects = MemoryStore(lambda: 0.0)
    for path in there | {f"{folder}{n:03}-" for folder in crowded for n in range(400)}:
        objects.put(path, b"x" * (len(path) + int(path[-3:-1], 36)))
    expected = {path: info.size for path in wanted if (info := objects.head(path)) is not None}
    assert dict(FileSizes(objects)(wanted)) == expected


def objects_of(count: int, prefix: str = "") -> MemoryStore:
    store = MemoryStore(lambda: 0.0)
    for n in range(count):
        store.put(f"{prefix}{n:05}", b"x")
    return store


def test_the_sizes_of_a_whole_folder_take_a_listing_and_one_request() -> None:
    store = CountingStore(objects_of(500, "day=1/"))
    assert len(FileSizes(store)(f"day=1/{n:05}" for n in range(500))) == 500
    assert (store.heads, store.listed) == (1, 499)


def test_a_few_files_among_many_others_get_parallel_heads() -> None:
    store = CountingStore(objects_of(5000))
    together = threading.Barrier(11)
    store.before_head = lambda: together.wait(timeout=30)
    assert len(FileSizes(store)(f"{n:05}" for n in range(0, 5000, 455))) == 11
    assert store.heads == 11
    assert store.listed <= 11 * 31
