"""Where the seconds of a first run go, from the start of its process, and what the same took in the second run.

Blizzard's moments are those of its own log. Spark's own reader is one call from the plan to the commit: when its last
data file and its commit were written, is the time of these files.
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
    "imported": "interpreter and imports are done",
    "session": "the session is up",
    "planned": "the first batch is planned",
    "read": "its files are read, its data files written",
    "committed": "it is committed",
    "ended": "all is done",
}
EVENTS = {"batch_planned": "planned", "batch_read": "read", "batch_committed": "committed"}
"""Of Blizzard's log; the first of each is that of the first batch."""
NOTE = (
    "A step is the time since the moment before it. The order of the moments differs: Blizzard plans its first batch"
    " before it starts a session, Spark's own reader needs a session to plan. Its commit is the moment when the "
    "commit's file exists; what Delta does after that is in its last step. For Blizzard it is part of the commit."
)

Moments = Mapping[str, float]
"""Of one run, by the names of MOMENTS: seconds from its beginning, which of a first run is that of the process."""


@dataclass(frozen=True, slots=True)
class TableMtimes:
    """Of a table on this disk, Unix seconds: when its newest data file and its newest commit were written."""

    data_ts: float
    commit_ts: float


def table_mtimes(table: str) -> TableMtimes:
    """Raises ValueError when there is none of either."""
    files = [*Path(table).rglob("*.parquet")]
    data = [file.stat().st_mtime for file in files if "_delta_log" not in file.parts]
    commits = [file.stat().st_mtime for file in Path(table, "_delta_log").glob("*.json")]
    return TableMtimes(max(data), max(commits))


@dataclass(slots=True)
class MtimeRecorder:
    """What a table looks like after each run of those whose log does not say it; `inspect_table` is for `interleaved`."""

    found: list[TableMtimes] = field(default_factory=list)

    def inspect_table(self, work: Work, number: int) -> None:
        if work.contender == "spark_reader":
            self.found.append(table_mtimes(work.table(number)))


def moments_of(series: Mapping[str, ContenderRuns], mtimes: MtimeRecorder) -> dict[str, list[list[Moments]]]:
    """By contender, for each process its runs."""
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
    """Seconds since the moment before, by the moment that ends them."""
    ordered = sorted(run.items(), key=lambda item: item[1])
    before = [0.0, *(secs for _, secs in ordered)]
    return {name: secs - earlier for (name, secs), earlier in zip(ordered, before, strict=False)}


def table(moments: Mapping[str, Sequence[Sequence[Moments]]], titles: Mapping[str, str]) -> Table:
    """A row for each moment: when it was, how long the step to it took, and how long in the second run."""
    columns = ["seconds of a first run until"]
    cells: dict[str, list[str]] = {name: [] for name in MOMENTS}
    for who, processes in moments.items():
        columns += [titles[who], "of it this step", "in a second run"]
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
    """Which steps of a first run take longer than those of the second, and by how much."""
    found = []
    for who, processes in moments.items():
        if more := _more(processes):
            shown = ", ".join(f"{number(secs)} until {MOMENTS[name]}" for name, secs in more.items())
            whole = sum(more.values())
            found.append(f"{titles[who]}: a first run takes {number(whole)} s longer than a second one: {shown}.")
    return (*found, NOTE)


def _more(processes: Sequence[Sequence[Moments]]) -> dict[str, float]:
    """By moment, the mean of what the step to it takes longer, most first; means add up to the whole."""
    pairs = [(steps(runs[0]), steps(runs[1])) for runs in processes if len(runs) > 1]
    more = {name: sum(first[name] - second[name] for first, second in pairs) / len(pairs) for name in MOMENTS if pairs}
    return dict(sorted(more.items(), key=lambda item: -item[1]))
