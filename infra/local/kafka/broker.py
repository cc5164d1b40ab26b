"""One broker: a JVM below a guard, and its folder."""

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from blizzard.environment import variables
from infra.local.kafka.errors import KafkaFailed
from infra.local.kafka.guard import KILL
from infra.local.kafka.java import kafka_java
from infra.local.processes.checkout import CHECKOUT

STOP_SECS = 60.0
LAST_LINES = 25
FORMAT_HEAP_MB = 128


class Broker:
    """`folder` has its settings, data and log, and is made. `plugins`: jars with classes that the settings name."""

    def __init__(self, node: int, folder: Path, heap_mb: int, plugins: Sequence[Path] = ()) -> None:
        self.node = node
        self.folder = folder
        self.log = folder / "broker.log"
        self._heap_mb = heap_mb
        self._plugins = plugins
        self._process: subprocess.Popen[bytes] | None = None
        folder.mkdir(parents=True)

    @property
    def data(self) -> Path:
        return self.folder / "data"

    @property
    def settings(self) -> Path:
        return self.folder / "server.properties"

    @property
    def is_wanted(self) -> bool:
        """Started, and neither stopped nor killed since."""
        return self._process is not None

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def format(self, cluster_id: str, options: Sequence[str]) -> None:
        """Prepares the data folder. Raises KafkaFailed."""
        command = kafka_java().command("kafka.tools.StorageTool", FORMAT_HEAP_MB)
        command += ["format", "--cluster-id", cluster_id, "--config", str(self.settings), *options]
        with self.log.open("ab") as log:
            done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, check=False)
        if done.returncode:
            raise self.failure(f"could not be formatted (exit status {done.returncode})")

    def start(self, *, archiving: bool = False) -> None:
        """Returns at once: whether the broker answers is for its clients to see. `archiving`: write the archive of
        classes when it is stopped. Raises KafkaFailed if it runs."""
        if self.is_running:
            raise self.failure("runs already: stop or kill it before it is started again")
        guard = [sys.executable, "-m", "infra.local.kafka.guard", str(os.getpid())]
        java = kafka_java().command("kafka.Kafka", self._heap_mb, archiving=archiving, plugins=self._plugins)
        command = [*guard, *java, str(self.settings)]
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                command, cwd=CHECKOUT, env=_environ(), stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                start_new_session=True,
            )  # fmt: skip

    def stop(self) -> None:
        """As an operator does: the broker hands over its partitions and closes its files. Raises KafkaFailed if that
        takes longer than STOP_SECS; it is killed then."""
        if self._process is None:
            return
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(STOP_SECS)
        except subprocess.TimeoutExpired:
            self.kill()
            raise self.failure(f"did not stop within {STOP_SECS:g} s, and was killed") from None
        self._process = None

    def kill(self) -> None:
        if self._process is not None:
            self._process.send_signal(KILL)
            self._process.wait()
            self._process = None

    def failure(self, what: str) -> KafkaFailed:
        """The error to raise, with the end of the log."""
        lines = self.log.read_text(errors="replace").splitlines()[-LAST_LINES:] if self.log.exists() else []
        end = "\n".join(lines)
        return KafkaFailed(f"Kafka broker {self.node} {what}. The end of its log, {self.log}:\n{end}")


def _environ() -> dict[str, str]:
    """Without options for other JVMs of this machine."""
    return {name: value for name, value in variables().items() if name not in ("JAVA_TOOL_OPTIONS", "KAFKA_OPTS")}
