"""`dirty`: one line in a hundred is broken, and one file altogether; beside it the same records unharmed. And once more
with broken lines of which only Spark can tell that they are."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from benchmarks.contenders import CONTENDERS, Work, contender
from benchmarks.data import DOUBTFUL_SHARE, Dataset, dataset
from benchmarks.figures import TIMES, Spread, judge, ratio
from benchmarks.goals import goals_of
from benchmarks.result import Result, Table
from benchmarks.rounds import Measured, Series, interleaved
from benchmarks.setting import Setting
from benchmarks.suite import contest
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


def run(setting: Setting) -> Result:
    clean, dirty, undecided = (dataset(name, setting.scale, setting.say, cache=setting.cache) for name in DATA)
    who = contest.able(dirty)
    works = {
        f"{name} {data.name}": Work(name, data, "", 2, setting.cores, settings=contest.BULK)
        for name in who
        for data in (clean, dirty)
    }
    works["blizzard undecided"] = replace(works["blizzard dirty"], data=undecided)
    series = interleaved(works, setting)
    for data in (dirty, undecided):
        expect_letters(series[f"blizzard {data.name}"].runs, data)
    found = {"clean": ratio(series["blizzard dirty"].warm(), series["blizzard clean"].warm())}
    return Result(
        "dirty",
        f"{dirty.rows + dirty.broken:,} records in {dirty.files} gzip files; {dirty.broken:,} of them are broken, "
        "those of one file altogether",
        (Table(COLUMNS, tuple(_rows(series, dirty, undecided))),),
        tuple(judge(goals_of("dirty"), found, {})),
        notes=(
            "Spark's own reader and Structured Streaming drop such lines; nobody learns which, or how many.",
            (
                f"Lines that Spark has to decide: {DOUBTFUL_SHARE:.0%} of the broken ones have a text for a DOUBLE, "
                "and Spark takes some texts for one. The goal is on the first row."
            ),
        ),
        raw={"broken": dirty.broken} | {data.name: contest.raw(data, series) for data in (clean, dirty, undecided)},
    )


def expect_letters(runs: Sequence[Measured], dirty: Dataset) -> None:
    """Raises WrongResult when a run did not dead-letter each broken record."""
    for answer in (answer for run in runs for answer in run.answers):
        dead = answer["totals"]["dead_records"]
        if dead != dirty.broken or answer["totals"]["dead_files"]:
            raise WrongResult(f"dirty: expected {dirty.broken} dead records and no dead file, found {answer['totals']}")


def _rows(series: dict[str, Series], dirty: Dataset, undecided: Dataset) -> Iterator[tuple[str, ...]]:
    for name in CONTENDERS:
        kind = contender(name)
        if f"{name} dirty" not in series:
            yield (kind.TITLE, "", f"cannot: {kind.CANNOT['dirty']}", "", "", "")
            continue
        letters = f"{dirty.broken:,}" if name == "blizzard" else "none"
        yield _row(kind.TITLE, series[f"{name} clean"], series[f"{name} dirty"], letters)
        if name == "blizzard":
            title = f"{kind.TITLE}, with lines that Spark has to decide"
            yield _row(title, series["blizzard clean"], series["blizzard undecided"], f"{undecided.broken:,}")


def _row(title: str, before: Series, after: Series, letters: str) -> tuple[str, ...]:
    secs = (str(Spread.of(one.warm())) for one in (before, after))
    return (title, *secs, str(ratio(after.warm(), before.warm())), letters, str(after.peak_mib()))
