"""The collector Lambda: a batch of queue messages becomes one segment per source of the pending manifest."""

import functools
import secrets
import time
from typing import TYPE_CHECKING, Any

from aws_lambda_powertools.metrics import Metrics

from blizzard.collect.collector import Message
from blizzard.environment import variables
from functions.collector.composition import Collector, make_collector
from functions.collector.report import log_result, metrics_of
from functions.runtime import FunctionLog, function_logger, make_runtime, metrics_namespace, publish_counts, warm_up

if TYPE_CHECKING:
    from aws_lambda_powertools.utilities.typing import LambdaContext

logger = function_logger("collector")
metrics = Metrics(namespace=metrics_namespace(variables()), service="collector")
log = FunctionLog(logger)
warm_up(variables())


@logger.inject_lambda_context
def handler(event: dict[str, Any], context: "LambdaContext") -> dict[str, Any]:
    """Returns the ids of the messages that stay in the queue."""
    collected = collector().collect(
        [Message(record["messageId"], record["body"]) for record in event["Records"]],
        writer_id=f"{context.aws_request_id}-{secrets.token_hex(4)}",
    )
    counts = metrics_of(collected)
    log_result(log, collected.result)
    log.info("batch_collected", **counts)
    publish_counts(metrics, counts)
    failed = collected.result.failed_message_ids
    return {"batchItemFailures": [{"itemIdentifier": message_id} for message_id in failed]}


@functools.cache
def collector() -> Collector:
    """One per container."""
    return make_collector(make_runtime(variables(), log), time.time)
