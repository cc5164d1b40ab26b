"""A continuous run: what it does next, when it waits, and how it ends."""

import json
import signal
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from blizzard.errors import BlizzardError, LostRace, PermanentError, RetryableError, StorageUnavailable
from blizzard.state.checkpoint import Checkpoint
from blizzard.sweep.report import SweepKind, SweepReport
from spark_job import main as job
from spark_job.loop.continuous import run_continuously
from spark_job.loop.drain import POLL_SECS
from spark_job.loop.files.sweeps import Sweeps
from spark_job.loop.ingest import Step, Totals
from tests.unit.fakes import Clock

SWEEP_SECS, LATE_SECS = 60.0, 600.0
SLOW, DENIED = StorageUnavailable("slow"), PermanentError("denied")


@dataclass
class ScriptedIngest:
    """Takes one step of the script each turn, then waits for a full batch."""

    clock: Clock
    script: list[Step | BlizzardError]
    totals: Totals = field(default_factory=Totals)
    steps: list[tuple[float, Step | type[BlizzardError]]] = field(default_factory=list)
    forgotten: int = 0
    max_attempts: int = 3

    def step(self, *, draining: bool) -> Step:
        assert not draining, "a continuous run waits for a full batch"
        step = self.script.pop(0) if self.script else Step.WAITING
        self.steps.append((self.clock.now_ts, type(step) if isinstance(step, BlizzardError) else step))
        if isinstance(step, BlizzardError):
            raise step
        return step

    def retry_after_secs(self, error: RetryableError | None, failures: int, *, draining: bool) -> float:
        assert not draining
        if failures >= self.max_attempts:
            raise error or LostRace("lost too often")
        return 2.5 * failures

    def forget(self) -> None:
        self.forgotten += 1


@dataclass
class Source:
    ingest: ScriptedIngest
    source_id: str
    sweep_errors: list[BlizzardError] = field(default_factory=list)
    late_errors: list[BlizzardError] = field(default_factory=list)
    sweeps: list[tuple[float, str]] = field(default_factory=list)
    late_swept_ts: float | None = None
    first_lists_all: bool = False
    """Whether its first sweep counts as a late one."""
    failed_pause_secs: float = SWEEP_SECS
    poll_secs: float = POLL_SECS

    def __post_init__(self) -> None:
        self.discovery = Sweeps(
            self,  # type: ignore[arg-type]
            interval_secs=SWEEP_SECS,
            late_interval_secs=LATE_SECS,
            clock=self.ingest.clock,
        )

    def checkpoint(self) -> Checkpoint:
        return Checkpoint(pipeline="p", source="a", late_swept_ts=self.late_swept_ts)

    def sweep(self, kind: SweepKind, *, record_if_empty: bool) -> SweepReport:
        assert record_if_empty
        self.sweeps.append((self.ingest.clock.now_ts, kind.value))
        errors = self.late_errors if kind is SweepKind.LATE else self.sweep_errors
        if errors:
            raise errors.pop(0)
        whole = self.first_lists_all and len(self.sweeps) == 1
        return SweepReport(kind, 0.0, 0, 0, 0, 0, (), complete=True, counts_as_late=whole)

    def times_of(self, kind: Step | type[BlizzardError]) -> list[float]:
        """When it took steps of this kind."""
        return [at for at, step in self.ingest.steps if step == kind]


@dataclass
class Run:
    """`began`: the clock at the start; a monotonic one may be near zero."""

    began: float = 0.0
    log: list[tuple[str, dict[str, object]]] = field(default_factory=list)
    waits: int = 0

    def __post_init__(self) -> None:
        self.clock = Clock(self.began)

    def source(self, script: Iterable[Step | BlizzardError] = (), *, name: str = "a") -> Source:
        return Source(ScriptedIngest(self.clock, list(script)), f"p:{name}")

    def note(self, event: str, /, **fields: object) -> None:
        self.log.append((event, fields))

    def wait(self, secs: float) -> None:
        self.waits += 1
        self.clock.advance(secs)

    def go(self, *sources: Source, secs: float = 30.0, sweep: bool = False) -> bool:
        return run_continuously(
            sources,
            discover=sweep,
            log=self.note,
            stopping=lambda: self.clock.now_ts >= self.began + secs,
            clock=self.clock,
            wait=self.wait,
        )

    def failures(self) -> list[object]:
        return [fields["source"] for event, fields in self.log if event == "source_failed"]


