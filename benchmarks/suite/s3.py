"""`s3`: Blizzard on the files of big and small, on the local disk and over an S3 that answers after 30 ms.

The S3 is a stand-in of our own, whose limit is measured and reported. The original plan was a proxy in front of moto,
but moto answers only 150 to 300 requests a second, so the benchmark would have measured moto.
"""

import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from benchmarks import phases
from benchmarks.contenders import Work
from benchmarks.contenders.timestamps import SERVER_PID
from benchmarks.data import Dataset, dataset
from benchmarks.goals import goals_of
from benchmarks.process import scratch
from benchmarks.result import Result, Table
from benchmarks.rounds import ContenderRuns, in_turn, loads_note, measure
from benchmarks.run_options import RunOptions
from benchmarks.s3_stand_in import stand_in
from benchmarks.s3_stand_in.__main__ import gets_per_sec
from benchmarks.stats import Spread, evaluate_goals, number, ratio
from benchmarks.suite.comparison import BULK, parts, raw
from blizzard.environment import temporary_variables

LATENCY_SECS = 0.03
NAMES = ("big", "small")
NOTES = (
    (
        "Core-seconds are those of two runs, from the start of the process. Others are all other processes of the "
        "machine. The rest of the cores' time was idle: the job waited for requests or the disk, or had work for only "
        "one core."
    ),
    (
        "A phase ends with an event of the job's log: planned, read (with the receipt written), committed. What a "
        "batch does after its commit is part of the next batch's plan."
    ),
)


def run(options: RunOptions) -> Result:
    options.report_progress("s3: measuring the stand-in's limit")
    limit = gets_per_sec(requests=options.count(20_000, 640))
    series, server_secs = {}, {}
    datasets = {name: dataset(name, options.scale, options.report_progress, cache=options.cache) for name in NAMES}
    for name, data in datasets.items():
        series[name], server_secs[name] = _both(data, options)
    rows = tuple(
        (f"{name}, {kind}", str(Spread.of(one.cold())), str(Spread.of(one.warm())), str(one.peak_mib()))
        for name, both in series.items()
        for kind, one in both.items()
    )
    return Result(
        "s3",
        f"Blizzard on the files of big and small: local disk, and S3 with {LATENCY_SECS * 1000:.0f} ms a request",
        (
            Table(("", "cold s", "warm s", "peak MiB"), rows),
            _parts(series),
            phases.account(series, server_secs, options.cores),
            phases.table(series, options.cores),
        ),
        tuple(evaluate_goals(goals_of("s3"), measured(series), {})),
        notes=(
            _note(limit, server_secs),
            *phases.more_notes(series, server_secs, options.cores),
            *NOTES,
            loads_note({f"{name}, {kind}": one for name, both in series.items() for kind, one in both.items()})
            + " Over S3 the other processes include the stand-in.",
        ),
        raw={name: raw(datasets[name], series[name]) for name in NAMES}
        | {"gets_per_sec": limit, "server_secs": server_secs}
        | {"secs": {name: {kind: parts(one) for kind, one in both.items()} for name, both in series.items()}},
    )


def _parts(series: Mapping[str, Mapping[str, ContenderRuns]]) -> Table:
    """Seconds of a warm run by part. The difference between neighbouring columns is the cost of S3."""
    found = {f"{name}, {kind}": parts(one) for name, both in series.items() for kind, one in both.items()}
    names = dict.fromkeys(name for told in found.values() for name in told)
    return Table(
        ("seconds of a warm run", *found),
        tuple((name, *(number(told.get(name, 0.0)) for told in found.values())) for name in names),
    )


def measured(series: Mapping[str, Mapping[str, ContenderRuns]]) -> dict[str, Spread]:
    """Measurements by goal: throughput over S3 relative to the disk, which is the disk's time divided by S3's."""
    return {name: ratio(both["local"].warm(), both["s3"].warm()) for name, both in series.items()}


def _note(limit: float, server_secs: Mapping[str, Sequence[float]]) -> str:
    each = " and ".join(f"{Spread.of(secs)} s ({name})" for name, secs in server_secs.items())
    return (
        "The S3 is a stand-in on the same cores, not a proxy in front of moto, which is too slow. Without latency "
        f"obstore fetched {number(limit)} small objects a second from it. Its processor time was {each} for both runs"
        " of a process."
    )


def _both(data: Dataset, options: RunOptions) -> tuple[dict[str, ContenderRuns], list[float]]:
    """Interleaved runs on the disk and over S3, and the stand-in's CPU seconds for each process over S3."""
    both = {"local": ContenderRuns("local disk"), "s3": ContenderRuns("S3")}
    server_secs = []
    for turn in range(options.rounds):
        for kind, series in in_turn(both, turn):
            options.report_progress(f"s3: {data.name}, round {turn + 1} of {options.rounds}: {series.title}")
            with tempfile.TemporaryDirectory(prefix="run-", dir=scratch()) as folder:
                work = Work("blizzard", data, folder, 2, options.cores, settings=BULK, options={SERVER_PID: 0})
                if kind == "local":
                    series.runs.append(measure(work, Path(folder), process=options.process))
                    continue
                buckets = {"landing": Path(data.folder), "lake": Path(folder, "lake")}
                with stand_in(buckets, latency_secs=LATENCY_SECS) as server, temporary_variables(server.environment):
                    remote = replace(work, out="s3://lake", source="s3://landing", options={SERVER_PID: server.pid})
                    before = server.cpu_secs()
                    series.runs.append(
                        measure(
                            remote,
                            Path(folder),
                            process=options.process,
                            environment=server.environment,
                            on_disk=_below(folder),
                        )
                    )
                    server_secs.append(server.cpu_secs() - before)
    return both, server_secs


def _below(folder: str) -> Callable[[str], str]:
    """Maps an `s3://` URI to the stand-in's local path."""
    return lambda uri: uri.replace("s3:/", folder, 1)
