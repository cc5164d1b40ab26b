"""What a run's seconds were spent on, phase by phase: work of the job, work of the server beside it, or neither."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.result import Table
from benchmarks.rounds import ContenderRuns
from benchmarks.stats import Spread, number

ENDS = {"batch_planned": "plan", "batch_read": "read to receipt", "batch_committed": "commit", "run_ended": "after it"}
"""The event of the job's log with which a phase ends."""
COLUMNS = ("phase of a second run", "s", "core-s of the job", "of the stand-in", "of others, or idle")
ACCOUNT_COLUMNS = ("core-seconds of both runs", "in all", "the job's", "the stand-in's", "others'", "idle")


@dataclass(slots=True)
class Phase:
    """Seconds: by the clock, of processors for the job, and for the server."""

    secs: float = 0.0
    job_secs: float = 0.0
    server_secs: float = 0.0


def phases(events: Sequence[Mapping[str, Any]]) -> dict[str, Phase]:
    """Of one run's log, all batches together. What a batch does after its commit is of the next one's plan."""
    found: dict[str, Phase] = {}
    before = events[0]
    for event in events:
        if event["event"] in ENDS:
            phase = found.setdefault(ENDS[event["event"]], Phase())
            phase.secs += event["at"] - before["at"]
            phase.job_secs += event["cpu_secs"] - before["cpu_secs"]
            phase.server_secs += event["server_cpu_secs"] - before["server_cpu_secs"]
            before = event
    return found


def table(series: Mapping[str, Mapping[str, ContenderRuns]], cores: int) -> Table:
    """Of the last run of each process, by data and by where it lay."""
    rows = []
    for name, both in series.items():
        for kind, one in both.items():
            runs = [phases(run.answers[-1]["events"]) for run in one.runs]
            rows += [(f"{name}, {kind}, {phase}", *_row([run[phase] for run in runs], cores)) for phase in runs[0]]
    return Table(COLUMNS, tuple(rows))


def _row(runs: Sequence[Phase], cores: int) -> tuple[str, ...]:
    rest = [run.secs * cores - run.job_secs - run.server_secs for run in runs]
    kinds = ([run.secs for run in runs], [run.job_secs for run in runs], [run.server_secs for run in runs], rest)
    return tuple(str(Spread.of(values)) for values in kinds)


def account(
    series: Mapping[str, Mapping[str, ContenderRuns]], server_secs: Mapping[str, Sequence[float]], cores: int
) -> Table:
    """Of whole processes, with start and first run: who had the cores. `server_secs`: by data, of each process over
    S3."""
    rows = []
    for name, both in series.items():
        for kind, one in both.items():
            found = _accounted(one, server_secs[name] if kind == "s3" else (), cores)
            rows.append((f"{name}, {kind}", *map(str, found)))
    return Table(ACCOUNT_COLUMNS, tuple(rows))


def more_notes(
    series: Mapping[str, Mapping[str, ContenderRuns]], server_secs: Mapping[str, Sequence[float]], cores: int
) -> tuple[str, ...]:
    """What S3 adds to it, by the medians."""
    notes = []
    for name, both in series.items():
        before, after = _accounted(both["local"], (), cores), _accounted(both["s3"], server_secs[name], cores)
        whole, job, server, others, idle = (number(b.median - a.median) for a, b in zip(before, after, strict=True))
        notes.append(
            f"Over S3 {name} takes {whole} core-seconds more in two runs: {job} are the job's own, {server} the "
            f"stand-in's, {others} others', and {idle} idle."
        )
    return tuple(notes)


def _accounted(one: ContenderRuns, server_secs: Sequence[float], cores: int) -> list[Spread]:
    """As ACCOUNT_COLUMNS has it."""
    found = []
    for run, server in zip(one.runs, server_secs or [0.0] * len(one.runs), strict=True):
        whole = cores * (run.cold_secs + sum(run.warm_secs))
        # Whoever is not of the contender's family counts as another: the stand-in, too.
        others = max(0.0, run.usage.others_share * whole - server)
        # Clocks of processes tick, so there may seem to be less than nothing.
        idle = max(0.0, whole - run.usage.cpu_secs - server - others)
        found.append((whole, run.usage.cpu_secs, server, others, idle))
    return [Spread.of(values) for values in zip(*found, strict=True)]
