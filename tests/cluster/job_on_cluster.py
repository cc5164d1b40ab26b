"""The job on a cluster: its driver in a process of its own, its files and its table on S3."""

import gzip
import json
import queue
import random
import subprocess
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.standalone_cluster.processes import EXECUTOR_MB, PATIENCE_SECS, Cluster, until
from blizzard.environment import temporary_variables, variables
from infra.local.demo.reconcile import Reconciliation
from infra.local.processes.checkout import CHECKOUT
from infra.local.processes.child_process import ChildProcess
from infra.local.processes.server_process import LocalAws
from infra.package.cluster import HERE
from tests.cluster.gate import Hold
from tests.proof import places
from tests.proof.places import S3Place
from tests.spark.lake import SHORT_LIFE, SMALL_QUERIES, conf_options

FOLDER, SOURCE = "landing", "events:landing"
BLIZZARD = CHECKOUT / ".venv" / "bin" / "blizzard"
NOTHING: Mapping[str, str] = {}
DRIVER = "tests.cluster.driver"
JAVA = f"-Duser.timezone=UTC {SHORT_LIFE}"


def cluster_conf(deps: str) -> dict[str, str]:
    """Settings that docs/clusters.md tells users to give, and smaller ones than theirs. `deps`: where executors find
    the job's archive, unpacked."""
    return {
        "spark.executorEnv.PYTHONPATH": deps,
        "spark.executor.cores": "1",
        "spark.executor.memory": f"{EXECUTOR_MB}m",
        "spark.driver.memory": "1g",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.driver.extraJavaOptions": JAVA,
        "spark.executor.extraJavaOptions": JAVA,
        **SMALL_QUERIES,
    }


@dataclass
class ClusterLake:
    """One table with one source on S3. `endpoint`: what driver and executors use instead of the server itself."""

    place: S3Place
    folder: Path
    cluster: Cluster
    conf: Mapping[str, str]
    endpoint: str = ""
    settings: Mapping[str, Any] = field(default_factory=dict)
    landed: int = 0

    @property
    def environment(self) -> dict[str, str]:
        """Of the driver. It says nothing of the executors' Python, which is not where this one is."""
        own = {"AWS_ENDPOINT_URL": self.endpoint} if self.endpoint else {}
        return {**self.place.environment, **own, "PYSPARK_PYTHON": f"python{HERE}"}

    def land(self, files: int, records: int, seed: str = "", *, announced: bool = False) -> None:
        """Gzipped NDJSON files with new ids; `announced` by events, as the collector writes them."""
        first = self.landed
        rng = random.Random(f"{seed}/{self.landed}")
        for _ in range(files):
            name = f"part-{self.landed:06d}"
            lines = [{"id": f"{name}-{row}", "n": rng.randrange(1 << 40)} for row in range(records)]
            body = gzip.compress("".join(json.dumps(line) + "\n" for line in lines).encode(), 1)
            self.place.put(FOLDER, f"{name}.ndjson.gz", body)
            self.landed += 1
        if announced:
            with temporary_variables(self.place.environment):
                names = [f"part-{number:06d}.ndjson.gz" for number in range(first, self.landed)]
                places.announce(self.place, SOURCE, FOLDER, names)

    def arguments(self, more: Mapping[str, str] = NOTHING) -> list[str]:
        """Of the job. `more`: settings for Spark."""
        self.folder.mkdir(exist_ok=True)
        words = places.write_config(self.place, self.folder / "pipelines.yaml", {FOLDER: self.settings})[:2]
        return [
            *words,
            "--jars",
            str(CHECKOUT / "jars"),
            "--master",
            self.cluster.url,
            *conf_options({**self.conf, **more}),
        ]

    def blizzard_run(self, *words: str, conf: Mapping[str, str] | None = None) -> "subprocess.CompletedProcess[str]":
        """What a user calls, with the arguments of a user."""
        self.arguments()
        command = [str(BLIZZARD), "run", str(self.folder / "pipelines.yaml"), "--once", *words]
        command += conf_options(self.conf if conf is None else conf)
        return subprocess.run(
            command, env={**variables(), **self.environment}, capture_output=True, text=True, check=False, timeout=300
        )

    @contextmanager
    def running(
        self, *words: str, conf: Mapping[str, str], driver: Sequence[str] = (DRIVER,)
    ) -> Iterator["RunningJob"]:
        """The driver in a process of its own, until the end of the block. `driver`: its module, and what that takes
        before the arguments of the job."""
        command = [*driver, *self.arguments(conf), *words]
        with ChildProcess(command, self.environment, self.folder / "job.log") as part:
            yield RunningJob(part, self)

    def verdict(self) -> Reconciliation:
        with temporary_variables(self.place.environment):
            source = places.source_of(self.place, FOLDER)
            return places.verdict(self.place, source, places.letters(self.place, SOURCE))

    def check_all_rows_are_there_once(self) -> None:
        """Raises AssertionError."""
        verdict = self.verdict()
        if not verdict.good or verdict.files != self.landed:
            raise AssertionError("\n".join([f"expected the records of {self.landed} files once", *verdict.lines()]))


def cluster_lake(folder: Path, aws: LocalAws, cluster: Cluster, deps: str, endpoint: str) -> ClusterLake:
    """In a bucket of its own, for a job that commits often."""
    place = S3Place.made(aws, f"cluster-{uuid.uuid4().hex}")
    settings = {"checkpoint": {"interval_secs": 1}, "sweep": {"interval_secs": 60}}
    return ClusterLake(place, folder / "driver", cluster, cluster_conf(deps), endpoint, settings)


@dataclass
class RunningJob:
    """`committed`: the files of all batches that it says to have committed."""

    part: ChildProcess
    lake: ClusterLake
    committed: int = 0

    def commits_all(self, secs: float = PATIENCE_SECS) -> None:
        """Waits until all files that have landed are committed. Raises AssertionError."""
        deadline = time.monotonic() + secs
        while self.committed < self.lake.landed:
            if time.monotonic() > deadline:
                raise AssertionError(f"{self.committed} of {self.lake.landed} files committed; {self.last_lines()}")
            self._listen()

    def _listen(self) -> None:
        try:
            event = self.part.events.get(timeout=0.5)
        except queue.Empty:
            if self.part.exit_status is not None and self.part.events.empty():
                raise AssertionError(f"the job ended with {self.part.exit_status}; {self.last_lines()}") from None
            return
        if event["event"] == "batch_committed":
            self.committed += event["files"]

    def reaches(self, hold: Hold) -> None:
        """Waits for the request that is to be held. Raises AssertionError."""
        until(lambda: hold.reached.is_set() or self.part.exit_status is not None, "a request to hold")
        if not hold.reached.is_set():
            raise AssertionError(f"the job ended with {self.part.exit_status}; {self.last_lines()}")

    def ends(self) -> int | None:
        """Its exit code, once it has ended by itself."""
        until(lambda: self.part.exit_status is not None, "the job ends")
        return self.part.exit_status

    def last_lines(self) -> str:
        return (self.lake.folder / "job.log").read_text(errors="replace")[-3000:]
