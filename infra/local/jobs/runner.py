"""Simulates EMR Serverless for a run: fetches its artifacts, starts spark-submit, reports its state."""

import os
import subprocess
import sys
import tarfile
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from botocore.exceptions import BotoCoreError, ClientError  # type: ignore[import-untyped]

from blizzard.environment import variables
from blizzard.log import Log
from infra.local.jobs.emr_image import class_path, delta_jars, emr_image
from infra.local.jobs.request import JobRequest, local_conf, read_request
from infra.local.logs.shipping import LogShipping
from infra.local.processes.checkout import CHECKOUT
from infra.local.processes.server_process import LocalAws
from infra.local.processes.unpacked import unpacked
from infra.setup.class_archive import RUNS, ClassArchive

PRINCIPAL = "job"
SERVICE = "emr-serverless"
"""The principal of the service's own requests, which do not use the job's role."""
SUPERVISOR = Path(__file__).with_name("supervisor.py")
JARS = CHECKOUT / "jars"
DETAILS_LIMIT = 1000
Report = Callable[[str, str, str, str], None]
"""Called with application, run, state and details."""


@dataclass(slots=True)
class RunControl:
    """Lets a test change what happens to runs, at any time."""

    fail_next: int = 0
    """The number of coming runs that fail instead of starting Spark."""
    may_start: threading.Event = field(default_factory=threading.Event)
    """Runs wait for this event before they start. Initially set."""

    def __post_init__(self) -> None:
        self.may_start.set()


