"""The real job over bad storage: Delta's log and its data through S3A, everything else through boto3 and obstore."""

import gzip
import json
import random
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from blizzard.environment import variables
from blizzard.state.dead_letters import DeadLetters
from blizzard.storage.s3 import S3Settings, S3Store
from infra.local.demo.reconcile import Reconciliation, read_source, reconcile
from infra.local.processes.checkout import CHECKOUT
from tests.proof import large_file, places
from tests.proof.bad_storage.daemon import SHIPPED, TIME_OUT_SECS
from tests.proof.bad_storage.proxy import BadStorage, Plan
from tests.proof.bad_storage.variants import OF_REAL_JOB
from tests.proof.bad_storage.world import FOLDERS, LAKE, LANDING
from tests.spark.lake import JARS, SHORT_JOB, conf_options

FILES_AT_ONCE = 6
LARGE = 0.05
"""Share of the files that are larger than a batch."""
CONF = {
    "spark.driver.memory": "1g",
    **SHORT_JOB,
    "spark.master": "local[2]",
    "spark.sql.shuffle.partitions": "2",
    "spark.log.level": "OFF",
}
IMPATIENT = {
    "spark.hadoop.fs.s3a.connection.timeout": f"{TIME_OUT_SECS}s",
    "spark.hadoop.fs.s3a.attempts.maximum": "3",
    "spark.hadoop.fs.s3a.retry.limit": "4",
    "spark.hadoop.fs.s3a.retry.interval": "10ms",
    "spark.hadoop.fs.s3a.retry.throttle.limit": "4",
    "spark.hadoop.fs.s3a.retry.throttle.interval": "10ms",
}
SETTINGS = {
    "schema": "id STRING NOT NULL, n BIGINT",
    "settle_delay_secs": 0,
    "checkpoint": {"interval_files": 4, "interval_bytes": "100KB"},
}
IMPATIENT_SETTINGS = {"retries": {"max_attempts": 4, "max_backoff_secs": 0.05}}


@dataclass(frozen=True, slots=True)
class Ended:
    """The result of one run of the job: its exit status and its log events."""

    code: int
    events: Sequence[Mapping[str, Any]]

    @property
    def failures(self) -> list[Mapping[str, Any]]:
        return [
            event for event in self.events if event["event"] in ("source_failed", "spark_lost", "job_failed", "died")
        ]

    @property
    def unclear(self) -> str:
        """A complaint about the result; empty: none."""
        odd = [event for event in self.failures if event["event"] != "source_failed"]
        if odd:
            return f"the job ended with an error that is none of its own: {odd}"
        if bool(self.code) != bool(self.failures):
            return f"exit status {self.code}, and in the log {self.failures or 'no failure'}"
        return ""


class SparkJobs:
    """Processes that run the job repeatedly over the proxy; one for each set of timeouts, which a JVM cannot change."""

    def __init__(self, folder: Path, proxy: BadStorage, environment: Mapping[str, str], variant: str = "") -> None:
        """`variant`: what is broken on purpose in the job."""
        self._proxy = proxy
        self._files = 0
        self._calm = S3Settings(environment["AWS_ENDPOINT_URL"], "us-east-1")
        self._environment = environment
        self._broken = [variant] if variant in OF_REAL_JOB else []
        self._folder = folder
        self._tables = 0
        self.begin_anew()
        self._log = (folder / "job.log").open("a")
        self._processes: dict[str, subprocess.Popen[str]] = {}

    def begin_anew(self) -> None:
        """Continues with a new source and a new table in the same processes."""
        self._tables += 1
        self._name = f"real-{self._tables}"
        self._landing = S3Store(LANDING, f"{self._name}/", self._calm)
        for words, more in (("impatient", IMPATIENT_SETTINGS), (SHIPPED, {})):
            source = {"uri": f"s3://{LANDING}/{self._name}/", **SETTINGS, **more}
            pipeline = {"table_uri": f"s3://{LAKE}/{self._name}", "sources": {"landing": source}}
            self._config(words).write_text(json.dumps({"pipelines": {"events": pipeline}}))

    def _config(self, patience: str) -> Path:
        return self._folder / f"{patience}.yaml"

    def _daemon(self, patience: str) -> "subprocess.Popen[str]":
        if patience not in self._processes:
            self._processes[patience] = subprocess.Popen(
                [sys.executable, "-m", "tests.proof.bad_storage.daemon", patience, *self._broken],
                cwd=CHECKOUT,
                env={**variables(), **self._environment, "AWS_ENDPOINT_URL": self._proxy.endpoint},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._log,
                text=True,
            )
        return self._processes[patience]

    def close(self) -> None:
        for process in self._processes.values():
            assert process.stdin is not None
            process.stdin.close()
        for process in self._processes.values():
            process.wait(60)
        self._log.close()

    def arrive(self, rng: random.Random, *, fewest: int = 1) -> None:
        """Files for one or two batches, or at least `fewest`."""
        for _ in range(rng.randint(fewest, fewest + FILES_AT_ONCE - 1)):
            self._files += 1
            rows, id_bytes = (
                (large_file.RECORDS, large_file.ID_BYTES) if rng.random() < LARGE else (rng.randint(0, 50), 0)
            )
            records = ({"id": f"{self._files}-{row}{rng.randbytes(id_bytes).hex()}", "n": row} for row in range(rows))
            body = "".join(json.dumps(record) + "\n" for record in records)
            path = f"{rng.choice(FOLDERS)}{rng.randrange(16**6):06x}-{self._files}.ndjson.gz"
            self._landing.put(path, gzip.compress(body.encode()))

    def run(self, plan: Plan, *, shipped: bool = False, engine: str) -> Ended:
        """One run of the job while the proxy follows the plan. `shipped`: with the settings of production."""
        patience = SHIPPED if shipped else "impatient"
        process = self._daemon(patience)
        assert process.stdin is not None
        assert process.stdout is not None
        self._proxy.plan = plan
        conf = CONF if shipped else {**CONF, **IMPATIENT}
        words = ["--config", str(self._config(patience)), "--jars", str(JARS), "--sweep", "--once"]
        words += ["--engine", engine, *conf_options(conf)]
        print(json.dumps(words), file=process.stdin, flush=True)
        events: list[Mapping[str, Any]] = []
        for line in process.stdout:
            self._log.write(line)
            if line.startswith("{"):
                events.append(json.loads(line))
                if events[-1]["event"] == "exit":
                    return Ended(events[-1]["code"], events)
        return Ended(-1, [*events, {"event": "died", "error": f"exit status {process.wait()}"}])

    def parts(self) -> int:
        """The number of commits of the table that hold a part of a file."""
        return large_file.parts_in(places.log_of(self._lake()), self._lake())

    def _lake(self) -> S3Store:
        return S3Store(LAKE, f"{self._name}/", self._calm)

    def verdict(self) -> Reconciliation:
        lake = self._lake()
        letters = [*DeadLetters(lake, "_blizzard/events_landing", "events:landing").letters()]
        objects = ((info.key, self._landing.get(info.key)) for info in self._landing.list())
        options = {**self._environment, "AWS_ALLOW_HTTP": "true"}
        return reconcile(read_source(objects, "id"), f"s3://{LAKE}/{self._name}", options, letters, ["id", "n"])


@contextmanager
def spark_jobs(
    folder: Path, proxy: BadStorage, environment: Mapping[str, str], variant: str = ""
) -> Iterator[SparkJobs]:
    jobs = SparkJobs(folder, proxy, environment, variant)
    try:
        yield jobs
    finally:
        jobs.close()
