"""Simulates the Lambda service: deployed functions, event sources, schedules, and asynchronous invocations."""

import json
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

from botocore.exceptions import BotoCoreError, ClientError  # type: ignore[import-untyped]

from blizzard.log import Log
from infra.local.functions.function import LAMBDA_PACKAGES, Function, FunctionSettings, Outcome
from infra.local.functions.poller import LambdaPoller
from infra.local.functions.schedules import Cron, Rate, UnsupportedSchedule, parse_schedule
from infra.local.functions.sqs_event import EventSource
from infra.local.logs.metrics import MetricFilter
from infra.local.logs.shipping import Clients, LogShipping
from infra.local.processes.platform_packages import link_packages
from infra.local.processes.server_calls import LocalCalls
from infra.local.processes.server_process import LocalAws
from infra.local.processes.unpacked import unpacked

MAX_POLLERS = 2
"""Per queue, even if MaximumConcurrency allows more: this is one machine."""
ASYNC_WORKERS = 8
DEFAULT_RETRIES = 2
RETRY_SECS = (1.0, 2.0)
"""Before each retry of an asynchronous invocation. Lambda waits one minute, then two."""


class UnknownFunction(Exception):
    """No function of this name is deployed."""


class FunctionFailed(Exception):
    """An invocation ended with an error; the text is Lambda's report."""


@dataclass(frozen=True, slots=True)
class Scheduled:
    """A deployed schedule."""

    name: str
    expression: str
    when: Rate | Cron
    function: str
    event: Any
    created_ts: float


