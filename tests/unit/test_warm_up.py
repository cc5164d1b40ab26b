"""A run warms Delta up once, in the background, at the first wait after a commit; errors do not matter."""

from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from blizzard.errors import PermanentError
from spark_job.loop.ingest import Totals
from spark_job.loop.warm_up import WarmUp
from tests.unit.fakes import Clock

SECS = 7.0


@dataclass
class Ingest:
    totals: Totals = field(default_factory=Totals)


@dataclass
class Source:
    source_id: str
    clock: Clock
    outcome: bool | Exception = True
    ingest: Ingest = field(default_factory=Ingest)
    warmed: int = 0

    def warm_up(self) -> bool:
        self.warmed += 1
        self.clock.advance(SECS)
        if isinstance(self.outcome, Exception):
            raise self.outcome
        return self.outcome


@dataclass
class Run:
    """`started`: background work, which the test runs itself."""

    clock: Clock = field(default_factory=Clock)
    waits: list[float] = field(default_factory=list)
    log: list[tuple[str, dict[str, object]]] = field(default_factory=list)
    started: list[Callable[[], None]] = field(default_factory=list)
    stopping: bool = False
    no_thread: Exception | None = None
    error_text: Callable[[Exception], str] = str

    def __post_init__(self) -> None:
        self.sources = [Source("p:a", self.clock), Source("p:b", self.clock)]
        self.wait = WarmUp(
            self.waits.append,
            self.sources,
            self.note,
            stopping=lambda: self.stopping,
            start=self.start,
            clock=self.clock,
            error_text=self.error_text,
        )

    def note(self, event: str, /, **fields: object) -> None:
        self.log.append((event, fields))

    def start(self, work: Callable[[], None]) -> None:
        if self.no_thread is not None:
            raise self.no_thread
        self.started.append(work)

    def commits(self, which: int) -> None:
        self.sources[which].ingest.totals.commits += 1

    @property
    def warmed(self) -> list[int]:
        return [source.warmed for source in self.sources]


@pytest.fixture
def run() -> Run:
    return Run()


def test_nothing_is_warmed_up_before_a_commit(run: Run) -> None:
    run.wait(1.0)
    run.wait(2.0)
    assert (run.waits, run.started, run.log) == ([1.0, 2.0], [], [])


def test_the_first_wait_after_a_commit_starts_a_warm_up_without_waiting_for_it(run: Run) -> None:
    run.commits(1)
    run.wait(1.0)
    run.wait(1.0)
    assert (run.waits, len(run.started), run.warmed, run.log) == ([1.0, 1.0], 1, [0, 0], [])
    run.started[0]()
    assert (run.warmed, run.log) == ([0, 1], []), "only the waiting thread writes the log"
    run.wait(1.0)
    assert run.log == [("warmed_up", {"source": "p:b", "secs": SECS})]


def test_one_warm_up_serves_all_sources(run: Run) -> None:
    run.commits(0)
    run.wait(1.0)
    run.started[0]()
    run.commits(1)
    run.wait(1.0)
    run.wait(1.0)
    assert (len(run.started), run.warmed) == (1, [1, 0])


def test_two_warm_ups_never_run_at_the_same_time(run: Run) -> None:
    run.sources[0].outcome = False
    for which in (0, 1):
        run.commits(which)
        run.wait(1.0)
    assert len(run.started) == 1


def test_after_a_skipped_table_the_next_source_gets_the_warm_up(run: Run) -> None:
    run.sources[0].outcome = False
    run.commits(0)
    run.commits(1)
    for _ in range(4):
        run.wait(1.0)
        while run.started:
            run.started.pop()()
    assert (run.warmed, run.log) == ([1, 1], [("warmed_up", {"source": "p:b", "secs": SECS})])


@pytest.mark.parametrize(
    "error", [PermanentError("no such thing"), OSError("no such thing"), AssertionError("no such thing")]
)
def test_an_error_of_a_warm_up_is_only_logged(run: Run, error: Exception) -> None:
    run.sources[0].outcome = error
    run.commits(0)
    run.wait(1.0)
    run.started[0]()
    run.wait(1.0)
    run.wait(1.0)
    assert run.log == [("not_warmed_up", {"source": "p:a", "error": f"{type(error).__name__}: no such thing"})]
    assert (len(run.started), run.waits) == (1, [1.0] * 3)


def test_the_text_of_an_error_is_shortened_for_the_log() -> None:
    run = Run(error_text=lambda error: str(error).partition("\n")[0])
    run.sources[0].outcome = OSError("no such thing\n\tat Frame.java")
    run.commits(0)
    run.wait(1.0)
    run.started[0]()
    run.wait(1.0)
    assert run.log == [("not_warmed_up", {"source": "p:a", "error": "OSError: no such thing"})]


def test_the_run_continues_if_no_thread_can_be_started(run: Run) -> None:
    run.no_thread = RuntimeError("can't start new thread")
    run.commits(0)
    run.wait(1.0)
    run.wait(1.0)
    assert run.log == [("not_warmed_up", {"source": "p:a", "error": "RuntimeError: can't start new thread"})]
    assert run.waits == [1.0, 1.0]


def test_a_stopping_run_starts_no_warm_up(run: Run) -> None:
    run.commits(0)
    run.stopping = True
    run.wait(1.0)
    assert (run.started, run.waits) == ([], [1.0])
