"""The dispatcher Lambda: one active run for each pipeline with a backlog, however it is woken."""

import functools
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from aws_lambda_powertools.logging import Logger
from aws_lambda_powertools.metrics import MetricUnit
from aws_lambda_powertools.metrics.provider.cloudwatch_emf.cloudwatch import AmazonCloudWatchEMFProvider

from blizzard.dispatch.decide import Hold
from blizzard.dispatch.dispatcher import Dispatched
from blizzard.environment import variables
from blizzard.errors import RetryableError
from functions.dispatcher.composition import Dispatch, make_dispatch
from functions.dispatcher.triggers import JobStateChanged, UnknownEvent, Wakes, read_trigger
from functions.runtime import FunctionLog, make_runtime, metrics_namespace, warm_up

if TYPE_CHECKING:
    from aws_lambda_powertools.utilities.typing import LambdaContext

logger = Logger(service="dispatcher")
log = FunctionLog(logger)
_log_error = log.error
warm_up(variables())


class DispatchFailed(RetryableError):
    """Not every pipeline could be looked after; whoever sent the event sends it again."""


@logger.inject_lambda_context
def handler(event: dict[str, Any], context: "LambdaContext") -> dict[str, Any]:
    """For messages: those named in the answer stay in the queue. For other events an error asks for a repetition."""
    try:
        trigger = read_trigger(event)
    except UnknownEvent as error:
        _log_error("event_unknown", error=str(error))
        raise
    if isinstance(trigger, Wakes):
        return _woken(trigger)
    if not isinstance(trigger, JobStateChanged):
        _all_or_error(dispatch().pipelines())
    elif trigger.pipeline is None or trigger.pipeline not in dispatch().pipelines():
        log.info("run_ignored", run=trigger.name, state=trigger.state)
    else:
        _all_or_error([trigger.pipeline])
    return {}


@functools.cache
def dispatch() -> Dispatch:
    """One for the life of the container."""
    return make_dispatch(make_runtime(variables(), log))


def _woken(wakes: Wakes) -> dict[str, Any]:
    for message_id, error in wakes.bad.items():
        log.warning("message_bad", message_id=message_id, error=error)
    known = dispatch().pipelines()
    for name in wakes.messages.keys() - set(known):
        log.warning("pipeline_unknown", pipeline=name)
    failed = {found.pipeline for found in _dispatched(name for name in wakes.messages if name in known) if found.error}
    again = [*wakes.bad, *(message_id for name in failed for message_id in wakes.messages[name])]
    return {"batchItemFailures": [{"itemIdentifier": message_id} for message_id in again]}


def _all_or_error(pipelines: Iterable[str]) -> None:
    failed = [found for found in _dispatched(pipelines) if found.error]
    if failed:
        raise DispatchFailed("; ".join(f"{found.pipeline}: {found.error}" for found in failed))


def _dispatched(pipelines: Iterable[str]) -> list[Dispatched]:
    results = dispatch().of(pipelines)
    for found in results:
        _report(found)
    return results


def _report(found: Dispatched) -> None:
    values = _values(found, time.time())
    log.info("dispatched", pipeline=found.pipeline, phase=found.phase, run_id=found.run_id, hold=found.hold, **values)
    # By pipeline to look at, and over all of them for alarms: a template does not know the names of the pipelines.
    metrics = AmazonCloudWatchEMFProvider(namespace=metrics_namespace(variables()), service="dispatcher")
    metrics.add_dimensions(pipeline=found.pipeline)
    for name, value in values.items():
        unit = MetricUnit.Seconds if name == "OldestPendingSeconds" else MetricUnit.Count
        metrics.add_metric(name=name, unit=unit, value=value)
    metrics.flush_metrics()


def _values(found: Dispatched, now_ts: float) -> dict[str, float]:
    """By the names of the metrics; those of a backlog that could not be read are missing."""
    values: dict[str, float] = {
        "CircuitOpen": int(found.hold is Hold.CIRCUIT_OPEN),
        "RunsStarted": found.started,
        "RunsFailed": found.failed,
    }
    if found.backlog is not None:
        values["OldestPendingSeconds"] = round(found.backlog.oldest_secs(now_ts), 3)
        values["BacklogFiles"] = found.backlog.files
    return values
