"""What is said beforehand bounds what is read."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blizzard.infer.budget import MAX_GROUPS, MORE_BYTES, Budget
from blizzard.storage.base import ObjectInfo, ObjectReader
from blizzard.storage.memory import MemoryReader, MemoryStore
from spark_job.infer.describe import Place
from spark_job.infer.inspect import CannotTell, Inspection


@given(st.integers(1, 500), st.integers(1, 1 << 24), st.lists(st.integers(1, 500), min_size=1, max_size=MAX_GROUPS))
def test_no_groups_of_files_cost_more(files: int, size: int, groups: list[int]) -> None:
    budget = Budget(files, size)
    chosen = [min(count, budget.of_groups(len(groups))) for count in groups]
    assert sum(chosen) <= budget.most_files
    assert sum(count * budget.of_file(len(groups), count) for count in chosen) <= budget.most_bytes


class CountingStore(MemoryStore):
    """Counts the bytes that are read of each object."""

    def __init__(self) -> None:
        super().__init__(clock=lambda: 0.0)
        self.read = Counter[str]()

    @contextmanager
    def open(self, key: str) -> Iterator[ObjectReader]:
        yield CountingReader(*self._found(key), self.read)


class CountingReader(MemoryReader):
    def __init__(self, info: ObjectInfo, data: bytes, read: Counter[str]) -> None:
        super().__init__(info, data)
        self._key, self._read = info.key, read

    def read(self, size: int = -1, /) -> bytes:
        data = super().read(size)
        self._read[self._key] += len(data)
        return data


def looked_at(store: CountingStore, budget: Budget) -> None:
    place = Place("file:///landing/", "file:///lake/t")
    Inspection(store, place, budget, 0.0, lambda **_: None).findings()


@pytest.mark.parametrize("suffixes", [("ndjson",), ("ndjson", "csv", "txt", "log")])
def test_no_more_is_read_than_is_said(suffixes: tuple[str, ...]) -> None:
    store = CountingStore()
    for at in range(80):
        for suffix in suffixes:
            store.put(f"{at}.{suffix}", b'{"id": 1}\n' * 20_000)
    budget = Budget(10, 1000)
    looked_at(store, budget)
    assert 0 < len(store.read) <= budget.most_files
    assert 64_000 < sum(store.read.values()) <= budget.most_bytes + len(store.read)


def test_where_no_record_ends_a_fixed_number_of_bytes_more_is_read() -> None:
    store, budget = CountingStore(), Budget(10, 1000)
    for at in range(4):
        for suffix in ("ndjson", "json", "csv"):
            store.put(f"{at}.{suffix}", b'{"id": "' + b"x" * (7 << 20))
    with pytest.raises(CannotTell, match="no record ends within the first"):
        looked_at(store, budget)
    assert MORE_BYTES // 2 < sum(store.read.values()) <= budget.most_bytes + MORE_BYTES + 100
