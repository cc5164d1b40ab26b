"""Never two active runs, and never none for a backlog: dispatchers killed at any call, and two at the same moment."""

from collections.abc import Callable
from contextlib import suppress

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from blizzard.dispatch.decide import TOKEN_GRACE_SECS
from blizzard.dispatch.run_records import Phase
from blizzard.dispatch.service import RunStatus, ServiceBusy
from tests.unit.dispatch_world import PIPELINE, POLICY, Steps, World, conflict, crash, refused
from tests.unit.fakes import Crash

Situation = Callable[[World], object]
MOST_CALLS = 60


def first_backlog(world: World) -> None:
    world.land()


def ended_and_more_landed(world: World) -> None:
    world.land()
    world.dispatch()
    world.finish()
    world.land()


def failed_and_waited(world: World) -> None:
    world.land()
    world.dispatch()
    world.finish(RunStatus.FAILED)
    world.dispatch()
    world.clock.advance(10_000)


def just_failed(world: World) -> None:
    world.land()
    world.dispatch()
    world.finish(RunStatus.FAILED)
    world.service.fingerprint = "release-2"


def open_and_released(world: World) -> None:
    world.land()
    world.fail_until_open()
    world.service.fingerprint = "release-2"


def announced_and_left(world: World) -> None:
    world.land()
    world.service.start_error = ServiceBusy("StartJobRun: throttled")
    world.dispatch()
    world.service.start_error = None


def announced_for_an_older_release(world: World) -> None:
    announced_and_left(world)
    world.service.fingerprint = "release-2"


def refused_before(world: World) -> None:
    world.land()
    world.service.start_error = refused()
    world.dispatch()
    world.service.start_error = None
    world.clock.advance(10_000)


def records_are_wiped(world: World) -> None:
    ended_and_more_landed(world)
    world.store.delete([info.key for info in world.store.list(f"_blizzard/_runs/{PIPELINE}/")])


SITUATIONS: list[Situation] = [
    first_backlog,
    ended_and_more_landed,
    failed_and_waited,
    just_failed,
    open_and_released,
    announced_and_left,
    announced_for_an_older_release,
    refused_before,
    records_are_wiped,
]


def world_in(situation: Situation) -> World:
    world = World()
    situation(world)
    return world


def calls_of_a_dispatch(situation: Situation) -> int:
    steps = Steps()
    world = world_in(situation)
    world.dispatch(steps)
    assert len(world.service.active_runs()) == 1
    assert 0 < len(steps.names) <= MOST_CALLS
    return len(steps.names)


def check_one_run(world: World, runs_before: int) -> None:
    assert world.service.most_active <= 1
    assert len(world.service.runs) == runs_before + 1
    assert (world.latest().phase, [world.latest().run_id]) == (Phase.RUNNING, world.service.active_runs())


def check_that_it_goes_on(world: World) -> None:
    """The run ends, its successor starts, and no earlier event blocks it."""
    world.finish()
    world.land()
    world.dispatch()
    assert world.service.most_active <= 1
    assert [world.latest().run_id] == world.service.active_runs()


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("situation", SITUATIONS, ids=lambda s: s.__name__)
def test_a_dispatcher_killed_at_any_call_is_recovered_by_the_next(situation: Situation, after: bool) -> None:
    for k in range(1, calls_of_a_dispatch(situation) + 1):
        world = world_in(situation)
        runs_before = len(world.service.runs)
        steps = Steps()
        steps.plan(k, crash, after=after)
        with pytest.raises(Crash):
            world.dispatch(steps)
        world.dispatch()
        check_one_run(world, runs_before)
        check_that_it_goes_on(world)


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("situation", SITUATIONS, ids=lambda s: s.__name__)
def test_a_second_dispatcher_at_any_call_of_the_first_starts_no_second_run(situation: Situation, after: bool) -> None:
    for k in range(1, calls_of_a_dispatch(situation) + 1):
        world = world_in(situation)
        runs_before = len(world.service.runs)
        steps = Steps()
        steps.plan(k, world.dispatch, after=after)
        world.dispatch(steps)
        check_one_run(world, runs_before)
        check_that_it_goes_on(world)


@pytest.mark.parametrize("situation", SITUATIONS, ids=lambda s: s.__name__)
def test_a_second_dispatcher_killed_during_any_call_of_the_first_starts_no_second_run(situation: Situation) -> None:
    most = calls_of_a_dispatch(situation)
    for k in range(1, most + 1):
        for j in range(1, most + 1):
            world = world_in(situation)
            runs_before = len(world.service.runs)

            def die(world: World = world, j: int = j) -> None:
                inner = Steps()
                inner.plan(j, crash, after=True)
                with suppress(Crash):
                    world.dispatch(inner)

            steps = Steps()
            steps.plan(k, die, after=False)
            world.dispatch(steps)
            world.dispatch()
            check_one_run(world, runs_before)


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("status", [RunStatus.SUCCEEDED, RunStatus.FAILED])
@pytest.mark.parametrize("situation", SITUATIONS, ids=lambda s: s.__name__)
def test_runs_that_start_and_end_during_any_call_of_a_slow_dispatcher_do_no_harm(
    situation: Situation, status: RunStatus, after: bool
) -> None:
    for k in range(1, calls_of_a_dispatch(situation) + 1):
        world = world_in(situation)

        def meanwhile(world: World = world) -> None:
            for _ in range(2):
                world.dispatch()
                world.finish(status)
                world.land()
            world.dispatch()

        steps = Steps()
        steps.plan(k, meanwhile, after=after)
        world.dispatch(steps)
        assert world.service.most_active <= 1
        world.clock.advance(10_000)
        world.dispatch()
        assert [world.latest().run_id] == world.service.active_runs()
        assert world.service.most_active == 1


