"""`latency`: a file dropped into a running pipeline at a random moment. When is it visible, and what took so long?"""

import gzip
import json
import random
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from benchmarks.contenders.blizzard import manifest_of
from benchmarks.contenders.session import JARS
from benchmarks.figures import Spread, judge, number, percentile
from benchmarks.goals import goals_of
from benchmarks.process import ContenderFailed, scratch
from benchmarks.records import EVENT_SCHEMA, event_lines
from benchmarks.result import Result, Table
from benchmarks.setting import Setting
from benchmarks.verify import Found, WrongResult, found_in
from blizzard.delta_log import parse_commit
from blizzard.manifest import Entry
from blizzard.storage.local import LocalStore
from infra.local.demo.parts import Part

APP_ID = "blizzard:events:landing"
WARM_UP = 3
PAUSE_SECS = (0.1, 2.1)
"""Between two files, any time from the first to the second: the job looks every second."""
POLL_SECS = 0.005
LOST_AFTER_SECS = 120.0
RECORDS = 10
NOTE = (
    "From the entry in the manifest on, which on AWS the event reaches through SQS and the collector: its window "
    "and Lambda's start come on top."
)


@dataclass(frozen=True, slots=True)
class Drop:
    """One file's way, in seconds: until the job planned it, read it, committed it; and what the job then still did."""

    planned_secs: float
    read_secs: float
    commit_secs: float
    after_secs: float
    parts: Mapping[str, float]

    @property
    def secs(self) -> float:
        return self.planned_secs + self.read_secs + self.commit_secs


def run(setting: Setting) -> Result:
    drops = setting.count(100, 3)
    with tempfile.TemporaryDirectory(prefix="run-", dir=scratch()) as folder:
        found = measure(Path(folder), drops, setting)
    secs = [drop.secs for drop in found]
    parts = {
        "announced → planned": [drop.planned_secs for drop in found],
        "planned → read": [drop.read_secs for drop in found],
        "read → visible": [drop.commit_secs for drop in found],
        "in all": secs,
        "afterwards: published, trimmed": [drop.after_secs for drop in found],
    }
    p50, p99 = percentile(secs, 0.5), percentile(secs, 0.99)
    return Result(
        "latency",
        f"one file of {RECORDS} records dropped into a running pipeline that lingers, {drops} times",
        (Table(("", "p50 s", "p99 s"), tuple(_row(*part) for part in [*parts.items(), *_inner(found).items()])),),
        tuple(judge(goals_of("latency"), {"p50": Spread.of([p50]), "p99": Spread.of([p99])}, {})),
        notes=(NOTE,),
        raw={"secs": secs, "parts": {name: values for name, values in parts.items() if name != "in all"}},
    )


def _row(name: str, secs: Sequence[float]) -> tuple[str, ...]:
    return (name, number(percentile(secs, 0.5)), number(percentile(secs, 0.99)))


def _inner(found: Sequence[Drop]) -> dict[str, list[float]]:
    """What the job itself says of its parts."""
    names = dict.fromkeys(name for drop in found for name in drop.parts)
    return {f"by its log: {name}": [drop.parts.get(name, 0.0) for drop in found] for name in names}


def measure(folder: Path, drops: int, setting: Setting) -> list[Drop]:
    """Raises WrongResult when a row is missing or doubled at the end."""
    table, landing = folder / "table", folder / "landing"
    landing.mkdir()
    source = {"uri": str(landing), "schema": EVENT_SCHEMA, "pattern": "**/*.ndjson.gz", "settle_delay_secs": 0}
    pipeline = {"table_uri": str(table), "linger_secs": 3_600, "sources": {"landing": source}}
    config = folder / "pipelines.yaml"
    config.write_text(json.dumps({"pipelines": {"events": pipeline}}))
    words = ["spark_job.main", "--config", str(config), "--jars", str(JARS), "--once"]
    conf = ["--spark-conf", f"spark.master=local[{setting.cores}]"]
    chance, found = random.Random(1), []
    with Part([*words, *conf], {}, folder / "job.log") as job:
        for index in range(WARM_UP + drops):
            setting.say(f"latency: file {index + 1} of {WARM_UP + drops}")
            time.sleep(chance.uniform(*PAUSE_SECS))
            drop = _drop(job, table, landing, index)
            if index >= WARM_UP:
                found.append(drop)
    records = RECORDS * (WARM_UP + drops)
    expected = Found(records, sum(range(records)), WARM_UP + drops)
    if (is_there := found_in(str(table))) != expected:
        raise WrongResult(f"latency: expected {expected}, found {is_there}")
    return found


def _drop(job: Part, table: Path, landing: Path, index: int) -> Drop:
    lines = event_lines(random.Random(index), RECORDS * index, RECORDS)
    unfinished = landing.parent / "unfinished"
    unfinished.write_bytes(gzip.compress(b"\n".join(lines)))
    unfinished.rename(landing / f"{index:06}.ndjson.gz")
    info = LocalStore(landing).head(f"{index:06}.ndjson.gz")
    assert info is not None
    dropped_ts = time.time()
    entry = Entry(info.key, info.size, info.etag, dropped_ts)
    manifest_of(str(table)).append([entry], writer_id="collector", now_ts=dropped_ts)
    visible_ts = _visible(job, table, index)
    said: dict[str, dict[str, Any]] = {}
    while "batch_committed" not in said:
        event = job.events.get(timeout=LOST_AFTER_SECS)
        said[event["event"]] = event
    planned_ts, read_ts, done_ts = (
        datetime.fromisoformat(said[name]["ts"]).timestamp()
        for name in ("batch_planned", "batch_read", "batch_committed")
    )
    parts = said["batch_committed"].get("secs") or {}
    return Drop(planned_ts - dropped_ts, read_ts - planned_ts, visible_ts - read_ts, done_ts - visible_ts, parts)


def _visible(job: Part, table: Path, sequence: int) -> float:
    """When the commit of this sequence was in the log; its name appears complete. Raises ContenderFailed."""
    deadline, seen = time.monotonic() + LOST_AFTER_SECS, set[str]()
    while time.monotonic() < deadline and job.ended is None:
        now_ts = time.time()
        for file in sorted((table / "_delta_log").glob("0*.json"), reverse=True):
            if file.name in seen:
                break
            seen.add(file.name)
            if parse_commit(int(file.stem), file.read_bytes()).txns.get(APP_ID) == sequence:
                return now_ts
        time.sleep(POLL_SECS)
    said = (table.parent / "job.log").read_text()[-3000:]
    raise ContenderFailed(f"file {sequence} was not visible within {LOST_AFTER_SECS:g} s; exit {job.ended}:\n{said}")
