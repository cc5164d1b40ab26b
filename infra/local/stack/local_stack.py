"""The whole stack on this machine: the shipped template deployed on the local AWS, and all of it really running."""

import json
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
from infra.local.deploy.release import ARTIFACTS, CODE, TEMPLATE, release
from infra.local.deploy.stack_client import OPERATOR, Stack
from infra.local.functions.function import Outcome
from infra.local.functions.runner import FunctionsRunner, Scheduled
from infra.local.jobs.runner import JobRunner, Orders
from infra.local.logs.shipping import LogShipping
from infra.local.processes.server_calls import LocalCallFailed, LocalCalls
from infra.local.processes.server_process import REGION, LocalAws, local_aws
from infra.local.stack.folder import ENDPOINTS, locked

REFRESH_SECS = 10.0
STACK_NAME = "blizzard"


class LocalStack:
    """A deployed stack and what runs it. Made by `local_stack`."""

    def __init__(
        self, aws: LocalAws, folder: Path, stack: Stack, log: Log, *, retry_after_secs: int | None = None
    ) -> None:
        self.aws = aws
        self.folder = folder
        self.stack = stack
        self.calls = LocalCalls(aws.endpoint)
        self.release_id = ""
        """Of what was deployed first."""
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
            for loop in (self._take_work, self._keep_fresh, self.functions.run_schedules)
        ]

    # What one looks at

    @property
    def parameters(self) -> Mapping[str, str]:
        """With which the stack was deployed last; the template has defaults for the rest."""
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
        return self.resources["JobApplication"]

    @property
    def orders(self) -> Orders:
        """What is to happen to the job's runs: so many fail, or they wait."""
        return self.jobs.orders

    def client(self, service: str, principal: str = OPERATOR) -> Any:
        """Always the same one for the same two."""
        if (service, principal) not in self._clients:
            self._clients[service, principal] = self.aws.client(service, principal)
        return self._clients[service, principal]

    def runs(self) -> list[dict[str, Any]]:
        """The job's runs, the newest first, as ListJobRuns has them."""
        pages = self.client("emr-serverless").get_paginator("list_job_runs").paginate(applicationId=self.application_id)
        return [run for page in pages for run in page["jobRuns"]]

    def logs(self, name: str) -> str:
        """What `collector`, `dispatcher`, `sweeper` or `job` printed until now."""
        path = self.folder / "logs" / f"blizzard-{self.stack.name}-{name}.log"
        return path.read_text() if path.exists() else ""

    def listen(self, name: str, hear: Callable[[str], None]) -> None:
        """`hear` gets each line of `collector`, `dispatcher`, `sweeper` or `job` as it comes, in another thread."""
        self._shipping.listen(f"/blizzard/{self.stack.name}/{name}", hear)

    def requests(self, since: int = 0) -> list[dict[str, Any]]:
        """What was asked of the local AWS, each with `principal`, `service`, `method`, `path`, `query` and `target`."""
        return self.calls.requests(since)

    # What one does

    def drop(self, path: str, body: bytes, *, event: bool = True) -> None:
        """Put a file below the landing prefix; without `event`, its event is lost."""
        s3, key = self.client("s3"), self._parameters.get("LandingPrefix", "") + path
        if event:
            s3.put_object(Bucket=self.landing, Key=key, Body=body)
            return
        with self._without_notifications(s3):
            s3.put_object(Bucket=self.landing, Key=key, Body=body)

    def invoke(self, logical_id: str, event: object) -> Outcome:
        """Run a function now, and wait for its answer."""
        return self.functions.invoke(self.resources[logical_id], event)

    def fire(self, logical_id: str) -> None:
        """Let a schedule fire now, as it would when it is due."""
        self.functions.fire(self.schedule(logical_id))

    def schedule(self, logical_id: str) -> Scheduled:
        name = self.resources[logical_id]
        if name not in self.functions.schedules:
            self.functions.refresh()
        return self.functions.schedules[name]

    def lose_job_events(self, lose: bool) -> None:
        """While true, changes of a run's state reach nobody by EventBridge."""
        self.calls.deliver_job_events(not lose)

    def kill_run(self) -> str | None:
        """SIGKILL to the processes of the run that is under way; its id, None where there is none."""
        for run in self.jobs.active():
            self.jobs.kill(run)
            return run
        return None

    def deploy(self, template: Mapping[str, Any] | None = None, parameters: Mapping[str, str] | None = None) -> None:
        """Create the stack, or update it: with another template, with other values for some parameters, or both.

        Raises StackFailed; the stack is then as it was before.
        """
        first = not self._template
        wanted = {**self._parameters, **(parameters or {})}
        chosen = template or self._template
        (self.stack.create if first else self.stack.update)(chosen, wanted)
        self._template, self._parameters = chosen, wanted
        self._refresh()

    def start(self) -> None:
        self._shipping.start()
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        """Ends every process that it started."""
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
        return self._principals.get(function, function)

    @contextmanager
    def _without_notifications(self, s3: Any) -> Iterator[None]:
        wanted = s3.get_bucket_notification_configuration(Bucket=self.landing)
        wanted.pop("ResponseMetadata", None)
        s3.put_bucket_notification_configuration(Bucket=self.landing, NotificationConfiguration={})
        try:
            yield
        finally:
            s3.put_bucket_notification_configuration(Bucket=self.landing, NotificationConfiguration=wanted)

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
                self._work.submit(self._guarded, item)

    def _guarded(self, item: Mapping[str, Any]) -> None:
        try:
            self._do(item)
        except Exception as error:  # noqa: BLE001 - the top of a thread
            self._log("local_work_failed", kind=item["kind"], error=repr(error))

    def _do(self, item: Mapping[str, Any]) -> None:
        match item["kind"]:
            case "invoke":
                outcome = self.functions.invoke(item["function"], item["event"])
                answer = {"error": outcome.error, "payload": outcome.payload, "log": outcome.log}
                self.calls.answer(item["id"], answer)
            case "invoke_later":
                self.functions.invoke_later(item["function"], item["event"])
            case "start_run":
                self.jobs.start(item["application"], item["run"])
            case "cancel_run":
                self.jobs.cancel(item["run"])

    def _keep_fresh(self) -> None:
        """Somebody may have deployed by CloudFormation's API alone."""
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


