"""`names`: what do names in no order cost? Ingestion beside names in order, and the ledger that makes them cheap."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.contenders.names_ingest import KINDS
from benchmarks.goals import goals_of
from benchmarks.ledger import many_folders, measurements, missed_events
from benchmarks.ledger.many_folders import ManyFolders
from benchmarks.ledger.measurements import LATENCY_SECS, NEW, PLACES, LookUps
from benchmarks.ledger.missed_events import MissedEvents
from benchmarks.machine import background_load_note
from benchmarks.result import Result, Table
from benchmarks.run_options import RunOptions
from benchmarks.stats import TIMES, Spread, evaluate_goals, number, percentile
from benchmarks.suite.subprocess_run import background_loads

Batches = Mapping[str, Sequence[Sequence[Mapping[str, Any]]]]
MB = 1e6
NOTES = (
    (
        "All files of a kind of names lie in one folder. They arrive, are announced and drained batch by batch. The "
        "names of both kinds are UUIDs; those in order count up. Both kinds take turns in one process, each with its "
        "own table. `suspects` is the part of the turns in which files are looked up in the ledger."
    ),
    (
        "The ledgers of the look-ups are written directly, in the runs that the job's merging would leave, and the "
        "newest commits are only in receipts. Of the numbers of files near the wanted one, that with the most runs "
        "is taken. Each look-up is of other names. The known ones are of as many blocks as possible: the worst case "
        "for a redelivered batch of events."
    ),
    (
        "The simulated ledger has complete filters and indexes, but its blocks are holes in sparse files. It is "
        "opened, and its filters are asked; no block is read."
    ),
    (
        "Memory is the peak of a process that only holds the ledger, with its imports. The benchmark's imports are "
        "not those of a job, so the memory before the ledger is opened is shown beside it."
    ),
    (
        "A race is lost to another job of the same process, which commits the same files after this one has planned "
        "them. The time is until the next batch is planned; the pause between attempts, a second or more, is not part "
        "of it."
    ),
)


@dataclass(frozen=True, slots=True)
class Measured:
    """All measurements. `lives`: by files in a commit. `rebuild`: its answer, then those of the races."""

    batches: Batches
    look_ups: Sequence[LookUps]
    simulated: LookUps
    lives: Mapping[int, Mapping[str, Any]]
    rebuild: Sequence[Mapping[str, Any]]
    latencies: Mapping[str, Mapping[str, Any]]
    """By kind of names: `secs` of each dropped file, and the number of `suspects`."""
    missed: MissedEvents
    folders: ManyFolders


def run(options: RunOptions) -> Result:
    found = Measured(
        measurements.ingested(options),
        measurements.looked_up(options),
        measurements.opened_simulated(options),
        measurements.lives(options),
        measurements.rebuilt(options),
        measurements.latencies(options),
        missed_events.measure(options),
        many_folders.measure(options),
    )
    total = sum(answer["files"] for answer in found.batches["S3"][0]) // len(KINDS)
    runs = {
        f"{size.ledger.files:,} known, {place}": some for size in found.look_ups for place, some in size.runs.items()
    }
    return Result(
        "names",
        f"{total:,} files named at random beside {total:,} named in order; looking {NEW} files up in the ledger; S3 "
        f"with {LATENCY_SECS * 1000:.0f} ms a request",
        (
            _ingest_table(found.batches),
            *_look_up_tables(found),
            _life_table(found.lives),
            _rebuild_table(found.rebuild),
            _latency_table(found.latencies),
            found.missed.table(),
            found.folders.table(),
        ),
        tuple(evaluate_goals(goals_of("names"), measured(found), {})),
        notes=(
            *NOTES,
            *found.missed.notes(),
            background_load_note({name: background_loads([*some]) for name, some in runs.items()}),
        ),
        raw=_raw(found),
    )


def measured(found: Measured) -> dict[str, Spread]:
    """Measurements by goal."""
    races = found.rebuild[1:]
    small, middle, large = (_new_ms(size, "S3") for size in found.look_ups)
    largest = found.look_ups[-1]
    return {
        **{place: _ratio(found.batches[place]) for place in PLACES},
        "new_small": small,
        "new_middle": middle,
        "new_large": large,
        "first_secs": _of(largest.runs["S3"], "first_secs"),
        "first_mb": _of(largest.runs["S3"], "first_bytes", MB),
        "memory": _of(largest.runs["S3"], "peak_bytes", MB),
        "memory_simulated": _of(found.simulated.runs["local disk"], "peak_bytes", MB),
        "stored": Spread.of([largest.ledger.stored_bytes / largest.ledger.files_in_runs]),
        "written": Spread.of([max(_written(life) for life in found.lives.values())]),
        "race_secs": _of(races, "planned_secs"),
        "race_queries": _of(races, "spark_jobs"),
        "p50": Spread.of([percentile(found.latencies["random"]["secs"], 0.5)]),
        "p99": Spread.of([percentile(found.latencies["random"]["secs"], 0.99)]),
        "missed": Spread.of([found.missed.usual["most_sweeps"]]),
        "metadata": Spread.of([found.folders.most_metadata_bytes / 1024]),
        "folders": Spread.of([float(found.folders.most_requests)]),
    }


def _ratio(rounds: Sequence[Sequence[Mapping[str, Any]]]) -> Spread:
    """Random names relative to names in order, round by round."""
    return Spread.of([_secs(batches, "random") / _secs(batches, "in order") for batches in rounds])


def _secs(batches: Sequence[Mapping[str, Any]], kind: str) -> float:
    return sum(answer["commit_secs"] for answer in batches if answer["kind"] == kind)


def _part(batches: Sequence[Mapping[str, Any]], kind: str, part: str) -> float:
    return sum(parts[part] for answer in batches if answer["kind"] == kind for parts in answer["parts"])


def _of(runs: Sequence[Mapping[str, Any]], key: str, unit: float = 1.0) -> Spread:
    return Spread.of([run[key] / unit for run in runs])


def _new_ms(size: LookUps, place: str, key: str = "new_secs") -> Spread:
    """All batches of all rounds."""
    return Spread.of([1000 * secs for run in size.runs[place] for secs in run[key]])


def _written(life: Mapping[str, Any]) -> float:
    return float(life["ledger_bytes"]) / float(life["files"])


def _ingest_table(batches: Batches) -> Table:
    rows = []
    for place, rounds in batches.items():
        for kind in KINDS:
            secs = Spread.of([_secs(one, kind) for one in rounds])
            suspects = Spread.of([_part(one, kind, "suspects") for one in rounds])
            late = sum(answer["suspects"] for answer in rounds[-1] if answer["kind"] == kind)
            plan = Spread.of([_part(one, kind, "plan") for one in rounds])
            rows.append((f"{place}, {kind}", str(secs), str(suspects), f"{late:,}", str(plan)))
        rows.append((f"{place}, random relative to in order", f"{_ratio(rounds)}{TIMES}", "", "", ""))
    return Table(("all batches", "s", "of these `suspects`, s", "suspects", "of these `plan`, s"), tuple(rows))


def _look_up_tables(found: Measured) -> tuple[Table, ...]:
    steady, first = [], []
    for size in found.look_ups:
        for place, runs in size.runs.items():
            name = f"{size.ledger.files:,} known, {place}"
            new, known = _new_ms(size, place), _new_ms(size, place, "known_secs")
            steady.append((name, str(new), _mean(runs, "new_requests"), str(known), _mean(runs, "known_requests")))
            opened = (str(_of(runs, "first_secs")), _mean(runs, "first_requests"), _mean(runs, "first_bytes", MB))
            memory = (str(_of(runs, key, MB)) for key in ("peak_bytes", "bytes_before"))
            first.append((name, f"{size.ledger.runs}", *opened, *memory))
    runs = found.simulated.runs["local disk"]
    opened = (str(_of(runs, "first_secs")), "", _mean(runs, "first_bytes", MB))
    memory = (str(_of(runs, key, MB)) for key in ("peak_bytes", "bytes_before"))
    first.append((f"{found.simulated.ledger.files:,} simulated", f"{found.simulated.ledger.runs}", *opened, *memory))
    return (
        Table(
            (f"{NEW} files in a running job", "new ones, ms", "requests", "known ones, ms", "requests"), tuple(steady)
        ),
        Table(
            (f"first {NEW} new files", "runs", "s", "requests", "MB read", "MB of the process", "MB before"),
            tuple(first),
        ),
    )


def _mean(runs: Sequence[Mapping[str, Any]], key: str, unit: float = 1.0) -> str:
    return number(sum(run[key] for run in runs) / len(runs) / unit)


def _life_table(lives: Mapping[int, Mapping[str, Any]]) -> Table:
    rows = tuple(
        (
            f"{life['files']:,} in commits of {life['per_commit']:,}",
            number(_written(life)),
            number(life["receipt_bytes"] / life["files"]),
            number(life["stored_bytes"] / life["files_in_runs"]) if life["files_in_runs"] else "",
            f"{life['runs']}",
        )
        for life in lives.values()
    )
    columns = ("files", "bytes of runs written, a file", "of receipts", "bytes in runs at the end, a file", "runs")
    return Table(columns, rows)


def _rebuild_table(answers: Sequence[Mapping[str, Any]]) -> Table:
    rebuild, *races = answers
    # A commit without rows may follow, which names the runs.
    batch, again = rebuild["parts"][0], rebuild["again"]["parts"][0]
    rows = (
        ("rows of the table", f"{rebuild['rows']:,}"),
        ("files rebuilt from it", f"{rebuild['rebuilt_files']:,}"),
        ("first batch of a new job, s", number(rebuild["commit_secs"])),
        ("of these `suspects`, which rebuilds, s", number(batch["suspects"])),
        ("next batch, s", number(rebuild["again"]["commit_secs"])),
        ("of these `suspects`, s", number(again["suspects"])),
        ("events `ledger_rebuilding`", f"{rebuild['progress_events']}"),
        ("peak of all processes, MB", number(rebuild["peak_bytes"] / MB)),
        ("peak of Python, MB", number(rebuild["peak_python_bytes"] / MB)),
        ("peak of Java, MB", number(rebuild["peak_java_bytes"] / MB)),
        ("after a lost race, until the next batch is planned, s", str(_of(races, "planned_secs"))),
        ("jobs of Spark in this time", str(_of(races, "spark_jobs"))),
    )
    return Table(("a table without receipts and ledger", ""), rows)


def _latency_table(latencies: Mapping[str, Mapping[str, Any]]) -> Table:
    rows = tuple(
        (kind, *(number(percentile(one["secs"], share)) for share in (0.5, 0.99, 1.0)), f"{one['suspects']}")
        for kind, one in latencies.items()
    )
    return Table(("file dropped until its rows are visible", "p50 s", "p99 s", "longest s", "suspects"), rows)


def _raw(found: Measured) -> dict[str, Any]:
    return {
        "batches": found.batches,
        "look_ups": [size.to_json() for size in found.look_ups],
        "simulated": found.simulated.to_json(),
        "lives": {str(each): life for each, life in found.lives.items()},
        "rebuild": found.rebuild,
        "latencies": found.latencies,
        "missed_events": {str(bound): one for bound, one in found.missed.by_bound.items()},
        "folders": {
            "sweeps": found.folders.sweeps,
            "checkpoints": {str(count): one for count, one in found.folders.checkpoints.items()},
        },
    }
