"""A draining run: turn by turn until nothing is left, and a while longer where the pipeline lingers."""

import math
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import pytest

from blizzard.errors import BlizzardError, PermanentError, RetryableError, StorageUnavailable
from spark_job.loop.drain import POLL_SECS, drain_all
from spark_job.loop.files.sweeps import Sweeps
from spark_job.loop.ingest import Step, Totals
from tests.unit.fakes import Clock, World
from tests.unit.scripted_source import ScriptedIngest, Source


@dataclass
class Run:
    clock: Clock = field(default_factory=Clock)
    log: list[tuple[str, dict[str, object]]] = field(default_factory=list)
    stop_at: float = float("inf")
    waits: int = 0

    def source(
        self,
        script: Iterable[Step | BlizzardError] = (),
        *,
        name: str = "a",
        arrivals: Iterable[float] = (),
        **more: object,
    ) -> Source:
        ingest = ScriptedIngest(self.clock, list(script), [100_000.0 + at for at in arrivals])
        return Source(ingest, f"p:{name}", **more)  # type: ignore[arg-type]

    def note(self, event: str, /, **fields: object) -> None:
        self.log.append((event, fields))

    def wait(self, secs: float) -> None:
        self.waits += 1
        assert self.waits < 10_000, "no end in sight"
        self.clock.advance(secs)

    def drain(self, *sources: Source, sweep: bool = False, max_secs: float = math.inf) -> tuple[bool, bool]:
        return drain_all(
            sources,
            discover=sweep,
            log=self.note,
            stopping=lambda: self.clock.now_ts - 100_000.0 >= self.stop_at,
            clock=self.clock,
            wait=self.wait,
            max_secs=max_secs,
        )

    def secs(self) -> float:
        return self.clock.now_ts - 100_000.0

    def events(self) -> list[tuple[str, object]]:
        return [(event, fields["source"]) for event, fields in self.log]


@pytest.fixture
def run() -> Run:
    return Run()


class TestDraining:
    def test_without_linger_the_run_ends_as_soon_as_nothing_is_left(self, run: Run) -> None:
        source = run.source([Step.COMMITTED, Step.MOVED, Step.COMMITTED])
        assert run.drain(source) == (False, False)
        assert (source.ingest.totals.commits, run.waits) == (2, 0)
        assert run.log == [("drained", {"source": "p:a", **dict.fromkeys(vars_of(Totals()), 0), "commits": 2})]

    def test_no_source_waits_for_the_steady_traffic_of_another(self, run: Run) -> None:
        busy, small = run.source([Step.COMMITTED] * 50), run.source([Step.COMMITTED], name="b")
        run.drain(busy, small)
        assert run.events() == [("drained", "p:b"), ("drained", "p:a")]

    def test_a_source_that_fails_does_not_stop_the_others(self, run: Run) -> None:
        bad, good = run.source([PermanentError("gone")]), run.source([Step.COMMITTED], name="b")
        assert run.drain(bad, good) == (True, False)
        assert run.events() == [("source_failed", "p:a"), ("drained", "p:b")]

    def test_a_transient_failure_is_retried_while_other_sources_continue(self, run: Run) -> None:
        shaky = run.source([StorageUnavailable("slow"), Step.LOST, Step.COMMITTED])
        good = run.source([Step.COMMITTED] * 3, name="b")
        assert run.drain(shaky, good) == (False, False)
        assert (good.commits(), shaky.commits()) == ([0.0] * 3, [6.0])

    @pytest.mark.parametrize("failure", [StorageUnavailable("slow"), Step.LOST])
    def test_a_failure_that_persists_ends_the_source(self, run: Run, failure: Step | BlizzardError) -> None:
        assert run.drain(run.source([failure] * 3)) == (True, False)
        assert run.events() == [("source_failed", "p:a")]

    def test_only_consecutive_failures_count(self, run: Run) -> None:
        failure = [StorageUnavailable("slow"), Step.LOST]
        source = run.source([*failure, Step.COMMITTED, *failure, Step.COMMITTED])
        assert run.drain(source) == (False, False)
        assert len(source.commits()) == 2

    def test_each_source_is_swept_once_before_it_is_drained(self, run: Run) -> None:
        source = run.source([Step.COMMITTED] * 3, linger_secs=5.0)
        run.drain(source, sweep=True)
        assert source.sweeps == 1

    def test_a_source_that_cannot_be_swept_is_drained_and_counts_as_failed(self, run: Run) -> None:
        source = run.source([Step.COMMITTED])
        source.sweep_error = PermanentError("denied")
        assert run.drain(source, sweep=True) == (True, False)
        assert run.events() == [("source_failed", "p:a"), ("drained", "p:a"), ("source_failed", "p:a")]
        assert "could not be swept" in str(run.log[-1][1]["error"])

    @pytest.mark.parametrize("error", [PermanentError("denied"), StorageUnavailable("slow"), RetryableError("later")])
    def test_the_failure_logged_at_the_end_is_retryable_if_the_sweep_error_was(
        self, run: Run, error: BlizzardError
    ) -> None:
        source = run.source([Step.COMMITTED])
        source.sweep_error = error
        run.drain(source, sweep=True)
        kinds = [fields["kind"] for event, fields in run.log if event == "source_failed"]
        assert kinds[0] == type(error).__name__
        assert kinds[1] == ("RetryableError" if isinstance(error, RetryableError) else "PermanentError")

    def test_a_signal_stops_the_run_before_the_backlog_is_gone(self, run: Run) -> None:
        run.stop_at = 0.0
        assert run.drain(run.source([Step.COMMITTED])) == (False, True)
        assert run.events() == [("stopped", "p:a")]


