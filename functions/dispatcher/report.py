"""What the dispatcher logs and counts for each pipeline."""

from aws_lambda_powertools.metrics import MetricUnit
from aws_lambda_powertools.metrics.provider.cloudwatch_emf.cloudwatch import AmazonCloudWatchEMFProvider

from blizzard.dispatch.decide import Hold
from blizzard.dispatch.dispatcher import DispatchResult
from functions.runtime import FunctionLog

OF_TOPICS = frozenset({"BacklogMessages"})
"""Only of pipelines with sources of topics."""


def report(found: DispatchResult, *, log: FunctionLog, namespace: str, now_ts: float) -> None:
    """Logs one line, and publishes metrics with the dimension `pipeline` and without it.

    Alarms use those without, since the template does not know the names of the pipelines.
    """
    values = _values(found, now_ts)
    log.info("dispatched", pipeline=found.pipeline, phase=found.phase, run_id=found.run_id, hold=found.hold, **values)
    metrics = AmazonCloudWatchEMFProvider(namespace=namespace, service="dispatcher")
    metrics.add_dimensions(pipeline=found.pipeline)
    for name, value in values.items():
        unit = MetricUnit.Seconds if name == "OldestPendingSeconds" else MetricUnit.Count
        metrics.add_metric(name=name, unit=unit, value=value)
    metrics.flush_metrics()


def _values(found: DispatchResult, now_ts: float) -> dict[str, float]:
    """By the names of the metrics, without those of a backlog that could not be read."""
    values: dict[str, float] = {
        "CircuitOpen": int(found.hold is Hold.CIRCUIT_OPEN),
        "RunsStarted": found.started,
        "RunsFailed": found.failed,
    }
    if found.backlog is not None:
        values["OldestPendingSeconds"] = round(found.backlog.oldest_secs(now_ts), 3)
        values["BacklogFiles"] = found.backlog.files
        if found.backlog.topics:
            values["BacklogMessages"] = found.backlog.messages
    return values
