"""Packing: what becomes a pack and when, what is written again, interruptions, and two packers at once."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from blizzard.errors import StorageUnavailable
from blizzard.history import packer
from blizzard.history.packer import DAY_SECS, day_of
from blizzard.history.packs import get_packs
from blizzard.state.delta_log import commit_key
from tests.unit.history_world import (
    FOLDER,
    MONDAY,
    RECEIPTS,
    SMALL,
    HistoryWorld,
    answers,
    days,
    found,
    line,
    memory_world,
    stored,
)
from tests.unit.operator_world import IDENTITY
from tests.unit.watched_calls import Calls, WatchedStore


def test_only_days_that_are_over_are_packed() -> None:
    world = days(memory_world(), 3, 3, 2)
    assert not world.packer().is_due(replace(world.checkpoint, history=None, sequence=0), world.now_ts)
    assert world.packer().is_due(world.checkpoint, world.now_ts)
    world.pack()
    assert [(ref.first, ref.last, ref.day) for ref in world.packs()] == [(0, 2, day_of(MONDAY)), (3, 5, TUESDAY)]
    assert not world.packer().is_due(world.checkpoint, world.now_ts)
    assert world.packer().pack(world.checkpoint, world.now_ts) is None


TUESDAY = day_of(MONDAY + DAY_SECS)


def test_what_is_not_due_costs_no_request() -> None:
    world, calls = days(memory_world(), 1), Calls()
    assert not world.packer(WatchedStore(world.store, calls)).is_due(world.checkpoint, world.now_ts + 9 * DAY_SECS)
    assert calls.names == []


def test_small_days_share_a_pack_and_a_large_one_is_divided() -> None:
    world = days(memory_world(), 1, 1, 1, 9, 1)
    world.settings = replace(SMALL, commits=3, session_files=1_000)
    world.pack()
    assert [(ref.first, ref.last, ref.files) for ref in world.packs()] == [
        (0, 0, 3),
        (1, 3, 9),
        (4, 7, 12),
        (8, 11, 12),
    ]


def test_a_long_history_is_packed_in_sessions_the_newest_days_first() -> None:
    world = days(memory_world(), *[10] * 6, 1)
    packer = world.packer()
    index = packer.pack(world.checkpoint, world.now_ts)
    assert index is not None
    packed = get_packs(world.store, IDENTITY, index)
    assert (packed[-1].last, sum(ref.files for ref in packed)) == (59, 42)
    world.commit(history=index)
    world.pack()
    assert (world.packs()[0].first, sum(ref.files for ref in world.packs())) == (0, 180)
    assert len({ref.first for ref in world.packs()}) == len(world.packs())


def test_deleting_all_of_it_loses_nothing_and_it_is_written_again() -> None:
    world = days(memory_world(), 4, 4, 1)
    world.pack()
    before, names = world.packs(), stored(world)
    world.store.delete([FOLDER + name for name in names])
    assert answers(world) == answers(world, packed=False)
    world.pack()
    assert [ref for ref in world.packs() if ref.last <= before[-1].last] == before


def test_a_pack_that_is_gone_or_shorter_is_packed_again() -> None:
    world = days(memory_world(), 4, 4, 4, 1)
    world.pack()
    before = world.packs()
    key = FOLDER + before[1].name
    whole = world.store.get(key)
    for damaged in (None, whole[:-1]):
        world.store.delete([key])
        if damaged is not None:
            world.store.put(key, damaged)
        world.pack()
        assert world.packs() == before
        assert world.store.get(key) == whole


def damage(world: HistoryWorld, name: str) -> bytes:
    """One byte becomes another one. Returns what it was before."""
    whole = world.store.get(FOLDER + name)
    at = len(whole) // 3
    world.store.put(FOLDER + name, whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
    return whole


def test_a_damaged_pack_of_the_right_size_is_packed_again() -> None:
    world = days(memory_world(), 4, 4, 4, 1)
    world.pack()
    before = world.packs()
    whole = damage(world, before[1].name)
    world.pack()
    assert world.packs() == before
    assert world.store.get(FOLDER + before[1].name) == whole
    (fields,) = [fields for event, fields in world.log if event == "pack_damaged"]
    assert (fields["pack"], "its content is not that of its name" in str(fields["error"])) == (before[1].name, True)


def test_of_many_packs_some_are_read_and_in_the_end_all(monkeypatch: pytest.MonkeyPatch) -> None:
    world = days(memory_world(), *[4] * 9, 1)
    world.pack()
    packs, calls = world.packs(), Calls()
    monkeypatch.setattr(packer, "CHECKED_BYTES", 2 * packs[0].size)
    whole = {pack.name: damage(world, pack.name) for pack in packs}
    world.packer(WatchedStore(world.store, calls)).pack(world.checkpoint, world.now_ts)
    read = {name for name in calls.names if name.startswith("get_range")}
    assert 1 <= len(read) <= 2
    for _ in range(200):
        world.now_ts += DAY_SECS
        world.packer().pack(world.checkpoint, world.now_ts)
    assert {name: world.store.get(FOLDER + name) for name in whole} == whole


def test_lost_receipts_leave_a_hole_that_a_question_fills_from_the_log() -> None:
    world = days(memory_world(), 5, 1)
    lost = world.receipts[2]
    world.store.delete([RECEIPTS + lost.name])
    world.pack()
    assert [(ref.first, ref.last) for ref in world.packs()] == [(0, 1), (3, 4)]
    assert {life.announced_by for life in answers(world) if life.sequence == 2} == {None}
    assert answers(world) == answers(world, packed=False)


def test_receipts_of_attempts_that_lost_are_not_packed() -> None:
    world = days(memory_world(), 4, 1)
    world.pack()
    assert {row.receipt for row in found(world).values()} == {receipt.name for receipt in world.receipts[:4]}


def test_a_log_that_was_cleaned_up_before_packing() -> None:
    world = days(memory_world(), 4, 1)
    world.store.delete([commit_key(version) for version in range(3)])
    world.pack()
    assert [row.table_version for row in found(world).values()] == [None] * 9 + [3] * 3
    plain = answers(world, packed=False)
    assert [life.table_version for life in answers(world)] == [life.table_version for life in plain]
    assert [life.announced_by for life in answers(world)] == [one.found_by for r in world.receipts for one in r.lines]


def test_a_log_that_could_not_be_read_when_it_was_packed_is_asked_again() -> None:
    world = days(memory_world(), 4, 1)
    whole = world.store.get(commit_key(2))
    world.store.put(commit_key(2), b"{")
    world.pack()
    world.store.put(commit_key(2), whole)
    assert [row.table_version for row in found(world).values()] == [None] * 9 + [3] * 3
    assert [life.table_version for life in answers(world)] == [n for n in range(5) for _ in range(3)]
    assert answers(world) == answers(world, packed=False)


def test_more_commits_than_are_looked_for_without_packs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("blizzard.audit.commits_of.MAX_COMMITS", 2)
    world = days(memory_world(), 5, 1)
    assert sum(life.committed_ts is None for life in answers(world)) == 12
    world.pack()
    assert [life for life in answers(world) if life.committed_ts is None] == []


# -- interrupted, and two at once


def failing_at(calls: Calls, number: int) -> None:
    def fail() -> None:
        raise StorageUnavailable("it is down")

    calls.before(number, fail)


def test_packing_that_ends_at_any_call_harms_nothing() -> None:
    for number in every_call():
        world, calls = days(memory_world(), 4, 4, 1), Calls()
        failing_at(calls, number)
        packer = world.packer(WatchedStore(world.store, calls))
        with pytest.raises(StorageUnavailable):
            packer.pack(world.checkpoint, world.now_ts)
        assert answers(world) == answers(world, packed=False)
        world.pack()
        assert [(ref.first, ref.last) for ref in world.packs()] == [(0, 3), (4, 7)]
        assert answers(world) == answers(world, packed=False)


def every_call() -> Iterator[int]:
    world, calls = days(memory_world(), 4, 4, 1), Calls()
    world.packer(WatchedStore(world.store, calls)).pack(world.checkpoint, world.now_ts)
    assert len(calls.names) > 20
    return iter(range(1, calls.count + 1))


def test_two_packers_at_once_write_the_same_objects() -> None:
    world = days(memory_world(), 4, 4, 1)
    index, before = world.packer().pack(world.checkpoint, world.now_ts), stored(world)
    assert world.packer().pack(world.checkpoint, world.now_ts) == index
    assert stored(world) == before


def test_a_packer_that_began_later_packs_more_and_either_may_win() -> None:
    for slow_wins in (False, True):
        world = days(memory_world(), 4, 4, 1)
        slow = world.packer().pack(world.checkpoint, world.now_ts)
        world.now_ts += DAY_SECS
        fast = world.packer().pack(world.checkpoint, world.now_ts)
        assert slow != fast
        world.commit(history=slow if slow_wins else fast)
        assert answers(world) == answers(world, packed=False)
        world.pack()
        assert answers(world) == answers(world, packed=False)


def test_what_nothing_names_is_deleted_after_a_day_and_files_of_others_stay() -> None:
    world = days(memory_world(), 4, 1)
    world.store.put(FOLDER + "mine.txt", b"of somebody else")
    world.packer().pack(world.checkpoint, world.now_ts)  # and dies
    left = {*stored(world)}
    world.commit(line("x"))
    world.now_ts += DAY_SECS - 1
    world.pack()
    assert left <= {*stored(world)}
    world.commit(line("y"))
    world.now_ts += DAY_SECS
    world.pack()
    newest = {ref.name for ref in world.packs()} | {str(world.checkpoint.history), "mine.txt"}
    assert {*stored(world)} - newest == {name for name in stored(world) if name.endswith(".json.gz")} - newest
    assert len({*stored(world)} - newest) == 1  # the index before, which a reader may have


@pytest.mark.parametrize("name", ["", "x", "../../secret", "00000000000000000001-a.json.gz"])
def test_a_name_in_a_checkpoint_that_is_none_counts_as_not_packed(name: str) -> None:
    world = days(memory_world(), 4, 1)
    world.checkpoint = replace(world.checkpoint, history=name)
    assert world.history().packs == ()
    assert answers(world) == answers(world, packed=False)
    world.pack()
    assert len(world.packs()) == 1
