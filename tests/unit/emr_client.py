"""A stand-in for botocore's client of EMR Serverless, which refuses whatever the service's own model does not allow."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache
from typing import Any

import botocore.session
from botocore.exceptions import ClientError
from botocore.validate import ParamValidator

ENVIRONMENT = {
    "AWS_REGION": "eu-west-1",
    "BLIZZARD_CONFIG": "s3://artifacts/blizzard/config-0123456789abcdef.json",
    "BLIZZARD_APPLICATION_ID": "00f1982r1uukb925",
    "BLIZZARD_JOB_ROLE_ARN": "arn:aws:iam::111122223333:role/blizzard-job",
    "BLIZZARD_JOB_ENTRY_POINT": "s3://artifacts/blizzard/entry-0123456789abcdef.py",
    "BLIZZARD_JOB_ARCHIVE": "s3://artifacts/blizzard/job-0123456789abcdef.tar.gz",
    "BLIZZARD_LOG_STORE_JAR": "s3://artifacts/blizzard/logstore-0123456789abcdef.jar",
    "BLIZZARD_JOB_LOG_GROUP": "/blizzard/job",
    "BLIZZARD_RELEASE_LABEL": "emr-spark-8.1.0",
    "BLIZZARD_DRIVER_CORES": "2",
    "BLIZZARD_DRIVER_MEMORY": "4G",
    "BLIZZARD_EXECUTOR_CORES": "4",
    "BLIZZARD_EXECUTOR_MEMORY": "14G",
    "BLIZZARD_EXECUTOR_DISK": "20G",
    "BLIZZARD_MAX_EXECUTORS": "4",
    "BLIZZARD_JOB_TIMEOUT_MINUTES": "120",
    "BLIZZARD_MAX_FAILURES": "3",
    "BLIZZARD_BACKOFF_SECS": "60",
}


@cache
def service_model() -> Any:
    return botocore.session.get_session().get_service_model("emr-serverless")


def complaints(operation: str, parameters: Mapping[str, Any]) -> str:
    """What is wrong with a request, by the model: types, required members, lengths; and its patterns and enums."""
    shape = service_model().operation_model(operation).input_shape
    report: str = ParamValidator().validate(parameters, shape).generate_report()
    return report


def client_error(operation: str, code: str, status: int = 400, message: str = "no") -> ClientError:
    error: ClientError = ClientError(
        {"Error": {"Code": code, "Message": message}, "ResponseMetadata": {"HTTPStatusCode": status}}, operation
    )
    return error


@dataclass
class FakeEmrClient:
    """Runs by id. `pages` are what ListJobRuns answers, page by page, in place of the runs that there are."""

    runs: dict[str, dict[str, Any]] = field(default_factory=dict)
    tokens: dict[str, str] = field(default_factory=dict)
    errors: dict[str, Exception] = field(default_factory=dict)
    """By operation, what it raises."""
    pages: list[dict[str, Any]] | None = None
    calls: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    hook: Callable[[str, dict[str, Any]], None] = lambda operation, parameters: None
    """What else happens with each call."""

    def start_job_run(self, **parameters: Any) -> dict[str, Any]:
        self._called("StartJobRun", parameters)
        run_id = self.tokens.setdefault(parameters["clientToken"], f"00run{len(self.runs):04d}")
        self.runs.setdefault(run_id, self.run(run_id, parameters["name"]))
        return {"applicationId": parameters["applicationId"], "jobRunId": run_id, "arn": f"arn:{run_id}"}

    def get_job_run(self, **parameters: Any) -> dict[str, Any]:
        self._called("GetJobRun", parameters)
        if parameters["jobRunId"] not in self.runs:
            raise client_error("GetJobRun", "ResourceNotFoundException", 404)
        run = self.runs[parameters["jobRunId"]]
        return {"jobRun": {**run, "jobRunId": run["id"]}}

    def list_job_runs(self, **parameters: Any) -> dict[str, Any]:
        self._called("ListJobRuns", parameters)
        if self.pages is not None:
            return self.pages[int(parameters.get("nextToken", "0"))]
        return {"jobRuns": [run for run in self.runs.values() if run["state"] in parameters["states"]]}

    def _called(self, operation: str, parameters: dict[str, Any]) -> None:
        assert complaints(operation, parameters) == ""
        self.calls.append((operation, parameters))
        self.hook(operation, parameters)
        if operation in self.errors:
            raise self.errors[operation]

    @staticmethod
    def run(run_id: str, name: str, state: str = "RUNNING", created: int = 0, detail: str = "") -> dict[str, Any]:
        at = datetime(2026, 11, 21, 9, created, tzinfo=UTC)
        role = ENVIRONMENT["BLIZZARD_JOB_ROLE_ARN"]
        return {
            "id": run_id,
            "name": name,
            "state": state,
            "createdAt": at,
            "stateDetails": detail,
            "executionRole": role,
        }
