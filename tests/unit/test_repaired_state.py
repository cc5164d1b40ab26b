"""Jobs over a table whose checkpoints are unreadable or missing."""

import pytest

from blizzard.errors import RecoveryError
from blizzard.state.checkpoint_codec import BaseSettings
from tests.unit.fakes import POISON, World, settings
from tests.unit.recoveries import recovered
from tests.unit.scenarios import large, lines


def test_an_unreadable_newest_checkpoint_is_repaired_from_the_one_before() -> None:
    world = World()
    for name in ("a.txt", "b.txt", "c.txt"):
        world.arrive(name)
        world.drain()
    world.delta.spoil(3)
    world.forget_copy()
    world.wipe()
    world.put("d.txt", "d.txt 0", "d.txt 1")
    world.settle()
    assert world.files() == lines("a.txt", "b.txt", "c.txt", "d.txt")
    assert world.doubled() == []
    assert [fields["files_added"] for fields in world.events_logged("state_repaired")] == [1]


def test_a_repaired_state_is_committed_even_without_new_files() -> None:
    world = World()
    world.arrive("a.txt")
    world.drain()
    world.delta.spoil(1)
    world.forget_copy()
    world.drain()
    world.drain()
    assert len(world.events_logged("state_repaired")) == 1
    assert world.state_now().sequence == 1


def test_without_any_readable_checkpoint_the_state_is_rebuilt_from_the_rows() -> None:
    world = World(settings(interval_bytes=100))
    content = large(world)
    for name in ("a.txt", "b.txt", "z.txt"):
        world.arrive(name)
    job = world.job()
    job.step(draining=True)
    job.step(draining=True)
    for version in (1, 2):
        world.delta.spoil(version)
    world.forget_copy()
    world.wipe()
    world.settle()
    assert world.files() == lines("a.txt", "b.txt", "z.txt") | {"large.txt": content}
    assert world.doubled() == []


def test_rows_without_a_txn_stop_the_job() -> None:
    world = World()
    world.arrive("a.txt")
    world.drain()
    world.delta.commits = world.delta.commits[:1]
    world.arrive("b.txt")
    with pytest.raises(RecoveryError, match="holds rows of source events:landing but no Txn"):
        world.drain()
    assert world.files() == lines("a.txt")


def test_a_deleted_copy_is_written_again_by_the_next_job() -> None:
    world = World()
    world.arrive("a.txt")
    world.drain()
    world.forget_copy()
    world.drain()
    assert world.sweep().missed == 0


# Files larger than a batch


RECORDS = [f"record {n:02d}" for n in range(30)]


def read_in_part(refused: set[int], *, steps: int = 2) -> World:
    """A file of 30 records, 10 of which are a batch, of which some are refused. Every checkpoint has a base."""
    lake = World(settings(interval_bytes=100, bases=BaseSettings(0, 3)))
    lake.arrive("large.txt", *(f"!ecord {n:02d}" if n in refused else record for n, record in enumerate(RECORDS)))
    job = lake.job()
    for _ in range(steps):
        job.step(draining=True)
    return lake


def lose_bases(lake: World) -> None:
    lake.state.delete(lake.bases())


def settled(lake: World, refused: set[int]) -> None:
    lake.deliver(lake.source_event("large.txt"))
    lake.settle()
    assert len(lake.events_logged("state_repaired")) == 1
    assert lake.files()["large.txt"] == [record for n, record in enumerate(RECORDS) if n not in refused]
    assert lake.doubled() == []
    assert sorted(lake.dead_records().get("large.txt", [])) == sorted(refused)


@pytest.mark.parametrize("refused", [{12, 19}, {8, 9, 15, 25}, {*range(10, 20)}, {*range(20)}, {28, 29}])
@pytest.mark.parametrize("steps", [1, 2, 3])
def test_a_repaired_state_continues_where_the_last_commit_ended(refused: set[int], steps: int) -> None:
    """Not after the last row: a refused record behind it would be refused again, and a file without rows forgotten."""
    lake = read_in_part(refused, steps=steps)
    lose_bases(lake)
    settled(lake, refused)