class TestLingering:
    def test_the_run_lingers_until_nothing_has_come_for_linger_secs(self, run: Run) -> None:
        source = run.source([Step.COMMITTED], linger_secs=30.0)
        assert run.drain(source) == (False, False)
        assert 30.0 <= run.secs() <= 30.0 + POLL_SECS

    def test_a_file_that_arrives_meanwhile_is_committed_within_a_second_and_prolongs_the_linger(self, run: Run) -> None:
        arrivals = [3.3, 20.7, 45.0, 45.2]
        source = run.source(arrivals=arrivals, linger_secs=30.0)
        run.drain(source)
        assert all(any(0 <= at - came <= POLL_SECS for at in source.commits()) for came in arrivals)
        assert 75.0 <= run.secs() <= 75.2 + 2 * POLL_SECS

    def test_a_lingering_source_looks_once_a_second(self, run: Run) -> None:
        source = run.source(linger_secs=30.0)
        run.drain(source)
        assert len(source.ingest.steps) <= 30 / POLL_SECS + 2

    def test_a_source_whose_listing_costs_nothing_looks_more_often(self, run: Run) -> None:
        source = run.source(linger_secs=3.0)
        source.poll_secs = 0.25
        run.drain(source)
        assert 3.0 / 0.25 <= len(source.ingest.steps) <= 3.0 / 0.25 + 2

    def test_an_idle_source_looks_no_more_often_while_another_is_busy(self, run: Run) -> None:
        idle, busy = run.source(linger_secs=30.0), run.source([Step.COMMITTED] * 50, name="b", linger_secs=30.0)
        run.drain(idle, busy)
        assert sum(at < POLL_SECS for at, _ in idle.ingest.steps) == 1

    def test_all_sources_of_a_pipeline_are_served_until_it_ends(self, run: Run) -> None:
        one = run.source(arrivals=[5.0, 25.0], linger_secs=30.0)
        other = run.source(arrivals=[50.0], name="b", linger_secs=30.0)
        run.drain(one, other)
        assert (len(one.commits()), len(other.commits())) == (2, 1)
        assert 80.0 <= run.secs() <= 80.0 + 2 * POLL_SECS

    def test_another_pipeline_does_not_wait_for_a_lingering_one(self, run: Run) -> None:
        lingering = run.source(linger_secs=30.0)
        done = run.source([Step.COMMITTED], name="b", pipeline="q")
        run.drain(lingering, done)
        assert run.events()[0] == ("drained", "p:b")
        assert len(done.ingest.steps) == 2

    def test_each_pipeline_lingers_on_its_own(self, run: Run) -> None:
        quiet = run.source(linger_secs=10.0)
        busy = run.source(arrivals=[5.0, 10.0, 15.0, 20.0], name="b", pipeline="q", linger_secs=10.0)
        run.drain(quiet, busy)
        assert max(at for at, _ in quiet.ingest.steps) <= 10.0 + POLL_SECS
        assert len(busy.commits()) == 4

    def test_a_source_that_is_retrying_keeps_its_pipeline_lingering(self, run: Run) -> None:
        shaky = run.source([StorageUnavailable("slow"), Step.LOST, Step.COMMITTED], linger_secs=3.0)
        other = run.source(arrivals=[5.5], name="b", linger_secs=3.0)
        run.drain(shaky, other)
        assert (shaky.commits(), len(other.commits())) == ([6.0], 1)

    def test_a_signal_ends_the_linger_at_once_and_is_not_a_failure(self, run: Run) -> None:
        run.stop_at = 7.0
        assert run.drain(run.source([Step.COMMITTED], linger_secs=30.0)) == (False, False)
        assert run.secs() < 7.0 + POLL_SECS
        assert run.events() == [("drained", "p:a")]

    def test_marks_and_duplicates_do_not_prolong_the_linger(self, run: Run) -> None:
        source = run.source([Step.COMMITTED, *[Step.MOVED, Step.IDLE] * 40], linger_secs=10.0)
        run.drain(source)
        assert run.secs() <= 10.0 + 2 * POLL_SECS


