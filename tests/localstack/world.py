"""LocalStack with EMR Serverless beside it, a release published there, and what a test asks them."""

import json
import platform
import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from blizzard.environment import temporary_variables, variables
from blizzard.log import JsonLog
from blizzard.state.dead_letters import DeadLetters
from blizzard.storage.s3 import S3Store
from blizzard.storage.s3_connection import S3Settings
from infra.local.demo.reconcile import Reconciliation, read_source, reconcile
from infra.local.demo.scenario import CONFIG, PREFIX, STATE_PREFIX
from infra.local.deploy.release import LINKED, TEMPLATE, pack
from infra.local.processes.checkout import CHECKOUT
from infra.local.processes.server_process import LocalAws, local_aws
from infra.local.stack.folder import locked
from infra.package.contents import EMR_RELEASE
from infra.publish.publish import SAMCONFIG, publish
from infra.publish.samconfig import with_parameters
from infra.tools.environments import Tools
from tests.e2e.stack_world import ACTIVE
from tests.localstack.commands import Commands, Progress
from tests.localstack.jobs import EMR, Jobs, TwoEndpoints
from tests.localstack.server import localstack, tail

FOLDER = CHECKOUT / "build" / "localstack"
STACK = "blizzard"
ARTIFACTS, LANDING, LAKE = "artifacts", "landing", "lake"
SCHEDULES_EVERY_SECS = 5.0
"""Faster than on AWS, where a schedule fires at most once a minute."""


@dataclass
class World:
    aws: TwoEndpoints
    folder: Path
    checkout: Path
    """Where the release was published from, with its samconfig.toml: the folder for `sam`."""
    application: str
    commands: Commands
    progress: Progress
    _fired: float = 0.0
    _bodies: dict[tuple[str, str], bytes] = field(default_factory=dict)

    # Commands

    def set_parameters(self, **parameters: str) -> None:
        """In samconfig.toml, next to those that publishing wrote there."""
        file = self.checkout / SAMCONFIG
        file.write_text(with_parameters(file.read_text(), parameters))

    def sam_build(self) -> None:
        self.commands.run("sam", "build")

    def sam_deploy(self) -> None:
        words = ["--stack-name", STACK, "--resolve-s3", "--capabilities", "CAPABILITY_IAM", "--no-confirm-changeset"]
        self.commands.run("sam", "deploy", *words, "--no-progressbar")

    def copy(self, files: Mapping[str, bytes]) -> None:
        """Write the files to a folder, and copy the folder to the landing bucket, as a producer would."""
        folder = self.folder / "files" / str(time.monotonic_ns())
        for path, body in files.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_bytes(body)
        self.commands.run(
            "aws", "s3", "cp", "--recursive", "--only-show-errors", str(folder), f"s3://{LANDING}/{PREFIX}"
        )

    @contextmanager
    def without_notifications(self) -> Iterator[None]:
        where = ["--bucket", LANDING]
        before = self.commands.run("aws", "s3api", "get-bucket-notification-configuration", *where)
        self.notify("{}")
        try:
            yield
        finally:
            self.notify(json.dumps(json.loads(before)))

    def notify(self, configuration: str) -> None:
        words = ["--bucket", LANDING, "--notification-configuration", configuration]
        self.commands.run("aws", "s3api", "put-bucket-notification-configuration", *words)

    # What the stack is and does

    def client(self, service: str) -> Any:
        return self.aws.client(service)

    @property
    def resources(self) -> dict[str, str]:
        """Physical names by logical id."""
        return {one["LogicalResourceId"]: one["PhysicalResourceId"] for one in self.deployed()}

    def deployed(self) -> list[dict[str, Any]]:
        """As DescribeStackResources has them; LocalStack lists those whose condition is false, too, without a name."""
        found = self.client("cloudformation").describe_stack_resources(StackName=STACK)["StackResources"]
        return [one for one in found if one.get("PhysicalResourceId")]

    def variables_of(self, logical_id: str) -> dict[str, str]:
        name = self.resources[logical_id]
        found: dict[str, str] = self.client("lambda").get_function(FunctionName=name)["Configuration"]["Environment"][
            "Variables"
        ]
        return found

    def runs(self) -> list[dict[str, Any]]:
        """Newest first."""
        pages = self.client(EMR).get_paginator("list_job_runs").paginate(applicationId=self.application)
        return [run for page in pages for run in page["jobRuns"]]

    def is_idle(self) -> bool:
        """No run, no message: nothing that happened so far will change the table any more."""
        if any(run["state"] in ACTIVE for run in self.runs()):
            return False
        return not any(self.messages(name) for name in ("EventsQueue", "WakeQueue"))

    def messages(self, logical_id: str) -> int:
        names = [f"ApproximateNumberOfMessages{kind}" for kind in ("", "NotVisible", "Delayed")]
        found = self.client("sqs").get_queue_attributes(QueueUrl=self.resources[logical_id], AttributeNames=names)
        return sum(int(found["Attributes"][name]) for name in names)

    def fire_schedules(self) -> None:
        """LocalStack keeps schedules and does not run them: invoke their targets as they say, but not too often."""
        if time.monotonic() - self._fired < SCHEDULES_EVERY_SECS:
            return
        self._fired = time.monotonic()
        for logical_id in ("SweepScheduled", "DispatchScheduled"):
            schedule = self.client("scheduler").get_schedule(Name=self.resources[logical_id])
            assert schedule["State"] == "ENABLED"
            target = schedule["Target"]
            self.client("lambda").invoke(FunctionName=target["Arn"], InvocationType="Event", Payload=target["Input"])

    # Rows

    def verdict(self) -> Reconciliation:
        """Compare every record in the landing bucket with every row of the table."""
        lake = S3Store(LAKE, "events/", S3Settings.from_environment(self.aws.environment()))
        letters = list(DeadLetters(lake, STATE_PREFIX, "events:landing").letters())
        options = {**self.aws.environment(), "AWS_ALLOW_HTTP": "true"}
        return reconcile(read_source(self._objects(), "id"), f"s3://{LAKE}/events", options, letters)

    def has_table(self) -> bool:
        found = self.client("s3").list_objects_v2(Bucket=LAKE, Prefix="events/_delta_log/", MaxKeys=1)
        return bool(found.get("Contents"))

    def is_complete(self) -> bool:
        return self.has_table() and self.verdict().good

    def _objects(self) -> Iterator[tuple[str, bytes]]:
        s3 = self.client("s3")
        for page in s3.get_paginator("list_objects_v2").paginate(Bucket=LANDING, Prefix=PREFIX):
            for found in page.get("Contents", []):
                known = found["Key"], found["ETag"]
                if known not in self._bodies:
                    self._bodies[known] = s3.get_object(Bucket=LANDING, Key=found["Key"])["Body"].read()
                yield found["Key"].removeprefix(PREFIX), self._bodies[known]


