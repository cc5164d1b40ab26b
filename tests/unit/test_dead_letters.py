"""Dead letters: each in its place, with its reason and all of its bytes."""

import base64
import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from blizzard.errors import StorageUnavailable
from blizzard.state.dead_letters import BYTES_PER_OBJECT, RECORDS_PER_OBJECT, DeadLetter, DeadLetters, Stage
from blizzard.storage.base import ObjectInfo
from blizzard.storage.keys import is_plain
from blizzard.storage.memory import MemoryStore
from tests.unit.strategies import SOURCE_ID, STATE_PREFIX, memory_store

FOLDER = f"{STATE_PREFIX}/dead_letters/"
NOW = 1_706_450_400.25

hostile = st.text(st.sampled_from("../\\\0\n ~%a\ud800é😀:"), max_size=20) | st.text(max_size=80)


def of_file(path: str = "date=1/a.gz", etag: str = "e1", error: str = "truncated gzip") -> DeadLetter:
    return DeadLetter(path, etag, Stage.DECOMPRESS, error)


def of_record(row: int, raw: str | bytes = "{", path: str = "date=1/a.gz", etag: str = "e1") -> DeadLetter:
    return DeadLetter(path, etag, Stage.PARSE, "no JSON", row, raw)


def dead_letters(store: MemoryStore | None = None, *, max_concurrency: int = 1) -> DeadLetters:
    return DeadLetters(store or memory_store(), STATE_PREFIX, SOURCE_ID, max_concurrency=max_concurrency)


def objects(store: MemoryStore) -> dict[str, list[dict[str, Any]]]:
    """What is stored: the letters of each object, read as any NDJSON reader would."""
    return {
        info.key.removeprefix(FOLDER): [json.loads(line) for line in store.get(info.key).split(b"\n") if line]
        for info in store.list()
    }


def test_the_dead_letter_of_a_file_has_file_stage_error_and_time() -> None:
    store = memory_store()
    dead_letters(store).write_file(of_file(), NOW)
    [(key, letters)] = objects(store).items()
    assert key.startswith("date=1_a.gz-")
    assert key.endswith("/file.ndjson")
    assert letters == [
        {
            "source": SOURCE_ID,
            "path": "date=1/a.gz",
            "etag": "e1",
            "stage": "decompress",
            "error": "truncated gzip",
            "timestamp": "2024-01-28T14:00:00.250+00:00",
            "retry_count": 0,
        }
    ]


def test_the_dead_letter_of_a_record_has_its_row_and_raw_text() -> None:
    letters = dead_letters()
    assert letters.write_records([of_record(0, "{broken"), of_record(7, "")], NOW) == 2
    assert [(one["row"], one["raw"]) for one in letters.letters()] == [(0, "{broken"), (7, "")]


def test_writing_a_dead_letter_again_overwrites_it() -> None:
    store = memory_store()
    for attempt in ("first", "second"):
        dead_letters(store).write_file(of_file(error=attempt), NOW)
        dead_letters(store).write_records([of_record(0), of_record(3)], NOW)
    assert [letter["error"] for letter in dead_letters(store).letters()] == ["second", "no JSON", "no JSON"]


def test_dead_letters_of_another_version_overwrite_nothing() -> None:
    letters = dead_letters()
    for etag in ("e1", "e2"):
        letters.write_file(of_file(etag=etag), NOW)
        letters.write_records([of_record(0, etag=etag)], NOW)
    assert sorted(letter["etag"] for letter in letters.letters()) == ["e1", "e1", "e2", "e2"]
    assert letters.count_files() == 2


def test_dead_letters_of_similar_names_overwrite_nothing() -> None:
    letters = dead_letters()
    looking_alike = ("a/b", "a_b", "a b", "a\ud800b", "a\ud801b", "a?b", "x" * 100 + "a/b", "y" * 100 + "a/b")
    for path in looking_alike:
        letters.write_file(of_file(path), NOW)
    assert letters.count_files() == len(looking_alike)


@given(hostile, hostile, hostile, hostile)
def test_two_versions_never_share_a_folder(path: str, etag: str, other_path: str, other_etag: str) -> None:
    assume((path, etag) != (other_path, other_etag))
    assume("\0" not in etag + other_etag)
    letters = dead_letters()
    assert letters.dead_letter_folder(path, etag) != letters.dead_letter_folder(other_path, other_etag)


@given(hostile, hostile)
def test_no_path_leads_out_of_the_dead_letters_folder(path: str, etag: str) -> None:
    store = memory_store()
    dead_letters(store).write_file(of_file(path, etag), NOW)
    dead_letters(store).write_records([of_record(2, path=path, etag=etag)], NOW)
    keys = [info.key for info in store.list()]
    assert len(keys) == 2
    for key in keys:
        inside = key.removeprefix(FOLDER)
        assert key != inside
        assert inside.count("/") == 1
        assert is_plain(key)
        assert not inside.startswith(".")
        assert key.isascii()
        assert len(key) < 200
    assert {letter["path"] for letter in dead_letters(store).letters()} == {path}


