"""The job on a cluster: its driver in a process of its own, its files and its table on S3."""

import gzip
import json
import random
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from blizzard.environment import temporary_variables, variables
from infra.local.demo.reconcile import Reconciliation
from infra.local.processes.checkout import CHECKOUT
from infra.local.processes.child_process import ChildProcess
from infra.package.cluster import HERE
from tests.cluster.standalone import EXECUTOR_MB, Cluster
from tests.proof import places
from tests.proof.places import S3Place
from tests.spark.lake import SHORT_LIFE, SMALL_QUERIES, conf_options

FOLDER, SOURCE = "landing", "events:landing"
BLIZZARD = CHECKOUT / ".venv" / "bin" / "blizzard"
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

    def land(self, files: int, records: int, seed: str = "") -> None:
        """Gzipped NDJSON files with new ids."""
        rng = random.Random(f"{seed}/{self.landed}")
        for _ in range(files):
            name = f"part-{self.landed:06d}"
            lines = [{"id": f"{name}-{row}", "n": rng.randrange(1 << 40)} for row in range(records)]
            body = gzip.compress("".join(json.dumps(line) + "\n" for line in lines).encode(), 1)
            self.place.put(FOLDER, f"{name}.ndjson.gz", body)
            self.landed += 1

    def arguments(self, **more: str) -> list[str]:
        """Of the job."""
        self.folder.mkdir(exist_ok=True)
        words = places.write_config(self.place, self.folder / "pipelines.yaml", {FOLDER: self.settings})
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
    def process(self, module: str = "spark_job", words: Sequence[str] = ()) -> Iterator[ChildProcess]:
        with ChildProcess([module, *words, *self.arguments()], self.environment, self.folder / "job.log") as part:
            yield part

    def verdict(self) -> Reconciliation:
        with temporary_variables(self.place.environment):
            source = places.source_of(self.place, FOLDER)
            return places.verdict(self.place, source, places.letters(self.place, SOURCE))
