"""The collector Lambda: a batch of queue messages becomes one segment per source of the pending manifest."""

import functools
import secrets
import time
from typing import TYPE_CHECKING, Any

from aws_lambda_powertools.metrics import Metrics, MetricUnit

from blizzard.collect.collector import CollectResult, Message
from blizzard.environment import variables
from functions.collector.composition import Collected, Collector, make_collector
from functions.runtime import FunctionLog, function_logger, make_runtime, metrics_namespace, warm_up

if TYPE_CHECKING:
    from aws_lambda_powertools.utilities.typing import LambdaContext

logger = function_logger("collector")
metrics = Metrics(namespace=metrics_namespace(variables()), service="collector")
log = FunctionLog(logger)
warm_up(variables())


@logger.inject_lambda_context
def handler(event: dict[str, Any], context: "LambdaContext") -> dict[str, Any]:
    """Messages named in the answer stay in the queue; all others are done with."""
    collected = collector().collect(
        [Message(record["messageId"], record["body"]) for record in event["Records"]],
        writer_id=f"{context.aws_request_id}-{secrets.token_hex(4)}",
    )
    counts = _counts(collected)
    _log(collected.result, counts)
    _publish(counts)
    failed = collected.result.failed_message_ids
    return {"batchItemFailures": [{"itemIdentifier": message_id} for message_id in failed]}


@functools.cache
def collector() -> Collector:
    """One for the life of the container."""
    return make_collector(make_runtime(variables(), log), time.time)


def _log(result: CollectResult, counts: dict[str, int]) -> None:
    for ignored in result.ignored:
        log.info("event_ignored", reason=ignored.reason, detail=ignored.detail)
    for bad in result.bad:
        log.warning("message_bad", message_id=bad.message_id, error=str(bad.error))
    for failed in result.failed:
        draft = failed.draft
        log.error(
            "append_failed",
            source=draft.source_id,
            files=len(draft.entries),
            messages=len(draft.message_ids),
            error=str(failed.error),
            error_kind=type(failed.error).__name__,
        )
    for done in result.appended:
        log.info("segment_appended", source=done.draft.source_id, segment=done.segment, files=len(done.draft.entries))
    log.info("batch_collected", **counts)


def _counts(collected: Collected) -> dict[str, int]:
    """By the names of the metrics."""
    result = collected.result
    return {
        "EventsReceived": result.events,
        "FilesAppended": result.files_appended,
        "EventsMerged": result.merged,
        "EventsIgnored": len(result.ignored),
        "BadMessages": len(result.bad),
        "SegmentsAppended": len(result.appended),
        "AppendsFailed": len(result.failed),
        "WakesFailed": collected.wakes_failed,
    }


def _publish(counts: dict[str, int]) -> None:
    for name, count in counts.items():
        metrics.add_metric(name=name, unit=MetricUnit.Count, value=count)
    metrics.flush_metrics()