@pytest.fixture
def run() -> Run:
    return Run()


def test_a_run_steps_at_once_while_there_may_be_more_and_once_a_second_otherwise(run: Run) -> None:
    source = run.source([Step.COMMITTED, Step.MOVED, Step.COMMITTED])
    assert run.go(source, secs=10.0) is False
    assert [at for at, _ in source.ingest.steps] == [0.0, 0.0, 0.0, *(at * POLL_SECS for at in range(10))]
    assert run.log == [("stopped", {})]


def test_a_transient_failure_is_retried_and_does_not_fail_the_source(run: Run) -> None:
    source = run.source([SLOW, SLOW, Step.COMMITTED, SLOW, SLOW, Step.COMMITTED])
    assert run.go(source) is False
    assert source.times_of(Step.COMMITTED) == [8.0, 16.0]
    assert run.failures() == []


def test_a_lost_race_is_followed_by_a_pause(run: Run) -> None:
    source = run.source([Step.LOST, Step.LOST, Step.COMMITTED])
    assert run.go(source) is False
    assert (source.times_of(Step.LOST), source.times_of(Step.COMMITTED)) == ([0.0, 3.0], [8.0])


def test_other_sources_continue_while_one_is_paused(run: Run) -> None:
    shaky, good = run.source([SLOW, Step.COMMITTED]), run.source([Step.COMMITTED] * 5, name="b")
    run.go(shaky, good)
    assert (shaky.times_of(Step.COMMITTED), good.times_of(Step.COMMITTED)) == ([3.0], [0.0] * 5)


@pytest.mark.parametrize("failure", [SLOW, Step.LOST])
def test_a_failure_that_persists_fails_the_source_which_is_retried_a_sweep_later(
    run: Run, failure: Step | BlizzardError
) -> None:
    source = run.source([failure] * 6)
    assert run.go(source, secs=100.0) is True
    assert [at for at, _ in source.ingest.steps[:6]] == [0.0, 3.0, 8.0, 68.0, 71.0, 76.0]
    assert (run.failures(), source.ingest.forgotten) == (["p:a"] * 2, 2)


def test_a_failed_source_fails_the_run_even_if_another_is_fine(run: Run) -> None:
    bad, good = run.source([DENIED]), run.source([Step.COMMITTED], name="b")
    assert run.go(bad, good) is True
    assert run.failures() == ["p:a"]
    assert run.log[-1] == ("stopped", {})


def test_a_failed_source_that_has_succeeded_since_does_not_fail_the_run(run: Run) -> None:
    source = run.source([DENIED])
    assert run.go(source, secs=SWEEP_SECS + 2) is False
    assert run.failures() == ["p:a"]


@pytest.mark.parametrize("began", [0.0, 1e9])
def test_sweeps_run_when_they_are_due(began: float) -> None:
    run = Run(began)
    source = run.source()
    run.go(source, secs=LATE_SECS + 1, sweep=True)
    swept = {kind: [at - began for at, found in source.sweeps if found == kind] for kind in ("watermark", "late")}
    assert swept == {"watermark": [n * SWEEP_SECS for n in range(11)], "late": [0.0, LATE_SECS]}


def test_a_late_sweep_that_another_process_has_made_is_not_repeated(run: Run) -> None:
    source = run.source()
    source.late_swept_ts = SWEEP_SECS - LATE_SECS + 1.0
    run.go(source, secs=2 * SWEEP_SECS + 1, sweep=True)
    assert source.sweeps == [(0.0, "watermark"), (60.0, "watermark"), (120.0, "watermark"), (120.0, "late")]


