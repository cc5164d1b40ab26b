"""How the cores were used in the phases of a run: by the job, by the S3 stand-in, or by neither."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.result import Table
from benchmarks.rounds import ContenderRuns
from benchmarks.stats import Spread, number

ENDS = {
    "batch_planned": "plan",
    "batch_read": "read to receipt",
    "batch_committed": "commit",
    "run_ended": "after the commit",
}
"""Phases by the event of the job's log that ends them."""
COLUMNS = ("phase of a second run", "s", "core-s, job", "core-s, stand-in", "core-s, other or idle")
ACCOUNT_COLUMNS = ("core-seconds of both runs", "total", "job", "stand-in", "other processes", "idle")


@dataclass(slots=True)
class Phase:
    """`secs`: wall clock. `job_secs`, `server_secs`: CPU time of the job and of the S3 stand-in."""

    secs: float = 0.0
    job_secs: float = 0.0
    server_secs: float = 0.0


def phases(events: Sequence[Mapping[str, Any]]) -> dict[str, Phase]:
    """Phases of one run, summed over its batches. Work after a commit counts for the plan of the next batch."""
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
    """Phases of the last run of each process, by data set and storage."""
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
    """How whole processes, with start and first run, used the cores. `server_secs`: CPU seconds of the stand-in, by
    data set, for each process over S3."""
    rows = []
    for name, both in series.items():
        for kind, one in both.items():
            found = _accounted(one, server_secs[name] if kind == "s3" else (), cores)
            rows.append((f"{name}, {kind}", *map(str, found)))
    return Table(ACCOUNT_COLUMNS, tuple(rows))


def more_notes(
    series: Mapping[str, Mapping[str, ContenderRuns]], server_secs: Mapping[str, Sequence[float]], cores: int
) -> tuple[str, ...]:
    """The core-seconds that S3 adds to the medians of the local disk, by user of the cores."""
    notes = []
    for name, both in series.items():
        before, after = _accounted(both["local"], (), cores), _accounted(both["s3"], server_secs[name], cores)
        whole, job, server, others, idle = (number(b.median - a.median) for a, b in zip(before, after, strict=True))
        notes.append(
            f"Over S3, two runs of {name} take {whole} core-seconds more: {job} in the job, {server} in the "
            f"stand-in, {others} in other processes, and {idle} idle."
        )
    return tuple(notes)


def _accounted(one: ContenderRuns, server_secs: Sequence[float], cores: int) -> list[Spread]:
    """The values for ACCOUNT_COLUMNS."""
    found = []
    for run, server in zip(one.runs, server_secs or [0.0] * len(one.runs), strict=True):
        whole = cores * (run.cold_secs + sum(run.warm_secs))
        # `others_share` covers all processes outside the contender's process tree, so also the stand-in.
        others = max(0.0, run.usage.others_share * whole - server)
        # CPU times have the resolution of a clock tick, so the rest can be slightly negative.
        idle = max(0.0, whole - run.usage.cpu_secs - server - others)
        found.append((whole, run.usage.cpu_secs, server, others, idle))
    return [Spread.of(values) for values in zip(*found, strict=True)]
