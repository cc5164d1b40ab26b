"""What only a local directory has: a root to stay below, links, half-written files, files that vanish."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from blizzard.errors import AccessDenied, BucketMissing, NotFound, StorageError
from blizzard.storage.local import LocalStore
from blizzard.storage.local_files import TEMPORARY


def _keys(store: LocalStore, **arguments: Any) -> list[str]:
    return [info.key for info in store.list(**arguments)]


def _fill(store: LocalStore, *keys: str) -> LocalStore:
    for key in keys:
        store.put(key, key.encode())
    return store


class Events:
    """A log that remembers."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, dict[str, object]]] = []

    def __call__(self, event: str, /, **fields: object) -> None:
        self.seen.append((event, fields))


@pytest.mark.parametrize("key", ["../up", "a/../../up", "/etc/passwd", "a//b", "./a", "a/.", "..", "nul\0"], ids=ascii)
def test_a_local_key_never_leaves_the_root(tmp_path: Path, key: str) -> None:
    store = LocalStore(tmp_path / "root")
    (tmp_path / "up").write_bytes(b"secret")
    for call in (store.get, store.head, lambda key: store.put(key, b""), lambda key: store.delete([key])):
        with pytest.raises(StorageError, match="relative path"):
            call(key)
    with pytest.raises(StorageError, match="relative path"):
        list(store.list(f"{key}/"))
    assert (tmp_path / "up").read_bytes() == b"secret"


