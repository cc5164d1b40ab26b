"""Listing: keys in byte order, folders, laziness."""

import time
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from blizzard.storage.base import ObjectStore
from blizzard.storage.keys import is_relative_path
from blizzard.storage.local import LocalStore
from tests.contract.object_store.stores import NewStore, fill, keys_of

_NAME = st.text("ab-.+ %=é€🎉~_0Z!", min_size=1, max_size=4).filter(is_relative_path)
_KEY = st.lists(_NAME, min_size=1, max_size=3).map("/".join)


def _possible_on_disk(keys: set[str]) -> set[str]:
    """Without those that would have to be file and folder at once."""
    return {key for key in keys if not any(other.startswith(key + "/") for other in keys)}


_KEYS = st.sets(_KEY, min_size=1, max_size=12).map(_possible_on_disk)


@st.composite
def _pieces(draw: st.DrawFn) -> tuple[set[str], str, str, bool]:
    """Keys, and a prefix and a start that are cut somewhere out of them."""
    keys = draw(_KEYS)
    cut = st.sampled_from(sorted(keys)).flatmap(lambda key: st.integers(0, len(key)).map(lambda end: key[:end]))
    return keys, draw(cut), draw(cut), draw(st.booleans())


@given(_pieces())
@settings(max_examples=60)
def test_a_listing_has_the_matching_keys_in_byte_order(
    new_store: NewStore, pieces: tuple[set[str], str, str, bool]
) -> None:
    keys, prefix, start_after, recursive = pieces
    store = fill(new_store(), *keys)
    wanted = [
        key
        for key in sorted(keys, key=str.encode)
        if key.startswith(prefix) and key.encode() > start_after.encode()
        if recursive or "/" not in key.removeprefix(prefix)
    ]
    assert keys_of(store, prefix=prefix, start_after=start_after, recursive=recursive) == wanted


@given(_pieces())
@settings(max_examples=60)
def test_folders_below_a_prefix_are_listed_once_and_in_order(
    new_store: NewStore, pieces: tuple[set[str], str, str, bool]
) -> None:
    keys, prefix, start_after, _ = pieces
    store = fill(new_store(), *keys)
    behind = {key: key.removeprefix(prefix).partition("/") for key in keys if key.startswith(prefix)}
    folders = {prefix + name + "/" for name, slash, _ in behind.values() if slash}
    wanted = [folder for folder in sorted(folders, key=str.encode) if folder.encode() > start_after.encode()]
    assert list(store.list_folders(prefix, start_after=start_after)) == wanted


def test_a_folder_is_sorted_with_the_slash_after_its_name(store: ObjectStore) -> None:
    fill(store, "a/b", "a-b", "a.b", "a0", "a/b-", "ab/c")
    assert keys_of(store) == ["a-b", "a.b", "a/b", "a/b-", "a0", "ab/c"]


def test_a_listing_continues_after_a_folder(store: ObjectStore) -> None:
    fill(store, "a/1", "a/2", "b/1", "c")
    assert list(store.list_folders(start_after="a/")) == ["b/"]
    assert keys_of(store, start_after="a/2") == ["b/1", "c"]


def test_listing_an_unused_prefix_is_empty(store: ObjectStore) -> None:
    fill(store, "a/1", "f")
    for prefix in ("no/such/folder/", "f/", "a/1/"):
        assert keys_of(store, prefix=prefix) == []
        assert list(store.list_folders(prefix)) == []


def test_a_listing_is_lazy(store: ObjectStore) -> None:
    fill(store, *(f"{number:02}" for number in range(20)))
    listing = store.list()
    assert next(listing).key == "00"
    store.put("19-late", b"")
    store.delete(["18"])
    assert sum(1 for _ in listing) >= 18


def test_a_folder_marker_is_not_an_object_but_its_folder_is_listed(store: ObjectStore) -> None:
    if isinstance(store, LocalStore):
        Path(store.uri.removeprefix("file://"), "marked").mkdir()
    else:
        store.put("marked/", b"")
    store.put("z", b"")
    assert keys_of(store) == ["z"]
    assert keys_of(store, prefix="marked/") == []
    assert list(store.list_folders()) == ["marked/"]


def test_listing_head_open_and_put_describe_an_object_equally(store: ObjectStore) -> None:
    before = time.time()
    written = store.put("a/é +%.gz", b"some bytes")
    with store.open("a/é +%.gz") as reader:
        described = [*store.list(), store.head("a/é +%.gz"), reader.info, written]
    assert {(info.key, info.size, info.etag) for info in described if info} == {(written.key, 10, written.etag)}
    assert all(info and abs(info.modified_ts - before) < 60 for info in described)
    assert '"' not in written.etag


def test_an_etag_changes_with_the_content_even_when_size_and_second_do_not(store: ObjectStore) -> None:
    etags = {store.put("k", bytes([number])).etag for number in range(20)}
    assert len(etags) == 20
    found = store.head("k")
    assert found
    assert found.etag in etags