class TestTimeIsUp:
    def test_steady_traffic_does_not_keep_the_run_from_ending(self, run: Run) -> None:
        source = run.source(arrivals=range(10_000), linger_secs=30.0)
        assert run.drain(source, max_secs=600.0) == (False, False)
        assert 600.0 <= run.secs() <= 600.0 + POLL_SECS
        totals = {**dict.fromkeys(vars_of(Totals()), 0), "commits": len(source.commits())}
        assert run.log == [("time_is_up", {"source": "p:a", **totals})]

    def test_an_endless_backlog_does_not_keep_the_run_from_ending(self, run: Run) -> None:
        source = run.source([Step.COMMITTED] * 500)
        source.ingest.step_secs = 10.0
        assert run.drain(source, max_secs=95.0) == (False, False)
        assert (len(source.commits()), run.secs()) == (10, 100.0)

    def test_a_long_linger_is_cut_short(self, run: Run) -> None:
        run.drain(run.source([Step.COMMITTED], linger_secs=86_400.0), max_secs=600.0)
        assert run.secs() <= 600.0 + POLL_SECS
        assert run.events() == [("time_is_up", "p:a")]

    def test_without_a_limit_it_lingers_to_the_end(self, run: Run) -> None:
        run.drain(run.source([Step.COMMITTED], linger_secs=7200.0))
        assert run.secs() >= 7200.0
        assert run.events() == [("drained", "p:a")]

    def test_a_source_drained_in_time_is_logged_as_drained(self, run: Run) -> None:
        run.drain(run.source([Step.COMMITTED]), max_secs=600.0)
        assert run.events() == [("drained", "p:a")]

    def test_a_step_longer_than_the_limit_does_not_keep_another_source_from_being_served(self, run: Run) -> None:
        long, other = run.source([Step.COMMITTED] * 3), run.source([Step.MOVED] * 3 + [Step.COMMITTED] * 3, name="b")
        long.ingest.step_secs = 4000.0
        assert run.drain(long, other, max_secs=3600.0) == (False, False)
        assert (len(long.commits()), len(other.commits())) == (1, 1)
        assert run.events() == [("time_is_up", "p:a"), ("time_is_up", "p:b")]

    def test_a_source_that_fails_from_its_first_step_does_not_count_as_served(self, run: Run) -> None:
        shaky = run.source([StorageUnavailable("slow"), Step.LOST, Step.COMMITTED, Step.COMMITTED])
        assert run.drain(shaky, max_secs=1.0) == (False, False)
        assert shaky.commits() == [6.0]
        bad = run.source([StorageUnavailable("slow")] * 3)
        assert run.drain(bad, max_secs=1.0) == (True, False)

    def test_a_source_that_failed_still_counts_as_failed(self, run: Run) -> None:
        bad, busy = run.source([PermanentError("gone")]), run.source(arrivals=range(10_000), name="b", linger_secs=9.0)
        assert run.drain(bad, busy, max_secs=60.0) == (True, False)

    def test_a_signal_still_stops_the_run_before_its_limit(self, run: Run) -> None:
        run.stop_at = 0.0
        assert run.drain(run.source([Step.COMMITTED]), max_secs=60.0) == (False, True)
        assert run.events() == [("stopped", "p:a")]


