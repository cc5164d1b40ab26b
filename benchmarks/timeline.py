"""Where the seconds of a first run go, step by step, compared with the second run of the process.

Blizzard's times come from its log. Spark's own reader does everything from plan to commit in one call, so its times are
the modification times of the data files and of the commit that it wrote.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.contenders import Work
from benchmarks.result import Table
from benchmarks.rounds import ContenderRuns
from benchmarks.stats import Spread, number

WHO = ("blizzard", "spark_reader")
MOMENTS = {
    "imported": "imports done",
    "session": "Spark session started",
    "planned": "first batch planned",
    "read": "its files read, data files written",
    "committed": "first batch committed",
    "ended": "run ended",
}
EVENTS = {"batch_planned": "planned", "batch_read": "read", "batch_committed": "committed"}
"""Moments by event of Blizzard's log; the first event of a kind belongs to the first batch."""
NOTE = (
    "A step is the time since the moment before it. The order of the moments differs: Blizzard plans its first batch"
    " before it starts a session, Spark's own reader needs a session to plan. Its commit is the moment when the "
    "commit's file exists; what Delta does after that is in its last step. For Blizzard it is part of the commit."
)

Moments = Mapping[str, float]
"""Seconds since the start of a run, by the keys of MOMENTS. A first run starts with its process."""


@dataclass(frozen=True, slots=True)
class TableMtimes:
    """Modification times of a table's newest data file and newest commit, Unix seconds."""

    data_ts: float
    commit_ts: float


def table_mtimes(table: str) -> TableMtimes:
    """Raises ValueError if the table has no data file or no commit."""
    files = [*Path(table).rglob("*.parquet")]
    data = [file.stat().st_mtime for file in files if "_delta_log" not in file.parts]
    commits = [file.stat().st_mtime for file in Path(table, "_delta_log").glob("*.json")]
    return TableMtimes(max(data), max(commits))


@dataclass(slots=True)
class MtimeRecorder:
    """Collects the modification times of the tables of Spark's own reader. Pass `inspect_table` to `interleaved`."""

    found: list[TableMtimes] = field(default_factory=list)

    def inspect_table(self, work: Work, number: int) -> None:
        if work.contender == "spark_reader":
            self.found.append(table_mtimes(work.table(number)))


def moments_of(series: Mapping[str, ContenderRuns], mtimes: MtimeRecorder) -> dict[str, list[list[Moments]]]:
    """By contender: for each process a list of its runs."""
    seen = iter(mtimes.found)
    return {
        name: [[_moments(answer, seen if name == "spark_reader" else None) for answer in run.answers] for run in runs]
        for name, runs in ((name, series[name].runs) for name in WHO)
    }


def _moments(answer: Mapping[str, Any], seen: Iterator[TableMtimes] | None) -> Moments:
    clock = answer["clock"]
    at: dict[str, float] = {"imported": clock["began"], **answer["moments"], "ended": clock["ended"]}
    if seen is None:
        for event in answer["events"]:
            if event["event"] in EVENTS:
                at.setdefault(EVENTS[event["event"]], event["at"])
    else:
        found, ahead_secs = next(seen), clock["began"] - answer["began_ts"]
        at |= {"read": found.data_ts + ahead_secs, "committed": found.commit_ts + ahead_secs}
    return {name: at[name] - clock["from"] for name in MOMENTS}


def steps(run: Moments) -> dict[str, float]:
    """Duration of each step, by the moment that ends it."""
    ordered = sorted(run.items(), key=lambda item: item[1])
    before = [0.0, *(secs for _, secs in ordered)]
    return {name: secs - earlier for (name, secs), earlier in zip(ordered, before, strict=False)}


def table(moments: Mapping[str, Sequence[Sequence[Moments]]], titles: Mapping[str, str]) -> Table:
    """A row per moment: its time in a first run, the duration of its step, and the same step in a second run."""
    columns = ["moment of a first run, seconds from its start"]
    cells: dict[str, list[str]] = {name: [] for name in MOMENTS}
    for who, processes in moments.items():
        columns += [titles[who], "this step", "this step, second run"]
        first = [steps(runs[0]) for runs in processes]
        second = [steps(runs[1]) for runs in processes if len(runs) > 1]
        for name, row in cells.items():
            row.append(str(Spread.of([runs[0][name] for runs in processes])))
            row.append(_median(first, name))
            row.append(_median(second, name) if second else "")
    return Table(tuple(columns), tuple((MOMENTS[name], *row) for name, row in cells.items()))


def _median(runs: Sequence[Mapping[str, float]], name: str) -> str:
    return number(Spread.of([run[name] for run in runs]).median)


def notes(moments: Mapping[str, Sequence[Sequence[Moments]]], titles: Mapping[str, str]) -> tuple[str, ...]:
    """How much longer the steps of a first run take than those of a second run."""
    found = []
    for who, processes in moments.items():
        if more := _more(processes):
            shown = "; ".join(f"{MOMENTS[name]}, {number(secs)}" for name, secs in more.items())
            whole = sum(more.values())
            found.append(
                f"{titles[who]}: a first run takes {number(whole)} s longer than a second one. By step: {shown}."
            )
    return (*found, NOTE)


def _more(processes: Sequence[Sequence[Moments]]) -> dict[str, float]:
    """Mean extra seconds of each step of a first run, largest first. Means, because these add up to the total."""
    pairs = [(steps(runs[0]), steps(runs[1])) for runs in processes if len(runs) > 1]
    more = {name: sum(first[name] - second[name] for first, second in pairs) / len(pairs) for name in MOMENTS if pairs}
    return dict(sorted(more.items(), key=lambda item: -item[1]))
