"""The sweeper Lambda: on a schedule, sweep the sources that are due and wake their pipelines for what was found."""

import functools
import time
from typing import TYPE_CHECKING, Any

from aws_lambda_powertools.metrics import Metrics, MetricUnit

from blizzard.environment import variables
from functions.runtime import FunctionLog, function_logger, make_runtime, metrics_namespace, warm_up
from functions.sweeper.composition import Round, SweepRound, check_event, make_sweep_round

if TYPE_CHECKING:
    from aws_lambda_powertools.utilities.typing import LambdaContext

MARGIN_SECS = 10.0
"""Of the function's own time, kept for appending what was listed and writing the reports."""

logger = function_logger("sweeper")
metrics = Metrics(namespace=metrics_namespace(variables()), service="sweeper")
log = FunctionLog(logger)
warm_up(variables())


@logger.inject_lambda_context
def handler(event: dict[str, Any], context: "LambdaContext") -> dict[str, int]:
    """The metrics, for whoever calls it by hand.

    A source that fails raises no error, nor do all of them: Lambda would repeat the invocation, and the schedule comes
    again anyway. `SweepsFailed` tells.
    """
    check_event(event)
    remaining_secs = context.get_remaining_time_in_millis() / 1000
    counts = _counts(sweep_round().run(deadline_ts=time.time() + max(0.0, remaining_secs - MARGIN_SECS)))
    log.info("sweeps_done", **counts)
    _publish(counts)
    return counts


@functools.cache
def sweep_round() -> SweepRound:
    """One for the life of the container."""
    return make_sweep_round(make_runtime(variables(), log), time.time)


def _counts(done: Round) -> dict[str, int]:
    """By the names of the metrics."""
    return {
        "Sweeps": done.sweeps,
        "FilesListed": done.files_listed,
        "FilesFound": done.files_found,
        "FilesMissed": done.files_missed,
        "SweepsFailed": done.failed,
        "SweepsIncomplete": done.incomplete,
        "WakesFailed": done.wakes_failed,
    }


def _publish(counts: dict[str, int]) -> None:
    for name, count in counts.items():
        metrics.add_metric(name=name, unit=MetricUnit.Count, value=count)
    metrics.flush_metrics()
