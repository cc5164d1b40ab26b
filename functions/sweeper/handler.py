"""The sweeper Lambda: on a schedule, sweep the sources that are due and wake their pipelines for new files."""

import functools
import time
from typing import TYPE_CHECKING, Any

from aws_lambda_powertools.metrics import Metrics

from blizzard.environment import variables
from blizzard.sweep.commit_counts import CommitCounts
from functions.runtime import FunctionLog, function_logger, make_runtime, metrics_namespace, publish_counts, warm_up
from functions.sweeper.composition import SweepRound, check_event, make_sweep_round
from functions.sweeper.report import catalog_metrics_of, commit_metrics_of, metrics_of, schema_metrics_of

if TYPE_CHECKING:
    from aws_lambda_powertools.utilities.typing import LambdaContext

MARGIN_SECS = 10.0
"""Part of the function's time that is reserved to append the listed files and write the reports."""

logger = function_logger("sweeper")
metrics = Metrics(namespace=metrics_namespace(variables()), service="sweeper")
log = FunctionLog(logger)
warm_up(variables())


@logger.inject_lambda_context
def handler(event: dict[str, Any], context: "LambdaContext") -> dict[str, int]:
    """Returns the metrics, for manual invocations.

    A failed source raises no error, even if all of them fail: Lambda would only repeat the invocation, and the schedule
    does that anyway. `SweepsFailed` counts the failures.
    """
    check_event(event)
    remaining_secs = context.get_remaining_time_in_millis() / 1000
    done = sweep_round().run(deadline_ts=time.time() + max(0.0, remaining_secs - MARGIN_SECS))
    counts = metrics_of(done)
    log.info("sweeps_done", **counts)
    publish_counts(metrics, counts)
    if done.tables_not_registered:
        publish_counts(metrics, catalog_metrics_of(done))
    return counts


@functools.cache
def sweep_round() -> SweepRound:
    """One per container."""
    return make_sweep_round(make_runtime(variables(), log), time.time, _publish_commits)


def _publish_commits(counts: CommitCounts) -> None:
    if counts != CommitCounts():
        publish_counts(metrics, commit_metrics_of(counts))
    of_schema = {name: count for name, count in schema_metrics_of(counts).items() if count}
    if of_schema:
        publish_counts(metrics, of_schema)
