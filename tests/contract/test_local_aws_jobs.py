"""EMR Serverless of the local AWS: states, client tokens, the queue of runs, and events of state changes."""

import json
import uuid
from dataclasses import dataclass
from typing import Any

import pytest
from botocore.exceptions import ClientError  # type: ignore[import-untyped]

from infra.local.processes.server_calls import LocalCalls
from infra.local.processes.server_process import LocalAws
from infra.local.stack.minimal_stack import MinimalStack
from tests.fixtures_aws import drain, new_stack

ROLE = "arn:aws:iam::123456789012:role/job"
DRIVER = {"sparkSubmit": {"entryPoint": "s3://artifacts/entry.py"}}


@dataclass(frozen=True)
class Application:
    aws: LocalAws
    id: str
    queues: MinimalStack

    def start(self, token: str = "", **more: Any) -> str:
        request = {"executionRoleArn": ROLE, "jobDriver": DRIVER, "name": "blizzard-events"} | more
        emr = self.aws.client("emr-serverless")
        name: str = emr.start_job_run(applicationId=self.id, clientToken=token or uuid.uuid4().hex, **request)[
            "jobRunId"
        ]
        return name

    def run(self, name: str) -> dict[str, Any]:
        emr = self.aws.client("emr-serverless")
        found: dict[str, Any] = emr.get_job_run(applicationId=self.id, jobRunId=name)["jobRun"]
        return found

    def report(self, name: str, *states: str, details: str = "") -> None:
        """Report a state as the runner does."""
        for state in states:
            LocalCalls(self.aws.endpoint).report_run(self.id, name, state, details)

    def events(self) -> list[dict[str, Any]]:
        return [json.loads(body) for body in drain(self.aws, self.queues.queue)]


@pytest.fixture
def application(aws: LocalAws) -> Application:
    emr, queues = aws.client("emr-serverless"), new_stack(aws)
    made = emr.create_application(
        name=uuid.uuid4().hex,
        type="SPARK",
        releaseLabel="emr-spark-8.1.0",
        clientToken=uuid.uuid4().hex,
        schedulerConfiguration={"maxConcurrentRuns": 1},
    )
    pattern = {"source": ["aws.emr-serverless"], "detail": {"applicationId": [made["applicationId"]]}}
    events = aws.client("events")
    events.put_rule(Name=queues.queue.name, EventPattern=json.dumps(pattern))
    events.put_targets(Rule=queues.queue.name, Targets=[{"Id": "queue", "Arn": queues.queue.arn}])
    return Application(aws, made["applicationId"], queues)


def test_a_run_goes_through_its_states_and_each_change_sends_an_event(application: Application) -> None:
    run = application.start()
    application.report(run, "SCHEDULED", "RUNNING", "SUCCESS")
    assert application.run(run)["state"] == "SUCCESS"
    events = application.events()
    states = [(event["detail"]["previousState"], event["detail"]["state"]) for event in events]
    assert states == [
        ("", "SUBMITTED"),
        ("SUBMITTED", "PENDING"),
        ("PENDING", "SCHEDULED"),
        ("SCHEDULED", "RUNNING"),
        ("RUNNING", "SUCCESS"),
    ]
    assert {event["detail-type"] for event in events} == {"EMR Serverless Job Run State Change"}
    assert {(event["detail"]["jobRunId"], event["detail"]["jobRunName"]) for event in events} == {
        (run, "blizzard-events")
    }


def test_events_can_be_lost_while_the_states_still_change(application: Application) -> None:
    calls = LocalCalls(application.aws.endpoint)
    run = application.start()
    application.events()
    calls.deliver_job_events(False)
    try:
        application.report(run, "RUNNING", "FAILED", details="Job failed")
    finally:
        calls.deliver_job_events(True)
    assert application.events() == []
    assert (application.run(run)["state"], application.run(run)["stateDetails"]) == ("FAILED", "Job failed")


def test_a_repeated_client_token_returns_the_first_run_even_if_it_failed(application: Application) -> None:
    run = application.start("one")
    application.report(run, "FAILED")
    assert application.start("one") == run
    assert application.start("two") != run


def test_runs_above_the_limit_are_queued_in_order(application: Application) -> None:
    first, second, third = (application.start() for _ in range(3))
    assert [application.run(run)["state"] for run in (first, second, third)] == ["PENDING", "QUEUED", "QUEUED"]
    application.report(first, "RUNNING", "FAILED")
    assert [application.run(run)["state"] for run in (second, third)] == ["PENDING", "QUEUED"]


def test_a_queued_run_is_cancelled_at_once_and_a_running_one_when_it_ends(application: Application) -> None:
    emr = application.aws.client("emr-serverless")
    running, queued = application.start(), application.start()
    application.report(running, "RUNNING")
    for run in (running, queued):
        emr.cancel_job_run(applicationId=application.id, jobRunId=run)
    assert [application.run(run)["state"] for run in (running, queued)] == ["CANCELLING", "CANCELLED"]
    application.report(running, "RUNNING", "CANCELLED")
    assert application.run(running)["state"] == "CANCELLED"


def test_a_finished_run_does_not_change(application: Application) -> None:
    run = application.start()
    application.report(run, "RUNNING", "SUCCESS", "FAILED", "RUNNING")
    assert application.run(run)["state"] == "SUCCESS"


def test_runs_are_listed_newest_first_by_state_and_in_pages(application: Application) -> None:
    emr = application.aws.client("emr-serverless")
    assert emr.list_job_runs(applicationId=application.id)["jobRuns"] == []
    runs = [application.start() for _ in range(3)]
    application.report(runs[0], "SUCCESS")
    pages = emr.get_paginator("list_job_runs").paginate(applicationId=application.id, PaginationConfig={"PageSize": 2})
    assert [[run["id"] for run in page["jobRuns"]] for page in pages] == [[runs[2], runs[1]], [runs[0]]]
    queued = emr.list_job_runs(applicationId=application.id, states=["QUEUED"])["jobRuns"]
    assert [run["id"] for run in queued] == [runs[2]]


def test_an_application_is_updated_only_when_stopped_and_stopped_only_when_idle(
    application: Application,
) -> None:
    emr = application.aws.client("emr-serverless")
    run = application.start()
    wanted = {"applicationId": application.id, "clientToken": "t", "releaseLabel": "emr-spark-8.2.0"}
    with pytest.raises(ClientError, match="active job runs"):
        emr.stop_application(applicationId=application.id)
    application.report(run, "SUCCESS")
    with pytest.raises(ClientError, match=r"\[CREATED, STOPPED\]. Current status: STARTED"):
        emr.update_application(**wanted)
    emr.stop_application(applicationId=application.id)
    assert emr.update_application(**wanted)["application"]["releaseLabel"] == "emr-spark-8.2.0"
    application.start()
    assert emr.get_application(applicationId=application.id)["application"]["state"] == "STARTED"


def test_invalid_requests_are_refused_as_by_the_service(application: Application) -> None:
    emr = application.aws.client("emr-serverless")
    with pytest.raises(ClientError, match="not supported for release label"):
        emr.create_application(name="x", type="SPARK", releaseLabel="spark-8", clientToken="t")
    with pytest.raises(ClientError, match="entryPoint must be an s3:// URI"):
        application.start(jobDriver={"sparkSubmit": {"entryPoint": "main.py"}})
    with pytest.raises(ClientError, match="at least 5 minutes"):
        application.start(executionTimeoutMinutes=2)
