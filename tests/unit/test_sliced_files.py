"""Files larger than a batch are read in slices, one commit each."""

import pytest

from blizzard.state.batch import OnOverwrite
from tests.unit.fakes import POISON, World, settings
from tests.unit.scenarios import large, lines


def test_a_large_file_is_read_in_slices_and_a_crash_between_them_doubles_nothing() -> None:
    world = World(settings(interval_bytes=100))
    content = large(world)
    while world.files() != {"large.txt": content}:
        before = len(world.delta.rows)
        job = world.job()
        job.step(draining=True)
        assert len(world.delta.rows) == before + 10
    world.settle()
    assert world.files() == {"large.txt": content}
    assert world.doubled() == []


def test_no_watermark_passes_a_file_in_progress() -> None:
    world = World(settings(interval_bytes=100))
    large(world, "b.txt")
    world.arrive("c.txt", "short")
    world.clock.advance(100)
    world.sweep()
    job = world.job()
    job.step(draining=True)
    assert world.state_now().in_progress == {"b.txt": 10}
    assert world.state_now().partition_watermarks == {}
    world.settle()
    assert world.state_now().partition_watermarks == {"": "c.txt"}


def test_a_file_that_changes_while_in_progress_keeps_its_first_rows_and_is_dead_lettered() -> None:
    world = World(settings(interval_bytes=100))
    content = large(world)
    world.job().step(draining=True)
    world.put("large.txt", *reversed(content))
    world.settle()
    assert world.files() == {"large.txt": content[:10]}
    assert world.dead_files() == {"large.txt": "it changed while in progress"}


def test_a_file_that_changes_while_in_progress_is_replaced_without_an_event() -> None:
    world = World(settings(interval_bytes=100, on_overwrite=OnOverwrite.REPLACE))
    content = large(world)
    world.job().step(draining=True)
    world.put("large.txt", *reversed(content))
    world.settle()
    assert world.files() == {"large.txt": [*reversed(content)]}
    assert world.dead_files() == {"large.txt": "it changed while in progress"}


def test_a_file_that_changes_while_in_progress_gets_a_dead_letter_for_each_content() -> None:
    world = World(settings(interval_bytes=100, on_overwrite=OnOverwrite.DEAD_LETTER))
    content = large(world)
    world.job().step(draining=True)
    before = world.source.head("large.txt")
    world.put("large.txt", *reversed(content))
    after = world.source.head("large.txt")
    world.settle()
    assert before is not None
    assert after is not None
    assert world.files() == {"large.txt": content[:10]}
    assert world.dead_contents() == {("large.txt", before.etag), ("large.txt", after.etag)}


def test_a_change_is_noticed_even_if_no_record_has_been_good() -> None:
    """Since the table has no row of the file, its new content counts as a late file."""
    world = World(settings(interval_bytes=100))
    world.arrive("large.txt", *(f"!record {n}" for n in range(30)))
    job = world.job()
    job.step(draining=True)
    world.put("large.txt", *(records := [f"record {n:02d}" for n in range(30)]))
    job.step(draining=True)
    assert world.files() == {}
    assert world.dead_files() == {"large.txt": "it changed while in progress"}
    world.settle()
    assert world.files() == {"large.txt": records}


def test_a_large_late_file_and_its_neighbours_are_all_ingested() -> None:
    world = World(settings(interval_bytes=100))
    world.arrive("z.txt")
    world.settle()
    world.arrive("a.txt")
    content = large(world, "b.txt")
    world.arrive("c.txt")
    world.drain()
    assert world.files() == lines("a.txt", "c.txt", "z.txt") | {"b.txt": content}


def test_a_large_late_poison_file_does_not_block_the_source() -> None:
    world = World(settings(interval_bytes=100))
    world.arrive("z.txt")
    world.settle()
    world.deliver(world.put("a.txt", raw=POISON + b"x" * 200))
    world.arrive("b.txt")
    world.calls.at_most(2_000)
    world.drain()
    assert world.files() == lines("b.txt", "z.txt")
    assert world.dead_files() == {"a.txt": "not a gzip file"}


@pytest.mark.parametrize("on_overwrite", OnOverwrite)
def test_a_file_that_is_gone_while_in_progress_and_comes_back_is_not_doubled(on_overwrite: OnOverwrite) -> None:
    """Its first rows are in the table, so it is no new file, whatever the dead letter of the rest says."""
    world = World(settings(interval_bytes=100, on_overwrite=on_overwrite))
    content = large(world)
    job = world.job()
    job.step(draining=True)
    job.step(draining=True)
    world.source.delete(["large.txt"])
    world.drain()
    world.clock.advance(100)
    world.arrive("large.txt", *content)
    world.settle()
    assert world.doubled() == []
    assert world.files() == {"large.txt": content[:20]}
    assert world.dead_files() == {"large.txt": "gone"}


def test_a_file_that_is_gone_while_in_progress_is_overwritten_by_another_content() -> None:
    world = World(settings(interval_bytes=100, on_overwrite=OnOverwrite.REPLACE))
    content = large(world)
    world.job().step(draining=True)
    world.source.delete(["large.txt"])
    world.drain()
    world.clock.advance(100)
    world.arrive("large.txt", *reversed(content))
    world.settle()
    assert world.files() == {"large.txt": [*reversed(content)]}
