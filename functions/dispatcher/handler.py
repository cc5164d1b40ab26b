"""The dispatcher Lambda: one active run for each pipeline with a backlog, however it is woken."""

import functools
import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from aws_lambda_powertools.metrics import MetricUnit
from aws_lambda_powertools.metrics.provider.cloudwatch_emf.cloudwatch import AmazonCloudWatchEMFProvider

from blizzard.dispatch.decide import Hold
from blizzard.dispatch.dispatcher import DispatchResult
from blizzard.environment import variables
from blizzard.errors import RetryableError
from functions.dispatcher.composition import Dispatch, make_dispatch
from functions.dispatcher.triggers import JobStateChanged, UnknownEvent, UnnamedRunChanged, Wakes, read_trigger
from functions.runtime import FunctionLog, function_logger, make_runtime, metrics_namespace, warm_up

if TYPE_CHECKING:
    from aws_lambda_powertools.utilities.typing import LambdaContext

RESERVE_SECS = 20.0
"""Of the function's own time: with less than that no further pipeline is begun. Most take a second; one whose calls
are throttled or time out may take that long."""

logger = function_logger("dispatcher")
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

    def remaining_secs() -> float:
        return context.get_remaining_time_in_millis() / 1000

    if isinstance(trigger, Wakes):
        return _woken(trigger, remaining_secs)
    if isinstance(trigger, UnnamedRunChanged):
        _all_or_error(dispatch().that_started(trigger.run_id) or dispatch().round(), remaining_secs)
    elif not isinstance(trigger, JobStateChanged):
        _all_or_error(dispatch().round(), remaining_secs)
    elif trigger.pipeline is None or trigger.pipeline not in dispatch().pipelines():
        log.info("run_ignored", run=trigger.name, state=trigger.state)
    else:
        _all_or_error([trigger.pipeline], remaining_secs)
    return {}


@functools.cache
def dispatch() -> Dispatch:
    """One for the life of the container."""
    return make_dispatch(make_runtime(variables(), log))


def _woken(wakes: Wakes, remaining_secs: Callable[[], float]) -> dict[str, Any]:
    for message_id, error in wakes.bad.items():
        log.warning("message_bad", message_id=message_id, error=error)
    known = dispatch().pipelines()
    for name in wakes.messages.keys() - set(known):
        log.warning("pipeline_unknown", pipeline=name)
    failed, put_off = _dispatched((name for name in wakes.messages if name in known), remaining_secs)
    names = [*(found.pipeline for found in failed), *put_off]
    again = [*wakes.bad, *(message_id for name in names for message_id in wakes.messages[name])]
    return {"batchItemFailures": [{"itemIdentifier": message_id} for message_id in again]}


def _all_or_error(pipelines: Iterable[str], remaining_secs: Callable[[], float]) -> None:
    failed, _ = _dispatched(pipelines, remaining_secs)
    if failed:
        raise DispatchFailed("; ".join(f"{found.pipeline}: {found.error}" for found in failed))


def _dispatched(
    pipelines: Iterable[str], remaining_secs: Callable[[], float]
) -> tuple[list[DispatchResult], tuple[str, ...]]:
    """Those that failed, and those for which no time was left. The first one has its turn in any case. Each is reported
    as soon as it is done: should the function's time end with the next one, that much is known."""
    failed: list[DispatchResult] = []
    waiting = [*pipelines]
    while waiting:
        found = dispatch().one(waiting.pop(0))
        _report(found)
        if found.error:
            failed.append(found)
        if waiting and remaining_secs() < RESERVE_SECS:
            log.warning("dispatch_put_off", pipelines=waiting, remaining_secs=remaining_secs())
            break
    return failed, tuple(waiting)


def _report(found: DispatchResult) -> None:
    values = _values(found, time.time())
    log.info("dispatched", pipeline=found.pipeline, phase=found.phase, run_id=found.run_id, hold=found.hold, **values)
    # By pipeline to look at, and over all of them for alarms: a template does not know the names of the pipelines.
    metrics = AmazonCloudWatchEMFProvider(namespace=metrics_namespace(variables()), service="dispatcher")
    metrics.add_dimensions(pipeline=found.pipeline)
    for name, value in values.items():
        unit = MetricUnit.Seconds if name == "OldestPendingSeconds" else MetricUnit.Count
        metrics.add_metric(name=name, unit=unit, value=value)
    metrics.flush_metrics()


def _values(found: DispatchResult, now_ts: float) -> dict[str, float]:
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