@contextmanager
def localstack_world() -> Iterator[World]:
    """Start both servers and publish the packed checkout. If the block fails, the ends of all logs are printed."""
    progress = Progress()
    with ExitStack() as stack:
        stack.enter_context(locked(FOLDER))
        shutil.rmtree(FOLDER, ignore_errors=True)
        FOLDER.mkdir(parents=True)
        try:
            yield _start(stack, progress)
        except BaseException:
            for log in sorted(file for file in FOLDER.rglob("*.log") if "tmp" not in file.parts):
                print(tail(log), flush=True)
            raise
        finally:
            progress("stopping")


def _start(stack: ExitStack, progress: Progress) -> World:
    tools = Tools(CHECKOUT)
    programs = {"aws": tools.program("awscli"), "sam": tools.program("sam")}
    progress("starting LocalStack, and moto's server for EMR Serverless")
    emr = stack.enter_context(local_aws())
    to_emr = {"AWS_ENDPOINT_URL_EMR_SERVERLESS": emr.endpoint}
    python = tools.program("localstack")
    aws = TwoEndpoints(stack.enter_context(localstack(python, FOLDER / "localstack", to_emr)), emr.pid, emr)
    log = JsonLog(stack.enter_context((FOLDER / "runner.log").open("a", buffering=1)), time.time)
    jobs = Jobs(aws, FOLDER, log)
    stack.callback(jobs.close)
    jobs.start()
    progress("packing what the stack runs")
    checkout = _packed_checkout()
    environment = {**variables(), **aws.environment(), "HOME": str(FOLDER / "home")}
    commands = Commands(programs, checkout, environment, FOLDER / "commands.log", progress)
    commands.run("aws", "s3", "mb", f"s3://{ARTIFACTS}")
    progress("publishing it")
    config = FOLDER / "pipelines.yaml"
    config.write_text(CONFIG)
    with temporary_variables(aws.environment()):
        publish(checkout, config, f"s3://{ARTIFACTS}", variables())
    return World(aws, FOLDER, checkout, _application(aws), commands, progress)


def _packed_checkout() -> Path:
    """A folder like a checkout after `make package`, of which samconfig.toml and .aws-sam are its own."""
    folder = FOLDER / "checkout"
    folder.mkdir()
    (folder / TEMPLATE.name).symlink_to(TEMPLATE)
    packed = pack(platform.machine().lower())
    for name in (*LINKED, "build"):
        (folder / name).symlink_to((packed / name).resolve())
    return folder


def _application(aws: LocalAws) -> str:
    settings = {"maxConcurrentRuns": 1, "queueTimeoutMinutes": 720}
    made = aws.client(EMR).create_application(
        name="shared", releaseLabel=EMR_RELEASE, type="SPARK", schedulerConfiguration=settings
    )
    return str(made["applicationId"])
