"""`dirty`: one line in a hundred is broken, and one file altogether; beside it the same records unharmed."""

from collections.abc import Sequence

from benchmarks.contenders import CONTENDERS, Work, contender
from benchmarks.data import Dataset, dataset
from benchmarks.figures import TIMES, Spread, judge, ratio
from benchmarks.goals import goals_of
from benchmarks.result import Result, Table
from benchmarks.rounds import Measured, Series, interleaved
from benchmarks.setting import Setting
from benchmarks.suite import contest
from benchmarks.verify import WrongResult

COLUMNS = (
    "contender",
    "clean s, warm",
    "dirty s, warm",
    f"{TIMES.strip()} the clean run",
    "records dead-lettered",
    "peak MiB",
)


def run(setting: Setting) -> Result:
    clean, dirty = (dataset(name, setting.scale, setting.say, cache=setting.cache) for name in ("clean", "dirty"))
    who = contest.able(dirty)
    works = {
        f"{name} {data.name}": Work(name, data, "", 2, setting.cores, settings=contest.BULK)
        for name in who
        for data in (clean, dirty)
    }
    series = interleaved(works, setting)
    expect_letters(series["blizzard dirty"].runs, dirty)
    found = {"clean": ratio(series["blizzard dirty"].warm(), series["blizzard clean"].warm())}
    return Result(
        "dirty",
        f"{dirty.rows + dirty.broken:,} records in {dirty.files} gzip files; {dirty.broken:,} of them are broken, "
        "those of one file altogether",
        (Table(COLUMNS, tuple(_row(name, series, dirty) for name in CONTENDERS)),),
        tuple(judge(goals_of("dirty"), found, {})),
        notes=("Spark's own reader and Structured Streaming drop such lines; nobody learns which, or how many.",),
        raw={"broken": dirty.broken} | {data.name: contest.raw(data, series) for data in (clean, dirty)},
    )


def expect_letters(runs: Sequence[Measured], dirty: Dataset) -> None:
    """Raises WrongResult when a run did not dead-letter each broken record."""
    for answer in (answer for run in runs for answer in run.answers):
        dead = answer["totals"]["dead_records"]
        if dead != dirty.broken or answer["totals"]["dead_files"]:
            raise WrongResult(f"dirty: expected {dirty.broken} dead records and no dead file, found {answer['totals']}")


def _row(name: str, series: dict[str, Series], dirty: Dataset) -> tuple[str, ...]:
    kind = contender(name)
    if f"{name} dirty" not in series:
        return (kind.TITLE, "", f"cannot: {kind.CANNOT['dirty']}", "", "", "")
    before, after = series[f"{name} clean"], series[f"{name} dirty"]
    letters = f"{dirty.broken:,}" if name == "blizzard" else "none"
    secs = (str(Spread.of(one.warm())) for one in (before, after))
    return (kind.TITLE, *secs, str(ratio(after.warm(), before.warm())), letters, str(after.peak_mib()))
