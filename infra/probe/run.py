"""Starts one run that probes instead of ingesting, and waits for its end."""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from blizzard.config.spark_settings import Workers
from functions.dispatcher.job_request import JobSettings, job_run_request
from infra.deployed.calls import Clients, translating

ENDED = frozenset({"SUCCESS", "FAILED", "CANCELLED"})
TIMEOUT_MINUTES = 10
CORES, MEMORY = 1, "2G"
"""The smallest driver and executor on which Spark starts; with what EMR adds, workers of 1 vCPU and 3 GB."""
POLL_SECS = 3.0


@dataclass(frozen=True, slots=True)
class ProbeRun:
    """`secs`: from the request to its end, or to the end of patience. `billed`: None until the service says it."""

    id: str
    state: str
    details: str
    secs: float
    billed: dict[str, float] | None

    @property
    def has_ended(self) -> bool:
        return self.state in ENDED


def probe_request(settings: JobSettings, *, stack: str, probe_id: str) -> dict[str, Any]:
    """As the dispatcher's, except for size and arguments. The name is none of a pipeline's run."""
    disk = settings.workers.executor_disk
    workers = Workers(CORES, MEMORY, CORES, MEMORY, executor_disk=disk, max_executors=1)
    return job_run_request(
        replace(settings, workers=workers, timeout_minutes=TIMEOUT_MINUTES),
        name=f"probe-of-{stack}",
        arguments=["--probe", probe_id, "--config", settings.config_uri],
        log_prefix=log_prefix(probe_id),
        client_token=probe_id,
    )


def log_prefix(probe_id: str) -> str:
    """Of the names of the log streams; no other run has it."""
    return f"probe-{probe_id}"


def start_run(clients: Clients, request: dict[str, Any]) -> str:
    application, role = request["applicationId"], request["executionRoleArn"]
    with translating("emr-serverless:StartJobRun (and iam:PassRole)", f"the application {application} ({role})"):
        return str(clients.client("emr-serverless").start_job_run(**request)["jobRunId"])


def wait_for_end(
    clients: Clients, application_id: str, run_id: str, *, max_secs: float, on_state: Callable[[str, float], None]
) -> ProbeRun:
    """`on_state` is called with each state that is seen, and the seconds since the start. After `max_secs` the run is
    returned as it is then."""
    started, emr = time.monotonic(), clients.client("emr-serverless")
    while True:
        with translating("emr-serverless:GetJobRun", f"the run {run_id} of the application {application_id}"):
            found = emr.get_job_run(applicationId=application_id, jobRunId=run_id)["jobRun"]
        run = _probe_run(run_id, found, time.monotonic() - started)
        on_state(run.state, run.secs)
        if run.has_ended or run.secs >= max_secs:
            return run
        time.sleep(min(POLL_SECS, max(0.0, max_secs - run.secs)))


def _probe_run(run_id: str, found: dict[str, Any], secs: float) -> ProbeRun:
    billed = found.get("billedResourceUtilization")
    return ProbeRun(run_id, found["state"], found.get("stateDetails") or "", round(secs, 1), billed and dict(billed))
