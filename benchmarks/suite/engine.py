"""`engine`: what a run on one machine costs as a whole, with Spark, with the local engine, and with a loop instead.

Each figure is of a whole process, from its start to its exit: interpreter, imports, JVM, ingestion.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import pyarrow.parquet as pq

from benchmarks.data import Dataset, dataset
from benchmarks.engine import old_table
from benchmarks.engine.old_table import Commits
from benchmarks.engine.whole_process import Ended, bare, config_of, copied, ingestion, loop, old_table_commits, timed
from benchmarks.goals import goals_of
from benchmarks.ledger import random_names
from benchmarks.process import scratch
from benchmarks.result import Result, Table
from benchmarks.rounds import in_turn
from benchmarks.run_options import RunOptions
from benchmarks.stats import TIMES, Spread, evaluate_goals, number, percentile
from benchmarks.suite import latency
from benchmarks.verify import WrongResult, found_in

ENGINES = ("local", "spark")
LOOP = "deltalake loop"
TUNED_LOOP = "deltalake loop on each core"
BARE = "bare limit"
FEW, PIPELINES = 3, 100
DROPS = 100
OLD_TABLES = {
    "young": (1_000, 10_000),
    "commit": (1_000, 39_000),
    "old_commit": (10_000, 39_000),
    "large": (10_000, 100_000),
}
"""Versions and data files."""
COMMITS = 25
IN_ORDER, RANDOM = "names in order", "random names"
MB = 1e6
PEAK = "peak of all processes, MB"
NOTE = (
    "All contenders read the same files, and each table is checked. The deltalake loop has no state: it can neither "
    "tell which files are new nor what it refused, and a second run would double all rows. As one writes it, it is one "
    "process with pyarrow's own threads. With a process for each core and no threads in them it is as fast as it gets. "
    "The bare limit reads and parses the same files and writes Parquet without a table, with a process for each core; "
    "of three files, with one."
)


def _random_name(index: int) -> str:
    return random_names.paths(1, f"dropped {index}")[0].rpartition("/")[2] + ".ndjson.gz"


NAMES: Mapping[str, Callable[[int], str]] = {IN_ORDER: latency.in_order, RANDOM: _random_name}


@dataclass(slots=True)
class Measured:
    """By kind of work, then by contender, all rounds."""

    runs: dict[str, dict[str, list[Ended]]] = field(default_factory=dict)
    latencies: dict[str, list[float]] = field(default_factory=dict)
    """By engine and kind of names."""
    commits: dict[str, list[Commits]] = field(default_factory=dict)
    """To each of OLD_TABLES."""

    def note(self, work: str, contender: str, ended: Ended) -> None:
        self.runs.setdefault(work, {}).setdefault(contender, []).append(ended)

    def secs(self, work: str, contender: str) -> Spread:
        return Spread.of([ended.secs for ended in self.runs[work][contender]])

    def ratio(self, work: str, contender: str, to: str) -> Spread:
        pairs = zip(self.runs[work][contender], self.runs[work][to], strict=True)
        return Spread.of([one.secs / other.secs for one, other in pairs])

    def commit_secs(self, name: str) -> Spread:
        return Spread.of([median(one.secs) for one in self.commits[name]])

    def peak_mb(self, work: str, contender: str) -> Spread:
        return Spread.of([ended.peak_bytes / MB for ended in self.runs[work][contender]])


def run(options: RunOptions) -> Result:
    found = Measured()
    small = dataset("small", options.scale, options.report_progress, cache=options.cache)
    big = dataset("big", options.scale, options.report_progress, cache=options.cache)
    for turn in range(options.rounds):
        options.report_progress(f"engine: round {turn + 1} of {options.rounds}")
        _few_files(small, found, options)
        _many_pipelines(small, found, options)
        for data in (big, small):
            _backlog(data, found, options, turn)
        _commits(found, options)
    for engine in ENGINES:
        for kind, name_of in NAMES.items():
            options.report_progress(f"engine: files dropped into a running job, {engine}, {kind}")
            found.latencies[f"{engine}, {kind}"] = _latencies(engine, name_of, options)
    return Result(
        "engine",
        "whole processes on one machine: Blizzard with each engine, and a loop around deltalake",
        (_table(found), _latency_table(found), _commit_table(found)),
        tuple(evaluate_goals(goals_of("engine"), measured(found), {})),
        notes=(NOTE,),
        raw={
            "runs": {
                work: {who: [[ended.secs, ended.peak_bytes] for ended in some] for who, some in by.items()}
                for work, by in found.runs.items()
            },
            "latencies": found.latencies,
            "commits": {name: [asdict(one) for one in some] for name, some in found.commits.items()},
        },
    )


def measured(found: Measured) -> dict[str, Spread]:
    secs = found.latencies[f"local, {RANDOM}"]
    return {
        "few": found.secs("three files", "local"),
        "nothing": found.secs("nothing new", "local"),
        "pipelines": found.secs("pipelines", "local"),
        "big": found.ratio("big", "local", LOOP),
        "small": found.ratio("small", "local", LOOP),
        "memory": found.peak_mb("three files", "local"),
        "p50": Spread.of([percentile(secs, 0.5)]),
        "p99": Spread.of([percentile(secs, 0.99)]),
        "commit": found.commit_secs("commit"),
        "old_commit": found.commit_secs("old_commit"),
    }


@contextmanager
def _folder() -> Iterator[Path]:
    with TemporaryDirectory(prefix="run-", dir=scratch()) as folder:
        yield Path(folder)


def _few_files(data: Dataset, found: Measured, options: RunOptions) -> None:
    paths = [Path(data.folder, path) for path in data.paths[:FEW]]
    for engine in ENGINES:
        with _folder() as folder:
            landing = copied(paths, Path(data.folder), folder / "landing")
            config = config_of(folder, {"events": landing})
            found.note("three files", engine, timed(ingestion(config, engine)))
            found.note("nothing new", engine, timed(ingestion(config, engine)))
            _check(folder / "tables" / "events", 10 * len(paths))
    with _folder() as folder:
        landing = copied(paths, Path(data.folder), folder / "landing")
        found.note("three files", LOOP, timed(loop(landing, folder / "table", 1)))
        _check(folder / "table", 10 * len(paths))
        found.note("three files", BARE, timed(bare(landing, folder / "bare", 1)))
        _check_parquet(folder / "bare", 10 * len(paths))


def _many_pipelines(data: Dataset, found: Measured, options: RunOptions) -> None:
    count = options.count(PIPELINES, 3)
    for engine in ENGINES:
        with _folder() as folder:
            landings = {}
            for n in range(count):
                some = [Path(data.folder, path) for path in data.paths[n * FEW : (n + 1) * FEW]]
                landings[f"p{n}"] = copied(some, Path(data.folder), folder / "landing" / f"p{n}")
            found.note("pipelines", engine, timed(ingestion(config_of(folder, landings), engine)))
            for name in landings:
                _check(folder / "tables" / name, 10 * FEW)


def _backlog(data: Dataset, found: Measured, options: RunOptions, turn: int) -> None:
    """Nobody pays for being the first to read the files."""
    for _, contender in in_turn({name: name for name in (*ENGINES, LOOP, TUNED_LOOP, BARE)}, turn):
        options.report_progress(f"engine: {data.name}, {contender}")
        for path in data.paths:
            Path(data.folder, path).read_bytes()
        with _folder() as folder:
            table = folder / "tables" / "events"
            table.parent.mkdir()
            found.note(
                data.name, contender, timed(_command(contender, folder, Path(data.folder), table, options.cores))
            )
            (_check_parquet if contender == BARE else _check)(table, data.rows)


def _command(contender: str, folder: Path, landing: Path, table: Path, cores: int) -> list[str]:
    if contender in (LOOP, TUNED_LOOP):
        return loop(landing, table, 1 if contender == LOOP else cores)
    if contender == BARE:
        return bare(landing, table, cores)
    return ingestion(config_of(folder, {"events": landing}), contender)


def _commits(found: Measured, options: RunOptions) -> None:
    for name, (versions, files) in OLD_TABLES.items():
        options.report_progress(f"engine: commits to a table of {files:,} data files")
        with _folder() as folder:
            old_table.make(folder / "table", options.count(versions, 5), options.count(files, 5))
            found.commits.setdefault(name, []).append(old_table_commits(folder / "table", COMMITS))


def _check(table: Path, rows: int) -> None:
    found = found_in(str(table)).rows
    if found != rows:
        raise WrongResult(f"engine: expected {rows} rows in {table.name}, found {found}")


def _check_parquet(folder: Path, rows: int) -> None:
    found = sum(pq.read_metadata(file).num_rows for file in folder.rglob("*.parquet"))
    if found != rows:
        raise WrongResult(f"engine: expected {rows} rows in Parquet files, found {found}")


def _latencies(engine: str, name_of: Callable[[int], str], options: RunOptions) -> list[float]:
    drops = options.count(DROPS, 3)
    with _folder() as folder:
        seen = latency.observe(folder, drops, options, engine=engine, name_of=name_of)
        sequence_of = latency.sequences(folder / "table", latency.WARM_UP + drops)
        return [one.secs for one in seen.latencies(sequence_of)]


WORDS = {
    "three files": "`blizzard run --once`, three files of 10 records",
    "nothing new": "the same again, with nothing new",
    "pipelines": "100 pipelines of three files",
    "big": "big: 5,000,000 records in 100 files",
    "small": "small: 100,000 files of 10 records",
}


def _table(found: Measured) -> Table:
    rows = []
    for work, by in found.runs.items():
        for contender in by:
            relative = [
                f"{found.ratio(work, contender, to)}{TIMES}" if to in by and contender in ENGINES else ""
                for to in (LOOP, TUNED_LOOP, BARE)
            ]
            secs, peak = found.secs(work, contender), found.peak_mb(work, contender)
            measured_mb = str(peak) if peak.median else "too short to measure"
            rows.append((f"{WORDS[work]}, {contender}", str(secs), *relative, measured_mb))
    times = TIMES.strip()
    return Table(
        (
            "whole process",
            "s",
            f"{times} the loop's time",
            f"{times} that on each core",
            f"{times} the bare limit",
            PEAK,
        ),
        tuple(rows),
    )


def _commit_table(found: Measured) -> Table:
    rows = []
    for name, (versions, files) in OLD_TABLES.items():
        runs = found.commits[name]
        peak = Spread.of([one.peak_bytes / MB for one in runs])
        why = runs[0].needs_spark
        secs = f"Spark takes over: {why}" if why else str(found.commit_secs(name))
        others = [
            "" if why else str(spread)
            for spread in (
                Spread.of([one.first_secs for one in runs]),
                Spread.of([median(one.deltalake_secs or [0.0]) for one in runs]),
            )
        ]
        longest = "" if why else number(max(max(one.secs) for one in runs))
        rows.append((f"version {versions:,}, {files:,} data files", secs, longest, *others, str(peak)))
    return Table(
        (
            "commit of the local engine to a table of",
            "s, median of a process",
            "longest",
            "first, which opens the table",
            "deltalake alone, median",
            "peak memory, MB",
        ),
        tuple(rows),
    )


def _latency_table(found: Measured) -> Table:
    rows = tuple(
        (who, *(number(percentile(secs, share)) for share in (0.5, 0.99, 1.0))) for who, secs in found.latencies.items()
    )
    return Table(("file dropped into a running job until its rows are visible", "p50 s", "p99 s", "longest s"), rows)
