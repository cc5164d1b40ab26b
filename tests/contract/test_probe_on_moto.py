"""`make probe` on a deployed stack whose runs do as a test says. With a real run: tests/e2e/test_stack.py."""

import copy
import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from botocore.exceptions import ClientError  # type: ignore[import-untyped]

from infra.local.processes.server_calls import LocalCalls
from infra.local.processes.server_process import ACCOUNT_ID, LocalAws
from infra.probe.__main__ import main, probe
from infra.probe.report import Report
from tests.contract.every_resource_type import TEMPLATE, Deployment
from tests.unit.emr_client import ENVIRONMENT
from tests.unit.test_probe_verdict import GOOD


@dataclass
class Account:
    """A stack with a dispatcher's settings. `happens` is called, with the run, at the first look at its state."""

    aws: LocalAws
    deployed: Deployment
    run: dict[str, Any] | None = None

    @property
    def application(self) -> str:
        return self.deployed.stack.resources["Application"]

    @property
    def group(self) -> str:
        return self.deployed.stack.resources["Logs"]

    def probe(self, happens: Callable[["Account"], None], *, run_secs: float = 60.0) -> Report:
        def on_state(state: str, secs: float) -> None:
            if self.run is None:
                self.run = self._newest_run()
                happens(self)

        return probe(self.aws, self.deployed.name, run_secs=run_secs, log_secs=0.3, on_state=on_state)

    def _newest_run(self) -> dict[str, Any]:
        emr = self.aws.client("emr-serverless")
        (listed,) = emr.list_job_runs(applicationId=self.application)["jobRuns"]
        run: dict[str, Any] = emr.get_job_run(applicationId=self.application, jobRunId=listed["id"])["jobRun"]
        return run

    @property
    def probe_id(self) -> str:
        assert self.run is not None
        arguments: list[str] = self.run["jobDriver"]["sparkSubmit"]["entryPointArguments"]
        return arguments[arguments.index("--probe") + 1]

    def ends(self, state: str, details: str = "") -> None:
        assert self.run is not None
        for each in ("RUNNING", state):
            LocalCalls(self.aws.endpoint).report_run(self.application, self.run["jobRunId"], each, details)

    def logs(self, *lines: str, of_another_run: bool = False) -> None:
        assert self.run is not None
        cloudwatch = self.run["configurationOverrides"]["monitoringConfiguration"]["cloudWatchLoggingConfiguration"]
        group, prefix = cloudwatch["logGroupName"], cloudwatch["logStreamNamePrefix"]
        prefix = "events" if of_another_run else prefix
        stream = {"logGroupName": group, "logStreamName": f"{prefix}/applications/x/SPARK_DRIVER/stdout"}
        logs = self.aws.client("logs")
        logs.create_log_stream(**stream)
        now_ms = int(time.time() * 1000)
        logs.put_log_events(**stream, logEvents=[{"timestamp": now_ms, "message": line} for line in lines])


@pytest.fixture
def account(aws: LocalAws, monkeypatch: pytest.MonkeyPatch) -> Account:
    for module in ("run", "log_lines"):
        monkeypatch.setattr(f"infra.probe.{module}.POLL_SECS", 0.05)
    template = copy.deepcopy(TEMPLATE)
    variables = {name: value for name, value in ENVIRONMENT.items() if name != "AWS_REGION"}
    references = {"BLIZZARD_APPLICATION_ID": {"Ref": "Application"}, "BLIZZARD_JOB_LOG_GROUP": {"Ref": "Logs"}}
    references["BLIZZARD_JOB_ROLE_ARN"] = {"Fn::GetAtt": ["Role", "Arn"]}
    template["Resources"]["Function"]["Properties"]["Environment"]["Variables"] = variables | references
    template["Outputs"]["DispatcherFunctionName"] = {"Value": {"Ref": "Function"}}
    return Account(aws, Deployment(aws).create(template))


def test_the_line_of_the_run_is_found_in_the_stacks_log_group(account: Account) -> None:
    def succeed(found: Account) -> None:
        found.logs("{}", json.dumps({**GOOD, "id": found.probe_id}))
        found.ends("SUCCESS")

    report = account.probe(succeed)
    assert report.problems == []
    assert report.log.line is not None
    assert report.log.line["jvm"] == GOOD["jvm"]
    assert (report.log_group, report.run.state) == (account.group, "SUCCESS")


