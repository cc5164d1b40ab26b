"""`kafka`: a topic read into a table, by Blizzard, by Structured Streaming, and by a consumer that throws away."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

from confluent_kafka import Producer
from deltalake import DeltaTable

from benchmarks.goals import goals_of
from benchmarks.kafka.contender import CONTENDERS, Task
from benchmarks.kafka.delta_ingest import LATENCY_SECS, PROGRAM, is_installed
from benchmarks.kafka.topic import MESSAGES, TOPIC, make
from benchmarks.process import ROOT, ContenderFailed, scratch
from benchmarks.resource_monitor import ResourceMonitor
from benchmarks.result import Result, Table
from benchmarks.run_options import RunOptions
from benchmarks.stats import TIMES, Spread, evaluate_goals, number, percentile
from benchmarks.verify import WrongResult
from blizzard.environment import variables
from infra.local.kafka.cluster import KafkaCluster
from infra.local.processes.child_process import ChildProcess

BARE, LOCAL, SPARK, STREAMING, DELTA_INGEST = CONTENDERS
FORMS = ("json", "envelope")
DROPS, COMMITS, WARM_UP = 100, 1_000, 50
HEAP_MB = 1024
MB = 1e6
NOTE = (
    "The bare consumer is one process with librdkafka, which gives each message to Python and no more. The "
    "broker runs on the same cores as the contenders. The time of Blizzard includes its state, its receipts and the "
    "column `_source`, which the others do not have."
)
WITH_DELTA_INGEST = (
    "kafka-delta-ingest, which decodes on one thread, is measured with JSON only, and until the table has all "
    f"messages, of which it writes the last ones up to {LATENCY_SECS} seconds after it has read them. Each run is a "
    "process of its own."
)
WITHOUT_DELTA_INGEST = f"kafka-delta-ingest was not measured: there is no program {PROGRAM} on the PATH."


@dataclass(slots=True)
class Measured:
    """By form and contender, all rounds: seconds of the first and the second run of a process, and its memory."""

    runs: dict[tuple[str, str], list[tuple[float, float, float]]] = field(default_factory=dict)
    latencies: list[float] = field(default_factory=list)
    commits: list[float] = field(default_factory=list)
    """Seconds of each commit, in order."""

    def ratio(self, form: str, contender: str, to: str, run: int) -> Spread:
        """How many times the seconds of the other."""
        pairs = zip(self.runs[form, contender], self.runs[form, to], strict=True)
        return Spread.of([one[run] / other[run] for one, other in pairs])


def run(options: RunOptions) -> Result:
    found, messages = Measured(), options.count(MESSAGES, 10_000)
    with _folder() as folder, KafkaCluster(folder / "broker", heap_mb=HEAP_MB) as cluster:
        make(cluster, messages, lambda said: options.report_progress(f"kafka: {said}"))
        for turn in range(options.rounds):
            for form in FORMS:
                for contender in contenders(form):
                    options.report_progress(f"kafka: round {turn + 1} of {options.rounds}, {form}, {contender}")
                    measured = _measured(contender, form, cluster, messages, options)
                    found.runs.setdefault((form, contender), []).append(measured)
        options.report_progress("kafka: many commits")
        found.commits = _many_commits(cluster, folder, messages, options.count(COMMITS, 2 * WARM_UP))
        options.report_progress("kafka: from produced to visible")
        found.latencies = _latencies(cluster, folder, options.count(DROPS, 3))
    return Result(
        "kafka",
        "a topic read into a table",
        (_table(found), _latency_table(found)),
        tuple(evaluate_goals(goals_of("kafka"), _goals(found), {})),
        notes=(NOTE, WITH_DELTA_INGEST if is_installed() else WITHOUT_DELTA_INGEST),
        raw={
            "runs": {f"{form}, {contender}": some for (form, contender), some in found.runs.items()},
            "latencies": found.latencies,
            "commits": found.commits,
        },
    )


def contenders(form: str) -> list[str]:
    return [each for each in CONTENDERS if each != DELTA_INGEST or (form == "json" and is_installed())]


def _goals(found: Measured) -> dict[str, Spread]:
    """The worse form counts."""
    commits, secs = found.commits, found.latencies
    return {
        "cold": min((found.ratio(form, STREAMING, LOCAL, 0) for form in FORMS), key=lambda one: one.median),
        "warm": min((found.ratio(form, STREAMING, LOCAL, 1) for form in FORMS), key=lambda one: one.median),
        "bare": max((found.ratio(form, LOCAL, BARE, 1) for form in FORMS), key=lambda one: one.median),
        "flat": Spread.of([median(commits[-WARM_UP:]) / median(commits[:WARM_UP])]),
        "p50": Spread.of([percentile(secs, 0.5)]),
        "p99": Spread.of([percentile(secs, 0.99)]),
    }


@contextmanager
def _folder() -> Iterator[Path]:
    with TemporaryDirectory(prefix="run-", dir=scratch()) as folder:
        yield Path(folder)


def _measured(
    contender: str, form: str, cluster: KafkaCluster, messages: int, options: RunOptions
) -> tuple[float, float, float]:
    """Seconds cold and warm, and the peak memory of all processes in MB."""
    with _folder() as folder:
        os.sync()  # as before each contender of the other benchmarks
        started_ts = time.time()
        task = Task(contender, form, cluster.bootstrap_servers, messages, str(folder), options.cores, started_ts)
        process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.kafka.contender", task.to_json()],
            cwd=ROOT,
            env=dict(variables()),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        with ResourceMonitor(process.pid) as watch:
            output, errors = process.communicate()
        if process.returncode != 0:
            raise ContenderFailed(f"{contender}, {form}: exit code {process.returncode}: {errors[-3000:]}")
        for each in (0, 1) if contender != BARE else ():
            rows = DeltaTable(task.table(each)).to_pyarrow_dataset().count_rows()
            if rows != messages:
                raise WrongResult(f"{contender}, {form}: expected {messages:,} rows, found {rows:,}")
        cold, warm = json.loads(output.splitlines()[-1])
        return cold, warm, watch.usage().peak_bytes / MB


def _configuration(cluster: KafkaCluster, folder: Path, checkpoint: dict[str, Any], start: str) -> Path:
    kafka = {"bootstrap_servers": cluster.bootstrap_servers, "topics": [TOPIC], "start": start}
    source = {"kafka": kafka, "format": "envelope", "checkpoint": checkpoint}
    pipeline = {"table_uri": str(folder / f"table-{start}"), "sources": {"events": source}}
    file = folder / f"{start}.yaml"
    file.write_text(json.dumps({"pipelines": {"p": pipeline}}))
    return file


def _many_commits(cluster: KafkaCluster, folder: Path, messages: int, commits: int) -> list[float]:
    """The seconds of each, while one process reads the topic in small batches."""
    config = _configuration(cluster, folder, {"interval_records": max(1, messages // commits)}, "earliest")
    words = ["spark_job.main", "--config", str(config), "--engine", "local"]
    secs: list[float] = []
    with ChildProcess(words, {}, folder / "commits.log") as job:
        while len(secs) < commits:
            event = job.events.get(timeout=120)
            if event["event"] == "messages_committed" and event["rows"]:
                secs.append(event["secs"]["total"])
    return secs


def _latencies(cluster: KafkaCluster, folder: Path, drops: int) -> list[float]:
    """From the call of `produce` to the commit in the log, while a job runs."""
    config = _configuration(cluster, folder, {"interval_secs": 0}, "latest")
    words = ["spark_job.main", "--config", str(config), "--engine", "local"]
    producer = Producer({**cluster.client_settings(), "log_level": 0})
    found: list[float] = []
    with ChildProcess(words, {}, folder / "latencies.log") as job:
        while job.events.get(timeout=120)["event"] != "messages_committed":
            pass
        for drop in range(drops + 1):
            time.sleep(0.1 + drop % 7 * 0.07)
            began = time.monotonic()
            producer.produce(TOPIC, b"x" * 200)
            producer.flush(30)
            while True:
                event = job.events.get(timeout=120)
                if event["event"] == "messages_committed" and event["rows"]:
                    break
            found.append(time.monotonic() - began)
    return found[1:]  # the first one waits for what a first batch imports


def _table(found: Measured) -> Table:
    rows = []
    for (form, contender), runs in found.runs.items():
        cold, warm, peak = (Spread.of([one[at] for one in runs]) for at in range(3))
        ratios = [f"{found.ratio(form, contender, BARE, at)}{TIMES}" if contender != BARE else "" for at in (0, 1)]
        rows.append((f"{form}, {contender}", str(cold), str(warm), *ratios, str(peak)))
    bare = "the bare consumer's time"
    columns = ("contender", "cold s", "warm s", f"times {bare}, cold", f"times {bare}, warm", "peak MB")
    return Table(columns, tuple(rows))


def _latency_table(found: Measured) -> Table:
    shares = (0.5, 0.99, 1.0)
    row = ("produced until its row is visible", *(number(percentile(found.latencies, share)) for share in shares))
    return Table(("a message", "p50 s", "p99 s", "longest s"), (row,))
