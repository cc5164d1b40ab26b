"""One run for each backlog: when it starts, when it does not, and what its end leads to."""

from contextlib import suppress
from dataclasses import replace

import pytest

from blizzard.dispatch.decide import TOKEN_GRACE_SECS, UNKNOWN_GRACE_SECS, Hold, Policy, wait_secs
from blizzard.dispatch.run_records import RECORDS_KEPT, TRIM_SLACK, Phase
from blizzard.dispatch.service import Life, ServiceBusy
from blizzard.manifest.segments import SettleMark, Sweep
from tests.unit.dispatch_world import PIPELINE, POLICY, Steps, World, conflict, crash, published_source, refused
from tests.unit.fakes import Crash


@pytest.fixture
def world() -> World:
    return World()


def test_nothing_waits_so_nothing_is_started_and_nothing_is_written(world: World) -> None:
    found = world.dispatch()
    assert (found.started, found.phase, found.error) == (0, None, None)
    assert list(world.store.list()) == []


def test_a_backlog_starts_one_run_and_the_next_dispatch_leaves_it_alone(world: World) -> None:
    world.land()
    found = world.dispatch()
    assert (found.started, found.phase, found.run_id) == (1, Phase.RUNNING, "run1")
    world.land()
    again = world.dispatch()
    assert (again.started, again.run_id) == (0, "run1")
    assert world.service.active_runs() == ["run1"]


def test_a_run_that_succeeded_and_left_nothing_is_not_followed_by_another(world: World) -> None:
    world.land()
    world.dispatch()
    world.finish()
    found = world.dispatch()
    assert (found.phase, found.started, found.failed) == (Phase.SUCCEEDED, 0, 0)
    assert len(world.service.runs) == 1


def test_what_landed_while_a_run_ended_starts_the_next_one_at_once(world: World) -> None:
    world.land()
    world.dispatch()
    world.finish()
    world.land()
    found = world.dispatch()
    assert (found.started, found.run_id) == (1, "run2")


def test_each_attempt_has_a_token_of_its_own(world: World) -> None:
    for _ in range(3):
        world.land()
        world.dispatch()
        world.finish()
        world.dispatch()
    assert len(world.service.tokens) == len(world.service.runs) == 3


def test_the_age_and_number_of_what_waits_are_told(world: World) -> None:
    world.land("a", "b")
    world.clock.advance(30)
    world.land("c")
    found = world.dispatch()
    assert found.backlog is not None
    assert found.backlog.oldest_secs(world.clock.now_ts) == 30
    assert (found.backlog.files, found.backlog.more) == (3, False)
    world.finish()
    done = world.dispatch()
    assert done.backlog is not None
    assert (done.backlog.oldest_secs(world.clock.now_ts), done.backlog.files) == (0.0, 0)


def test_an_old_file_that_a_sweep_has_just_found_has_waited_since_it_was_found(world: World) -> None:
    world.land("old", age_secs=80_000)
    found = world.dispatch()
    assert found.backlog is not None
    assert found.backlog.oldest_secs(world.clock.now_ts) == 0


# --- Failures ---


def test_a_failed_run_is_tried_again_after_a_wait_and_not_before(world: World) -> None:
    world.land()
    world.dispatch()
    world.finish(Life.FAILED, "FAILED: out of memory")
    found = world.dispatch()
    assert (found.phase, found.failed, found.hold) == (Phase.FAILED, 1, Hold.BACKOFF)
    assert world.latest().reason == "FAILED: out of memory"
    world.clock.advance(59)
    assert world.dispatch().started == 0
    world.clock.advance(17)
    assert world.dispatch().started == 1


def test_a_reason_of_any_length_is_cut(world: World) -> None:
    world.land()
    world.dispatch()
    world.finish(Life.FAILED, "x" * 100_000)
    world.dispatch()
    assert len(world.latest().reason or "") == 500


def test_the_wait_doubles_up_to_its_limit_with_jitter_that_everybody_computes_alike(world: World) -> None:
    world.land()
    world.dispatch()
    world.finish(Life.FAILED)
    world.dispatch()
    record = world.latest()
    waits = [
        wait_secs(replace(record, failures=n), Policy(backoff_secs=60, max_backoff_secs=600)) for n in (1, 2, 3, 9)
    ]
    assert [60 <= waits[0] < 75, 120 <= waits[1] < 150, 240 <= waits[2] < 300, 600 <= waits[3] < 750] == [True] * 4
    assert len({wait_secs(replace(record, number=n), POLICY) for n in range(20)}) > 10


