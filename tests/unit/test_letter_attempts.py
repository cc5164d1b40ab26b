"""Letters of one message from several attempts to commit are one letter."""

import json
from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blizzard.state import dead_letters as stored
from blizzard.state.dead_letters import DeadLetter, DeadLetters, Stage
from blizzard.state.receipts import Receipts, attempt_of
from blizzard.storage.memory import MemoryStore
from tests.unit.strategies import SOURCE_ID, STATE_PREFIX, memory_store

NOW = 1_706_450_400.0


def letter(row: int, error: str, path: str = "clicks/0") -> DeadLetter:
    return DeadLetter(path, "topic-id", Stage.PARSE, error, row, "{")


def put(store: MemoryStore, attempt: str, rows: Sequence[int], at_ts: float, path: str = "clicks/0") -> None:
    letters = DeadLetters(store, STATE_PREFIX, SOURCE_ID)
    letters.write_records([letter(row, f"{attempt} {row}", path) for row in rows], at_ts, attempt)


def errors(store: MemoryStore, committed: str | None = None) -> list[str]:
    return [one["error"] for one in DeadLetters(store, STATE_PREFIX, SOURCE_ID).letters(committed=committed)]


def test_an_attempt_that_was_killed_and_the_one_that_counts_have_one_letter_a_message() -> None:
    store = memory_store()
    put(store, "killed", [3, 5, 9], NOW)
    put(store, "counts", [3, 5], NOW + 1)
    put(store, "later", [9, 12], NOW + 2)
    assert errors(store) == ["counts 3", "counts 5", "later 9", "later 12"]
    assert len([*store.list()]) == 3


def test_the_attempt_that_has_committed_counts_and_not_a_later_one() -> None:
    """A slower job that lost the race for the same messages stored its letters last."""
    store = memory_store()
    put(store, "winner", [3, 5], NOW)
    put(store, "slower", [3, 5, 7], NOW + 1)
    assert errors(store) == ["slower 3", "slower 5", "slower 7"]
    assert errors(store, committed="winner") == ["winner 3", "winner 5", "slower 7"]


def test_letters_of_one_moment_do_not_change_from_one_reading_to_the_next() -> None:
    store = memory_store()
    put(store, "b", [3], NOW)
    put(store, "a", [3], NOW)
    assert errors(store) == ["b 3"]


def test_partitions_and_topics_of_the_same_name_do_not_hide_each_other() -> None:
    store = memory_store()
    for attempt, path in (("a", "clicks/0"), ("b", "clicks/1"), ("c", "views/0")):
        put(store, attempt, [3], NOW, path)
    letters = DeadLetters(store, STATE_PREFIX, SOURCE_ID)
    letters.write_records([DeadLetter("clicks/0", "another id", Stage.PARSE, "d 3", 3)], NOW, "d")
    assert sorted(errors(store)) == ["a 3", "b 3", "c 3", "d 3"]


def test_letters_of_files_stay_all() -> None:
    """Those of a file that an operator has had read once more stay until a commit settles the ones of before."""
    letters = DeadLetters(store := memory_store(), STATE_PREFIX, SOURCE_ID)
    letters.write_file(letter(0, "file"), NOW)
    letters.write_records([letter(3, "first")], NOW)
    letters.write_records([letter(3, "once more")], NOW + 1, f"{7:020d}-0123456789abcdef")
    assert sorted(errors(store)) == ["file", "first", "once more"]


def test_what_cannot_be_read_hides_nothing() -> None:
    store = memory_store()
    put(store, "a", [3, 4], NOW)
    put(store, "b", [4], NOW + 1)
    [key] = [info.key for info in store.list() if "-b.ndjson" in info.key]
    whole = {"path": "clicks/0", "etag": "e", "error": "no row"}
    odd = [
        {"error": "no path"},
        whole | {"row": [1]},
        whole | {"row": "two"},
        whole | {"lost_from": 1},
        whole | {"row": -1},
    ]
    store.put(key, b"torn\n" + b"\n".join(json.dumps(each).encode() for each in [whole, *odd]))
    unreadable: list[str] = []
    letters = DeadLetters(store, STATE_PREFIX, SOURCE_ID).letters(unreadable=unreadable)
    assert sorted(one["error"] for one in letters) == ["a 3", "a 4", "no row"]
    assert len(unreadable) == 1 + len(odd)
    assert unreadable[1].endswith('line 3: expected "path" as a text, found None')
    assert unreadable[3].endswith("line 5: \"row\": expected a whole number, found 'two'")


def test_a_receipt_names_its_attempt() -> None:
    receipts = Receipts(memory_store(), STATE_PREFIX)
    receipt = receipts.put(sequence=5, attempt="0123abcd", previous=None, now_ts=NOW, lines=[])
    assert (attempt_of(receipt.name), attempt_of("something-else.json.gz")) == ("0123abcd", None)


@given(
    st.dictionaries(st.sampled_from("abcdef"), st.sets(st.integers(0, 40), min_size=1), max_size=6),
    st.sampled_from("abcdef"),
    st.integers(1, 5),
)
def test_of_any_attempts_each_message_has_one_letter(
    attempts: Mapping[str, set[int]], committed: str, records_per_object: int
) -> None:
    store = memory_store()
    with pytest.MonkeyPatch.context() as small:
        small.setattr(stored, "RECORDS_PER_OBJECT", records_per_object)
        for at, (attempt, rows) in enumerate(sorted(attempts.items())):
            put(store, attempt, sorted(rows), NOW + at)
    expected: dict[int, str] = {}
    for attempt, rows in [*sorted(attempts.items()), (committed, attempts.get(committed, ()))]:
        expected |= dict.fromkeys(rows, attempt)
    assert errors(store, committed) == [f"{attempt} {row}" for row, attempt in sorted(expected.items())]
