"""The processes of a standalone cluster."""

import json
import os
import re
import shutil
import signal
import subprocess
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from infra.local.jobs.request import LOCAL_JVM

MASTER, WORKER = "org.apache.spark.deploy.master.Master", "org.apache.spark.deploy.worker.Worker"
EXECUTOR = "org.apache.spark.executor.CoarseGrainedExecutorBackend"
WORKER_TIMEOUT_SECS = 10
"""After which the master gives up a worker that went away without closing its connection."""
HEAP = "-Xmx256m"
EXECUTOR_MB = 512
PATIENCE_SECS = 120.0
FREE_PORTS = ("--port", "0", "--webui-port", "0")
_LISTENS = re.compile(r"(?:Starting Spark master at|and started at) (\S+)")


def until(condition: Callable[[], Any], what: str, secs: float = PATIENCE_SECS) -> Any:
    """The first true result. Raises AssertionError."""
    deadline = time.monotonic() + secs
    while not (found := condition()):
        if time.monotonic() > deadline:
            raise AssertionError(f"{what}: not within {secs:g} s")
        time.sleep(0.02)
    return found


def session_members(session: int) -> Iterator[int]:
    """The processes of a session that run, those of other process groups included."""
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            pid, _, rest = stat.read_text().partition(" (")
            state, _, _, leads = rest.rpartition(") ")[2].split()[:4]
            if int(leads) == session and state != "Z":
                yield int(pid)


def command_of(pid: int) -> str:
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")
    return ""


def _java(environment: Mapping[str, str]) -> str:
    found = environment.get("JAVA_HOME")
    return f"{found}/bin/java" if found else shutil.which("java") or "java"


@dataclass
class Daemon:
    """A process of Spark's, which leads a session. `folder` is its working directory, where its log is."""

    arguments: Sequence[str]
    folder: Path
    environment: Mapping[str, str]
    process: subprocess.Popen[bytes] = field(init=False)

    def start(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        home = self.environment["SPARK_HOME"]
        java = (
            str(Path(self.environment.get("JAVA_HOME", ""), "bin", "java")) if "JAVA_HOME" in self.environment else ""
        )
        command = [java or shutil.which("java") or "java", HEAP, *LOCAL_JVM.split(), *self._timeout()]
        with (self.folder / "log").open("wb") as log:
            self.process = subprocess.Popen(
                [*command, "-cp", f"{home}/jars/*", *self.arguments],
                cwd=self.folder,
                env={**self.environment},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    @staticmethod
    def _timeout() -> list[str]:
        return [f"-Dspark.worker.timeout={WORKER_TIMEOUT_SECS}", "-Dspark.worker.cleanup.enabled=false"]

    def addresses(self, count: int) -> list[str]:
        """What the log says of where it listens."""

        def found() -> list[str]:
            if self.process.poll() is not None:
                raise AssertionError(f"{self.arguments[0]} ended with {self.process.returncode}: {self.log()[-2000:]}")
            seen = _LISTENS.findall(self.log())
            return seen if len(seen) >= count else []

        listens: list[str] = until(found, f"{self.arguments[0]} listens")
        return listens

    def log(self) -> str:
        return (self.folder / "log").read_text(errors="replace")

    def executors(self) -> list[int]:
        return [pid for pid in session_members(self.process.pid) if EXECUTOR in command_of(pid)]

    def kill(self) -> None:
        """The whole machine, as when it loses its power."""
        while alive := [*session_members(self.process.pid)]:
            for pid in alive:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            self.process.poll()
            time.sleep(0.01)
        self.process.wait()


@dataclass
class Cluster:
    """`url` is the master's; `page` the address of its web page."""

    master: Daemon
    workers: list[Daemon]
    url: str
    page: str

    def state(self) -> dict[str, Any]:
        # No proxy: one that the environment sets for the internet does not reach local ports.
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(
            f"{self.page}/json/", timeout=10
        ) as page:
            state: dict[str, Any] = json.load(page)
        return state

    def alive(self) -> int:
        """Workers that the master knows."""
        return sum(worker["state"] == "ALIVE" for worker in self.state()["workers"])

    def executors(self) -> list[int]:
        """Their processes."""
        return [pid for worker in self.workers for pid in worker.executors()]

    def restart(self, worker: Daemon) -> None:
        """A worker that was killed comes back, with what is on its disk."""
        worker.start()
        until(lambda: self.alive() == len(self.workers), "the worker is back")


def _daemon(command: Sequence[str], host: str, folder: Path, environment: Mapping[str, str]) -> Daemon:
    name, *arguments = command
    return Daemon([name, "--host", host, *FREE_PORTS, *arguments], folder, {**environment, "SPARK_LOCAL_IP": host})


@contextmanager
def standalone_cluster(
    folder: Path, environment: Mapping[str, str], *, workers: int = 2, executor_mb: int = EXECUTOR_MB
) -> Iterator[Cluster]:
    """Workers have one core each. All processes are gone at the end of the block."""
    master = _daemon([MASTER], "127.0.0.1", folder / "master", environment)
    master.start()
    started = [master]
    try:
        url, page = master.addresses(2)[:2]
        for number in range(workers):
            size = ("--cores", "1", "--memory", f"{executor_mb}m", "--work-dir", "work")
            # Hosts of their own: a copy of a task runs only on another host.
            host, place = f"127.0.0.{number + 2}", folder / f"worker-{number}"
            started.append(_daemon([WORKER, *size, url], host, place, environment))
            started[-1].start()
        cluster = Cluster(master, started[1:], url, page)
        until(lambda: cluster.alive() == workers, "the workers are there")
        yield cluster
    finally:
        for daemon in reversed(started):
            daemon.kill()
