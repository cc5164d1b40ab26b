"""A JVM with Spark for many Python drivers, one after the other or at once: a new one costs seconds, a driver none."""

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Self

import pyspark
from pyspark.serializers import UTF8Deserializer, read_int

from blizzard.environment import variables
from infra.local.processes.checkout import CHECKOUT
from tests.spark.lake import session_settings

START_TIMEOUT_SECS = 300.0
TRAP = "BLIZZARD_PROOF_TRAP"
"""Names the file that asks whoever writes a data file to kill somebody in the midst of it."""
DAEMON = {"spark.python.daemon.module": "tests.proof.kill.daemon"}
"""What lets the workers of a JVM fall into it."""


GONE_WITHIN_SECS = 10.0


def is_gone(group: int, within_secs: float = GONE_WITHIN_SECS) -> bool:
    """Whether nobody of this process group lives any more; somebody who was killed needs a moment for it."""
    until_ts = time.monotonic() + within_secs
    while any(_living(group)):
        if time.monotonic() > until_ts:
            return False
        time.sleep(0.02)
    return True


def _living(group: int) -> Iterator[bool]:
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            state, _, its_group = stat.read_text().rpartition(") ")[2].split()[:3]
            if int(its_group) == group:
                yield state not in "ZX"


def _settings(folder: Path, s3_endpoint: str | None) -> dict[str, str]:
    """Of a session whose workers fall into traps."""
    return {**session_settings(folder / "warehouse", s3_endpoint=s3_endpoint), "spark.app.name": "blizzard", **DAEMON}


class Jvm:
    """Leads a process group of its own; whoever joins it dies with it. As a context manager it never outlives its
    block."""

    def __init__(
        self,
        folder: Path,
        *,
        environment: Mapping[str, str] | None = None,
        s3_endpoint: str | None = None,
        more: Mapping[str, str] | None = None,
        trap: Path | None = None,
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._log = (folder / "jvm.log").open("a")
        self.trap = trap or folder / "trap"
        with tempfile.TemporaryDirectory() as place:
            told = Path(place) / "connection"
            self._process = subprocess.Popen(
                self._words({**_settings(folder, s3_endpoint), **(more or {})}),
                cwd=folder,
                env={
                    **variables(),
                    **(environment or {}),
                    "PYTHONPATH": str(CHECKOUT),
                    "PYSPARK_PYTHON": sys.executable,
                    "SPARK_CONNECT_MODE": "0",
                    "_PYSPARK_DRIVER_CONN_INFO_PATH": str(told),
                    TRAP: str(self.trap),
                },
                stdin=subprocess.PIPE,
                stdout=self._log,
                stderr=self._log,
                process_group=0,
            )
            self._environment = self._connection(told)

    def _words(self, conf: Mapping[str, str]) -> list[str]:
        submit = Path(pyspark.__file__).parent / "bin" / "spark-submit"
        options = [word for key, value in conf.items() for word in ("--conf", f"{key}={value}")]
        return [str(submit), *options, "pyspark-shell"]

    def _connection(self, told: Path) -> dict[str, str]:
        """What a driver's environment needs."""
        deadline = time.monotonic() + START_TIMEOUT_SECS
        while not told.is_file():
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"no JVM: {Path(self._log.name).read_text()[-2000:]}")
            time.sleep(0.05)
        with told.open("rb") as info:
            port, secret = read_int(info), UTF8Deserializer().loads(info)
        return {"PYSPARK_GATEWAY_PORT": str(port), "PYSPARK_GATEWAY_SECRET": secret}

    @property
    def environment(self) -> dict[str, str]:
        return {**self._environment, TRAP: str(self.trap), "PYSPARK_PYTHON": sys.executable}

    @property
    def group(self) -> int:
        return self._process.pid

    def kill(self) -> None:
        """The whole group."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._log.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
