"""Runs for sources of topics: on a schedule, and at once if the last one has not read to the end."""

from dataclasses import replace

import pytest

from blizzard.config.published import PublishedTopics
from blizzard.dispatch.decide import Hold
from blizzard.dispatch.run_records import Phase
from blizzard.dispatch.service import RunStatus
from blizzard.errors import NotFound
from blizzard.state.identity import SourceIdentity
from blizzard.state.topic_checkpoint import TopicCheckpoint, decode, encode
from tests.unit.dispatch_world import PIPELINE, POLICY, World

INTERVAL_SECS = 900.0
CLICKS = PublishedTopics(PIPELINE, "clicks", "memory://store/", INTERVAL_SECS, 8, 20.0)
COPY = SourceIdentity(PIPELINE, "clicks", CLICKS.state_prefix).copy_key


def world_of_topics() -> World:
    return World(sources=(), topics=(CLICKS,))


def commit(world: World, *, waiting: int = 0) -> None:
    """As a job does; `waiting`: what the commit has left to be read."""
    try:
        before = decode(world.store.get(COPY), pipeline=PIPELINE, source="clicks")
    except NotFound:
        before = TopicCheckpoint(PIPELINE, "clicks")
    after = replace(before, sequence=before.sequence + 1, last_update_ts=world.clock.now_ts, waiting=waiting)
    world.store.put(COPY, encode(after).encode())


@pytest.fixture
def world() -> World:
    return world_of_topics()


def run_to_the_end(world: World) -> None:
    assert world.dispatch().started == 1
    commit(world)
    world.finish()
    world.dispatch()


def test_the_first_run_starts_at_once(world: World) -> None:
    found = world.dispatch()
    assert (found.started, found.phase) == (1, Phase.RUNNING)


def test_the_next_run_starts_after_the_interval(world: World) -> None:
    begun_ts = world.clock.now_ts
    run_to_the_end(world)
    world.clock.advance(begun_ts + INTERVAL_SECS - world.clock.now_ts - 1)
    waiting = world.dispatch()
    assert (waiting.started, waiting.phase, waiting.hold) == (0, Phase.SUCCEEDED, None)
    assert waiting.backlog is not None
    assert waiting.backlog.oldest_secs(world.clock.now_ts) == 0
    world.clock.advance(1)
    assert world.dispatch().started == 1


def test_a_run_that_found_nothing_is_no_failure(world: World) -> None:
    run_to_the_end(world)
    world.clock.advance(INTERVAL_SECS)
    world.dispatch()
    world.finish()
    assert world.dispatch().phase is Phase.SUCCEEDED
    assert world.dispatch().started == 0


def test_no_second_run_starts_while_one_is_active(world: World) -> None:
    world.dispatch()
    world.clock.advance(10 * INTERVAL_SECS)
    assert world.dispatch().started == 0
    assert world.service.most_active == 1


def test_a_failed_run_is_repeated_after_the_backoff_not_after_the_interval(world: World) -> None:
    run_to_the_end(world)
    world.clock.advance(INTERVAL_SECS)
    world.dispatch()
    world.finish(RunStatus.FAILED)
    assert world.dispatch().hold is Hold.BACKOFF
    world.clock.advance(2 * POLICY.backoff_secs)
    assert world.dispatch().started == 1


def test_a_run_that_ended_at_its_time_limit_with_lag_is_followed_by_another(world: World) -> None:
    world.dispatch()
    world.clock.advance(POLICY.run_secs)
    commit(world, waiting=7)
    world.finish()
    found = world.dispatch()
    assert found.started == 1
    assert found.backlog is not None
    assert found.backlog.messages == 7


def test_a_run_at_its_time_limit_that_read_nothing_waits_for_the_schedule() -> None:
    topics = replace(CLICKS, run_interval_secs=3 * POLICY.run_secs)
    world = World(sources=(), topics=(topics,))
    run_to_the_end(world)
    world.clock.advance(topics.run_interval_secs)
    world.dispatch()
    world.clock.advance(POLICY.run_secs)
    world.finish()
    assert world.dispatch().started == 0


def test_runs_that_fail_without_progress_open_the_circuit(world: World) -> None:
    world.fail_until_open()
    assert world.dispatch().hold is Hold.CIRCUIT_OPEN


def test_a_run_that_failed_after_a_commit_counts_as_the_first_failure(world: World) -> None:
    for _ in range(POLICY.max_failures + 1):
        world.dispatch()
        commit(world, waiting=1)
        world.finish(RunStatus.FAILED)
        assert world.dispatch().phase is Phase.FAILED
        world.clock.advance(2 * POLICY.backoff_secs)


def test_the_age_is_that_of_a_run_that_is_due_and_cannot_start(world: World) -> None:
    run_to_the_end(world)
    world.clock.advance(INTERVAL_SECS)
    world.dispatch()
    world.finish(RunStatus.FAILED)
    world.dispatch()
    due_ts = world.latest().started_ts
    assert due_ts is not None
    world.clock.advance(INTERVAL_SECS + 30)
    world.service.down = True
    found = world.dispatch()
    assert found.backlog is not None
    assert found.backlog.oldest_secs(world.clock.now_ts) == world.clock.now_ts - due_ts - INTERVAL_SECS


def test_in_a_run_that_goes_on_only_messages_have_an_age(world: World) -> None:
    world.dispatch()
    commit(world)
    world.clock.advance(2 * INTERVAL_SECS)
    found = world.dispatch().backlog
    assert found is not None
    assert found.oldest_secs(world.clock.now_ts) == 0
    commit(world, waiting=3)
    world.clock.advance(40)
    found = world.dispatch().backlog
    assert found is not None
    assert (found.oldest_secs(world.clock.now_ts), found.messages) == (40, 3)


def test_files_start_a_run_before_topics_are_due() -> None:
    world = World(topics=(CLICKS,))
    run_to_the_end(world)
    world.land("a")
    assert world.dispatch().started == 1


def test_topics_start_a_run_of_a_pipeline_whose_files_are_all_in() -> None:
    world = World(topics=(CLICKS,))
    run_to_the_end(world)
    assert world.dispatch().started == 0
    world.clock.advance(INTERVAL_SECS)
    assert world.dispatch().started == 1


@pytest.mark.parametrize("copy", [b"{torn", b"{}", b'{"kind": "files", "pipeline": "events", "source": "clicks"}'])
def test_a_copy_that_cannot_be_read_stops_nothing(world: World, copy: bytes) -> None:
    world.store.put(COPY, copy)
    assert world.dispatch().started == 1
    world.finish()
    assert world.dispatch().phase is Phase.SUCCEEDED
