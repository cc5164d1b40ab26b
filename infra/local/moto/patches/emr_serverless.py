"""EMR Serverless: unpatched, each run succeeds at once, `emr-spark-…` labels are unknown, client tokens are ignored."""

import json
import re
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from functools import wraps
from typing import Any, cast

from moto.emrserverless import models
from moto.emrserverless.exceptions import ResourceNotFoundException, ValidationException
from moto.emrserverless.models import Application, EMRServerlessBackend, JobRun
from moto.emrserverless.responses import EMRServerlessResponse

from infra.local.moto.patches.patching import replace, wrap
from infra.local.moto.work_queue import WORK_QUEUE

LABEL = re.compile(r"emr-(spark-)?\d+\.\d+\.\d+(-\d{8})?")
TERMINAL = frozenset({"SUCCESS", "FAILED", "CANCELLED"})
WAITING = frozenset({"SUBMITTED", "QUEUED"})
STORED_HERE = {
    "architecture": "architecture",
    "schedulerConfiguration": "scheduler_configuration",
    "monitoringConfiguration": "monitoring_configuration",
    "runtimeConfiguration": "runtime_configuration",
    "releaseLabel": "release_label",
}
"""Parameters that moto's model has no field for, with the attribute that stores them."""
DEFAULT_MAX_CONCURRENT_RUNS = 15
Call = Callable[..., Any]

_lock = threading.RLock()
_events = {"deliver": True}


def run_jobs() -> None:
    wrap(EMRServerlessBackend, "create_application", _accept_spark_labels)
    for name in ("create_application", "update_application"):
        wrap(EMRServerlessResponse, name, _store_dropped_settings)
    wrap(EMRServerlessBackend, "update_application", _with_update_time)
    wrap(EMRServerlessBackend, "stop_application", _only_when_idle)
    wrap(EMRServerlessBackend, "start_job_run", _once_per_client_token)
    wrap(EMRServerlessBackend, "list_job_runs", _newest_first)
    replace(EMRServerlessBackend, "cancel_job_run", _cancel)


def deliver_events(deliver: bool) -> None:
    """False: state changes send no event to EventBridge, as happens on AWS, where delivery is best effort."""
    _events["deliver"] = deliver


def set_state(account_id: str, region: str, application_id: str, run_id: str, state: str, details: str) -> None:
    """Report the state of a run. A run in a terminal state does not change any more."""
    backend: EMRServerlessBackend = models.emrserverless_backends[account_id][region]
    with _lock:
        run = backend.get_job_run(application_id, run_id)
        if run.state not in TERMINAL and not (run.state == "CANCELLING" and state not in TERMINAL):
            _change(backend, run, state, details)
            _admit(backend, application_id)


def _accept_spark_labels(original: Call) -> Call:
    @wraps(original)
    def create_application(backend: EMRServerlessBackend, **settings: Any) -> Application:
        label, engine = settings["release_label"], settings["application_type"].upper()
        if not LABEL.fullmatch(label):
            raise ValidationException(
                f"Type '{engine}' is not supported for release label '{label}' or release label does not exist"
            )
        application: Application = original(
            backend, **(settings | {"application_type": engine, "release_label": "emr-7.0.0"})
        )
        application.release_label = label
        application.state = "CREATED"
        application.created_at = application.updated_at = _now()
        return application

    return create_application


def _store_dropped_settings(original: Call) -> Call:
    @wraps(original)
    def store(response: EMRServerlessResponse) -> Any:
        result = original(response)
        found = result._result
        name = found["applicationId"] if "applicationId" in found else found["application"].id
        application = response.emrserverless_backend.get_application(name)
        for parameter, attribute in STORED_HERE.items():
            value = response._get_param(parameter)
            if value is not None:
                setattr(application, attribute, value)
        return result

    return store


def _only_when_idle(original: Call) -> Call:
    """The service refuses to stop an application with active runs. Its stop after idle time is not simulated."""

    @wraps(original)
    def stop(backend: EMRServerlessBackend, application_id: str, **settings: Any) -> Any:
        with _lock:
            application = backend.get_application(application_id)
            active = [run.id for run in backend.job_runs.get(application_id, []) if run.state not in TERMINAL]
            if active:
                raise ValidationException(
                    f"Application {application_id} has active job runs: {', '.join(active)}. "
                    f"Current status: {application.state}"
                )
            return original(backend, application_id=application_id, **settings)

    return stop


def _with_update_time(original: Call) -> Call:
    """Unpatched, moto dates a change at midnight. It refuses to change a started application, as the service does."""

    @wraps(original)
    def update_application(backend: EMRServerlessBackend, *arguments: Any, **settings: Any) -> Application:
        with _lock:
            application: Application = original(backend, *arguments, **settings)
            application.updated_at = _now()
            return application

    return update_application


