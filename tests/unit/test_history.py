"""Packs of the history: a question has the same answer with them and without them, whatever becomes of them."""

import json
import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blizzard.audit.commits_of import CommitFinder
from blizzard.audit.lives import Life
from blizzard.errors import StorageUnavailable, UnreadableState
from blizzard.history import pack_file
from blizzard.history.pack_file import SCHEMA, EncodedPack, Pack, encode_pack, rows_of
from blizzard.history.packer import DAY_SECS, day_of
from blizzard.history.packs import PackRef, get_packs, put_packs
from blizzard.state.checkpoint import Checkpoint
from blizzard.state.delta_log import Commit, commit_key
from blizzard.state.receipts import ReceiptLine
from blizzard.storage.memory import MemoryStore
from tests.unit.history_world import FOLDER, MONDAY, RECEIPTS, SMALL, HistoryWorld, line, random_world
from tests.unit.operator_world import IDENTITY
from tests.unit.test_receipts import lines
from tests.unit.watched_calls import Calls, WatchedStore

SEEDS = range(60)


def memory_world() -> HistoryWorld:
    world = HistoryWorld(MemoryStore(lambda: world.now_ts))
    return world


def random_memory_world(seed: int) -> HistoryWorld:
    return random_world(MemoryStore(lambda: MONDAY), seed)


def days(world: HistoryWorld, *commits: int, files: int = 3) -> HistoryWorld:
    """So many commits on each day."""
    for day, count in enumerate(commits):
        world.now_ts = MONDAY + day * DAY_SECS
        for _ in range(count):
            world.now_ts += 60.0
            first = len(world.receipts) * files
            world.commit(*(line(f"f{number:05d}") for number in range(first, first + files)))
    return world


def answers(world: HistoryWorld, *, packed: bool = True) -> list[Life]:
    source = SimpleNamespace(state=world.store, identity=IDENTITY)
    checkpoint = world.checkpoint if packed else replace(world.checkpoint, history=None)
    return CommitFinder(source, checkpoint).complete(world.lives())


def stored(world: HistoryWorld) -> list[str]:
    return [info.key.removeprefix(FOLDER) for info in world.store.list(FOLDER)]


# -- the same answers


@pytest.mark.parametrize("seed", SEEDS)
def test_packed_partly_or_wholly_the_answers_are_the_same(seed: int) -> None:
    world = random_memory_world(seed)
    plain = answers(world, packed=False)
    assert answers(world) == plain
    world.now_ts += 5 * DAY_SECS
    world.pack()
    assert answers(world) == answers(world, packed=False)


def torn(data: bytes, chance: random.Random) -> bytes:
    return data[: chance.randrange(len(data))]


def flipped(data: bytes, chance: random.Random) -> bytes:
    at = chance.randrange(len(data))
    return data[:at] + bytes([data[at] ^ 1 << chance.randrange(8)]) + data[at + 1 :]


def other(data: bytes, chance: random.Random) -> bytes:
    return chance.choice([b"", b"PAR1", b"{}", data * 2, bytes(len(data))])


@pytest.mark.parametrize("damage", [torn, flipped, other, None])
@pytest.mark.parametrize("seed", SEEDS[:20])
def test_a_damaged_or_missing_object_changes_no_answer(
    seed: int, damage: Callable[[bytes, random.Random], bytes] | None
) -> None:
    world, chance = random_memory_world(seed), random.Random(seed)
    world.now_ts += 5 * DAY_SECS
    world.pack()
    plain = answers(world, packed=False)
    for name in stored(world):
        data = world.store.get(FOLDER + name)
        world.store.delete([FOLDER + name])
        if damage is not None:
            world.store.put(FOLDER + name, damage(data, chance))
        assert answers(world) == plain
        if chance.random() < 0.5:
            world.store.put(FOLDER + name, data)


def forged(world: HistoryWorld, ref: PackRef) -> EncodedPack:
    """A whole pack that claims other things of the same files, and another commit time."""
    receipts = [receipt for receipt in world.receipts if ref.first <= receipt.sequence <= ref.last]
    lies = [
        replace(r, written_ts=1.0, lines=tuple(one._replace(found_by="forged", error="forged") for one in r.lines))
        for r in receipts
    ]
    return encode_pack([rows_of(receipt, Commit(666, {}, None, 6.0)) for receipt in lies])


def test_a_forged_pack_in_place_of_a_true_one_does_not_count() -> None:
    world = days(memory_world(), 4, 4, 1)
    world.pack()
    for ref in world.packs():
        world.store.put(FOLDER + ref.name, forged(world, ref).data)
    assert found(world) == {}
    assert answers(world) == answers(world, packed=False)


