"""Which names are listed and which files are looked into, at a bounded cost."""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from blizzard.infer.choice import chosen
from blizzard.infer.groups import grouped, is_hidden, suffix_of
from blizzard.infer.listing import FIRST_NAMES, MAX_REQUESTS, PAGE, list_names
from blizzard.infer.pace import MAX_DELAY_SECS, Intervals, SettleDelay, intervals, settle_delay
from blizzard.storage.base import ObjectInfo, ObjectStore
from tests.unit.strategies import memory_store

NOW = datetime(2026, 11, 26, 12, tzinfo=UTC)


def info(key: str, size: int = 10, modified_ts: float = 0.0) -> ObjectInfo:
    return ObjectInfo(key, size, "e", modified_ts)


class PagedStore:
    """Names alone, listed in pages as S3 does, whose requests are counted. Any other call fails."""

    def __init__(self, keys: Sequence[str]) -> None:
        self.keys = sorted(keys)
        self.requests = 0

    def list(self, prefix: str = "", *, start_after: str = "", recursive: bool = True) -> Iterator[ObjectInfo]:
        at = bisect_left(self.keys, max(prefix, f"{start_after}\0" if start_after else ""))
        while True:
            self.requests += 1
            page = [key for key in self.keys[at : at + PAGE] if key.startswith(prefix)]
            yield from map(info, page)
            if len(page) < PAGE:
                return
            at += PAGE


def listed(keys: Sequence[str]) -> tuple[list[str], PagedStore, Any]:
    store: Any = PagedStore(keys)
    as_store: ObjectStore = store
    listing = list_names(as_store, NOW.timestamp())
    return [found.key for found in listing.files], store, listing


def test_a_small_place_is_listed_as_a_whole() -> None:
    keys, store, listing = listed([f"a/{n}" for n in range(2500)])
    assert keys == store.keys
    assert listing.is_whole
    assert store.requests == listing.requests == 3


def flat() -> list[str]:
    return [f"{(n * 2654435761) % 2**32:08x}.json" for n in range(1_000_000)]


def by_day() -> list[str]:
    days = [f"{NOW - timedelta(days=n):date=%Y-%m-%d}" for n in range(1000)]
    return [f"{day}/{n:04d}.json" for day in days for n in range(1000)]


def by_customer() -> list[str]:
    return [f"{chr(97 + n % 26)}{n % 9973}/{n}.json" for n in range(1_000_000)]


def deep() -> list[str]:
    return [f"{''.join(f'{chr(97 + n // 26**level % 26)}/' for level in range(12))}{n}" for n in range(200_000)]


@pytest.mark.parametrize("make", [flat, by_day, by_customer, deep])
def test_a_million_names_take_a_bounded_number_of_requests_and_the_last_are_seen(make: Any) -> None:
    keys, store, listing = listed(make())
    assert not listing.is_whole
    assert store.requests == listing.requests <= MAX_REQUESTS
    assert keys[:FIRST_NAMES] == store.keys[:FIRST_NAMES]
    assert keys == sorted(set(keys))
    assert keys[-1] >= store.keys[int(len(store.keys) * 0.9)]
    assert len(keys) > FIRST_NAMES + 5 * PAGE


def test_the_oldest_newest_largest_and_smallest_files_are_looked_into() -> None:
    files = [info(f"{n:03d}", size=100 + (n * 37) % 101, modified_ts=(n * 53) % 101) for n in range(101)]
    some = chosen(files, 10)
    assert len(some) == 10
    for order in (lambda one: one.modified_ts, lambda one: one.size, lambda one: one.key):
        assert {min(files, key=order), max(files, key=order)} <= {*some}
    assert some == sorted(some, key=lambda one: one.key)


def test_no_empty_file_is_looked_into_and_all_of_a_few_are() -> None:
    assert [one.key for one in chosen([info("b"), info("a"), info("c", 0)], 10)] == ["a", "b"]


@pytest.mark.parametrize(
    ("key", "suffix"),
    [
        ("a.ndjson", ".ndjson"),
        ("x/y.CSV.gz", ".CSV.gz"),
        ("part-0.c000.snappy.parquet", ".parquet"),
        ("server.log.2026-11-21", ""),
        ("2026-11-01-00-00-12-A1B2", ""),
        ("a.b/c", ""),
        (".json", ""),
        ("data.gz", ".gz"),
    ],
)
def test_an_extension_keeps_that_of_its_compression(key: str, suffix: str) -> None:
    assert suffix_of(key) == suffix


@pytest.mark.parametrize("key", ["_SUCCESS", "a/_temporary/0/x.parquet", ".x.crc", "a/.hidden/x"])
def test_hidden_files_are_none_of_the_data(key: str) -> None:
    assert is_hidden(key)
    assert not is_hidden("_year=2026/a.json")


def test_files_are_grouped_by_folder_and_extension() -> None:
    keys = ["users/a.json", "users/b.json", "clicks/2026/a.csv", "clicks/2026/b.json", "_SUCCESS"]
    assert [(group.place, group.suffix, len(group.files)) for group in grouped(map(info, keys))] == [
        ("users", ".json", 2),
        ("clicks", ".csv", 1),
        ("clicks", ".json", 1),
    ]


@pytest.mark.parametrize("first", ["day=1", "2026", "id-12345678"])
def test_folders_of_dates_and_ids_are_no_places(first: str) -> None:
    assert {group.place for group in grouped([info(f"{first}/a.json"), info("b/a.json")])} == {""}


def test_the_delay_is_twice_the_time_by_which_a_file_came_too_late() -> None:
    on_time = [info(f"{n:03d}", modified_ts=n * 10) for n in range(100)]
    assert settle_delay(on_time) == SettleDelay(None, "no file came late")
    late = [*on_time[:50], info("0495", modified_ts=900), *on_time[51:]]
    assert settle_delay(late) == SettleDelay(
        2 * (900 - 510), "a file came up to 390 seconds after one that sorts behind it"
    )
    little = [*on_time[:50], info("0495", modified_ts=540), *on_time[51:]]
    assert settle_delay(little) == SettleDelay(None, "a file came up to 30 seconds after one that sorts behind it")
    in_no_order = [info(f"{n:03d}", modified_ts=(n * 37) % 100) for n in range(100)]
    assert settle_delay(in_no_order) == SettleDelay(None, "only 5 of 99 files came before those that sort behind them")
    assert settle_delay(on_time[:1]) == SettleDelay(None, "no folder has two files whose times could be compared")
    much = [*on_time[:50], info("0495", modified_ts=9_000), *on_time[51:]]
    assert settle_delay(much).secs == MAX_DELAY_SECS


def test_intervals_follow_from_the_mean_size() -> None:
    assert intervals([info("a", 1 << 20)] * 2000) == Intervals(None, None, "a file has 1,048,576 bytes on average")
    assert intervals([info("a", 100)] * 2000) == Intervals(10_000, None, "a file has 100 bytes on average")
    assert intervals([info("a", 100)] * 1000) == Intervals(None, None, "a file has 100 bytes on average")
    assert intervals([info("a", 1 << 30)]) == Intervals(None, 4 << 30, "a file has 1,073,741,824 bytes on average")


def test_the_memory_store_lists_as_the_paged_one() -> None:
    store = memory_store()
    for key in ("a/1", "b/2", "c"):
        store.put(key, b"x")
    assert [found.key for found in list_names(store, 0).files] == ["a/1", "b/2", "c"]