def test_after_enough_failures_in_a_row_the_circuit_opens_once_and_nothing_starts(world: World) -> None:
    world.land()
    world.fail_until_open()
    found = world.dispatch()
    assert (found.phase, found.hold, found.started) == (Phase.OPEN, Hold.CIRCUIT_OPEN, 0)
    world.clock.advance(1e6)
    assert world.dispatch().hold is Hold.CIRCUIT_OPEN
    assert [fields["reason"] for fields in world.logged("circuit_open")] == ["FAILED: boom"]
    assert len(world.service.runs) == POLICY.max_failures


def test_a_success_in_between_keeps_the_circuit_closed(world: World) -> None:
    for life in [Life.FAILED, Life.FAILED, Life.SUCCEEDED] * 3:
        world.land()
        world.dispatch()
        world.finish(life)
        world.dispatch()
        world.clock.advance(10_000)
    assert not world.logged("circuit_open")


def test_a_new_release_closes_the_circuit_and_forgets_the_failures(world: World) -> None:
    world.land()
    world.fail_until_open()
    world.service.fingerprint = "release-2"
    found = world.dispatch()
    assert (found.started, found.hold) == (1, None)
    assert world.latest().failures == 0
    assert world.logged("circuit_closed")


def test_a_new_release_does_not_wait_for_the_failures_of_the_old_one(world: World) -> None:
    world.land()
    world.dispatch()
    world.finish(Life.FAILED)
    world.dispatch()
    world.service.fingerprint = "release-2"
    assert world.dispatch().started == 1


def test_a_run_that_succeeds_and_consumes_nothing_counts_as_a_failure(world: World) -> None:
    world.land()
    for _ in range(POLICY.max_failures):
        world.dispatch()
        world.finish(consume=False)
        assert world.dispatch().failed == 1
        world.clock.advance(10_000)
    assert world.latest().phase is Phase.OPEN
    assert "consumed nothing of landing" in (world.latest().reason or "")


def test_a_source_that_stays_behind_is_noticed_beside_one_that_gets_on() -> None:
    world = World(sources=(published_source("one"), published_source("two")))
    one, two = world.sources
    world.land(source=one)
    world.land(source=two)
    world.dispatch()
    world.consume(one)
    world.finish(consume=False)
    assert world.dispatch().failed == 1
    assert "of two," in (world.latest().reason or "")


def test_what_landed_after_the_start_is_no_sign_of_a_run_that_consumes_nothing(world: World) -> None:
    world.land()
    world.dispatch()
    world.consume()
    world.land()
    world.finish(consume=False)
    found = world.dispatch()
    assert (found.failed, found.started) == (0, 1)


def test_failed_runs_that_get_on_never_open_the_circuit(world: World) -> None:
    """A large first load may take longer than a run may last."""
    for _ in range(20):
        world.land()
    for _ in range(10):
        world.dispatch()
        world.consume(segments=1)
        world.finish(Life.FAILED, "CANCELLED: ran out of time")
        world.dispatch()
        assert world.latest().failures == 1
        world.clock.advance(10_000)


def test_one_source_that_gets_on_does_not_hide_another_that_fails_for_ever() -> None:
    world = World(sources=(published_source("one"), published_source("two")))
    one, two = world.sources
    world.land(source=two)
    for _ in range(POLICY.max_failures):
        world.land(source=one)
        world.dispatch()
        world.consume(one)
        world.finish(Life.FAILED)
        world.dispatch()
        world.clock.advance(10_000)
    assert world.latest().phase is Phase.OPEN


def test_a_refused_start_is_a_failure_with_its_reason(world: World) -> None:
    world.land()
    world.service.trouble = refused()
    found = world.dispatch()
    assert (found.phase, found.failed, found.started, found.error) == (Phase.FAILED, 1, 0, None)
    assert "not allowed to pass the role" in (world.latest().reason or "")
    for _ in range(POLICY.max_failures):
        world.clock.advance(10_000)
        found = world.dispatch()
    assert found.hold is Hold.CIRCUIT_OPEN


def test_a_refused_start_repeats_its_token_so_that_somebody_slow_cannot_start_a_second_run(world: World) -> None:
    world.land()
    world.service.trouble = refused()
    world.dispatch()
    token = world.latest().client_token
    world.service.trouble = None
    world.clock.advance(10_000)
    world.dispatch()
    assert world.service.start(PIPELINE, token) == "run1"
    assert world.service.active_runs() == ["run1"]