def test_a_forged_pack_of_the_same_size_does_not_count() -> None:
    world, liar = memory_world(), memory_world()
    for here, found_by in ((world, "sweep"), (liar, "event")):
        here.commit(line("a", found_by=found_by))
        here.commit(line("b", found_by=found_by))
        here.now_ts += DAY_SECS
    world.pack()
    (ref,) = world.packs()
    lies = encode_pack(
        [
            rows_of(replace(r, name=true.name), Commit(r.sequence, {}, None, r.written_ts + 0.007))
            for r, true in zip(liar.receipts, world.receipts, strict=False)
        ]
    )
    assert (len(lies.data), lies.footer_at) == (ref.size, ref.footer_at)
    world.store.put(FOLDER + ref.name, lies.data)
    assert found(world) == {}
    assert answers(world) == answers(world, packed=False)


def test_a_forged_row_group_below_a_true_footer_does_not_count() -> None:
    world = days(memory_world(), 4, 1)
    world.pack()
    (ref,) = world.packs()
    true, lies = world.store.get(FOLDER + ref.name), forged(world, ref).data
    spliced = (lies + bytes(ref.footer_at))[: ref.footer_at] + true[ref.footer_at :]
    world.store.put(FOLDER + ref.name, spliced)
    with pytest.raises(UnreadableState, match="not that of its name"):
        [*Pack(world.store, FOLDER, ref).find([("f00000", 0)])]
    assert answers(world) == answers(world, packed=False)


def test_a_forged_index_that_vouches_for_a_forged_pack_does_not_count() -> None:
    world = days(memory_world(), 4, 1)
    world.pack()
    (ref,) = world.packs()
    lies, true = forged(world, ref), str(world.checkpoint.history)
    fake = replace(ref, size=len(lies.data), footer_at=lies.footer_at, digest=lies.digest)
    world.store.put(FOLDER + fake.name, lies.data)
    index = put_packs(world.store, IDENTITY, [fake])
    assert {row.line.found_by for row in found(replace(world, checkpoint=naming(world, index))).values()} == {"forged"}
    world.store.put(FOLDER + true, world.store.get(FOLDER + index))
    assert world.history().packs == ()
    assert answers(world) == answers(world, packed=False)


def naming(world: HistoryWorld, index: str) -> Checkpoint:
    return replace(world.checkpoint, history=index)


def found(world: HistoryWorld) -> dict[tuple[str, int], pack_file.PackedLine]:
    return world.history().find((one.path, r.sequence) for r in world.receipts for one in r.lines)


# -- what packs have


@pytest.mark.parametrize("seed", SEEDS[:20])
def test_packs_have_what_committed_receipts_say_and_nothing_else(seed: int) -> None:
    world = random_memory_world(seed)
    world.now_ts += 5 * DAY_SECS
    world.pack()
    rows = found(world)
    covered = world.packs()
    for receipt in world.receipts[: covered[-1].last + 1 if covered else 0]:
        for one in receipt.lines:
            row = rows[one.path, receipt.sequence]
            assert (row.line, row.receipt, row.written_ts) == (one, receipt.name, receipt.written_ts)
            assert row.committed_ts == pytest.approx(receipt.written_ts + 0.007)
            log = json.loads(world.store.get(commit_key(row.table_version or 0)).splitlines()[1])
            assert log["txn"]["version"] == receipt.sequence
    assert sum(ref.files for ref in covered) == len(rows)
    assert [ref.first for ref in covered] == [0, *(ref.last + 1 for ref in covered[:-1])][: len(covered)]


@given(st.lists(st.lists(lines, max_size=5, unique_by=lambda one: one.path), min_size=1, max_size=3))
def test_lines_are_read_as_they_were_packed(commits: list[list[ReceiptLine]]) -> None:
    world = memory_world()
    for some in commits:
        world.commit(*some)
    world.now_ts += DAY_SECS
    world.pack()
    rows = found(world)
    assert {key: row.line for key, row in rows.items()} == {
        (one.path, n): one for n, some in enumerate(commits) for one in some
    }


def test_every_field_of_a_receipts_line_is_a_column() -> None:
    assert SCHEMA.names[: len(ReceiptLine._fields)] == [*ReceiptLine._fields]


def test_a_question_about_one_file_reads_one_row_group(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pack_file, "GROUP_ROWS", 50)
    monkeypatch.setattr(pack_file, "FOOTER_BYTES", 1)
    world = days(memory_world(), 10, 1, files=100)
    world.settings = replace(SMALL, files=10_000)
    world.pack()
    assert len(world.packs()) == 1
    calls = Calls()
    history = replace(world.history(), store=WatchedStore(world.store, calls))
    ((_, row),) = history.find([("f00321", 3)]).items()
    assert (row.line.path, row.sequence) == ("f00321", 3)
    assert len(calls.names) <= 3, calls.names
    assert history.find([("f00321", 4), ("nowhere", 3), ("f00321", 10)]) == {}


# -- packing


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
