"""Failed runs and refused starts: backoff, circuit, and what counts as a failure."""

from contextlib import suppress
from dataclasses import replace

import pytest

from blizzard.dispatch.decide import TOKEN_GRACE_SECS, FailurePolicy, Hold, backoff_secs_after
from blizzard.dispatch.run_records import Phase
from blizzard.dispatch.service import RunStatus, ServiceBusy
from tests.unit.dispatch_world import (
    PIPELINE,
    POLICY,
    Steps,
    World,
    conflict,
    crash,
    published_source,
    refused,
    settle_names,
)
from tests.unit.fakes import Crash


@pytest.fixture
def world() -> World:
    return World()


def test_a_failed_run_is_retried_after_the_backoff_and_not_before(world: World) -> None:
    world.land()
    world.dispatch()
    world.finish(RunStatus.FAILED, "FAILED: out of memory")
    found = world.dispatch()
    assert (found.phase, found.failed, found.hold) == (Phase.FAILED, 1, Hold.BACKOFF)
    assert world.latest().reason == "FAILED: out of memory"
    world.clock.advance(59)
    assert world.dispatch().started == 0
    world.clock.advance(17)
    assert world.dispatch().started == 1


def test_a_long_reason_is_truncated(world: World) -> None:
    world.land()
    world.dispatch()
    world.finish(RunStatus.FAILED, "x" * 100_000)
    world.dispatch()
    assert len(world.latest().reason or "") == 500


def test_the_backoff_doubles_up_to_its_limit_with_deterministic_jitter(world: World) -> None:
    world.land()
    world.dispatch()
    world.finish(RunStatus.FAILED)
    world.dispatch()
    record = world.latest()
    waits = [
        backoff_secs_after(replace(record, failures=n), FailurePolicy(backoff_secs=60, max_backoff_secs=600))
        for n in (1, 2, 3, 9)
    ]
    assert [60 <= waits[0] < 75, 120 <= waits[1] < 150, 240 <= waits[2] < 300, 600 <= waits[3] < 750] == [True] * 4
    assert len({backoff_secs_after(replace(record, number=n), POLICY) for n in range(20)}) > 10


def test_after_enough_failures_in_a_row_the_circuit_opens_once_and_no_run_starts(world: World) -> None:
    world.land()
    world.fail_until_open()
    found = world.dispatch()
    assert (found.phase, found.hold, found.started) == (Phase.OPEN, Hold.CIRCUIT_OPEN, 0)
    world.clock.advance(1e6)
    assert world.dispatch().hold is Hold.CIRCUIT_OPEN
    assert [fields["reason"] for fields in world.logged("circuit_open")] == ["FAILED: boom"]
    assert len(world.service.runs) == POLICY.max_failures


def test_a_success_between_failures_keeps_the_circuit_closed(world: World) -> None:
    for status in [RunStatus.FAILED, RunStatus.FAILED, RunStatus.SUCCEEDED] * 3:
        world.land()
        world.dispatch()
        world.finish(status)
        world.dispatch()
        world.clock.advance(10_000)
    assert not world.logged("circuit_open")


def test_a_new_release_closes_the_circuit_and_resets_the_failures(world: World) -> None:
    world.land()
    world.fail_until_open()
    world.service.fingerprint = "release-2"
    found = world.dispatch()
    assert (found.started, found.hold) == (1, None)
    assert world.latest().failures == 0
    assert world.logged("circuit_closed")


def test_a_new_release_starts_without_the_backoff_of_the_old_one(world: World) -> None:
    world.land()
    world.dispatch()
    world.finish(RunStatus.FAILED)
    world.dispatch()
    world.service.fingerprint = "release-2"
    assert world.dispatch().started == 1


def test_a_run_that_succeeds_without_consuming_anything_counts_as_a_failure(world: World) -> None:
    world.land()
    for _ in range(POLICY.max_failures):
        world.dispatch()
        world.finish(consume=False)
        assert world.dispatch().failed == 1
        world.clock.advance(10_000)
    assert world.latest().phase is Phase.OPEN
    assert "consumed nothing of landing" in (world.latest().reason or "")


def test_a_stuck_source_is_detected_beside_one_that_advances() -> None:
    world = World(sources=(published_source("one"), published_source("two")))
    one, two = world.sources
    world.land(source=one)
    world.land(source=two)
    world.dispatch()
    world.consume(one)
    world.finish(consume=False)
    assert world.dispatch().failed == 1
    assert "of two," in (world.latest().reason or "")


def test_files_that_arrived_after_the_start_do_not_make_a_run_a_failure(world: World) -> None:
    world.land()
    world.dispatch()
    world.consume()
    world.land()
    world.finish(consume=False)
    found = world.dispatch()
    assert (found.failed, found.started) == (0, 1)


def test_failed_runs_with_progress_never_open_the_circuit(world: World) -> None:
    """A large first load may take longer than a run may last."""
    for _ in range(20):
        world.land()
    for _ in range(10):
        world.dispatch()
        world.consume(segments=1)
        world.finish(RunStatus.FAILED, "CANCELLED: ran out of time")
        world.dispatch()
        assert world.latest().failures == 1
        world.clock.advance(10_000)


def test_progress_of_one_source_does_not_hide_another_that_always_fails() -> None:
    world = World(sources=(published_source("one"), published_source("two")))
    one, two = world.sources
    world.land(source=two)
    for _ in range(POLICY.max_failures):
        world.land(source=one)
        world.dispatch()
        world.consume(one)
        world.finish(RunStatus.FAILED)
        world.dispatch()
        world.clock.advance(10_000)
    assert world.latest().phase is Phase.OPEN