def _say_nothing(_: str) -> None:
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
    say: Callable[[str], None] = _say_nothing,
) -> Iterator[LocalStack]:
    """Package, publish, translate, deploy and run; at the end nothing of it is left but `folder`.

    `config`: a pipelines.yaml on s3:// buckets, which name the stack's. `parameters`: of the template, over what
    publishing gives. `template`: a translated one in place of the shipped one. `retry_after_secs`: after how long a
    message that failed is seen again, None as the queue has it. `say` hears what takes a while. Raises BlizzardError,
    FolderInUse among them: `folder` is for one stack at a time, and what is in it is deleted first.
    """
    import platform

    from infra.local.deploy.release import packed
    from infra.template.translate import translate

    with ExitStack() as stack:
        stack.enter_context(locked(folder))
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True, exist_ok=True)
        if log is None:
            log = JsonLog(stack.enter_context((folder / "local-aws.log").open("a", buffering=1)), time.time)
        aws = stack.enter_context(local_aws())
        s3 = aws.client("s3", OPERATOR)
        for name in (ARTIFACTS, CODE):
            s3.create_bucket(Bucket=name, CreateBucketConfiguration={"LocationConstraint": REGION})
        say("packing what the stack runs")
        made = release(aws, config, folder, packed(platform.machine().lower()))
        running = LocalStack(aws, folder, Stack(aws, STACK_NAME), log, retry_after_secs=retry_after_secs)
        stack.callback(running.close)
        running.start()
        running.release_id = made.id
        say("deploying the stack on a local AWS")
        running.deploy(template or translate(TEMPLATE, made.codes), {**made.parameters, **(parameters or {})})
        where = {"endpoint": aws.endpoint, "landing": running.landing, "config": str(config.absolute())}
        (folder / ENDPOINTS).write_text(json.dumps({**where, **running.resources}, indent=1))
        yield running
