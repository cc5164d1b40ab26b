"""Which backlog needs a run."""

from dataclasses import replace

import pytest

from blizzard.dispatch.run_records import Phase
from blizzard.manifest.segments import SettleMark, Sweep
from tests.unit.dispatch_world import Steps, World, published_source, settle_names


@pytest.fixture
def world() -> World:
    return World()


def test_a_suspect_needs_one_run_and_no_second_one_after_the_table_was_asked(world: World) -> None:
    settle_names(world, "a", "b")
    world.land("a")
    assert world.dispatch().run_id == "run2"
    world.finish()
    before = world.checkpoint()
    found = world.dispatch()
    assert world.checkpoint() == before, "the job commits nothing when the table knows all"
    assert (found.phase, found.failed, found.started) == (Phase.SUCCEEDED, 0, 0)
    world.land("b")
    assert world.dispatch().run_id == "run3"


def test_suspects_count_again_after_the_manifest_restarted(world: World) -> None:
    settle_names(world, "a", "b")
    for _ in range(3):
        world.land("a")
    world.dispatch()
    world.finish()
    world.dispatch()
    source = world.sources[0]
    world.store.delete([info.key for info in world.store.list(f"{source.state_prefix}/pending/")])
    world.land("b")
    assert world.dispatch().started == 1


def test_duplicates_and_marks_need_a_run_only_if_there_are_very_many(world: World) -> None:
    world.land("a")
    world.dispatch()
    world.finish()
    world.dispatch()
    for _ in range(59):
        world.land("a")
    assert world.dispatch().started == 0
    world.manifest().append([], writer_id="w", now_ts=1.0, sweep=Sweep(marks=(SettleMark("", None, "a"),), relies_on=0))
    assert world.dispatch().started == 1


def test_a_run_for_very_many_duplicates_that_consumes_nothing_is_a_failure(world: World) -> None:
    world.land("a")
    world.dispatch()
    world.finish()
    world.dispatch()
    for _ in range(60):
        world.land("a")
    world.dispatch()
    world.finish(consume=False)
    assert world.dispatch().failed == 1


def test_a_file_after_very_many_duplicates_is_found(world: World) -> None:
    world.land("a")
    world.dispatch()
    world.finish()
    world.dispatch()
    for _ in range(40):
        world.land("a")
    world.land("b")
    assert world.dispatch().started == 1


def test_a_file_in_progress_needs_a_run_without_any_unconsumed_entry(world: World) -> None:
    world.save(replace(world.checkpoint(), sequence=3, files={"large": 5000}, last_update_ts=world.clock.now_ts))
    world.clock.advance(70)
    found = world.dispatch()
    assert found.started == 1
    assert found.backlog is not None
    assert found.backlog.oldest_secs(world.clock.now_ts) == 70


def test_an_overwritten_file_is_pending_only_if_on_overwrite_is_set() -> None:
    for on_overwrite, started in [("ignore", 0), ("replace", 1), ("dead_letter", 1)]:
        world = World(sources=(published_source(on_overwrite=on_overwrite),))
        settle_names(world, "a")
        world.land("a")
        assert world.dispatch().started == started, on_overwrite


def test_without_a_readable_checkpoint_copy_every_entry_counts(world: World) -> None:
    world.land("a")
    world.dispatch()
    world.finish()
    world.dispatch()
    world.store.put(f"{world.sources[0].state_prefix}_checkpoint.json", b"{torn")
    assert world.dispatch().started == 1


def test_a_huge_backlog_is_counted_only_in_part(world: World) -> None:
    for _ in range(300):
        world.land()
    steps = Steps()
    found = world.dispatch(steps)
    assert found.backlog is not None
    assert (found.backlog.files, found.backlog.truncated) == (17, True)
    assert len([name for name in steps.names if "/pending/" in name]) < 60
