"""`s3`: big and small by Blizzard, on the local disk and over an S3 that answers each request after 30 ms.

A proxy before a local S3 was meant. The local S3 that there is, moto, answers 150 to 300 requests a second, and would
be all that is measured; so a stand-in takes its place, and what it can do itself is told.
"""

import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from benchmarks import phases
from benchmarks.contenders import Work
from benchmarks.contenders.moments import SERVER_PID
from benchmarks.data import Dataset, dataset
from benchmarks.figures import Spread, judge, number, ratio
from benchmarks.goals import goals_of
from benchmarks.process import scratch
from benchmarks.result import Result, Table
from benchmarks.rounds import Series, in_turn, loads_note, measure
from benchmarks.s3_stand_in import stand_in
from benchmarks.s3_stand_in.__main__ import gets_per_sec
from benchmarks.setting import Setting
from benchmarks.suite.contest import BULK, parts, raw
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


def run(setting: Setting) -> Result:
    setting.say("s3: what the stand-in can answer")
    limit = gets_per_sec(requests=setting.count(20_000, 640))
    series, server_secs = {}, {}
    datasets = {name: dataset(name, setting.scale, setting.say, cache=setting.cache) for name in NAMES}
    for name, data in datasets.items():
        series[name], server_secs[name] = _both(data, setting)
    rows = tuple(
        (f"{name}, {kind}", str(Spread.of(one.cold())), str(Spread.of(one.warm())), str(one.peak_mib()))
        for name, both in series.items()
        for kind, one in both.items()
    )
    return Result(
        "s3",
        f"big and small by Blizzard on the local disk, and over S3 with {LATENCY_SECS * 1000:.0f} ms a request",
        (
            Table(("", "cold s", "warm s", "peak MiB"), rows),
            _parts(series),
            phases.account(series, server_secs, setting.cores),
            phases.table(series, setting.cores),
        ),
        tuple(judge(goals_of("s3"), measured(series), {})),
        notes=(
            _note(limit, server_secs),
            *phases.more_notes(series, server_secs, setting.cores),
            *NOTES,
            loads_note({f"{name}, {kind}": one for name, both in series.items() for kind, one in both.items()})
            + " Over S3 the other processes include the stand-in.",
        ),
        raw={name: raw(datasets[name], series[name]) for name in NAMES}
        | {"gets_per_sec": limit, "server_secs": server_secs}
        | {"secs": {name: {kind: parts(one) for kind, one in both.items()} for name, both in series.items()}},
    )


def _parts(series: Mapping[str, Mapping[str, Series]]) -> Table:
    """Where a warm run's seconds went, part by part: what S3 costs is the difference of two neighbours."""
    found = {f"{name}, {kind}": parts(one) for name, both in series.items() for kind, one in both.items()}
    names = dict.fromkeys(name for told in found.values() for name in told)
    return Table(
        ("seconds of a warm run", *found),
        tuple((name, *(number(told.get(name, 0.0)) for told in found.values())) for name in names),
    )


def measured(series: Mapping[str, Mapping[str, Series]]) -> dict[str, Spread]:
    """By goal: its throughput over S3 by that on the disk, so the disk's time by that over S3."""
    return {name: ratio(both["local"].warm(), both["s3"].warm()) for name, both in series.items()}


def _note(limit: float, server_secs: Mapping[str, Sequence[float]]) -> str:
    each = " and ".join(f"{Spread.of(secs)} s ({name})" for name, secs in server_secs.items())
    return (
        "The S3 is a stand-in on the same cores, not a proxy in front of moto, which is too slow. Without latency "
        f"obstore fetched {number(limit)} small objects a second from it. Its processor time was {each} for both runs"
        " of a process."
    )


def _both(data: Dataset, setting: Setting) -> tuple[dict[str, Series], list[float]]:
    """Local and over S3 in turn; and the seconds of a processor that the stand-in took for each process."""
    both = {"local": Series("local disk"), "s3": Series("S3")}
    server_secs = []
    for turn in range(setting.rounds):
        for kind, series in in_turn(both, turn):
            setting.say(f"s3: {data.name}, round {turn + 1} of {setting.rounds}: {series.title}")
            with tempfile.TemporaryDirectory(prefix="run-", dir=scratch()) as folder:
                work = Work("blizzard", data, folder, 2, setting.cores, settings=BULK, options={SERVER_PID: 0})
                if kind == "local":
                    series.runs.append(measure(work, Path(folder), process=setting.process))
                    continue
                buckets = {"landing": Path(data.folder), "lake": Path(folder, "lake")}
                with stand_in(buckets, latency_secs=LATENCY_SECS) as server, temporary_variables(server.environment):
                    remote = replace(work, out="s3://lake", source="s3://landing", options={SERVER_PID: server.pid})
                    before = server.cpu_secs()
                    series.runs.append(
                        measure(
                            remote,
                            Path(folder),
                            process=setting.process,
                            environment=server.environment,
                            on_disk=_below(folder),
                        )
                    )
                    server_secs.append(server.cpu_secs() - before)
    return both, server_secs


def _below(folder: str) -> Callable[[str], str]:
    """Where the bucket of a URI lies."""
    return lambda uri: uri.replace("s3:/", folder, 1)