def test_symbolic_links_are_skipped_in_a_listing_and_refused_by_key(tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/secret").write_bytes(b"secret")
    root, events = tmp_path / "root", Events()
    store = _fill(LocalStore(root, log=events), "real/file")
    (root / "file-link").symlink_to("../outside/secret")
    (root / "folder-link").symlink_to("../outside")
    (root / "real/loop").symlink_to("..")
    assert _keys(store) == ["real/file"] == _keys(store)
    assert list(store.list_folders()) == ["real/"]
    assert sorted(str(fields["key"]) for _, fields in events.seen) == ["file-link", "folder-link", "real/loop"]
    assert {fields["reason"] for _, fields in events.seen} == {"symbolic links are not followed"}
    for key in ("file-link", "folder-link/secret", "folder-link/new", "real/loop/real/file"):
        for call in (store.get, lambda key: store.put(key, b"overwritten"), lambda key: store.delete([key])):
            with pytest.raises(StorageError, match="symbolic link"):
                call(key)
    assert (tmp_path / "outside/secret").read_bytes() == b"secret"
    assert list((tmp_path / "outside").iterdir()) == [tmp_path / "outside/secret"]


def test_a_folder_that_becomes_a_symbolic_link_is_detected(tmp_path: Path) -> None:
    root, outside = tmp_path / "root", tmp_path / "outside"
    for folder in (root / "real/deep", outside / "deep"):
        folder.mkdir(parents=True)
        (folder / "file").write_bytes(folder.parent.name.encode())
    store = LocalStore(root)
    assert store.get("real/deep/file") == b"real"
    assert store.get("real/deep/file") == b"real"
    (root / "real/deep").rename(root / "real/away")
    (root / "real/deep").symlink_to(outside / "deep")
    with pytest.raises(StorageError, match="symbolic link"):
        store.get("real/deep/file")
    (root / "real").rename(root / "other")
    (root / "real").symlink_to(outside)
    with pytest.raises(StorageError, match="symbolic link"):
        store.get("real/deep/file")


def test_a_file_that_becomes_a_symbolic_link_is_detected(tmp_path: Path) -> None:
    (tmp_path / "root").mkdir()
    (tmp_path / "secret").write_bytes(b"secret")
    for name in ("a", "b"):
        (tmp_path / "root" / name).write_bytes(b"content")
    store = LocalStore(tmp_path / "root")
    assert store.get("a") == store.get("b") == b"content"
    (tmp_path / "root/b").unlink()
    (tmp_path / "root/b").symlink_to(tmp_path / "secret")
    with pytest.raises(StorageError, match="symbolic link"):
        store.get("b")


def test_a_folder_has_no_second_name(tmp_path: Path) -> None:
    store = _fill(LocalStore(tmp_path), "year/day/file")
    assert store.get("year/day/file") == b"year/day/file"
    (tmp_path / "year/day").rename(tmp_path / "year/moved")
    (tmp_path / "year/day").symlink_to("moved")
    assert store.get("year/moved/file") == b"year/day/file"
    with pytest.raises(StorageError, match="symbolic link"):
        store.get("year/day/file")


def test_a_link_in_place_of_a_deleted_folder_is_detected(tmp_path: Path) -> None:
    """The new one may have the very number that the file system gave to the other one."""
    root, outside = tmp_path / "root", tmp_path / "outside"
    store = _fill(LocalStore(root), "year/file")
    assert store.get("year/file") == b"year/file"
    (root / "year/file").unlink()
    (root / "year").rmdir()
    outside.mkdir()
    (outside / "file").write_bytes(b"secret")
    (root / "year").symlink_to(outside)
    with pytest.raises(StorageError, match="symbolic link"):
        store.get("year/file")


def test_the_root_may_be_a_symbolic_link(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    store = _fill(LocalStore(tmp_path / "link"), "a/b")
    assert _keys(store) == ["a/b"]
    assert store.get("a/b") == b"a/b"


def test_names_that_are_not_utf8_and_special_files_are_skipped_and_logged_once(tmp_path: Path) -> None:
    events = Events()
    store = _fill(LocalStore(tmp_path, log=events), "good")
    Path(os.fsdecode(os.fsencode(tmp_path) + b"/bad-\xff")).write_bytes(b"")
    Path(os.fsdecode(os.fsencode(tmp_path) + b"/folder-\xfe")).mkdir()
    os.mkfifo(tmp_path / "pipe")
    assert _keys(store) == ["good"]
    assert _keys(store) == ["good"]
    assert sorted(str(fields["key"]) for _, fields in events.seen) == ["bad-\\udcff", "folder-\\udcfe/", "pipe"]
    assert {event for event, _ in events.seen} == {"object_skipped"}
    with pytest.raises(NotFound, match="not a regular file"):
        store.get("pipe")


def test_a_missing_root_is_an_error_for_a_source_and_empty_for_a_table(tmp_path: Path) -> None:
    with pytest.raises(BucketMissing, match="no such folder"):
        list(LocalStore(tmp_path / "typo").list("pending/"))
    with pytest.raises(BucketMissing, match="no such folder"):
        list(LocalStore(tmp_path / "typo").list_folders())
    table = LocalStore(tmp_path / "new/table", may_be_missing=True)
    assert _keys(table) == []
    table.create("pending/1", b"first")
    assert _keys(table) == ["pending/1"]


def test_unfinished_files_of_a_killed_writer_are_never_listed(tmp_path: Path) -> None:
    program = f"""
import os
from blizzard.storage.local import LocalStore
os.link = os.replace = lambda *_: os._exit(9)
os.rename = os.replace
import pathlib
pathlib.Path.replace = lambda *_: os._exit(9)
LocalStore({str(tmp_path)!r}).{{}}("folder/k", b"half")
"""
    for call in ("put", "create"):
        assert subprocess.run([sys.executable, "-c", program.format(call)], timeout=60).returncode == 9
    left = [path.name for path in (tmp_path / "folder").iterdir()]
    assert [name.startswith(TEMPORARY) for name in left] == [True, True]
    store = LocalStore(tmp_path)
    assert _keys(store) == []
    store.create("folder/k", b"whole")
    assert _keys(store) == ["folder/k"]
    with pytest.raises(StorageError, match="another name"):
        store.put("folder/" + left[0], b"")


def test_files_that_vanish_while_they_are_listed_are_skipped(tmp_path: Path) -> None:
    store = _fill(LocalStore(tmp_path), "a", "b", "c/1", "d")
    listing = store.list()
    assert next(listing).key == "a"
    (tmp_path / "b").unlink()
    (tmp_path / "c/1").unlink()
    (tmp_path / "c").rmdir()
    assert [info.key for info in listing] == ["d"]


def test_a_local_file_that_grows_while_it_is_read_is_an_error(tmp_path: Path) -> None:
    store = _fill(LocalStore(tmp_path), "k")
    with store.open("k") as reader:
        with (tmp_path / "k").open("ab") as file:
            file.write(b"more")
        with pytest.raises(StorageError, match="changed while it was read"):
            reader.read()


def test_a_local_file_that_is_replaced_while_it_is_read_is_read_to_its_end(tmp_path: Path) -> None:
    store = _fill(LocalStore(tmp_path), "old")
    with store.open("old") as reader:
        store.put("old", b"new content")
        assert reader.read() == b"old"


def test_files_written_within_one_clock_tick_have_different_etags(tmp_path: Path) -> None:
    store, etags = LocalStore(tmp_path), set()
    for content in (b"a", b"b"):
        store.put("k", content)
        os.utime(tmp_path / "k", ns=(0, 0))
        etags |= {info.etag for info in store.list()}
    assert len(etags) == 2


def test_only_yielded_files_are_examined(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = _fill(LocalStore(tmp_path), *(f"a/{n}" for n in range(9)), *(f"b/{n}" for n in range(9)))
    scanned: list[str] = []
    scandir = os.scandir

    def remembering(path: Path) -> Any:
        scanned.append(path.name)
        return scandir(path)

    monkeypatch.setattr(os, "scandir", remembering)
    assert _keys(store, prefix="b/", start_after="b/6") == ["b/7", "b/8"]
    assert _keys(store, start_after="a0") == [f"b/{n}" for n in range(9)]
    assert scanned == ["b", tmp_path.name, "b"]


def test_a_file_system_without_hard_links_is_refused_by_create(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def link(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", link)
    with pytest.raises(StorageError, match="no hard links"):
        LocalStore(tmp_path).create("k", b"")
    assert list(tmp_path.iterdir()) == []


def test_an_unreadable_folder_is_an_error_and_not_empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def scandir(path: Path) -> object:
        raise PermissionError(13, "Permission denied", str(path))

    store = _fill(LocalStore(tmp_path), "closed/k")
    monkeypatch.setattr(os, "scandir", scandir)
    with pytest.raises(AccessDenied, match="closed"):
        list(store.list("closed/"))


def test_writing_below_a_file_is_an_error(tmp_path: Path) -> None:
    store = _fill(LocalStore(tmp_path), "a", "folder/k")
    for key in ("a/below", "folder"):
        with pytest.raises(StorageError, match=key):
            store.put(key, b"")
    with pytest.raises(StorageError, match="expected a folder, found a file"):
        list(LocalStore(tmp_path / "a").list())


def test_a_folder_is_removed_only_if_it_is_empty(tmp_path: Path) -> None:
    store = _fill(LocalStore(tmp_path), "a/b/file", "a/other", "file")
    for folder in ("a/b/", "a/", "file/", "none/", "none/at/all/"):
        store.remove_folder(folder)
    assert _keys(store) == ["a/b/file", "a/other", "file"]
    store.delete(["a/b/file"])
    store.remove_folder("a/b/")
    assert not (tmp_path / "a/b").exists()
    assert (tmp_path / "a").exists()


def test_a_folder_with_an_unfinished_file_is_not_removed(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    with store.writer("a/file") as writer:
        writer.write(b"half")
        store.remove_folder("a/")
    assert store.get("a/file") == b"half"


def test_a_folder_outside_is_never_removed(tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    store = _fill(LocalStore(tmp_path / "root"), "file")
    (tmp_path / "root/link").symlink_to("../outside")
    for folder in ("../outside/", "link/"):
        with pytest.raises(StorageError):
            store.remove_folder(folder)
    assert (tmp_path / "outside").exists()
