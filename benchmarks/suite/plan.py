"""`plan`: planning a batch of 10,000 files among 1,000,000 manifest entries, without I/O.

It is measured with the new entries first, and with 990,000 known entries before them, which all have to be checked.
`python -m benchmarks.suite.plan TOTAL WANTED KNOWN` takes one measurement.
"""

import json
import sys
import time
from collections.abc import Iterator, Mapping, Sequence

from benchmarks.goals import goals_of
from benchmarks.machine import background_load_note
from benchmarks.result import Result, Table
from benchmarks.run_options import RunOptions
from benchmarks.stats import Spread, evaluate_goals
from benchmarks.suite.subprocess_run import background_loads, peak_bytes, run_module
from benchmarks.verify import WrongResult
from blizzard.manifest.segments import Entry, Segment, UnconsumedSegment
from blizzard.paths.partition import TimeTemplate
from blizzard.state.batch import BatchRules, plan_batch
from blizzard.state.checkpoint import Checkpoint
from blizzard.state.watermark import split_path

SEGMENT_ENTRIES = 1_000
FILES_PER_DAY = 10_000


def run(options: RunOptions) -> Result:
    total = options.count(1_000_000, 100)
    wanted = total // 100
    kinds = {"new ones first": 0, "known ones first": total - wanted}
    found = {}
    for kind, known in kinds.items():
        options.report_progress(f"plan: {kind}")
        found[kind] = [run_module("benchmarks.suite.plan", total, wanted, known) for _ in range(options.rounds)]
    rows = tuple((kind, *(str(_of(runs, key)) for key in ("secs", "peak_mb"))) for kind, runs in found.items())
    return Result(
        "plan",
        f"planning a batch of {wanted:,} files among {total:,} manifest entries, which are generated on demand",
        (Table(("entries", "s", "MB of the process"), rows),),
        tuple(evaluate_goals(goals_of("plan"), measured(found), {})),
        notes=(background_load_note({kind: background_loads(runs) for kind, runs in found.items()}),),
        raw=found,
    )


def measured(found: Mapping[str, Sequence[Mapping[str, float]]]) -> dict[str, Spread]:
    """Measurements by goal: the worse of the two kinds."""
    worst = {
        key: max((_of(runs, key) for runs in found.values()), key=lambda spread: spread.median)
        for key in ("secs", "peak_mb")
    }
    return {"secs": worst["secs"], "mib": worst["peak_mb"]}


def _of(runs: Sequence[Mapping[str, float]], key: str) -> Spread:
    return Spread.of([run[key] for run in runs])


def entries(total: int) -> Iterator[UnconsumedSegment]:
    """Segments as the collector appends them."""
    for start in range(0, total, SEGMENT_ENTRIES):
        numbers = range(start, min(start + SEGMENT_ENTRIES, total))
        made = tuple(Entry(path(n), 2_000, f"{n:032x}", 1_706_400_000.0 + n) for n in numbers)
        number = start // SEGMENT_ENTRIES
        segment = Segment(number, made, None, f"etag-{number - 1}", "collector", 0.0, f"etag-{number}")
        yield UnconsumedSegment(segment, 0, 0, "chain")


def path(n: int) -> str:
    day = n // FILES_PER_DAY
    return f"date=2024-{1 + day // 28 % 12:02}-{1 + day % 28:02}/{1_706_450_400 + n}-{n:08x}.ndjson.gz"


def state(known: int) -> Checkpoint:
    """A checkpoint to which entries below `known` are known: a watermark for each day, and a late sweep afterwards,
    as a state from before the ledger has them."""
    marks = dict(split_path(path(min(n + FILES_PER_DAY, known) - 1)) for n in range(0, known, FILES_PER_DAY))
    late_ts = 2_000_000_000.0 if known else None
    return Checkpoint("events", "landing", sequence=0, partition_watermarks=marks, before_ledger_ts=late_ts)


def measure(total: int, wanted: int, known: int) -> dict[str, float]:
    """Seconds of the planner alone, and peak memory of this process in MB (10^6 bytes)."""
    making_secs = 0.0

    def made() -> Iterator[UnconsumedSegment]:
        nonlocal making_secs
        stream, began = entries(total), time.perf_counter()
        for item in stream:
            making_secs += time.perf_counter() - began
            yield item
            began = time.perf_counter()
        making_secs += time.perf_counter() - began

    base, rules = state(known), BatchRules(TimeTemplate("date=%Y-%m-%d").folder_of, interval_files=wanted)
    began = time.perf_counter()
    plan = plan_batch(base, made(), rules)
    secs = time.perf_counter() - began - making_secs
    if [entry.path for entry in plan.suspects] != [path(n) for n in range(known, known + wanted)]:
        raise WrongResult(
            f"plan: expected the {wanted} files from number {known} on, found {len(plan.suspects)} others"
        )
    return {"secs": secs, "peak_mb": peak_bytes() / 1e6}


if __name__ == "__main__":
    print(json.dumps(measure(*map(int, sys.argv[1:]))))