def test_a_busy_service_leaves_the_start_to_the_next_trigger_with_the_same_token(world: World) -> None:
    world.land()
    world.service.trouble = ServiceBusy("StartJobRun: ThrottlingException")
    found = world.dispatch()
    assert (found.phase, found.failed) == (Phase.STARTING, 0)
    assert isinstance(found.error, ServiceBusy)
    token = world.latest().client_token
    world.service.trouble = None
    assert world.dispatch().started == 1
    assert world.service.tokens == {token: "run1"}


def test_a_start_that_nobody_recorded_is_adopted_even_when_the_service_has_forgotten_its_token(world: World) -> None:
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


def test_who_loses_a_race_to_somebody_who_dies_finishes_the_work(world: World) -> None:
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


def test_a_conflict_is_waited_out_and_counts_only_when_nobody_can_hold_the_token_any_more(world: World) -> None:
    world.land()
    world.service.trouble = conflict()
    assert world.dispatch().error is not None
    assert world.latest().phase is Phase.STARTING
    world.clock.advance(TOKEN_GRACE_SECS)
    assert world.dispatch().failed == 1
    assert world.latest().spent
    world.service.trouble = None
    world.clock.advance(10_000)
    assert world.dispatch().started == 1


def test_an_outage_of_the_service_still_tells_how_long_files_have_waited(world: World) -> None:
    world.land()
    world.dispatch()
    world.service.down = True
    world.clock.advance(500)
    found = world.dispatch()
    assert isinstance(found.error, ServiceBusy)
    assert found.backlog is not None
    assert found.backlog.oldest_secs(world.clock.now_ts) == 500
    assert world.logged("dispatch_failed")[0]["error_kind"] == "ServiceBusy"


# --- Runs that somebody else started, and runs that are gone ---


def test_a_run_started_by_hand_is_adopted_and_not_joined_by_another(world: World) -> None:
    world.land()
    world.service.start_by_hand()
    found = world.dispatch()
    assert (found.started, found.phase, found.run_id) == (0, Phase.RUNNING, "run1")
    assert world.logged("run_adopted") == [{"pipeline": PIPELINE, "run_id": "run1"}]


def test_a_run_of_another_pipeline_is_not_adopted(world: World) -> None:
    world.land()
    world.service.start_by_hand("clicks")
    assert world.dispatch().started == 1


def test_wiped_records_lead_to_the_adoption_of_the_run_that_is_active(world: World) -> None:
    world.land()
    world.dispatch()
    epoch = world.latest().epoch
    world.store.delete([info.key for info in world.store.list(f"_blizzard/_runs/{PIPELINE}/")])
    assert world.dispatch().run_id == "run1"
    assert world.latest().epoch != epoch
    world.finish()
    world.land()
    assert world.dispatch().run_id == "run2"


def test_records_that_begin_again_never_repeat_a_token(world: World) -> None:
    world.land()
    world.dispatch()
    world.finish(Life.FAILED)
    world.store.delete([info.key for info in world.store.list(f"_blizzard/_runs/{PIPELINE}/")])
    assert world.dispatch().run_id == "run2"


def test_an_adopted_run_that_fails_counts_and_is_followed_by_one_of_our_own(world: World) -> None:
    world.land()
    world.service.start_by_hand()
    world.dispatch()
    world.finish(Life.FAILED)
    assert world.dispatch().failed == 1
    world.clock.advance(10_000)
    assert world.dispatch().started == 1


def test_a_run_that_the_application_does_not_know_has_ended_without_failure(world: World) -> None:
    world.land()
    world.dispatch()
    world.service.runs.clear()
    assert world.dispatch().started == 0, "it may only be too young to be known everywhere"
    world.clock.advance(UNKNOWN_GRACE_SECS)
    found = world.dispatch()
    assert (found.started, found.failed) == (1, 0)
    assert world.latest().failures == 0
    assert world.logged("run_unknown")


# --- What is worth a run ---


def settled(world: World, *names: str) -> None:
    """These files are committed, and a watermark has passed them."""
    world.land(*names)
    world.dispatch()
    world.finish()
    world.dispatch()
    world.save(replace(world.checkpoint(), partition_watermarks={"": max(names)}, files={}))


def test_a_suspect_is_worth_one_run_and_no_second_one_once_the_table_was_asked(world: World) -> None:
    settled(world, "a", "b")
    world.land("a")
    assert world.dispatch().run_id == "run2"
    world.finish()
    before = world.checkpoint()
    found = world.dispatch()
    assert world.checkpoint() == before, "the job commits nothing when the table knows all"
    assert (found.phase, found.failed, found.started) == (Phase.SUCCEEDED, 0, 0)
    world.land("b")
    assert world.dispatch().run_id == "run3"