def _once_per_client_token(original: Call) -> Call:
    @wraps(original)
    def start_job_run(backend: EMRServerlessBackend, application_id: str, client_token: str, **request: Any) -> JobRun:
        with _lock:
            for run in backend.job_runs.get(application_id, []):
                if client_token and run.client_token == client_token:
                    return run
            _check(request)
            run = cast(JobRun, original(backend, application_id=application_id, client_token=client_token, **request))
            run.created_by = f"arn:aws:sts::{backend.account_id}:assumed-role/local/local"
            run.created_at = run.updated_at = _now()
            run.state, run.state_details = "SUBMITTED", ""
            backend.applications[application_id].state = "STARTED"
            _announce(backend, run, "")
            _admit(backend, application_id)
            return run

    return start_job_run


def _check(request: dict[str, Any]) -> None:
    driver = (request["job_driver"] or {}).get("sparkSubmit")
    if driver is None:
        raise ValidationException("jobDriver must have sparkSubmit for an application of type SPARK")
    if not str(driver.get("entryPoint", "")).startswith("s3://"):
        raise ValidationException(f"entryPoint must be an s3:// URI, found {driver.get('entryPoint')!r}")


def _newest_first(original: Call) -> Call:
    """Unpatched, moto refuses to list before the first run, and sorts the oldest first."""

    @wraps(original)
    def list_job_runs(backend: EMRServerlessBackend, application_id: str, **filters: Any) -> list[JobRun]:
        backend.get_application(application_id)
        backend.job_runs.setdefault(application_id, [])
        with _lock:
            return list(reversed(original(backend, application_id=application_id, **filters)))

    return list_job_runs


def _cancel(backend: EMRServerlessBackend, application_id: str, job_run_id: str) -> tuple[str, str]:
    with _lock:
        if application_id not in backend.job_runs:
            raise ResourceNotFoundException(application_id, "Application")
        run = backend.get_job_run(application_id, job_run_id)
        if run.state in WAITING:
            _change(backend, run, "CANCELLED", "")
        elif run.state not in TERMINAL and run.state != "CANCELLING":
            _change(backend, run, "CANCELLING", "")
            WORK_QUEUE.put("cancel_run", application=application_id, run=run.id)
        return application_id, job_run_id


def _admit(backend: EMRServerlessBackend, application_id: str) -> None:
    """Start as many runs as the application's limit allows; the others stay queued in order of submission."""
    scheduler = getattr(backend.applications[application_id], "scheduler_configuration", None) or {}
    limit = int(scheduler.get("maxConcurrentRuns") or DEFAULT_MAX_CONCURRENT_RUNS)
    runs = backend.job_runs.get(application_id, [])
    active = sum(run.state not in TERMINAL | WAITING for run in runs)
    for run in [run for run in runs if run.state in WAITING]:
        if active < limit:
            active += 1
            _change(backend, run, "PENDING", "")
            WORK_QUEUE.put("start_run", application=application_id, run=run.id)
        elif run.state == "SUBMITTED":
            _change(backend, run, "QUEUED", "")


def _change(backend: EMRServerlessBackend, run: JobRun, state: str, details: str) -> None:
    before, run.state, run.updated_at = run.state, state, _now()
    run.state_details = details or run.state_details
    if state == "RUNNING":
        run.started_at = run.updated_at  # type: ignore[attr-defined]
    if state in TERMINAL:
        run.ended_at = run.updated_at  # type: ignore[attr-defined]
        run.total_execution_duration_seconds = int((run.updated_at - run.created_at).total_seconds())
    _announce(backend, run, before)


def _announce(backend: EMRServerlessBackend, run: JobRun, before: str) -> None:
    if not _events["deliver"]:
        return
    from moto.events.models import events_backends

    detail = {
        "jobRunId": run.id,
        "jobRunName": run.name or "",
        "applicationId": run.application_id,
        "arn": run.arn,
        "releaseLabel": run.release_label,
        "state": run.state,
        "previousState": before,
        "createdBy": run.created_by,
        "updatedAt": f"{run.updated_at:%Y-%m-%dT%H:%M:%S.%fZ}",
        "createdAt": f"{run.created_at:%Y-%m-%dT%H:%M:%S.%fZ}",
    }
    event = {
        "Source": "aws.emr-serverless",
        "DetailType": "EMR Serverless Job Run State Change",
        "Detail": json.dumps(detail),
    }
    events_backends[backend.account_id][backend.region_name].put_events([event])


def _now() -> datetime:
    return datetime.now(UTC).replace(tzinfo=None)