def test_a_refused_start_is_a_failure_with_its_reason(world: World) -> None:
    world.land()
    world.service.start_error = refused()
    found = world.dispatch()
    assert (found.phase, found.failed, found.started, found.error) == (Phase.FAILED, 1, 0, None)
    assert "not allowed to pass the role" in (world.latest().reason or "")
    for _ in range(POLICY.max_failures):
        world.clock.advance(10_000)
        found = world.dispatch()
    assert found.hold is Hold.CIRCUIT_OPEN


def test_a_refused_start_repeats_its_token_so_that_a_slow_dispatcher_cannot_start_a_second_run(world: World) -> None:
    world.land()
    world.service.start_error = refused()
    world.dispatch()
    token = world.latest().client_token
    world.service.start_error = None
    world.clock.advance(10_000)
    world.dispatch()
    assert world.service.start(PIPELINE, token) == "run1"
    assert world.service.active_runs() == ["run1"]


def test_a_busy_service_leaves_the_start_to_the_next_trigger_with_the_same_token(world: World) -> None:
    world.land()
    world.service.start_error = ServiceBusy("StartJobRun: ThrottlingException")
    found = world.dispatch()
    assert (found.phase, found.failed) == (Phase.STARTING, 0)
    assert isinstance(found.error, ServiceBusy)
    token = world.latest().client_token
    world.service.start_error = None
    assert world.dispatch().started == 1
    assert world.service.tokens == {token: "run1"}


def test_an_unrecorded_run_is_adopted_even_if_the_service_has_forgotten_its_token(world: World) -> None:
    world.land()
    steps = Steps()
    world.dispatch(steps)
    k = steps.names.index("StartJobRun") + 1
    world = World()
    world.land()
    steps = Steps()
    steps.plan(k, crash, after=True)
    with pytest.raises(Crash):
        world.dispatch(steps)
    assert world.latest().phase is Phase.STARTING
    world.service.tokens.clear()
    assert world.dispatch().run_id == "run1"
    assert world.service.active_runs() == ["run1"]


def test_a_dispatcher_that_loses_a_race_to_one_that_crashes_finishes_the_start(world: World) -> None:
    world.land()
    steps, second = Steps(), Steps()

    def die() -> None:
        second.plan(announcing, crash, after=True)
        with suppress(Crash):
            world.dispatch(second)

    announcing = announcement(world)
    steps.plan(announcing, die, after=False)
    found = world.dispatch(steps)
    assert "StartJobRun" not in second.names
    assert (found.phase, world.service.active_runs()) == (Phase.RUNNING, ["run1"])


def announcement(like: World) -> int:
    """Which call of a dispatch announces the start."""
    twin, steps = World(), Steps()
    for _ in range(like.files):
        twin.land()
    twin.dispatch(steps)
    return next(n for n, name in enumerate(steps.names, 1) if name.startswith("create"))


def test_a_conflict_is_retried_and_counts_only_after_the_token_has_expired(world: World) -> None:
    world.land()
    world.service.start_error = conflict()
    assert world.dispatch().error is not None
    assert world.latest().phase is Phase.STARTING
    world.clock.advance(TOKEN_GRACE_SECS)
    assert world.dispatch().failed == 1
    assert world.latest().token_used
    world.service.start_error = None
    world.clock.advance(10_000)
    assert world.dispatch().started == 1


def test_the_age_of_the_backlog_is_returned_during_an_outage_of_the_service(world: World) -> None:
    world.land()
    world.dispatch()
    world.service.down = True
    world.clock.advance(500)
    found = world.dispatch()
    assert isinstance(found.error, ServiceBusy)
    assert found.backlog is not None
    assert found.backlog.oldest_secs(world.clock.now_ts) == 500
    assert world.logged("dispatch_failed")[0]["error_kind"] == "ServiceBusy"


def test_a_run_at_its_time_limit_with_progress_is_a_success_and_the_next_one_starts_at_once(world: World) -> None:
    for _ in range(3):
        world.land()
    world.dispatch()
    world.clock.advance(POLICY.run_secs)
    world.consume(segments=1)
    world.finish(consume=False)
    found = world.dispatch()
    assert (found.failed, found.started, found.run_id) == (0, 1, "run2")
    assert len(world.logged("run_succeeded")) == 1
    assert world.latest().failures == 0


def test_a_run_at_its_time_limit_without_progress_is_a_failure(world: World) -> None:
    world.land()
    world.dispatch()
    world.clock.advance(POLICY.run_secs)
    world.finish(consume=False)
    assert world.dispatch().failed == 1


@pytest.mark.parametrize(("secs", "last"), [(POLICY.run_secs, "run3"), (POLICY.run_secs - 1, "run2")])
def test_suspects_that_a_run_had_no_time_to_examine_need_another_one(world: World, secs: float, last: str) -> None:
    settle_names(world, "a", "b")
    world.land("z")
    world.land("a")
    world.dispatch()
    world.clock.advance(secs)
    world.consume(segments=1)
    world.finish(consume=False)
    assert world.dispatch().run_id == last
    world.clock.advance(secs)
    world.finish(consume=False)
    found = world.dispatch()
    assert (found.run_id, found.failed) == (last, 0), "that one has looked at them"
