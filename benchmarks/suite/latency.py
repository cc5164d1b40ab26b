"""`latency`: time from a file dropped into a running job at a random moment until its rows are visible."""

import gzip
import json
import os
import random
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from queue import Empty
from types import MappingProxyType
from typing import Any

from deltalake import DeltaTable

from benchmarks.contenders.blizzard import manifest_of
from benchmarks.contenders.session import JARS
from benchmarks.goals import goals_of
from benchmarks.machine import BackgroundLoad, background_load_note, load
from benchmarks.process import ContenderFailed, scratch
from benchmarks.records import EVENT_SCHEMA, event_lines
from benchmarks.resource_monitor import ResourceMonitor
from benchmarks.result import Result, Table
from benchmarks.run_options import RunOptions
from benchmarks.stats import Spread, evaluate_goals, number, percentile
from benchmarks.verify import Found, WrongResult, found_in
from blizzard.manifest.segments import Entry
from blizzard.state.delta_log import parse_commit
from blizzard.storage.local import LocalStore
from infra.local.processes.child_process import ChildProcess

APP_ID = "blizzard:events:landing"
PIPELINE, SOURCE = "events", "landing"
WARM_UP = 3
PAUSE_SECS = (0.2, 4.8)
"""Random pause between two files, minimum and maximum, independent of what the job is doing."""
POLL_SECS = 0.005
LOST_AFTER_SECS = 120.0
RECORDS = 10
NOTE = (
    "The time starts with the entry in the manifest. On AWS the event passes through SQS and the collector first, so"
    " add the collector's window and Lambda's start. Files are dropped even while the job is still working on the "
    "previous one."
)


@dataclass(frozen=True, slots=True)
class FileLatency:
    """Latency of one file: seconds until it was planned, from there until it was read, and until it was committed."""

    planned_secs: float
    read_secs: float
    commit_secs: float

    @property
    def secs(self) -> float:
        return self.planned_secs + self.read_secs + self.commit_secs


@dataclass(slots=True)
class Observations:
    """What was observed of the running job: Unix seconds by file or by sequence, and the parts of its commits."""

    dropped_ts: dict[str, float] = field(default_factory=dict)
    visible_ts: dict[int, float] = field(default_factory=dict)
    event_ts: dict[str, dict[int, float]] = field(default_factory=dict)
    parts: dict[int, Mapping[str, float]] = field(default_factory=dict)
    committed: int = 0
    """Number of files that the job logged as committed."""
    suspects: int = 0
    """Number of late files that the job found among its suspects."""
    warmed_secs: float | None = None
    """Seconds that Delta worked in advance for its first checkpoint while the job waited; None if it did not."""

    def latencies(self, sequence_of: Mapping[str, int]) -> list[FileLatency]:
        """In the order in which files were dropped, without the warm-up files."""
        return self._latencies(sequence_of, [*self.dropped_ts][WARM_UP:])

    def warm_up_latencies(self, sequence_of: Mapping[str, int]) -> list[FileLatency]:
        """Of the warm-up files except the first, which waits for the start of the job."""
        return self._latencies(sequence_of, [*self.dropped_ts][1:WARM_UP])

    def _latencies(self, sequence_of: Mapping[str, int], paths: Sequence[str]) -> list[FileLatency]:
        found = []
        for path in paths:
            dropped_ts = self.dropped_ts[path]
            sequence = sequence_of[path]
            planned_ts, read_ts = (self.event_ts[event][sequence] for event in ("batch_planned", "batch_read"))
            visible_ts = self.visible_ts[sequence]
            found.append(FileLatency(planned_ts - dropped_ts, read_ts - planned_ts, visible_ts - read_ts))
        return found

    def commits(self, sequence_of: Mapping[str, int]) -> list[Mapping[str, float]]:
        """Seconds by part of each commit, without those of the warm-up files."""
        start = {sequence_of[path] for path in [*self.dropped_ts][:WARM_UP]}
        return [parts for sequence, parts in self.parts.items() if sequence not in start]


