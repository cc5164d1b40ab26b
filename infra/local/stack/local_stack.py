"""The shipped template, deployed on the local AWS and running: its functions, schedules and jobs as processes."""

import json
import platform
import shutil
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError  # type: ignore[import-untyped]

from blizzard.log import JsonLog, Log
from infra.local.deploy.release import ARTIFACTS, CODE, TEMPLATE, LocalRelease, pack, release
from infra.local.deploy.stack_client import OPERATOR, StackClient
from infra.local.functions.function import Outcome
from infra.local.functions.runner import FunctionsRunner, Scheduled
from infra.local.jobs.runner import JobRunner, RunControl
from infra.local.logs.shipping import LogShipping
from infra.local.processes.server_calls import LocalCallFailed, LocalCalls
from infra.local.processes.server_process import REGION, LocalAws, local_aws
from infra.local.stack.folder import ENDPOINTS, locked
from infra.template.translate import translate

REFRESH_SECS = 10.0
STACK_NAME = "blizzard"


class LocalStack:
    """A deployed stack and its runners. Use `local_stack` to create one."""

    def __init__(
        self, aws: LocalAws, folder: Path, stack: StackClient, log: Log, *, retry_after_secs: int | None = None
    ) -> None:
        self.aws = aws
        self.folder = folder
        self.stack = stack
        self.calls = LocalCalls(aws.endpoint)
        self.release_id = ""
        """The release of the first deployment."""
        self._log = log
        self._template: Mapping[str, Any] = {}
        self._parameters: dict[str, str] = {}
        self._resources: dict[str, str] = {}
        self._principals: dict[str, str] = {}
        self._clients: dict[tuple[str, str], Any] = {}
        self._shipping = LogShipping(folder / "logs", self.client, log)
        self.jobs = JobRunner(aws, folder, self._shipping, self.calls.report_run, log)
        self.functions = FunctionsRunner(
            aws,
            self.client,
            self.calls,
            folder,
            self._shipping,
            self._principal_of,
            log,
            retry_after_secs=retry_after_secs,
        )
        self._work = ThreadPoolExecutor(16, thread_name_prefix="work")
        self._stopping = threading.Event()
        self._threads = [
            threading.Thread(target=loop, name=loop.__name__, daemon=True)
            for loop in (self._take_work, self._refresh_regularly, self.functions.run_schedules)
        ]

    # State

    @property
    def parameters(self) -> Mapping[str, str]:
        """Those of the last deployment; the template has defaults for the rest."""
        return dict(self._parameters)

    @property
    def outputs(self) -> dict[str, str]:
        return self.stack.outputs

    @property
    def resources(self) -> dict[str, str]:
        """Physical names by logical id."""
        return dict(self._resources)

    @property
    def landing(self) -> str:
        return self._parameters["LandingBucketName"]

    @property
    def lake(self) -> str:
        return self._parameters["LakeBucketName"]

    @property
    def application_id(self) -> str:
        return self._parameters.get("ApplicationId") or self.resources["JobApplication"]

    @property
    def run_control(self) -> RunControl:
        """Lets the next job runs fail or wait."""
        return self.jobs.control

    def client(self, service: str, principal: str = OPERATOR) -> Any:
        """A cached client for this service and principal."""
        if (service, principal) not in self._clients:
            self._clients[service, principal] = self.aws.client(service, principal)
        return self._clients[service, principal]

    def runs(self) -> list[dict[str, Any]]:
        """The job's runs, the newest first, as ListJobRuns has them."""
        pages = self.client("emr-serverless").get_paginator("list_job_runs").paginate(applicationId=self.application_id)
        return [run for page in pages for run in page["jobRuns"]]

    def logs(self, name: str) -> str:
        """The output of `collector`, `dispatcher`, `sweeper` or `job` so far."""
        path = self.folder / "logs" / f"blizzard-{self.stack.name}-{name}.log"
        return path.read_text() if path.exists() else ""

    def listen(self, name: str, listener: Callable[[str], None]) -> None:
        """Call `listener` in another thread with each new line of `collector`, `dispatcher`, `sweeper` or `job`."""
        self._shipping.listen(f"/blizzard/{self.stack.name}/{name}", listener)

    def requests(self, since: int = 0) -> list[dict[str, Any]]:
        """Requests to the local AWS, each with `principal`, `service`, `method`, `path`, `query` and `target`."""
        return self.calls.requests(since)

    # Actions

    def drop(self, path: str, body: bytes, *, event: bool = True) -> None:
        """Put a file below the landing prefix; without `event`, its event is lost."""
        s3, key = self.client("s3"), self._parameters.get("LandingPrefix", "") + path
        if event:
            s3.put_object(Bucket=self.landing, Key=key, Body=body)
            return
        with self._without_notifications(s3):
            s3.put_object(Bucket=self.landing, Key=key, Body=body)

    def invoke(self, logical_id: str, event: object) -> Outcome:
        """Run a function and wait for its outcome."""
        return self.functions.invoke(self.resources[logical_id], event)

    def fire(self, logical_id: str) -> None:
        """Fire a schedule now."""
        self.functions.fire(self.schedule(logical_id))

    def schedule(self, logical_id: str) -> Scheduled:
        name = self.resources[logical_id]
        if name not in self.functions.schedules:
            self.functions.refresh()
        return self.functions.schedules[name]

    def lose_job_events(self, lose: bool) -> None:
        """While true, state changes of runs send no event to EventBridge."""
        self.calls.deliver_job_events(not lose)

    def kill_run(self) -> str | None:
        """SIGKILL to the processes of the active run. Returns its id; None without an active run."""
        for run in self.jobs.active():
            self.jobs.kill(run)
            return run
        return None

    def deploy(self, template: Mapping[str, Any] | None = None, parameters: Mapping[str, str] | None = None) -> None:
        """Create the stack, or update it with another template, other values for some parameters, or both.

        Raises StackFailed; the stack is then unchanged.
        """
        first = not self._template
        new_parameters = {**self._parameters, **(parameters or {})}
        chosen = template or self._template
        (self.stack.create if first else self.stack.update)(chosen, new_parameters)
        self._template, self._parameters = chosen, new_parameters
        self._refresh()

    def start(self) -> None:
        self._shipping.start()
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        """End every process that the stack started."""
        self._stopping.set()
        self.jobs.close()
        self.functions.close()
        for thread in self._threads:
            thread.join(5)
        self._work.shutdown(wait=False, cancel_futures=True)
        self._shipping.close()

    def _refresh(self) -> None:
        self._resources = self.stack.resources
        self._principals = {name: _principal(logical) for logical, name in self._resources.items()}
        self.functions.refresh()

    def _principal_of(self, function: str) -> str:
        # During a deployment a custom resource may invoke a function that is not known yet: stack-logical id-random.
        logical = function.removeprefix(f"{self.stack.name}-").rpartition("-")[0]
        return self._principals.get(function) or _principal(logical or function)

    @contextmanager
    def _without_notifications(self, s3: Any) -> Iterator[None]:
        original = s3.get_bucket_notification_configuration(Bucket=self.landing)
        original.pop("ResponseMetadata", None)
        s3.put_bucket_notification_configuration(Bucket=self.landing, NotificationConfiguration={})
        try:
            yield
        finally:
            s3.put_bucket_notification_configuration(Bucket=self.landing, NotificationConfiguration=original)

    def _take_work(self) -> None:
        while not self._stopping.is_set():
            try:
                item = self.calls.take_work()
            except LocalCallFailed as error:
                if not self._stopping.is_set():
                    self._log("local_work_failed", error=str(error))
                    self._stopping.wait(1)
                continue
            if item is not None:
                self._work.submit(self._run_work_item, item)

    def _run_work_item(self, item: Mapping[str, Any]) -> None:
        try:
            self._handle(item)
        except Exception as error:  # noqa: BLE001 - the top of a thread
            self._log("local_work_failed", kind=item["kind"], error=repr(error))

    def _handle(self, item: Mapping[str, Any]) -> None:
        match item["kind"]:
            case "invoke":
                outcome = self.functions.invoke(item["function"], item["event"])
                result = {"error": outcome.error, "payload": outcome.payload, "log": outcome.log}
                self.calls.send_result(item["id"], result)
            case "invoke_async":
                self.functions.invoke_async(item["function"], item["event"])
            case "start_run":
                self.jobs.start(item["application"], item["run"])
            case "cancel_run":
                self.jobs.cancel(item["run"])

    def _refresh_regularly(self) -> None:
        """For deployments through CloudFormation's API that bypass `deploy`."""
        while not self._stopping.wait(REFRESH_SECS):
            if not self._template:
                continue
            try:
                self._refresh()
            except (BotoCoreError, ClientError, LocalCallFailed, KeyError) as error:
                if not self._stopping.is_set():
                    self._log("local_refresh_failed", error=repr(error))