class JobRunner:
    """Runs the jobs of all applications, each in its own thread and process group."""

    def __init__(self, aws: LocalAws, folder: Path, shipping: LogShipping, report: Report, log: Log) -> None:
        self.control = RunControl()
        self._aws = aws
        self._folder = folder
        self._shipping = shipping
        self._report = report
        self._log = log
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._cancelled: set[str] = set()
        self._threads: list[threading.Thread] = []
        self._lock = threading.Lock()
        self._closing = False

    def start(self, application: str, run: str) -> None:
        thread = threading.Thread(target=self._run, args=(application, run), name=f"run-{run}", daemon=True)
        self._threads.append(thread)
        thread.start()

    def cancel(self, run: str) -> None:
        self._cancelled.add(run)
        self.control.may_start.set()
        self._signal(run, b"term\n")

    def kill(self, run: str) -> None:
        """SIGKILL to all its processes. The run fails, as when a machine is lost."""
        self._signal(run, b"kill\n")

    def active(self) -> list[str]:
        """The ids of runs that have processes."""
        return list(self._running)

    def close(self) -> None:
        self._closing = True
        self.control.may_start.set()
        for process in list(self._running.values()):
            if process.stdin is not None:
                process.stdin.close()
        for thread in self._threads:
            thread.join(15)

    def _signal(self, run: str, line: bytes) -> None:
        process = self._running.get(run)
        if process is not None and process.stdin is not None:
            process.stdin.write(line)
            process.stdin.flush()

    def _run(self, application: str, run: str) -> None:
        try:
            self._report(application, run, "SCHEDULED", "")
            self.control.may_start.wait()
            if self._closing:
                return
            if run in self._cancelled:
                self._report(application, run, "CANCELLED", "")
                return
            state, details = self._execute(application, run)
            self._report(application, run, state, details)
        except (BotoCoreError, ClientError, OSError, ValueError, KeyError, tarfile.TarError) as error:
            self._log("job_run_failed", run=run, error=repr(error))
            self._report(application, run, "FAILED", f"{type(error).__name__}: {error}"[:DETAILS_LIMIT])

    def _execute(self, application: str, run: str) -> tuple[str, str]:
        emr = self._aws.client("emr-serverless", SERVICE)
        description = emr.get_job_run(applicationId=application, jobRunId=run)["jobRun"]
        request = read_request(description)
        folder = self._folder / "runs" / run
        folder.mkdir(parents=True)
        command, variables = self._prepare(request, folder)
        if self._must_fail():
            command = [sys.executable, "-c", "raise SystemExit('Error: this run was made to fail')"]
        out, err = folder / "stdout.log", folder / "stderr.log"
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", str(SUPERVISOR), str(out), str(err), *command],
            cwd=folder,
            env=variables,
            stdin=subprocess.PIPE,
            start_new_session=True,
        )
        self._running[run] = process
        self._report(application, run, "RUNNING", "")
        tails = self._follow(request, application, run, {"stdout": out, "stderr": err}, process)
        status = self._wait(process, float(description.get("executionTimeoutMinutes", 720)) * 60)
        del self._running[run]
        for tail in tails:
            tail.join(10)
        return self._final_state(run, status, err, out)

    def _wait(self, process: subprocess.Popen[bytes], timeout_secs: float) -> int:
        try:
            return process.wait(timeout_secs)
        except subprocess.TimeoutExpired:
            if process.stdin is not None:
                process.stdin.close()
            process.wait()
            return 124

    def _final_state(self, run: str, status: int, err: Path, out: Path) -> tuple[str, str]:
        if run in self._cancelled:
            return "CANCELLED", ""
        if status == 0:
            return "SUCCESS", ""
        return "FAILED", f"Job failed with exit status {status}. {_last_error(err, out)}"[:DETAILS_LIMIT]

    def _must_fail(self) -> bool:
        with self._lock:
            if not self.control.fail_next:
                return False
            self.control.fail_next -= 1
            return True

    def _prepare(self, request: JobRequest, folder: Path) -> tuple[list[str], dict[str, str]]:
        entry = self._fetch(request.entry_point, folder)
        for uri, name in request.archives:
            (folder / name).symlink_to(unpacked(self._fetch(uri, folder).read_bytes()))
        jars = {uri: self._fetch(uri, folder) for uri in request.jars if uri.startswith("s3://")}
        image = self._image()
        conf = local_conf(
            request,
            image=image,
            class_path=class_path(JARS),
            delta_jars=delta_jars(JARS),
            downloaded=jars,
            java_options=ClassArchive(CHECKOUT, RUNS).java_options(),
        )
        command = [str(image / "spark" / "bin" / "spark-submit"), "--name", "blizzard"]
        for name, value in conf.items():
            command += ["--conf", f"{name}={value}"]
        return [*command, str(entry), *request.arguments], self._variables(request, image)

    def _variables(self, request: JobRequest, image: Path) -> dict[str, str]:
        kept = {name: value for name, value in variables().items() if name in ("PATH", "JAVA_HOME", "TMPDIR", "HOME")}
        requested = request.driver_variables
        path = ":".join(filter(None, [requested.pop("PYTHONPATH", ""), str(image / "packages")]))
        return {
            **kept,
            **self._aws.environment(PRINCIPAL),
            "PYSPARK_PYTHON": "python3",
            **requested,
            "LANG": "C.UTF-8",
            "PATH": f"{image / 'bin'}:{kept.get('PATH', os.defpath)}",
            "SPARK_HOME": str(image / "spark"),
            "PYTHONPATH": path,
        }

    def _image(self) -> Path:
        with self._lock:
            return emr_image(self._folder / "emr-image")

    def _fetch(self, uri: str, folder: Path) -> Path:
        bucket, _, key = uri.removeprefix("s3://").partition("/")
        path = folder / key.rpartition("/")[2]
        body = self._aws.client("s3", PRINCIPAL).get_object(Bucket=bucket, Key=key)["Body"].read()
        path.write_bytes(body)
        return path

    def _follow(
        self,
        request: JobRequest,
        application: str,
        run: str,
        files: Mapping[str, Path],
        process: subprocess.Popen[bytes],
    ) -> list[threading.Thread]:
        group = request.log_group
        if group is not None:
            self._aws.client("logs", PRINCIPAL).describe_log_groups(logGroupNamePrefix=group)
        tails = []
        for name, path in files.items():
            stream = f"{request.log_prefix}/applications/{application}/jobs/{run}/SPARK_DRIVER/{name}".lstrip("/")
            tail = threading.Thread(target=self._tail, args=(path, group, stream, process), daemon=True)
            tail.start()
            tails.append(tail)
        return tails

    def _tail(self, path: Path, group: str | None, stream: str, process: subprocess.Popen[bytes]) -> None:
        """Ship the lines of a growing file until its writer has ended and all lines are read."""
        path.touch()
        with path.open("rb") as file:
            rest = b""
            while True:
                ended = process.poll() is not None
                chunk = file.read()
                *lines, rest = (rest + chunk).split(b"\n")
                if ended and not chunk and rest:
                    lines, rest = [rest], b""
                for line in lines:
                    if group is not None:
                        self._shipping.add(PRINCIPAL, group, stream, line.decode("utf-8", "replace"))
                if ended and not chunk:
                    return
                if not chunk:
                    time.sleep(0.1)


def _last_error(*files: Path) -> str:
    """The last line that looks like an error, else the last line."""
    lines = [line for file in files for line in file.read_text(errors="replace").splitlines() if line.strip()]
    errors = [line for line in lines if "error" in line.lower() or "exception" in line.lower()]
    return (errors or lines or ["It printed nothing."])[-1].strip()