def test_what_a_run_has_seen_counts_again_when_the_manifest_began_anew(world: World) -> None:
    settled(world, "a", "b")
    for _ in range(3):
        world.land("a")
    world.dispatch()
    world.finish()
    world.dispatch()
    source = world.sources[0]
    world.store.delete([info.key for info in world.store.list(f"{source.state_prefix}/pending/")])
    world.land("b")
    assert world.dispatch().started == 1


def test_duplicates_and_marks_are_not_worth_a_run_until_there_are_very_many(world: World) -> None:
    world.land("a")
    world.dispatch()
    world.finish()
    world.dispatch()
    for _ in range(59):
        world.land("a")
    assert world.dispatch().started == 0
    world.manifest().append([], writer_id="w", now_ts=1.0, sweep=Sweep(marks=(SettleMark("", None, "a"),), relies_on=0))
    assert world.dispatch().started == 1


def test_a_run_for_very_many_duplicates_that_moves_nothing_is_a_failure(world: World) -> None:
    world.land("a")
    world.dispatch()
    world.finish()
    world.dispatch()
    for _ in range(60):
        world.land("a")
    world.dispatch()
    world.finish(consume=False)
    assert world.dispatch().failed == 1


def test_a_file_behind_very_many_duplicates_is_not_overlooked(world: World) -> None:
    world.land("a")
    world.dispatch()
    world.finish()
    world.dispatch()
    for _ in range(40):
        world.land("a")
    world.land("b")
    assert world.dispatch().started == 1


def test_a_file_in_progress_is_worth_a_run_though_no_entry_waits(world: World) -> None:
    world.save(replace(world.checkpoint(), sequence=3, files={"large": 5000}, last_update_ts=world.clock.now_ts))
    world.clock.advance(70)
    found = world.dispatch()
    assert found.started == 1
    assert found.backlog is not None
    assert found.backlog.oldest_secs(world.clock.now_ts) == 70


def test_an_overwritten_file_waits_only_where_the_source_asks_for_overwrites() -> None:
    for on_overwrite, started in [("ignore", 0), ("replace", 1), ("dead_letter", 1)]:
        world = World(sources=(published_source(on_overwrite=on_overwrite),))
        world.land("a")
        world.dispatch()
        world.finish()
        world.dispatch()
        world.land("a")
        assert world.dispatch().started == started, on_overwrite


def test_an_unreadable_copy_of_the_checkpoint_makes_everything_count(world: World) -> None:
    world.land("a")
    world.dispatch()
    world.finish()
    world.dispatch()
    world.store.put(f"{world.sources[0].state_prefix}_checkpoint.json", b"{torn")
    assert world.dispatch().started == 1


def test_a_huge_backlog_is_not_read_to_its_end(world: World) -> None:
    for _ in range(300):
        world.land()
    steps = Steps()
    found = world.dispatch(steps)
    assert found.backlog is not None
    assert (found.backlog.files, found.backlog.more) == (17, True)
    assert len([name for name in steps.names if "/pending/" in name]) < 60


# --- Runs that ended because their time was up ---


def test_one_that_got_on_is_a_success_and_the_next_one_starts_at_once(world: World) -> None:
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


def test_one_that_got_on_nowhere_is_a_failure_however_long_it_took(world: World) -> None:
    world.land()
    world.dispatch()
    world.clock.advance(POLICY.run_secs)
    world.finish(consume=False)
    assert world.dispatch().failed == 1


@pytest.mark.parametrize(("secs", "last"), [(POLICY.run_secs, "run3"), (POLICY.run_secs - 1, "run2")])
def test_suspects_that_it_had_no_time_to_look_at_are_worth_another_one(world: World, secs: float, last: str) -> None:
    settled(world, "a", "b")
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


# --- Records ---


def test_old_records_are_trimmed_and_numbers_go_on(world: World) -> None:
    for _ in range(60):
        world.land()
        world.dispatch()
        world.finish()
        world.dispatch()
    keys = [info.key for info in world.store.list(f"_blizzard/_runs/{PIPELINE}/")]
    assert RECORDS_KEPT <= len(keys) <= RECORDS_KEPT + TRIM_SLACK
    assert world.latest().number == 60 * 3 - 1


def test_a_record_of_a_newer_version_stops_the_dispatch_with_what_to_do(world: World) -> None:
    world.land()
    world.store.put(f"_blizzard/_runs/{PIPELINE}/{7:020d}.json", b'{"schema_version":2,"pipeline":"events","number":7}')
    found = world.dispatch()
    assert found.started == 0
    assert "delete the folder" in str(found.error)
    assert not world.service.runs