def test_a_run_that_fails_is_a_problem_with_the_reason_in_its_log(account: Account) -> None:
    def fail(found: Account) -> None:
        found.logs("Error: of a pipeline's run", of_another_run=True)
        found.logs("blizzard: expected Python 3.11, for which the packages are compiled, found 3.9")
        found.ends("FAILED", "Job failed, please check complete logs")

    (problem,) = account.probe(fail).problems
    assert problem.check == "run"
    assert "FAILED: Job failed, please check complete logs" in problem.found
    assert "blizzard: expected Python 3.11" in problem.found
    assert "of a pipeline's run" not in problem.found


def test_log_lines_that_never_arrive_are_a_problem(account: Account) -> None:
    report = account.probe(lambda found: found.ends("SUCCESS"))
    (problem,) = report.problems
    assert (problem.check, report.log.line) == ("log", None)
    assert f"no line of it arrived in {account.group}" in problem.found
    assert report.run.id in problem.advice


def test_a_run_that_waits_for_another_is_a_problem(account: Account) -> None:
    role = f"arn:aws:iam::{ACCOUNT_ID}:role/job"
    driver = {"sparkSubmit": {"entryPoint": "s3://artifacts/entry.py"}}
    emr = account.aws.client("emr-serverless")
    ingesting = emr.start_job_run(
        applicationId=account.application, clientToken="t", executionRoleArn=role, jobDriver=driver
    )
    account.run = ingesting
    report = account.probe(lambda found: None, run_secs=0.2)
    (problem,) = report.problems
    assert problem.found == "still QUEUED after 0 s"
    assert "MaxConcurrentRuns" in problem.advice


# --- What the operator has to correct ---


@pytest.fixture
def here(aws: LocalAws, monkeypatch: pytest.MonkeyPatch) -> None:
    """The command finds the local AWS in the environment."""
    for name, value in aws.environment().items():
        monkeypatch.setenv(name, value)


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(arguments) == 2
    said = capsys.readouterr()
    assert said.out == ""
    return said.err


@pytest.mark.usefixtures("here")
def test_an_unknown_stack_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    said = refused(capsys, "--stack", "nowhere", "--json")
    assert "probe: STACK: there is no stack 'nowhere' in eu-west-1" in said
    assert "found nothing" in refused(capsys, "--stack", "")
    assert "found 'a b'" in refused(capsys, "--stack", "a b")


@pytest.mark.usefixtures("here")
def test_a_stack_of_something_else_is_refused(aws: LocalAws, capsys: pytest.CaptureFixture[str]) -> None:
    other = Deployment(aws).create()
    said = refused(capsys, "--stack", other.name)
    assert f"an output DispatcherFunctionName; found none in '{other.name}'" in said


@pytest.mark.usefixtures("here")
def test_without_a_region_nothing_is_started(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(name)
    assert "set AWS_REGION" in refused(capsys, "--stack", "blizzard")


class Denying:
    """The local AWS evaluates no policies of IAM: each client here refuses one call, as AWS would."""

    def __init__(self, aws: LocalAws, call: str) -> None:
        self._aws = aws
        self._call = call

    def client(self, service: str) -> Any:
        client = self._aws.client(service)
        if hasattr(client, self._call):
            setattr(client, self._call, self._deny)
        return client

    def _deny(self, **_: Any) -> None:
        denied = {"Code": "AccessDeniedException", "Message": "User: me is not authorized"}
        raise ClientError({"Error": denied, "ResponseMetadata": {"HTTPStatusCode": 403}}, self._call)


@pytest.mark.parametrize(
    ("call", "action"),
    [
        ("describe_stacks", "cloudformation:DescribeStacks"),
        ("get_function_configuration", "lambda:GetFunctionConfiguration"),
        ("start_job_run", "emr-serverless:StartJobRun (and iam:PassRole)"),
        ("get_job_run", "emr-serverless:GetJobRun"),
        ("filter_log_events", "logs:FilterLogEvents"),
    ],
)
def test_a_right_that_the_operator_lacks_is_named(
    account: Account, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], call: str, action: str
) -> None:
    monkeypatch.setattr("infra.probe.__main__.operators_clients", lambda: Denying(account.aws, call))
    said = refused(capsys, "--stack", account.deployed.name, "--secs", "0", "--log-secs", "0")
    assert said.startswith(f"probe: {action} on ")
    assert "not authorized. Allow it to the credentials in use" in said
