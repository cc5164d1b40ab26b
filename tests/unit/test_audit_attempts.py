"""Which letters of topics are those of attempts without a commit, by the receipts."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blizzard.audit.attempts import without_commit
from blizzard.state.dead_letters import DeadLetter, DeadLetters, Stage
from blizzard.state.receipts import Receipts
from blizzard.state.topic_checkpoint import TopicCheckpoint
from blizzard.storage.base import ObjectInfo
from blizzard.storage.memory import MemoryStore
from tests.unit.strategies import SOURCE_ID, STATE_PREFIX, memory_store

KEY = ("clicks/0", "topic-id")
NOW = 1_706_450_400.0


class Unreadable(MemoryStore):
    def list(self, prefix: str = "", *, start_after: str = "", recursive: bool = True) -> Iterator[ObjectInfo]:
        raise AssertionError(prefix)


class Source:
    """Attempts to commit, one after the other: each stores its letters, then its receipt."""

    def __init__(self) -> None:
        self.store: MemoryStore = memory_store()
        self.letters = DeadLetters(self.store, STATE_PREFIX, SOURCE_ID)
        self.receipts = Receipts(self.store, STATE_PREFIX)
        self.checkpoint = TopicCheckpoint("events", "clicks")
        self.attempts = 0

    def attempt(self, *offsets: int, receipt: bool = True, commits: bool = True) -> str:
        """Returns the name of its receipt."""
        self.attempts += 1
        name, base, stored = f"attempt{self.attempts}", self.checkpoint, ""
        found = [DeadLetter(*KEY, Stage.PARSE, name, offset, "{") for offset in offsets]
        self.letters.write_records(found, NOW + self.attempts, name)
        if receipt or commits:
            sequence = base.sequence + 1
            put = self.receipts.put(sequence=sequence, attempt=name, previous=base.receipt, now_ts=NOW, lines=[])
            stored = put.name
        if commits:
            self.checkpoint = replace(base, sequence=base.sequence + 1, receipt=stored)
        return stored

    def without_commit(self, *offsets: int) -> set[int]:
        found = without_commit(self.letters, self.receipts, self.checkpoint, {KEY: {*offsets}})
        return found.get(KEY, set())


@pytest.fixture
def source() -> Source:
    made = Source()
    made.attempt()
    return made


@pytest.mark.parametrize("receipt", [True, False])
def test_an_attempt_that_died_made_no_commit(source: Source, receipt: bool) -> None:
    source.attempt(3, 4, commits=False, receipt=receipt)
    source.attempt(4)
    source.attempt()
    assert source.without_commit(3, 4, 5) == {3}


def test_the_newest_commit_is_one(source: Source) -> None:
    source.attempt(3)
    source.attempt(3, commits=False)
    assert source.without_commit(3) == set()


def test_of_two_attempts_at_the_newest_commit_the_checkpoint_names_the_one(source: Source) -> None:
    source.attempt(3, commits=False)
    source.attempt(4)
    assert source.without_commit(3, 4) == {3}


def test_attempts_behind_the_newest_commit_made_none(source: Source) -> None:
    source.attempt(3, commits=False)
    assert source.without_commit(3) == {3}


def test_where_receipts_are_gone_a_letter_counts_as_one_of_a_commit(source: Source) -> None:
    source.attempt(3, commits=False, receipt=False)
    between, newest = source.attempt(), source.attempt()
    assert source.without_commit(3) == {3}
    for receipt in (newest, between):
        kept = source.store.get(key := f"{STATE_PREFIX}/receipts/{receipt}")
        source.store.delete([key])
        assert source.without_commit(3) == set()
        source.store.put(key, kept)


def test_after_a_state_that_was_rebuilt_nobody_knows_which_attempt_committed(source: Source) -> None:
    source.attempt(3, commits=False)
    source.attempt(4)
    source.checkpoint = replace(source.checkpoint, receipt=None)
    assert source.without_commit(3, 4) == set()
    source.attempt(5, commits=False)
    source.attempt(6)
    source.attempt()
    assert source.without_commit(3, 4, 5, 6) == {5}


def test_one_receipt_of_the_next_commit_is_enough(source: Source) -> None:
    source.attempt(3, commits=False)
    source.attempt(4)
    damaged = source.attempt(commits=False)
    source.attempt()
    source.store.put(f"{STATE_PREFIX}/receipts/{damaged}", b"torn")
    assert source.without_commit(3, 4) == {3}


def test_letters_whose_object_names_no_attempt_and_messages_without_letters_stay(source: Source) -> None:
    source.letters.write_records([DeadLetter(*KEY, Stage.PARSE, "old", 3, "{")], NOW)
    source.attempt(3, 7, commits=False)
    assert source.without_commit(3, 5, 7) == {7}


def test_letters_of_lost_offsets_are_not_those_of_the_message(source: Source) -> None:
    gap = DeadLetter(*KEY, Stage.DOWNLOAD, "gone", 3, about='{"lost_from": 3, "lost_to": 3}')
    source.letters.write_records([gap], NOW, "attempt7")
    assert source.without_commit(3) == set()


def test_nothing_is_read_if_no_message_is_asked_for(source: Source) -> None:
    unreadable = Unreadable(lambda: NOW)
    letters, receipts = DeadLetters(unreadable, STATE_PREFIX, SOURCE_ID), Receipts(unreadable, STATE_PREFIX)
    source.attempt(3)
    assert without_commit(letters, receipts, source.checkpoint, {KEY: set()}) == {}


def test_receipts_are_read_only_where_a_commit_had_several_attempts(source: Source) -> None:
    for offset in range(5):
        source.attempt(offset)
    source.attempt(7, commits=False)
    source.attempt(7)
    source.attempt()
    read: list[str] = []
    fetch = source.receipts.get
    source.receipts.get = lambda name: read.append(name) or fetch(name)  # type: ignore[method-assign, func-returns-value]
    assert source.without_commit(0, 1, 2, 3, 4, 7) == set()
    assert {int(name.partition("-")[0]) for name in read} == {7}


FATES = st.sampled_from(["commits", "dies", "dies before its receipt"])


@given(st.lists(st.tuples(FATES, st.sets(st.integers(0, 6), max_size=4)), max_size=10))
def test_whatever_happens_to_attempts_exactly_letters_of_commits_count(
    attempts: Sequence[tuple[str, set[int]]],
) -> None:
    source, committed, stored = Source(), set[int](), set[int]()
    for fate, offsets in attempts:
        source.attempt(*sorted(offsets), commits=fate == "commits", receipt=fate == "dies")
        stored |= offsets
        committed |= offsets if fate == "commits" else set()
    assert source.without_commit(*range(7)) == stored - committed