def test_rows_of_a_file_in_progress_that_a_user_deleted_stay_deleted_in_a_repaired_state() -> None:
    lake = read_in_part(set())
    lake.delta.rows[:] = [row for row in lake.delta.rows if row.row < 5]
    lose_bases(lake)
    lake.settle()
    assert lake.files()["large.txt"] == [*RECORDS[:5], *RECORDS[20:]]


def test_a_file_in_progress_whose_rows_a_user_deleted_is_continued_by_a_repaired_state() -> None:
    lake = read_in_part(set())
    lake.delta.rows.clear()
    lose_bases(lake)
    lake.deliver(lake.source_event("large.txt"))
    lake.settle()
    assert lake.files()["large.txt"] == RECORDS[20:]


OTHERS = [f"other_ {n:02d}" for n in range(30)]


def test_a_content_that_took_the_place_of_a_file_in_progress_is_continued_at_its_own_record() -> None:
    """The older state, from which the repair begins, has the number of the content before."""
    lake = read_in_part({*range(20)})
    before = lake.state_now()
    lake.clock.advance(10)
    event = lake.put("large.txt", *OTHERS)
    job = lake.job()
    job.step(draining=True)
    lake.deliver(event)
    job.step(draining=True)
    assert lake.state_now().in_progress == {"large.txt": 10}
    kept = {lake.identity.bases_folder + ref.name for ref in before.bases}
    lake.state.delete([*{*lake.bases()} - kept])
    lake.settle()
    assert [event["from_sequence"] for event in lake.events_logged("state_repaired")] == [before.sequence]
    assert lake.files() == {"large.txt": OTHERS}


def test_a_file_that_failed_and_is_read_again_is_continued_where_the_second_reading_is() -> None:
    lake = read_in_part({*range(20)})
    lake.put("large.txt", raw=POISON)
    lake.drain()
    lake.clock.advance(100)
    again = [f"!ecord {n:02d}" if n < 20 else record for n, record in enumerate(RECORDS)]
    lake.arrive("large.txt", *again)
    lake.job().step(draining=True)
    assert lake.state_now().in_progress == {"large.txt": 10}
    lose_bases(lake)
    lake.settle()
    assert len(lake.events_logged("state_repaired")) == 1
    assert lake.files() == {"large.txt": RECORDS[20:]}


def test_the_table_is_asked_only_if_receipts_do_not_tell_all() -> None:
    lake = read_in_part({3})
    lake.arrive("empty.txt", "")
    lose_bases(lake)
    called = len(lake.calls.names)
    assert recovered(lake).repaired
    assert "last_rows_after" not in lake.calls.names[called:]
    assert [event["files"] for event in lake.events_logged("repair_began")] == [0]


def test_without_receipts_a_file_in_progress_is_continued_after_its_last_row() -> None:
    lake = read_in_part({5})
    lake.state.delete([info.key for info in lake.state.list() if "/receipts/" in info.key])
    lose_bases(lake)
    settled(lake, {5})


def test_a_repaired_state_reads_no_file_again_that_receipts_show_as_finished() -> None:
    lake = read_in_part({3}, steps=4)
    assert lake.state_now().in_progress == {}
    lose_bases(lake)
    before = len(lake.reader.batches)
    lake.drain()
    assert len(lake.events_logged("state_repaired")) == 1
    assert lake.state_now().in_progress == {}
    assert [outcome.path for batch in lake.reader.batches[before:] for outcome in batch.outcomes] == []


def test_a_repaired_state_drops_a_file_that_was_in_progress_and_is_finished_since() -> None:
    lake = read_in_part({3, 29}, steps=3)
    before, newest = lake.state_of(2), lake.state_of(3)
    assert before is not None
    assert newest is not None
    lake.state.delete([lake.identity.bases_folder + ref.name for ref in {*newest.bases} - {*before.bases}])
    found = recovered(lake)
    assert (found.repaired, found.checkpoint.sequence) == (True, newest.sequence)
    assert (before.in_progress, found.checkpoint.in_progress) == ({"large.txt": 20}, {})


def test_a_file_in_progress_that_now_fits_into_a_batch_is_continued_all_the_same() -> None:
    lake = read_in_part(set(), steps=2)
    lake.delta.spoil(2)
    lake.forget_copy()
    lake.state.delete([info.key for info in lake.state.list() if "/receipts/" in info.key])
    lake.settings = settings(interval_bytes=10_000, bases=BaseSettings(0, 3))
    settled(lake, set())