class FunctionsRunner:
    """Runs what was deployed at the last `refresh`."""

    def __init__(
        self,
        aws: LocalAws,
        client: Clients,
        calls: LocalCalls,
        folder: Path,
        shipping: LogShipping,
        principal_of: Callable[[str], str],
        log: Log,
        *,
        retry_after_secs: int | None,
    ) -> None:
        self._aws = aws
        self._client = client
        self._calls = calls
        self._packages = link_packages(folder / "lambda-packages", LAMBDA_PACKAGES)
        self._shipping = shipping
        self._principal_of = principal_of
        self._log = log
        self._retry_after_secs = retry_after_secs
        self._functions: dict[str, Function] = {}
        self._pollers: dict[EventSource, list[LambdaPoller]] = {}
        self._schedules: dict[str, Scheduled] = {}
        self._async_pool = ThreadPoolExecutor(ASYNC_WORKERS, thread_name_prefix="invoke-async")
        self._stopping = threading.Event()
        self._refreshing = threading.Lock()

    @property
    def functions(self) -> Mapping[str, Function]:
        return dict(self._functions)

    @property
    def schedules(self) -> Mapping[str, Scheduled]:
        return dict(self._schedules)

    def refresh(self) -> None:
        """Run what is deployed now. Invocations of an older version finish."""
        with self._refreshing:
            self._refresh_functions()
            self._refresh_pollers()
            self._refresh_schedules()
            filters = self._client("logs", "operator").describe_metric_filters()["metricFilters"]
            self._shipping.use_filters(MetricFilter.from_description(found) for found in filters)

    def invoke(self, name: str, event: object) -> Outcome:
        """Raises UnknownFunction."""
        function = self._functions.get(name)
        if function is None:
            self.refresh()
            function = self._functions.get(name)
        if function is None:
            raise UnknownFunction(
                f"{name}: found no such function; expected one of: {', '.join(self._functions) or 'none is deployed'}"
            )
        outcome = function.invoke(event)
        if outcome.peak_mb > function.settings.memory_mb:
            self._log("lambda_memory_exceeded", function=name, peak_mb=outcome.peak_mb)
        return outcome

    def invoke_async(self, name: str, event: object) -> None:
        """Invoke with Lambda's retries. A final failure goes to the destination on failure."""
        self._async_pool.submit(self._invoke_with_retries, name, event)

    def fire(self, schedule: Scheduled) -> None:
        self.invoke_async(schedule.function, schedule.event)

    def run_schedules(self) -> None:
        """Fire schedules when they are due, until `close`."""
        due: dict[str, tuple[Scheduled, float]] = {}
        while not self._stopping.wait(0.2):
            now = time.time()
            for name, schedule in list(self._schedules.items()):
                known = due.get(name)
                if known is None or known[0] != schedule:
                    due[name] = schedule, schedule.when.next_after(now, schedule.created_ts)
                elif now >= known[1]:
                    self.fire(schedule)
                    due[name] = schedule, schedule.when.next_after(now, schedule.created_ts)

    def stop_pollers(self) -> None:
        pollers = [poller for found in self._pollers.values() for poller in found]
        self._pollers = {}
        for poller in pollers:
            poller.stop()

    def close(self) -> None:
        self._stopping.set()
        self.stop_pollers()
        self._async_pool.shutdown(wait=False, cancel_futures=True)
        for function in self._functions.values():
            function.close()

    def _refresh_functions(self) -> None:
        found = self._client("lambda", "operator").list_functions()["Functions"]
        deployed = {
            one["FunctionName"]: FunctionSettings.from_configuration(one, self._principal_of(one["FunctionName"]))
            for one in found
        }
        for name in [name for name, function in self._functions.items() if function.settings != deployed.get(name)]:
            self._functions.pop(name).close()
        for name, settings in deployed.items():
            if name not in self._functions:
                self._functions[name] = self._function(settings)

    def _function(self, settings: FunctionSettings) -> Function:
        folder = unpacked(self._calls.code(settings.name))
        aws = self._aws.environment(settings.principal)

        def sink(group: str, stream: str, line: str) -> None:
            self._shipping.add(settings.principal, group, stream, line)

        return Function(settings, folder, self._packages, aws, sink)

    def _refresh_pollers(self) -> None:
        deployed: dict[EventSource, int] = {}
        for mapping in self._client("lambda", "operator").list_event_source_mappings()["EventSourceMappings"]:
            if mapping["State"] == "Enabled":
                source = self._source(mapping)
                max_concurrency = mapping.get("ScalingConfig", {}).get("MaximumConcurrency", MAX_POLLERS)
                deployed[source] = min(MAX_POLLERS, int(max_concurrency))
        removed = [self._pollers.pop(source) for source in list(self._pollers) if source not in deployed]
        for poller in [poller for pollers in removed for poller in pollers]:
            poller.stop()
        for source, count in deployed.items():
            if source not in self._pollers:
                self._pollers[source] = [self._poller(source) for _ in range(count)]

    def _source(self, mapping: Mapping[str, Any]) -> EventSource:
        arn = mapping["EventSourceArn"]
        url = self._client("sqs", "operator").get_queue_url(QueueName=arn.split(":")[-1])["QueueUrl"]
        function = self._functions[mapping["FunctionArn"].split(":")[6]].settings
        return EventSource(
            queue_url=url,
            queue_arn=arn,
            function_name=function.name,
            batch_size=int(mapping["BatchSize"]),
            window_secs=float(mapping.get("MaximumBatchingWindowInSeconds") or 0),
            report_batch_item_failures="ReportBatchItemFailures" in (mapping.get("FunctionResponseTypes") or []),
            # The instance enforces the timeout itself; the poller must not end first.
            timeout_secs=function.timeout_secs + 1,
            memory_limit_in_mb=function.memory_mb,
            retry_after_secs=self._retry_after_secs,
        )

    def _poller(self, source: EventSource) -> LambdaPoller:
        def handler(event: dict[str, Any], context: Any) -> object:
            outcome = self.invoke(source.function_name, event)
            if outcome.error:
                raise FunctionFailed(json.dumps(outcome.payload)[:2000])
            return outcome.payload

        sqs = self._client("sqs", self._functions[source.function_name].settings.principal)
        poller = LambdaPoller(sqs, source, handler, self._log)
        poller.start()
        return poller

    def _refresh_schedules(self) -> None:
        scheduler = self._client("scheduler", "operator")
        found: dict[str, Scheduled] = {}
        for listed in scheduler.list_schedules()["Schedules"]:
            one = scheduler.get_schedule(Name=listed["Name"], GroupName=listed["GroupName"])
            if one["State"] != "ENABLED":
                continue
            try:
                found[one["Name"]] = _scheduled(one)
            except UnsupportedSchedule as error:
                self._log("schedule_not_run", schedule=one["Name"], error=str(error))
        self._schedules = found

    def _invoke_with_retries(self, name: str, event: object) -> None:
        try:
            settings = self._invoke_config(name)
            retries = int(settings.get("MaximumRetryAttempts", DEFAULT_RETRIES))
            outcome = self._attempt(name, event, 1)
            for number in range(retries):
                if not outcome.error or self._stopping.wait(RETRY_SECS[min(number, len(RETRY_SECS) - 1)]):
                    return
                outcome = self._attempt(name, event, number + 2)
            if outcome.error:
                self._send_failure(name, event, outcome, retries + 1, settings)
        except (BotoCoreError, ClientError, OSError, UnknownFunction) as error:
            if not self._stopping.is_set():
                self._log("lambda_invocation_failed", function=name, error=repr(error))

    def _attempt(self, name: str, event: object, number: int) -> Outcome:
        outcome = self.invoke(name, event)
        if outcome.error:
            self._log("lambda_invocation_failed", function=name, attempt=number, error=outcome.payload)
        return outcome

    def _invoke_config(self, name: str) -> Mapping[str, Any]:
        functions = self._client("lambda", "operator")
        with suppress(functions.exceptions.ResourceNotFoundException):
            return cast(Mapping[str, Any], functions.get_function_event_invoke_config(FunctionName=name))
        return {}

    def _send_failure(
        self, name: str, event: object, outcome: Outcome, tries: int, settings: Mapping[str, Any]
    ) -> None:
        destination = settings.get("DestinationConfig", {}).get("OnFailure", {}).get("Destination")
        if destination is None:
            return
        function = self._functions[name].settings
        record = {
            "version": "1.0",
            "timestamp": datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "requestContext": {
                "functionArn": f"{function.arn}:$LATEST",
                "condition": "RetriesExhausted",
                "approximateInvokeCount": tries,
            },
            "requestPayload": event,
            "responseContext": {"statusCode": 200, "executedVersion": "$LATEST", "functionError": "Unhandled"},
            "responsePayload": outcome.payload,
        }
        sqs = self._client("sqs", function.principal)
        url = self._client("sqs", "operator").get_queue_url(QueueName=destination.split(":")[-1])["QueueUrl"]
        sqs.send_message(QueueUrl=url, MessageBody=json.dumps(record))


def _scheduled(found: Mapping[str, Any]) -> Scheduled:
    target = found["Target"]
    return Scheduled(
        name=found["Name"],
        expression=found["ScheduleExpression"],
        when=parse_schedule(found["ScheduleExpression"]),
        function=target["Arn"].split(":")[6],
        event=json.loads(target.get("Input", "{}")),
        created_ts=found["CreationDate"].timestamp(),
    )
