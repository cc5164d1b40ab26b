"""A source whose steps follow a script, for runs that drain."""

from dataclasses import dataclass, field

from blizzard.errors import BlizzardError, LostRace, RetryableError
from spark_job.loop.ingest import Step, Totals
from tests.unit.fakes import Clock


@dataclass
class ScriptedIngest:
    """Takes one step of the script each turn, then is idle. `arrivals`: when files come later, in Unix seconds."""

    clock: Clock
    script: list[Step | BlizzardError]
    arrivals: list[float] = field(default_factory=list)
    totals: Totals = field(default_factory=Totals)
    steps: list[tuple[float, Step]] = field(default_factory=list)
    max_attempts: int = 3
    step_secs: float = 0.0

    def step(self, *, draining: bool) -> Step:
        assert draining, "a lingering job must not wait for a full batch"
        now_ts = self.clock.now_ts
        self.clock.advance(self.step_secs)
        if self.script:
            step = self.script.pop(0)
        else:
            due = [at for at in self.arrivals if at <= now_ts]
            self.arrivals = self.arrivals[len(due) :]
            step = Step.COMMITTED if due else Step.IDLE
        if isinstance(step, BlizzardError):
            raise step
        self.totals.commits += step is Step.COMMITTED
        self.steps.append((now_ts - 100_000.0, step))
        return step

    def retry_after_secs(self, error: RetryableError | None, failures: int, *, draining: bool) -> float:
        assert draining
        if failures >= self.max_attempts:
            raise error or LostRace("lost too often")
        return 2.0 * failures


@dataclass
class Source:
    ingest: ScriptedIngest
    source_id: str = "p:a"
    pipeline: str = "p"
    linger_secs: float = 0.0
    poll_secs: float = 1.0
    sweeps: int = 0
    sweep_error: BlizzardError | None = None

    @property
    def discovery(self) -> "Source":
        return self

    def discover_all(self) -> None:
        self.sweeps += 1
        if self.sweep_error:
            raise self.sweep_error

    def commits(self) -> list[float]:
        return [at for at, step in self.ingest.steps if step is Step.COMMITTED]