def run(options: RunOptions) -> Result:
    drops = options.count(100, 3)
    with tempfile.TemporaryDirectory(prefix="run-", dir=scratch()) as folder:
        before = load()
        with ResourceMonitor(os.getpid()) as machine:
            seen = observe(Path(folder), drops, options)
        background = BackgroundLoad(before, machine.usage().others_share)
        sequence_of = sequences(Path(folder, "table"), WARM_UP + drops)
        latencies, commits = seen.latencies(sequence_of), seen.commits(sequence_of)
    secs = [one.secs for one in latencies]
    parts = {
        "announced → planned": [one.planned_secs for one in latencies],
        "planned → read": [one.read_secs for one in latencies],
        "read → visible": [one.commit_secs for one in latencies],
        "in all": secs,
    }
    return Result(
        "latency",
        f"one file of {RECORDS} records dropped into a running job (`linger_secs`), {drops} times",
        (_table("step of a file", parts), _table("part of a commit, by the job's log", _inner(commits))),
        tuple(evaluate_goals(goals_of("latency"), measured(latencies), {})),
        notes=(NOTE, begin_note(seen, sequence_of), background_load_note({"the job": [background]})),
        raw={"secs": secs, "parts": parts, "commits": commits},
    )


def measured(latencies: Sequence[FileLatency]) -> dict[str, Spread]:
    """Measurements by goal."""
    secs = [one.secs for one in latencies]
    return {"p50": Spread.of([percentile(secs, 0.5)]), "p99": Spread.of([percentile(secs, 0.99)])}


def begin_note(seen: Observations, sequence_of: Mapping[str, int]) -> str:
    """What the percentiles leave out: the warm-up files."""
    secs = [one.secs for one in seen.warm_up_latencies(sequence_of)]
    counted = f"The first {WARM_UP} files do not count. The first one waits for Spark; the others took up to"
    if seen.warmed_secs is None:
        advance_work = "Delta did no work in advance"
    else:
        advance_work = f"during them Delta worked {number(seen.warmed_secs)} s in advance for its first checkpoint"
    return f"{counted} {number(max(secs))} s, and {advance_work}."


def _table(name: str, parts: Mapping[str, Sequence[float]]) -> Table:
    rows = tuple(
        (part, *(number(percentile(secs, share)) for share in (0.5, 0.99, 1.0))) for part, secs in parts.items()
    )
    return Table((name, "p50 s", "p99 s", "longest s"), rows)


def _inner(commits: Sequence[Mapping[str, float]]) -> dict[str, list[float]]:
    names = dict.fromkeys(name for parts in commits for name in parts)
    return {name: [parts.get(name, 0.0) for parts in commits] for name in names}


def sequences(table: Path, files: int) -> dict[str, int]:
    """The commit of each file, by path. Raises WrongResult if a record is missing or doubled."""
    numbers = range(RECORDS * files)
    found = found_in(str(table))
    expected = Found(len(numbers), {"n": sum(numbers)}, found.commits)
    if found != expected:
        raise WrongResult(f"latency: expected {expected}, found {found}")
    rows = DeltaTable(str(table)).to_pyarrow_table(columns=["_source"]).column("_source").to_pylist()
    return {row["file"]: row["sequence"] for row in rows}


def in_order(index: int) -> str:
    return f"{index:06}.ndjson.gz"