def test_no_late_sweep_follows_a_first_sweep_that_listed_the_whole_source(run: Run) -> None:
    source = run.source()
    source.first_lists_all = True
    run.go(source, secs=LATE_SECS + 1, sweep=True)
    assert [at for at, kind in source.sweeps if kind == "late"] == [LATE_SECS]
    again = run.source()
    for first, kinds in ((True, ["watermark"]), (False, ["watermark", "late"])):
        again.first_lists_all = first
        again.sweeps.clear()
        again.discovery.discover_all()
        assert [kind for _, kind in again.sweeps] == kinds


def test_a_late_sweep_that_fails_is_repeated_with_the_next_sweep(run: Run) -> None:
    source = run.source()
    source.late_errors = [SLOW]
    run.go(source, secs=SWEEP_SECS + 1, sweep=True)
    assert source.sweeps == [(0.0, "watermark"), (0.0, "late"), (60.0, "watermark"), (60.0, "late")]


def test_nothing_is_swept_without_the_option(run: Run) -> None:
    source = run.source()
    run.go(source)
    assert source.sweeps == []


def test_a_sweep_that_fails_fails_the_source_and_stays_due(run: Run) -> None:
    source = run.source()
    source.sweep_errors = [SLOW, DENIED]
    assert run.go(source, secs=30.0, sweep=True) is True
    assert (source.sweeps, source.ingest.steps) == ([(0.0, "watermark"), (3.0, "watermark")], [])


def test_no_source_takes_a_step_once_the_run_is_to_stop(run: Run) -> None:
    one, other = run.source([Step.COMMITTED]), run.source([Step.COMMITTED], name="b")
    one.ingest.step = lambda *, draining: run.clock.advance(100.0) or Step.COMMITTED  # type: ignore[method-assign]
    run.go(one, other)
    assert other.ingest.steps == []


@pytest.mark.usefixtures("signals_as_before")
class TestTheJob:
    @pytest.fixture
    def config(self, tmp_path: Path) -> str:
        file = tmp_path / "pipelines.yaml"
        file.write_text("pipelines: {p: {table_uri: /tmp/t, sources: {a: {uri: /tmp/s, schema: id STRING}}}}")
        return str(file)

    @pytest.mark.parametrize(("step", "code"), [(Step.WAITING, job.EXIT_OK), (DENIED, job.EXIT_FAILED)])
    def test_a_signal_ends_the_job_and_the_exit_code_says_whether_a_source_failed(
        self,
        step: Step | BlizzardError,
        code: int,
        config: str,
        monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        class Interrupted(ScriptedIngest):
            def step(self, *, draining: bool) -> Step:
                signal.raise_signal(signal.SIGTERM)
                return super().step(draining=draining)

        monkeypatch.setattr(job, "_jobs", lambda *_: [Source(Interrupted(Clock(0.0), [step]), "p:a")])
        assert job.main(["--config", config]) == code
        events = [json.loads(line)["event"] for line in capsys.readouterr().out.splitlines()]
        assert events == [*["source_failed"] * code, "stopped"]

    @pytest.mark.parametrize("wrong", ["foo", "=2g", ""])
    def test_a_setting_without_a_key_or_a_value_is_refused(
        self, wrong: str, config: str, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert job.main(["--config", config, "--once", "--spark-conf", wrong]) == job.EXIT_CONFIG
        (event,) = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
        expected = f"--spark-conf: expected KEY=VALUE, such as spark.driver.memory=2g, found {wrong!r}"
        assert (event["event"], event["problem"]) == ("configuration_wrong", expected)

    def test_a_setting_may_hold_an_equals_sign_or_be_empty(
        self, config: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        given: list[dict[str, str]] = []
        monkeypatch.setattr("spark_job.start.lazy_session", lambda conf, *_, **__: given.append(dict(conf)))
        monkeypatch.setattr(job, "source_job", lambda *_, **__: Source(ScriptedIngest(Clock(0.0), [DENIED]), "p:a"))
        monkeypatch.setattr(job, "run_once", lambda *_, **__: job.EXIT_OK)
        java = "spark.driver.extraJavaOptions"
        words = ["--spark-conf", f"{java}=-Da=b", "--spark-conf", "spark.app.id="]
        assert job.main(["--config", config, "--once", *words]) == job.EXIT_OK
        assert (given[0][java], given[0]["spark.app.id"]) == ("-Da=b", "")
