"""EMR Serverless as the dispatcher's job service: three calls, and the types of their errors."""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol, TypeVar

from botocore.exceptions import (  # type: ignore[import-untyped]
    BotoCoreError,
    ClientError,
    NoCredentialsError,
    ParamValidationError,
)

from blizzard.dispatch.service import RunState, RunStatus, ServiceBusy, ServiceRefused, StartConflict, StartRefused
from blizzard.errors import BlizzardError
from blizzard.log import first_line
from functions.dispatcher.job_request import JobSettings, job_name, start_job_run

T = TypeVar("T")

ACTIVE = ("SUBMITTED", "QUEUED", "PENDING", "SCHEDULED", "RUNNING", "CANCELLING")
"""Including CANCELLING: such a run may still commit."""
SUCCEEDED = "SUCCESS"
PAGE_SIZE = 50
MAX_PAGES = 100
MAX_MESSAGE = 400

# Throttling, outages, and credentials that are being renewed: the same call may succeed later.
_BUSY = frozenset(
    {
        "ThrottlingException",
        "Throttling",
        "TooManyRequestsException",
        "RequestLimitExceeded",
        "RequestTimeout",
        "RequestTimeoutException",
        "InternalServerException",
        "ServiceUnavailableException",
        "ExpiredToken",
        "ExpiredTokenException",
        "RequestExpired",
    }
)


_TOKEN = re.compile(r"client ?token|idempoten", re.IGNORECASE)
_USED = re.compile(r"\b(used|exists|different|match|reuse|conflict)", re.IGNORECASE)


class EmrClient(Protocol):
    """The part of botocore's client that is used. Parameters and responses are those of the service's API."""

    def start_job_run(self, **parameters: Any) -> dict[str, Any]: ...
    def get_job_run(self, **parameters: Any) -> dict[str, Any]: ...
    def list_job_runs(self, **parameters: Any) -> dict[str, Any]: ...


class EmrServerless:
    """Runs of one application. `client` is called when a client is first needed."""

    def __init__(self, settings: JobSettings, client: Callable[[], EmrClient]) -> None:
        self._settings = settings
        self._make_client = client
        self._client: EmrClient | None = None
        self._fingerprint = settings.fingerprint()

    @property
    def fingerprint(self) -> str:
        return self._fingerprint

    def start(self, pipeline: str, client_token: str) -> str:
        request = start_job_run(self._settings, pipeline=pipeline, client_token=client_token)
        with _translating("StartJobRun", refused=StartRefused):
            run_id: str = self._emr.start_job_run(**request)["jobRunId"]
        return run_id

    def state(self, run_id: str) -> RunState | None:
        try:
            with _translating("GetJobRun", refused=ServiceRefused):
                run = self._emr.get_job_run(applicationId=self._settings.application_id, jobRunId=run_id)["jobRun"]
        except _UnknownRun:
            return None
        return RunState(_status(run["state"]), f"{run['state']}: {run.get('stateDetails', '')}".strip(": "))

    def active(self, pipeline: str) -> str | None:
        """The oldest active run of the pipeline. The service can filter by state only. Another stack may share the
        application, and have a pipeline of this name; each stack has a role of its own."""
        named = [run for run in self._active_runs() if run.get("name") == job_name(pipeline)]
        found = [run for run in named if run["executionRole"] == self._settings.role_arn]
        found.sort(key=lambda run: (run["createdAt"], run["id"]))
        return found[0]["id"] if found else None

    def _active_runs(self) -> Iterator[dict[str, Any]]:
        request: dict[str, Any] = {
            "applicationId": self._settings.application_id,
            "states": list(ACTIVE),
            "maxResults": PAGE_SIZE,
        }
        for _ in range(MAX_PAGES):
            with _translating("ListJobRuns", refused=ServiceRefused):
                page = self._emr.list_job_runs(**request)
            yield from page.get("jobRuns", ())
            if not page.get("nextToken"):  # an empty page may have one too
                return
            request["nextToken"] = page["nextToken"]
        raise ServiceBusy(
            f"ListJobRuns: expected at most {MAX_PAGES} pages of active runs, found more. Whether one of them is this "
            "pipeline's is unknown, so no run is started. Cancel the runs that should not be active."
        )

    @property
    def _emr(self) -> EmrClient:
        if self._client is None:
            self._client = self._make_client()
        return self._client


def _is_spent_token(code: str, text: str) -> bool:
    """The documentation does not say which error a token gets that was used with other parameters. Taken for a refusal
    of the request, it would be sent again and again."""
    return code == "ValidationException" and _TOKEN.search(text) is not None and _USED.search(text) is not None


def _status(state: str) -> RunStatus:
    """An unknown state counts as active, so that no second run is started."""
    if state == SUCCEEDED:
        return RunStatus.SUCCEEDED
    return RunStatus.FAILED if state in ("FAILED", "CANCELLED") else RunStatus.ACTIVE


class _UnknownRun(BlizzardError):
    """GetJobRun found no run with this id."""


@contextmanager
def _translating(call: str, *, refused: type[BlizzardError]) -> Iterator[None]:
    try:
        yield
    except ClientError as error:
        raise _error_from_response(call, error, refused) from error
    except ParamValidationError as error:
        raise refused(
            f"{call}: {error!s:.{MAX_MESSAGE}}. Correct the parameter that it names, in the function's environment."
        ) from error
    except NoCredentialsError as error:
        raise ServiceBusy(
            f"{call}: {error!s:.{MAX_MESSAGE}}. Expected the credentials of the function's role."
        ) from error
    except BotoCoreError as error:
        raise ServiceBusy(
            f"{call}: {type(error).__name__}: {error!s:.{MAX_MESSAGE}}. The next trigger tries again."
        ) from error


def _error_from_response(call: str, error: ClientError, refused: type[BlizzardError]) -> BlizzardError:
    code = error.response.get("Error", {}).get("Code", "")
    status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    text = first_line(error.response.get("Error", {}).get("Message", ""))
    message = f"{call}: {code}: {text:.{MAX_MESSAGE}}".rstrip(". ")
    if call == "GetJobRun" and code == "ResourceNotFoundException":
        return _UnknownRun(message)
    if call == "StartJobRun" and (code == "ConflictException" or _is_spent_token(code, text)):
        return StartConflict(
            f"{message}. The application is changing its state, or the token was used with other parameters; the next "
            "trigger tries again."
        )
    if code in _BUSY or status >= 500 or status == 429:
        return ServiceBusy(f"{message}. The next trigger tries again.")
    return refused(
        f"{message}. Correct what it names: the stack's parameters, or the permissions of the function's role."
    )