def observe(
    folder: Path,
    drops: int,
    options: RunOptions,
    *,
    name_of: Callable[[int], str] = in_order,
    settings: Mapping[str, Any] = MappingProxyType({}),
    engine: str = "spark",
) -> Observations:
    """Starts a job, drops files, and polls the Delta log until all are committed. `settings`: fields of the source."""
    table, landing = folder / "table", folder / "landing"
    landing.mkdir()
    words = ["spark_job.main", "--config", str(_config(folder, settings)), "--jars", str(JARS), "--once"]
    words += ["--engine", engine]
    conf = ["--spark-conf", f"spark.master=local[{options.cores}]"]
    rng, seen = random.Random(1), Observations()
    with ChildProcess([*words, *conf], {}, folder / "job.log") as job:
        for _ in range(WARM_UP):
            _drop(table, landing, name_of, seen)
            _poll(job, table, seen, lambda: seen.committed == len(seen.dropped_ts))
        for turn in range(drops):
            options.report_progress(f"latency: file {turn + 1} of {drops}")
            until = time.monotonic() + rng.uniform(*PAUSE_SECS)
            _poll(job, table, seen, lambda until=until: time.monotonic() >= until)  # type: ignore[misc]
            _drop(table, landing, name_of, seen)
        _poll(job, table, seen, lambda: seen.committed == len(seen.dropped_ts))
    return seen


def _config(folder: Path, settings: Mapping[str, Any]) -> Path:
    source = {"uri": str(folder / "landing"), "schema": EVENT_SCHEMA, "settle_delay_secs": 0, **settings}
    pipeline = {"table_uri": str(folder / "table"), "linger_secs": 3_600, "sources": {SOURCE: source}}
    file = folder / "pipelines.yaml"
    file.write_text(json.dumps({"pipelines": {PIPELINE: pipeline}}))
    return file


def _drop(table: Path, landing: Path, name_of: Callable[[int], str], seen: Observations) -> None:
    index = len(seen.dropped_ts)
    path = name_of(index)
    unfinished = landing.parent / "unfinished"
    unfinished.write_bytes(gzip.compress(b"\n".join(event_lines(random.Random(index), RECORDS * index, RECORDS))))
    unfinished.rename(landing / path)
    info = LocalStore(landing).head(path)
    assert info is not None
    now_ts = seen.dropped_ts[path] = time.time()
    entry = Entry(info.key, info.size, info.etag, now_ts)
    manifest_of(str(table)).append([entry], writer_id="collector", now_ts=now_ts)


def _poll(job: ChildProcess, table: Path, seen: Observations, done: Callable[[], bool]) -> None:
    """Records new commits and events of the job until `done`. Raises ContenderFailed if the job ends or logs nothing
    for LOST_AFTER_SECS."""
    deadline = time.monotonic() + LOST_AFTER_SECS
    while not done():
        _poll_log(table, seen)
        with suppress(Empty):
            while True:
                _note(job.events.get_nowait(), seen)
                deadline = time.monotonic() + LOST_AFTER_SECS
        if job.exit_status is not None or time.monotonic() > deadline:
            output = (table.parent / "job.log").read_text()[-3000:]
            raise ContenderFailed(
                f"latency: expected an event of the job within {LOST_AFTER_SECS:g} s, found none; exit code "
                f"{job.exit_status}; its output ends with:\n{output}"
            )
        time.sleep(POLL_SECS)


def _poll_log(table: Path, seen: Observations) -> None:
    """Commits have consecutive versions, and their files appear complete."""
    now_ts, log = time.time(), table / "_delta_log"
    version = len(seen.visible_ts)
    while (file := log / f"{version:020d}.json").exists():
        sequence = parse_commit(version, file.read_bytes()).txns.get(APP_ID, -1)
        if sequence != version:
            raise WrongResult(f"latency: expected commit {version} to be the job's, found sequence {sequence}")
        seen.visible_ts[sequence] = now_ts
        version += 1


def _note(event: Mapping[str, Any], seen: Observations) -> None:
    name = event["event"]
    if name in ("batch_planned", "batch_read"):
        seen.event_ts.setdefault(name, {})[event["sequence"]] = datetime.fromisoformat(event["ts"]).timestamp()
    elif name == "batch_committed":
        seen.parts[event["sequence"]] = event.get("secs") or {}
        seen.committed += event["files"]
    elif name == "suspects_judged":
        seen.suspects += event["late"]
    elif name == "warmed_up":
        seen.warmed_secs = event["secs"]