@given(st.binary())
def test_raw_bytes_are_kept(raw: bytes) -> None:
    letters = dead_letters()
    letters.write_records([of_record(0, raw)], NOW)
    [letter] = letters.letters()
    assert base64.b64decode(letter["raw_base64"], validate=True) == raw
    assert "raw" not in letter


@given(st.text(), st.text())
def test_raw_text_is_kept_in_one_line(raw: str, error: str) -> None:
    store = memory_store()
    told = DeadLetter("p", "e", Stage.PARSE, error, 0, raw)
    dead_letters(store).write_records([told, of_record(1, path="p", etag="e")], NOW)
    [content] = [store.get(info.key) for info in store.list()]
    assert content.count(b"\n") == 2
    first = json.loads(content.split(b"\n")[0])
    assert (first["raw"], first["error"]) == (raw, error)


def test_a_file_without_poison_records_gets_no_object() -> None:
    store = memory_store()
    assert dead_letters(store).write_records([], NOW) == 0
    assert objects(store) == {}


def test_an_object_holds_the_records_of_one_file() -> None:
    store = memory_store()
    dead_letters(store).write_records([of_record(5, path="a"), of_record(2, path="b"), of_record(3, path="b")], NOW)
    found = {key.partition("-")[0]: [letter["row"] for letter in letters] for key, letters in objects(store).items()}
    assert found == {"a": [5], "b": [2, 3]}


def test_consecutive_versions_of_a_file_get_separate_objects() -> None:
    store = memory_store()
    dead_letters(store).write_records([of_record(0), of_record(0, etag="e2")], NOW)
    assert [len(letters) for letters in objects(store).values()] == [1, 1]


def test_many_records_are_split_into_objects_of_bounded_count() -> None:
    store = memory_store()
    assert dead_letters(store).write_records(map(of_record, range(2 * RECORDS_PER_OBJECT + 1)), NOW) == 20_001
    found = objects(store)
    assert [len(letters) for letters in found.values()] == [RECORDS_PER_OBJECT, RECORDS_PER_OBJECT, 1]
    assert [letter["row"] for letters in found.values() for letter in letters] == list(range(20_001))


@pytest.mark.parametrize(
    "raw", ["\x01" * 100_000, "é" * 100_000, b"\xff" * 450_000], ids=["control", "accents", "bytes"]
)
def test_large_records_are_split_into_objects_of_bounded_stored_size(raw: str | bytes) -> None:
    store = memory_store()
    dead_letters(store).write_records((of_record(n, raw) for n in range(20)), NOW)
    sizes = [info.size for info in store.list()]
    assert len(sizes) == 2
    assert max(sizes) <= BYTES_PER_OBJECT
    assert [letter["row"] for letter in dead_letters(store).letters()] == list(range(20))


def test_a_record_larger_than_the_limit_is_alone_in_its_object() -> None:
    store = memory_store()
    rows = [of_record(0), of_record(1, "x" * (BYTES_PER_OBJECT + 1)), of_record(2)]
    dead_letters(store).write_records(rows, NOW)
    assert [[letter["row"] for letter in letters] for letters in objects(store).values()] == [[0], [1], [2]]


def test_no_more_than_one_object_is_held_in_memory() -> None:
    class Watching(MemoryStore):
        drawn = written = most_held = 0

        def put(self, key: str, data: bytes) -> ObjectInfo:
            self.most_held = max(self.most_held, self.drawn - self.written)
            self.written += data.count(b"\n")
            return super().put(key, data)

    store = Watching(lambda: NOW)

    def letters() -> Iterator[DeadLetter]:
        for row in range(3 * RECORDS_PER_OBJECT):
            store.drawn += 1
            yield of_record(row)

    dead_letters(store).write_records(letters(), NOW)
    assert store.written == 3 * RECORDS_PER_OBJECT
    assert store.most_held <= RECORDS_PER_OBJECT + 1


def test_dead_letters_written_in_parallel_are_the_same() -> None:
    letters = [of_record(row, path=f"{n:03}.gz") for n in range(50) for row in range(3)]
    one, several = memory_store(), memory_store()
    written = [
        dead_letters(one).write_records(letters, NOW),
        dead_letters(several, max_concurrency=8).write_records(letters, NOW),
    ]
    assert written == [150, 150]
    assert objects(several) == objects(one)
    files = [of_file(f"{n:03}.gz") for n in range(50)]
    dead_letters(one).write_files(files, NOW)
    dead_letters(several, max_concurrency=2).write_files(files, NOW)
    assert objects(several) == objects(one)
    assert len(objects(one)) == 100


@pytest.mark.parametrize("max_concurrency", [1, 2])
def test_a_dead_letter_that_cannot_be_written_is_an_error(max_concurrency: int) -> None:
    store = memory_store()
    whole = store.put

    def put(key: str, data: bytes) -> ObjectInfo:
        if "007" in key:
            raise StorageUnavailable("503")
        return whole(key, data)

    store.put = put  # type: ignore[method-assign]
    with pytest.raises(StorageUnavailable, match="503"):
        dead_letters(store, max_concurrency=max_concurrency).write_files([of_file(f"{n:03}.gz") for n in range(9)], NOW)
