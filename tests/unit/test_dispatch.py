"""When a run is started, when not, and which runs are adopted."""

import pytest

from blizzard.dispatch.decide import UNKNOWN_GRACE_SECS
from blizzard.dispatch.run_records import RECORDS_KEPT, TRIM_SLACK, Phase
from blizzard.dispatch.service import RunStatus
from tests.unit.dispatch_world import PIPELINE, World


@pytest.fixture
def world() -> World:
    return World()


def test_without_a_backlog_no_run_is_started_and_no_record_is_written(world: World) -> None:
    found = world.dispatch()
    assert (found.started, found.phase, found.error) == (0, None, None)
    assert list(world.store.list()) == []


def test_a_backlog_starts_one_run_and_the_next_dispatch_starts_none(world: World) -> None:
    world.land()
    found = world.dispatch()
    assert (found.started, found.phase, found.run_id) == (1, Phase.RUNNING, "run1")
    world.land()
    again = world.dispatch()
    assert (again.started, again.run_id) == (0, "run1")
    assert world.service.active_runs() == ["run1"]


def test_a_run_that_consumed_the_backlog_is_not_followed_by_another(world: World) -> None:
    world.land()
    world.dispatch()
    world.finish()
    found = world.dispatch()
    assert (found.phase, found.started, found.failed) == (Phase.SUCCEEDED, 0, 0)
    assert len(world.service.runs) == 1


def test_files_that_arrive_at_the_end_of_a_run_start_the_next_one_at_once(world: World) -> None:
    world.land()
    world.dispatch()
    world.finish()
    world.land()
    found = world.dispatch()
    assert (found.started, found.run_id) == (1, "run2")


def test_each_attempt_has_its_own_token(world: World) -> None:
    for _ in range(3):
        world.land()
        world.dispatch()
        world.finish()
        world.dispatch()
    assert len(world.service.tokens) == len(world.service.runs) == 3


def test_a_dispatch_returns_age_and_size_of_the_backlog(world: World) -> None:
    world.land("a", "b")
    world.clock.advance(30)
    world.land("c")
    found = world.dispatch()
    assert found.backlog is not None
    assert found.backlog.oldest_secs(world.clock.now_ts) == 30
    assert (found.backlog.files, found.backlog.truncated) == (3, False)
    world.finish()
    done = world.dispatch()
    assert done.backlog is not None
    assert (done.backlog.oldest_secs(world.clock.now_ts), done.backlog.files) == (0.0, 0)


def test_the_age_of_a_swept_file_counts_from_the_time_it_was_found(world: World) -> None:
    world.land("old", age_secs=80_000)
    found = world.dispatch()
    assert found.backlog is not None
    assert found.backlog.oldest_secs(world.clock.now_ts) == 0


def test_a_run_started_by_hand_is_adopted_and_no_second_one_is_started(world: World) -> None:
    world.land()
    world.service.start_by_hand()
    found = world.dispatch()
    assert (found.started, found.phase, found.run_id) == (0, Phase.RUNNING, "run1")
    assert world.logged("run_adopted") == [{"pipeline": PIPELINE, "run_id": "run1"}]


def test_a_run_of_another_pipeline_is_not_adopted(world: World) -> None:
    world.land()
    world.service.start_by_hand("clicks")
    assert world.dispatch().started == 1


def test_after_records_were_deleted_the_active_run_is_adopted(world: World) -> None:
    world.land()
    world.dispatch()
    epoch = world.latest().epoch
    world.store.delete([info.key for info in world.store.list(f"_blizzard/_runs/{PIPELINE}/")])
    assert world.dispatch().run_id == "run1"
    assert world.latest().epoch != epoch
    world.finish()
    world.land()
    assert world.dispatch().run_id == "run2"


def test_restarted_records_never_repeat_a_token(world: World) -> None:
    world.land()
    world.dispatch()
    world.finish(RunStatus.FAILED)
    world.store.delete([info.key for info in world.store.list(f"_blizzard/_runs/{PIPELINE}/")])
    assert world.dispatch().run_id == "run2"


def test_a_failed_adopted_run_counts_as_a_failure_and_is_followed_by_a_new_run(world: World) -> None:
    world.land()
    world.service.start_by_hand()
    world.dispatch()
    world.finish(RunStatus.FAILED)
    assert world.dispatch().failed == 1
    world.clock.advance(10_000)
    assert world.dispatch().started == 1


def test_a_run_that_the_application_does_not_know_ends_without_a_failure(world: World) -> None:
    world.land()
    world.dispatch()
    world.service.runs.clear()
    assert world.dispatch().started == 0, "it may only be too young to be known everywhere"
    world.clock.advance(UNKNOWN_GRACE_SECS)
    found = world.dispatch()
    assert (found.started, found.failed) == (1, 0)
    assert world.latest().failures == 0
    assert world.logged("run_unknown")


def test_old_records_are_trimmed_and_numbers_continue(world: World) -> None:
    for _ in range(60):
        world.land()
        world.dispatch()
        world.finish()
        world.dispatch()
    keys = [info.key for info in world.store.list(f"_blizzard/_runs/{PIPELINE}/")]
    assert RECORDS_KEPT <= len(keys) <= RECORDS_KEPT + TRIM_SLACK
    assert world.latest().number == 60 * 3 - 1


def test_a_record_of_a_newer_version_fails_the_dispatch_with_instructions(world: World) -> None:
    world.land()
    world.store.put(f"_blizzard/_runs/{PIPELINE}/{7:020d}.json", b'{"schema_version":2,"pipeline":"events","number":7}')
    found = world.dispatch()
    assert found.started == 0
    assert "delete the folder" in str(found.error)
    assert not world.service.runs