@pytest.mark.parametrize("trouble", [refused(), conflict(), ServiceBusy("throttled")], ids=lambda e: type(e).__name__)
@pytest.mark.parametrize("situation", SITUATIONS, ids=lambda s: s.__name__)
def test_a_slow_dispatcher_uses_its_token_after_the_start_failed_for_another(
    situation: Situation, trouble: Exception
) -> None:
    """It may have announced the start long before; what the other one starts in the end is the same run."""
    for k in range(1, calls_of_a_dispatch(situation) + 1):
        world = world_in(situation)

        def meanwhile(world: World = world) -> None:
            world.service.start_error = trouble  # type: ignore[assignment]
            world.dispatch()
            world.service.start_error = None
            world.clock.advance(200)  # within the timeout of a Lambda function
            world.dispatch()

        steps = Steps()
        steps.plan(k, meanwhile, after=False)
        world.dispatch(steps)
        world.dispatch()
        assert world.service.most_active <= 1
        assert [world.latest().run_id] == world.service.active_runs()


class Dispatchers(RuleBasedStateMachine):
    """Anything may happen, in any order, except that somebody starts runs by hand beside the dispatcher."""

    def __init__(self) -> None:
        super().__init__()
        self.world = World()

    @rule()
    def land(self) -> None:
        self.world.land()

    @rule()
    def a_duplicate_is_announced(self) -> None:
        if self.world.files:
            self.world.land(f"f{self.world.files:04d}")
            self.world.files -= 1

    @rule()
    def dispatch(self) -> None:
        self.world.dispatch()

    @rule(k=st.integers(1, 25), after=st.booleans())
    def dispatch_and_die(self, k: int, after: bool) -> None:
        steps = Steps()
        steps.plan(k, crash, after=after)
        with suppress(Crash):
            self.world.dispatch(steps)

    @rule(k=st.integers(1, 25), j=st.integers(1, 25), after=st.booleans(), ends=st.booleans())
    def dispatch_twice(self, k: int, j: int, after: bool, ends: bool) -> None:
        """The second within the first, a third within the second; a run may end in between."""

        def second() -> None:
            inner = Steps()
            inner.plan(j, self.world.dispatch, after=after)
            self.world.dispatch(inner)
            if ends:
                self.world.finish()
                self.world.land()
                self.world.dispatch()

        steps = Steps()
        steps.plan(k, second, after=after)
        self.world.dispatch(steps)

    @rule(status=st.sampled_from([RunStatus.SUCCEEDED, RunStatus.FAILED]), consume=st.none() | st.booleans())
    def run_ends(self, status: RunStatus, consume: bool | None) -> None:
        self.world.finish(status, consume=consume)

    @rule(secs=st.sampled_from([1.0, 100.0, 1000.0]))
    def time_passes(self, secs: float) -> None:
        self.world.clock.advance(secs)

    @rule(name=st.sampled_from(["release-1", "release-2"]))
    def release(self, name: str) -> None:
        self.world.service.fingerprint = name

    @rule(trouble=st.sampled_from([None, None, refused(), conflict(), ServiceBusy("throttled")]))
    def service_has_trouble(self, trouble: Exception | None) -> None:
        self.world.service.start_error = trouble  # type: ignore[assignment]

    @rule(down=st.booleans())
    def service_goes_down_or_comes_up(self, down: bool) -> None:
        self.world.service.down = down

    @precondition(lambda self: not self.world.service.down)
    @rule()
    def records_are_wiped(self) -> None:
        """Between two dispatches. One that is asleep in the middle would not know that its number was free again."""
        self.world.dispatch()  # nobody holds an announcement that nobody else can see any more
        self.world.store.delete([info.key for info in self.world.store.list(f"_blizzard/_runs/{PIPELINE}/")])

    @rule()
    def manifest_is_wiped(self) -> None:
        prefix = f"{self.world.sources[0].state_prefix}/pending/"
        self.world.store.delete([info.key for info in self.world.store.list(prefix)])

    @invariant()
    def never_two(self) -> None:
        assert self.world.service.most_active <= 1

    @invariant()
    def circuit_opens_only_after_enough_failures(self) -> None:
        for fields in self.world.logged("circuit_open"):
            assert isinstance(fields["failures"], int)
            assert fields["failures"] >= POLICY.max_failures

    def teardown(self) -> None:
        """In the end all is well: the cause is gone, and what waits is consumed."""
        self.world.service.down, self.world.service.start_error = False, None
        self.world.service.fingerprint = "release-3"
        for _ in range(8):
            self.world.clock.advance(TOKEN_GRACE_SECS)
            self.world.dispatch()
            self.world.finish()
        found = self.world.dispatch()
        assert found.error is None
        assert found.backlog is not None
        assert not found.backlog.needs_run
        assert self.world.service.most_active <= 1


Dispatchers.TestCase.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
TestDispatchers = Dispatchers.TestCase