def _principal(logical_id: str) -> str:
    return logical_id.removesuffix("Function").lower()


def _ignore(_: str) -> None:
    return


@contextmanager
def local_stack(
    config: Path,
    *,
    parameters: Mapping[str, str] | None = None,
    folder: Path,
    template: Mapping[str, Any] | None = None,
    retry_after_secs: int | None = None,
    log: Log | None = None,
    report_progress: Callable[[str], None] = _ignore,
) -> Iterator[LocalStack]:
    """Package, publish, translate, deploy and run. At the end of the block only `folder` remains.

    `config`: a pipelines.yaml with s3:// URIs; their buckets become the stack's. `parameters`: of the template; they
    override those that publishing sets. `template`: a translated one, instead of the shipped one. `retry_after_secs`:
    when failed messages become visible again; None: after the queue's visibility timeout. `report_progress` is called
    before each slow step. Deletes the content of `folder`. Raises BlizzardError; FolderInUse if a stack runs there.
    """
    with ExitStack() as stack:
        stack.enter_context(locked(folder))
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True, exist_ok=True)
        if log is None:
            log = JsonLog(stack.enter_context((folder / "local-aws.log").open("a", buffering=1)), time.time)
        aws = stack.enter_context(local_aws())
        report_progress("packing what the stack runs")
        released = _publish(aws, config, folder)
        running = LocalStack(aws, folder, StackClient(aws, STACK_NAME), log, retry_after_secs=retry_after_secs)
        stack.callback(running.close)
        running.start()
        running.release_id = released.id
        report_progress("deploying the stack on a local AWS")
        running.deploy(
            template or translate(TEMPLATE, released.function_zip_uris), {**released.parameters, **(parameters or {})}
        )
        _write_endpoints(running, config)
        yield running


def _publish(aws: LocalAws, config: Path, folder: Path) -> LocalRelease:
    s3 = aws.client("s3", OPERATOR)
    for name in (ARTIFACTS, CODE):
        s3.create_bucket(Bucket=name, CreateBucketConfiguration={"LocationConstraint": REGION})
    return release(aws, config, folder, pack(platform.machine().lower()))


def _write_endpoints(stack: LocalStack, config: Path) -> None:
    where = {"endpoint": stack.aws.endpoint, "landing": stack.landing, "config": str(config.absolute())}
    (stack.folder / ENDPOINTS).write_text(json.dumps({**where, **stack.resources}, indent=1))
