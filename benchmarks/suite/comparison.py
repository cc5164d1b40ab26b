"""The comparison table of several contenders on the same files, and the raw results behind it."""

from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.contenders import CONTENDERS, contender
from benchmarks.data import Dataset
from benchmarks.result import Table
from benchmarks.rounds import ContenderRuns
from benchmarks.stats import TIMES, Spread, number, ratio

COLUMNS = (
    "contender",
    "cold s",
    "warm s",
    f"{TIMES.strip()} Blizzard's time, cold",
    f"{TIMES.strip()} Blizzard's time, warm",
    "records/s warm",
    "peak MiB",
    "CPU s, all runs",
    "load before",
    "CPU share of other processes",
)
BULK: dict[str, Any] = {"checkpoint": {"interval_files": 25_000, "interval_bytes": "1GiB"}}
"""The usual setting to load a backlog: few large commits."""


def table(data: Dataset, series: Mapping[str, ContenderRuns], contenders: Sequence[str] = CONTENDERS) -> Table:
    return Table(COLUMNS, tuple(_row(data, series, name) for name in contenders))


def _row(data: Dataset, series: Mapping[str, ContenderRuns], name: str) -> tuple[str, ...]:
    kind = contender(name)
    if name not in series:
        return (kind.TITLE, f"not supported: {kind.UNSUPPORTED[data.name]}", *[""] * (len(COLUMNS) - 2))
    mine, ours = series[name], series["blizzard"]
    warm = mine.warm()
    loads, cpu_secs_so_far, others = (
        str(Spread.of(values))
        for values in (
            [run.load_before for run in mine.runs],
            [run.usage.cpu_secs for run in mine.runs],
            [run.usage.others_share for run in mine.runs],
        )
    )
    return (
        mine.title,
        str(Spread.of(mine.cold())),
        str(Spread.of(warm)) if warm else "",
        "1" if mine is ours else str(ratio(mine.cold(), ours.cold())),
        "1" if mine is ours else str(ratio(warm, ours.warm())) if warm else "",
        number(data.rows / Spread.of(warm or mine.cold()).median),
        str(mine.peak_mib()),
        cpu_secs_so_far,
        loads,
        others,
    )


def parts(series: ContenderRuns) -> dict[str, float]:
    """Seconds by part of the batches, summed, from the log of Blizzard's last run. Of several processes, the one with
    the median time is used; of an even number, the faster of the middle two."""
    found: dict[str, float] = {}
    by_time = sorted(series.runs, key=lambda run: run.warm_secs[-1] if run.warm_secs else run.cold_secs)
    for event in by_time[(len(by_time) - 1) // 2].answers[-1]["events"]:
        for name, secs in (event.get("secs") or {}).items() if event["event"] == "batch_committed" else ():
            found[name] = found.get(name, 0.0) + secs
    return found


def parts_note(series: ContenderRuns) -> str:
    shown = ", ".join(f"{name} {number(secs)}" for name, secs in parts(series).items())
    return f"Seconds of Blizzard's median run by part, from its log: {shown or 'not logged'}."


def supported(data: Dataset, contenders: Sequence[str] = CONTENDERS) -> list[str]:
    """The contenders that can read this data set."""
    return [name for name in contenders if data.name not in contender(name).UNSUPPORTED]


def raw(data: Dataset, series: Mapping[str, ContenderRuns]) -> dict[str, Any]:
    facts = {"files": data.files, "records": data.rows, "stored_bytes": data.stored_bytes, "raw_bytes": data.raw_bytes}
    told = {name: parts(one) for name, one in series.items() if one.title == "Blizzard"}
    return {"data": facts, "contenders": {name: one.to_json() for name, one in series.items()}, "parts": told}


def bars(series: Mapping[str, ContenderRuns]) -> dict[str, float]:
    """Median seconds by title: of warm runs, or of cold runs if there is no warm one."""
    return {one.title: Spread.of(one.warm() or one.cold()).median for one in series.values()}
