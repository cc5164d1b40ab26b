"""The collector Lambda: a batch of queue messages becomes one segment per source of the pending manifest."""

import functools
import secrets
import time
from typing import TYPE_CHECKING, Any

from aws_lambda_powertools.logging import Logger
from aws_lambda_powertools.metrics import Metrics, MetricUnit

from blizzard.collect import CollectResult, Message
from blizzard.environment import variables
from functions.collector.composition import Collector, make_collector

if TYPE_CHECKING:
    from aws_lambda_powertools.utilities.typing import LambdaContext

logger = Logger(service="collector")
metrics = Metrics(namespace="Blizzard", service="collector")


@logger.inject_lambda_context
def handler(event: dict[str, Any], context: "LambdaContext") -> dict[str, Any]:
    """Messages named in the answer stay in the queue; all others are done with."""
    result = collector().collect(
        [Message(record["messageId"], record["body"]) for record in event["Records"]],
        writer_id=f"{context.aws_request_id}-{secrets.token_hex(4)}",
        now_ts=time.time(),
    )
    counts = _counts(result)
    _log(result, counts)
    _publish(counts)
    return {"batchItemFailures": [{"itemIdentifier": message_id} for message_id in result.failed_message_ids]}


@functools.cache
def collector() -> Collector:
    """One for the life of the container."""
    return make_collector(variables(), log_warning=_log_warning, log_error=_log_error)


def _log_warning(event: str, /, **fields: object) -> None:
    logger.warning(event, extra=fields)


def _log_error(event: str, /, **fields: object) -> None:
    logger.error(event, extra=fields)


def _log(result: CollectResult, counts: dict[str, int]) -> None:
    for ignored in result.ignored:
        logger.info("event_ignored", extra={"reason": ignored.reason, "detail": ignored.detail})
    for bad in result.bad:
        _log_warning("message_bad", message_id=bad.message_id, error=str(bad.error))
    for failed in result.failed:
        draft = failed.draft
        _log_error(
            "append_failed",
            source=draft.source_id,
            files=len(draft.entries),
            messages=len(draft.message_ids),
            error=str(failed.error),
            error_kind=type(failed.error).__name__,
        )
    for done in result.appended:
        fields = {"source": done.draft.source_id, "segment": done.segment, "files": len(done.draft.entries)}
        logger.info("segment_appended", extra=fields)
    logger.info("batch_collected", extra=counts)


def _counts(result: CollectResult) -> dict[str, int]:
    """By the names of the metrics."""
    return {
        "EventsReceived": result.events,
        "FilesAppended": result.files_appended,
        "EventsMerged": result.merged,
        "EventsIgnored": len(result.ignored),
        "BadMessages": len(result.bad),
        "SegmentsAppended": len(result.appended),
        "AppendsFailed": len(result.failed),
    }


def _publish(counts: dict[str, int]) -> None:
    for name, count in counts.items():
        metrics.add_metric(name=name, unit=MetricUnit.Count, value=count)
    metrics.flush_metrics()
