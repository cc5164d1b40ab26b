"""EMR Serverless, which LocalStack lacks: moto's, with the project's job runner, and its events sent to LocalStack."""

import json
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from blizzard.log import Log
from infra.local.jobs.runner import JobRunner
from infra.local.logs.shipping import LogShipping
from infra.local.processes.server_calls import LocalCallFailed, LocalCalls
from infra.local.processes.server_process import ACCOUNT_ID, LocalAws

EMR = "emr-serverless"
ENDED = ("SUCCESS", "FAILED", "CANCELLED")


@dataclass(frozen=True)
class TwoEndpoints(LocalAws):
    """LocalStack, with `emr` for EMR Serverless.

    A principal counts only for `emr`. LocalStack takes the account from the access key id, and it must be that of
    moto, which refuses to pass the role of another account to a run.
    """

    emr: LocalAws

    def client(self, service: str, principal: str = ACCOUNT_ID) -> Any:
        return self.emr.client(service, principal) if service == EMR else super().client(service, ACCOUNT_ID)

    def environment(self, _: str = ACCOUNT_ID) -> dict[str, str]:
        return {**super().environment(ACCOUNT_ID), "AWS_ENDPOINT_URL_EMR_SERVERLESS": self.emr.endpoint}


class Jobs:
    """Runs what is submitted to the applications, until `close`."""

    def __init__(self, aws: TwoEndpoints, folder: Path, log: Log) -> None:
        self._clients: dict[tuple[str, str], Any] = {}
        self._aws = aws
        self._log = log
        self._calls = LocalCalls(aws.emr.endpoint)
        self._shipping = LogShipping(folder / "logs", self._client, log)
        self._runner = JobRunner(aws, folder, self._shipping, self._report, log)
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._take_work, daemon=True)

    def start(self) -> None:
        self._shipping.start()
        self._thread.start()

    def close(self) -> None:
        self._stopping.set()
        self._runner.close()
        self._thread.join(5)
        self._shipping.close()

    def _client(self, service: str, principal: str) -> Any:
        if (service, principal) not in self._clients:
            self._clients[service, principal] = self._aws.client(service, principal)
        return self._clients[service, principal]

    def _take_work(self) -> None:
        while not self._stopping.is_set():
            try:
                item = self._calls.take_work()
            except LocalCallFailed as error:
                self._log("local_work_failed", error=str(error))
                self._stopping.wait(1)
                continue
            if item is not None:
                self._handle(item)

    def _handle(self, item: Mapping[str, Any]) -> None:
        match item["kind"]:
            case "start_run":
                self._runner.start(item["application"], item["run"])
            case "cancel_run":
                self._runner.cancel(item["run"])
            case other:
                self._log("local_work_failed", error=f"expected a run to start or to cancel, found {other}")

    def _report(self, application: str, run: str, state: str, details: str) -> None:
        self._calls.report_run(application, run, state, details)
        if state not in ENDED:
            return
        try:
            self._send_event(application, run)
        except (BotoCoreError, ClientError) as error:
            self._log("job_event_failed", run=run, error=repr(error))

    def _send_event(self, application: str, run: str) -> None:
        """As the service sends it to EventBridge when a run has ended."""
        found = self._client(EMR, "operator").get_job_run(applicationId=application, jobRunId=run)["jobRun"]
        detail = {
            "jobRunId": run,
            "jobRunName": found.get("name", ""),
            "applicationId": application,
            "arn": found["arn"],
            "releaseLabel": found["releaseLabel"],
            "state": found["state"],
            "previousState": "RUNNING",
        }
        event = {
            "Source": "aws.emr-serverless",
            "DetailType": "EMR Serverless Job Run State Change",
            "Detail": json.dumps(detail),
        }
        failed = self._client("events", "operator").put_events(Entries=[event])["FailedEntryCount"]
        if failed:
            self._log("job_event_failed", run=run, error="LocalStack refused the event")
