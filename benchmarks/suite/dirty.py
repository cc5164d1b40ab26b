"""`dirty`: one line in a hundred is broken, and all lines of one file; compared with the same records without damage.

A further run has broken lines that only Spark's parser can refuse. Exactly the broken lines must become dead letters.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from benchmarks.contenders import CONTENDERS, Work, contender
from benchmarks.data import DOUBTFUL_SHARE, Dataset, dataset
from benchmarks.dead_letter_check import broken_lines, expect_dead_letters
from benchmarks.goals import goals_of
from benchmarks.result import Result, Table
from benchmarks.rounds import ContenderRuns, Measured, interleaved, loads_note
from benchmarks.run_options import RunOptions
from benchmarks.stats import TIMES, Spread, evaluate_goals, ratio
from benchmarks.suite import comparison
from benchmarks.verify import WrongResult

DATA = ("clean", "dirty", "undecided")
COLUMNS = (
    "contender",
    "clean s, warm",
    "dirty s, warm",
    f"{TIMES.strip()} the clean run",
    "records dead-lettered",
    "peak MiB",
)


def run(options: RunOptions) -> Result:
    clean, dirty, undecided = (
        dataset(name, options.scale, options.report_progress, cache=options.cache) for name in DATA
    )
    options.report_progress("dirty: finding the broken lines")
    broken = {clean.name: [], **{data.name: broken_lines(data, clean) for data in (dirty, undecided)}}

    def inspect_table(work: Work, number: int) -> None:
        if work.contender == "blizzard":
            expect_dead_letters(work.data, broken[work.data.name], work.table(number))

    series = interleaved(works_of(clean, dirty, undecided, options), options, inspect_table=inspect_table)
    for data in (clean, dirty, undecided):
        expect_dead_letter_totals(series[f"blizzard {data.name}"].runs, data)
    return Result(
        "dirty",
        f"{dirty.rows + dirty.broken:,} records in {dirty.files} gzip files; {dirty.broken:,} records are broken, "
        "including all of one file",
        (Table(COLUMNS, tuple(_rows(series, dirty, undecided))),),
        tuple(evaluate_goals(goals_of("dirty"), measured(series), {})),
        notes=(
            "Spark's own reader and Structured Streaming drop such lines without reporting which, or how many.",
            (
                f"Lines that only Spark's parser can decide: {DOUBTFUL_SHARE:.0%} of the broken ones have a text for a "
                "DOUBLE, and Spark accepts some texts as a DOUBLE. The goal applies to the first row."
            ),
            loads_note({f"{one.title}, {name.rpartition(' ')[2]}": one for name, one in series.items()}),
        ),
        raw={"broken": dirty.broken} | {data.name: comparison.raw(data, series) for data in (clean, dirty, undecided)},
    )


def works_of(clean: Dataset, dirty: Dataset, undecided: Dataset, options: RunOptions) -> dict[str, Work]:
    works = {
        f"{name} {data.name}": Work(name, data, "", 2, options.cores, settings=comparison.BULK)
        for name in comparison.supported(dirty)
        for data in (clean, dirty)
    }
    return works | {"blizzard undecided": replace(works["blizzard dirty"], data=undecided)}


def measured(series: Mapping[str, ContenderRuns]) -> dict[str, Spread]:
    """Measurements by goal: time of the dirty run divided by that of the clean run."""
    return {"clean": ratio(series["blizzard dirty"].warm(), series["blizzard clean"].warm())}


def expect_dead_letter_totals(runs: Sequence[Measured], data: Dataset) -> None:
    """Raises WrongResult if the totals that a run reports differ from the broken records."""
    for answer in (answer for run in runs for answer in run.answers):
        totals = answer["totals"]
        if (totals["dead_records"], totals["dead_files"]) != (data.broken, 0):
            raise WrongResult(f"{data.name}: expected {data.broken} dead records and no dead file, found {totals}")


def _rows(series: Mapping[str, ContenderRuns], dirty: Dataset, undecided: Dataset) -> Iterator[tuple[str, ...]]:
    for name in CONTENDERS:
        kind = contender(name)
        if f"{name} dirty" not in series:
            yield (kind.TITLE, "", f"not supported: {kind.UNSUPPORTED['dirty']}", "", "", "")
            continue
        letters = f"{dirty.broken:,}" if name == "blizzard" else "none"
        yield _row(kind.TITLE, series[f"{name} clean"], series[f"{name} dirty"], letters)
        if name == "blizzard":
            title = f"{kind.TITLE}, with lines that only Spark's parser can decide"
            yield _row(title, series["blizzard clean"], series["blizzard undecided"], f"{undecided.broken:,}")


def _row(title: str, before: ContenderRuns, after: ContenderRuns, letters: str) -> tuple[str, ...]:
    secs = (str(Spread.of(one.warm())) for one in (before, after))
    return (title, *secs, str(ratio(after.warm(), before.warm())), letters, str(after.peak_mib()))
