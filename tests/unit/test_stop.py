"""`make stop`: what it refuses, and how long it waits."""

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest
from botocore.exceptions import NoRegionError

from blizzard.errors import ConfigError
from infra.stop.stop import POLL_SECS, StopFailed, Waiting, stop
from tests.unit.emr_client import client_error

PARAMETERS = {"Dispatching": "on", "ApplicationId": "", "MaxExecutors": "3"}


@dataclass
class Services:
    """CloudFormation and EMR Serverless with one stack. Time passes only while somebody waits."""

    parameters: dict[str, str] = field(default_factory=lambda: dict(PARAMETERS))
    status: str = "UPDATE_COMPLETE"
    updates_to: str = "UPDATE_COMPLETE"
    runs: dict[str, float] = field(default_factory=dict)
    """Active runs, and when each ends."""
    stops_after_secs: float = 10.0
    now: float = 0.0
    stopped_at: float | None = None
    said: list[str] = field(default_factory=list)
    updates: list[dict[str, Any]] = field(default_factory=list)

    @property
    def meta(self) -> Any:
        return SimpleNamespace(region_name="eu-west-1")

    def client(self, service: str) -> Any:
        assert service in ("cloudformation", "emr-serverless")
        return self

    def stop(self, timeout_secs: float = 3600, *, cancel: bool = False) -> str:
        return stop(
            "blizzard", self, Waiting(lambda: self.now, self._wait, self.said.append, timeout_secs), cancel=cancel
        )

    def _wait(self, secs: float) -> None:
        self.now += secs

    def describe_stacks(self, StackName: str) -> dict[str, Any]:  # noqa: N803 - as botocore names it
        if StackName != "blizzard":
            raise client_error("DescribeStacks", "ValidationError", message=f"Stack with id {StackName} does not exist")
        parameters = [{"ParameterKey": name, "ParameterValue": value} for name, value in self.parameters.items()]
        outputs = [{"OutputKey": "ApplicationId", "OutputValue": "00f1"}]
        stack = {"StackName": StackName, "StackStatus": self.status, "Parameters": parameters, "Outputs": outputs}
        return {"Stacks": [stack]}

    def update_stack(self, **request: Any) -> None:
        self.updates.append(request)
        self.status = self.updates_to
        if self.updates_to == "UPDATE_COMPLETE":
            self.parameters["Dispatching"] = "off"

    def get_paginator(self, operation: str) -> Any:
        assert operation == "list_job_runs"
        return self

    def paginate(self, **_: Any) -> list[dict[str, Any]]:
        return [{"jobRuns": [{"id": run} for run, ends in self.runs.items() if ends > self.now]}, {"jobRuns": []}]

    def cancel_job_run(self, *, jobRunId: str, **_: Any) -> None:  # noqa: N803
        self.runs[jobRunId] = self.now + 1

    def get_application(self, **_: Any) -> dict[str, Any]:
        if self.stopped_at is None:
            return {"application": {"state": "STARTED"}}
        return {"application": {"state": "STOPPING" if self.now < self.stopped_at else "STOPPED"}}

    def stop_application(self, **_: Any) -> None:
        assert not self.paginate()[0]["jobRuns"]
        self.stopped_at = self.now + self.stops_after_secs


def test_it_pauses_the_stack_and_changes_nothing_else_of_it() -> None:
    services = Services()
    assert services.stop() == "00f1"
    (update,) = services.updates
    assert update["UsePreviousTemplate"] is True
    changed = {one["ParameterKey"]: one.get("ParameterValue") for one in update["Parameters"]}
    assert changed == {"Dispatching": "off", "ApplicationId": None, "MaxExecutors": None}
    assert services.now >= services.stops_after_secs


def test_a_paused_stack_is_not_updated_again() -> None:
    services = Services(parameters={**PARAMETERS, "Dispatching": "off"})
    services.stop()
    assert services.updates == []


def test_it_waits_for_active_runs_and_says_so() -> None:
    services = Services(runs={"00a": 100.0})
    services.stop()
    assert services.now >= 100 + services.stops_after_secs
    assert "waiting for active runs: 00a" in services.said


def test_it_cancels_active_runs_when_asked() -> None:
    services = Services(runs={"00a": 10_000.0})
    services.stop(cancel=True)
    assert services.now < 100


@pytest.mark.parametrize(
    ("services", "text"),
    [
        (Services(runs={"00a": 10_000.0}), "waiting for active runs: 00a after 600 s.*CANCEL=1"),
        (Services(stops_after_secs=10_000.0), r"stopping the application \(STOPPING\) after 600 s"),
        (Services(status="UPDATE_IN_PROGRESS"), "state UPDATE_IN_PROGRESS.*Wait"),
        (Services(updates_to="UPDATE_ROLLBACK_COMPLETE"), "ended in UPDATE_ROLLBACK_COMPLETE.*describe-stack-events"),
    ],
)
def test_what_does_not_happen_in_time_is_said(services: Services, text: str) -> None:
    with pytest.raises(StopFailed, match=text):
        services.stop(600)
    assert services.now <= 600 + 2 * POLL_SECS


def test_a_denied_call_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    def denied(**_: Any) -> None:
        raise client_error("StopApplication", "AccessDeniedException", 403, "not allowed")

    services = Services()
    monkeypatch.setattr(services, "stop_application", denied)
    with pytest.raises(ConfigError, match=r"StopApplication on the application 00f1: not allowed\. Allow it"):
        services.stop()


def test_a_stack_that_is_not_there_or_has_no_application_of_its_own_is_refused() -> None:
    services, waiting = Services(), Waiting(lambda: 0.0, lambda _: None, lambda _: None, 1)
    with pytest.raises(ConfigError, match="there is no stack 'other' in eu-west-1"):
        stop("other", services, waiting, cancel=False)
    with pytest.raises(ConfigError, match="without the parameter Dispatching"):
        Services(parameters={}).stop()
    with pytest.raises(ConfigError, match="which uses another one"):
        Services(parameters={**PARAMETERS, "ApplicationId": "00f2"}).stop()


def test_a_region_is_needed() -> None:
    class Clients:
        def client(self, service: str) -> Any:
            raise NoRegionError

    with pytest.raises(ConfigError, match="AWS_REGION"):
        stop("blizzard", Clients(), Waiting(lambda: 0.0, lambda _: None, lambda _: None, 1), cancel=False)
