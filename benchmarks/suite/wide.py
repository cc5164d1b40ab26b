"""`wide`: 200 columns of all types. Blizzard's values are compared with Spark's."""

import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path

import pyarrow.compute as pc
from deltalake import DeltaTable

from benchmarks.contenders import Work
from benchmarks.data import dataset
from benchmarks.goals import goals_of
from benchmarks.process import scratch
from benchmarks.result import Result
from benchmarks.rounds import ContenderRuns, interleaved
from benchmarks.run_options import RunOptions
from benchmarks.stats import Spread, evaluate_goals, number, ratio
from benchmarks.suite import comparison


def run(options: RunOptions) -> Result:
    data = dataset("wide", options.scale, options.report_progress, cache=options.cache)
    works = {who: Work(who, data, "", 2, options.cores, settings=comparison.BULK) for who in comparison.supported(data)}
    with tempfile.TemporaryDirectory(prefix="kept-", dir=scratch()) as kept:

        def keep(work: Work, number: int) -> None:
            """Keeps one table of each contender for the comparison."""
            if not Path(kept, work.contender).exists():
                shutil.move(work.table(number), Path(kept, work.contender))

        series = interleaved(works, options, inspect_table=keep)
        options.report_progress("wide: comparing values")
        columns = [*_names(kept, "spark_reader")]
        other = {name: differences(f"{kept}/blizzard", f"{kept}/spark_reader", name) for name in columns}
    return Result(
        "wide",
        f"{data.rows:,} records of {len(columns) - 1} columns in {data.files} gzip files, "
        f"{number(data.raw_bytes / 1e6)} MB of JSON, into Delta",
        (comparison.table(data, series),),
        tuple(evaluate_goals(goals_of("wide"), measured(series, other), {})),
        notes=tuple(f"{name}: {count} values differ from Spark's" for name, count in other.items() if count),
        raw=comparison.raw(data, series),
    )


def measured(series: Mapping[str, ContenderRuns], other: Mapping[str, int]) -> dict[str, Spread]:
    """Measurements by goal. `other`: number of values that differ from Spark's, by column."""
    return {
        "spark_warm": ratio(series["spark_reader"].warm(), series["blizzard"].warm()),
        "differences": Spread.of([float(sum(other.values()))]),
    }


def _names(folder: str, contender: str) -> list[str]:
    return [field.name for field in DeltaTable(f"{folder}/{contender}").schema().fields]


def differences(one: str, other: str, column: str) -> int:
    """Number of rows, matched by column `n`, whose values in `column` differ between two tables."""
    mine, theirs = (_sorted(table, column) for table in (one, other))
    if mine.equals(theirs):
        return 0
    pairs = zip(mine.to_pylist(), theirs.to_pylist(), strict=True)
    return sum(ours != its for ours, its in pairs)


def _sorted(table: str, column: str):  # type: ignore[no-untyped-def]
    columns = DeltaTable(table).to_pyarrow_table(columns=[*dict.fromkeys(["n", column])])
    return columns.take(pc.sort_indices(columns, [("n", "ascending")])).column(column).combine_chunks()