@dataclass
class RealSource:
    """The real ingest loop, over storage and a table in memory."""

    world: World
    linger_secs: float
    poll_secs: float = 1.0
    source_id: str = "events:landing"
    pipeline: str = "events"

    def __post_init__(self) -> None:
        self.ingest = self.world.job()
        self.discovery = Sweeps(
            self.world.source_sweep(), interval_secs=60.0, late_interval_secs=600.0, clock=self.world.clock
        )


def drain_world(
    world: World, linger_secs: float, at: dict[int, Callable[[], object]], *, discover: bool = False
) -> None:
    """`at`: what happens in the n-th second of waiting."""
    seconds = 0

    def wait(secs: float) -> None:
        nonlocal seconds
        world.clock.advance(secs)
        seconds += 1
        at.get(seconds, lambda: None)()

    source = RealSource(world, linger_secs)
    failed, _ = drain_all(
        [source],
        discover=discover,
        log=lambda *_, **__: None,
        stopping=lambda: False,
        clock=world.clock,
        wait=wait,
    )
    assert not failed


def test_files_that_arrive_during_the_linger_are_in_the_table_when_the_run_ends() -> None:
    world = World()
    world.arrive("a.txt")
    drain_world(world, 10.0, {3: lambda: world.arrive("b.txt"), 9: lambda: world.arrive("c.txt")})
    assert list(world.files()) == ["a.txt", "b.txt", "c.txt"]
    assert world.doubled() == []


def test_a_run_that_sweeps_finds_what_no_event_announced_and_records_an_empty_late_sweep_only_if_it_is_due() -> None:
    world = World()
    late_swept: list[float | None] = []
    for secs in (0.0, 60.0, 600.0):
        world.clock.advance(secs)
        world.put(f"{secs:03.0f}.txt", "a")
        drain_world(world, 0.0, {}, discover=True)
        late_swept.append(world.source_sweep().checkpoint().late_swept_ts)
    assert list(world.files()) == ["000.txt", "060.txt", "600.txt"]
    assert late_swept[0] is not None
    assert late_swept[1] == late_swept[0]
    assert late_swept[2] is not None
    assert late_swept[2] - late_swept[0] >= 600.0


def test_an_idle_second_costs_one_listing_and_no_read() -> None:
    world = World()
    world.arrive("a.txt")
    seen: list[Counter[str]] = []

    def look() -> None:
        seen.append(Counter(name.split()[0] for name in world.calls.names))

    drain_world(world, 10.0, {2: look, 8: look})
    spent = seen[1] - seen[0]
    assert spent["list"] == 6
    assert set(spent) <= {"list", "listed"}


def vars_of(totals: Totals) -> list[str]:
    return list(type(totals).__dataclass_fields__)
