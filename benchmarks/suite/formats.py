"""`formats`: files of each format, large and small ones, with Blizzard's two engines and their alternatives."""

from collections.abc import Callable, Iterator, Mapping

from benchmarks.contenders import Work, contender
from benchmarks.data import Dataset
from benchmarks.format_data import FORMATS, SIZES, format_dataset
from benchmarks.goals import goals_of
from benchmarks.result import Result, Table
from benchmarks.rounds import ContenderRuns, interleaved, loads_note
from benchmarks.run_options import RunOptions
from benchmarks.stats import TIMES, Spread, evaluate_goals, number, ratio
from benchmarks.suite import comparison

OURS, LOCAL, SPARK = "blizzard", "blizzard_local", "spark_reader"
WHO = (OURS, LOCAL, SPARK, "streaming", "arrow_loop", "duckdb_loop")
COPY = "arrow_copy"
COPIED = "parquet-big"
"""The only data set of `arrow_copy`."""
COLUMNS = (
    "cold s",
    "warm s",
    f"{TIMES.strip()} Blizzard's time, cold",
    f"{TIMES.strip()} Blizzard's time, warm",
    f"{TIMES.strip()} its local engine's time, warm",
    "records/s warm",
    "peak MiB",
)

Series = Mapping[str, Mapping[str, ContenderRuns]]
"""By data set, then by contender."""


def run(options: RunOptions) -> Result:
    found: dict[str, dict[str, ContenderRuns]] = {}
    sets: dict[str, Dataset] = {}
    for size in SIZES:
        for form in FORMATS:
            data = format_dataset(form, size, options.scale, options.report_progress, cache=options.cache)
            sets[data.name] = data
            works = {
                who: Work(who, data, "", 2, options.cores, settings=comparison.BULK) for who in contenders_for(data)
            }
            found[data.name] = interleaved(works, options)
    first = {size: sets[f"{FORMATS[0]}-{size}"] for size in SIZES}
    sizes = " and ".join(f"{data.rows:,} records in {data.files:,} files" for data in first.values())
    return Result(
        "formats",
        f"{sizes}, of {', '.join(FORMATS)} each, into Delta",
        tuple(table(size, sets, found) for size in SIZES),
        tuple(evaluate_goals(goals_of("formats"), measured(found), {})),
        notes=tuple(notes(found)),
        raw={name: comparison.raw(sets[name], series) for name, series in found.items()},
    )


def contenders_for(data: Dataset) -> list[str]:
    """Those that can read this data set."""
    return comparison.supported(data, [*WHO, COPY] if data.name == COPIED else [*WHO])


def table(size: str, sets: Mapping[str, Dataset], found: Series) -> Table:
    rows = [
        _row(sets[name], found[name], who) for form in FORMATS for name in [f"{form}-{size}"] for who in found[name]
    ]
    files = "large files" if size == "big" else "files of 10 records"
    return Table((f"format and contender, {files}", *COLUMNS), tuple(rows))


def _row(data: Dataset, series: Mapping[str, ContenderRuns], who: str) -> tuple[str, ...]:
    mine, ours, local = series[who], series[OURS], series[LOCAL]
    cold, warm = mine.cold(), mine.warm()
    return (
        f"{data.format}, {mine.title}",
        str(Spread.of(cold)),
        str(Spread.of(warm)),
        str(ratio(cold, ours.cold())),
        str(ratio(warm, ours.warm())),
        str(ratio(warm, local.warm())),
        number(data.rows / Spread.of(warm).median),
        str(mine.peak_mib()),
    )


def measured(found: Series) -> dict[str, Spread]:
    """Measurements by goal, each of the worst format. Spark's own reader is compared with both engines: `spark` has the
    same JVM to start, and `local` is what `blizzard run` picks on one machine. Loops without Spark are compared with
    `local`."""
    told = {
        f"{prefix}{name}": _worst_against_spark(found, who, size, times)
        for prefix, who in (("", OURS), ("local_", LOCAL))
        for name, size, times in (
            ("spark_cold", "big", ContenderRuns.cold),
            ("spark_warm", "big", ContenderRuns.warm),
            ("small_cold", "small", ContenderRuns.cold),
            ("small_warm", "small", ContenderRuns.warm),
        )
    }
    told |= {
        "arrow_loop": _worst([_warm(series, "arrow_loop", LOCAL) for series in found.values()]),
        "arrow_copy": _warm(found[COPIED], LOCAL, COPY) if COPY in found.get(COPIED, {}) else None,
    }
    return {name: spread for name, spread in told.items() if spread is not None}


def _worst_against_spark(
    found: Series, who: str, size: str, times: Callable[[ContenderRuns], list[float]]
) -> Spread | None:
    compared = (series for name, series in found.items() if name.endswith(f"-{size}") and SPARK in series)
    return _worst([ratio(times(series[SPARK]), times(series[who])) for series in compared])


def _warm(series: Mapping[str, ContenderRuns], above: str, below: str) -> Spread:
    return ratio(series[above].warm(), series[below].warm())


def _worst(spreads: list[Spread]) -> Spread | None:
    return min(spreads, key=lambda spread: spread.median, default=None)


def notes(found: Series) -> Iterator[str]:
    for form in FORMATS:
        for who in (*WHO, COPY):
            names = [name for name in (f"{form}-{size}" for size in SIZES) if name in contender(who).UNSUPPORTED]
            if names:
                yield f"{form}, {contender(who).TITLE}: not measured. {contender(who).UNSUPPORTED[names[0]]}."
    yield loads_note({f"{name}, {one.title}": one for name, series in found.items() for who, one in series.items()})
