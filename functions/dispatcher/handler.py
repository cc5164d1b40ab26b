"""The dispatcher Lambda: keeps one active run for each pipeline with a backlog."""

import functools
import time
from typing import TYPE_CHECKING, Any

from blizzard.dispatch.dispatcher import DispatchResult
from blizzard.environment import variables
from blizzard.errors import RetryableError
from functions.dispatcher.composition import DispatchOutcome, DispatchRound, make_dispatch_round
from functions.dispatcher.report import report
from functions.dispatcher.triggers import UnknownEvent, WakeUps, read_trigger
from functions.runtime import FunctionLog, function_logger, make_runtime, metrics_namespace, warm_up

if TYPE_CHECKING:
    from aws_lambda_powertools.utilities.typing import LambdaContext

logger = function_logger("dispatcher")
log = FunctionLog(logger)
warm_up(variables())


class DispatchFailed(RetryableError):
    """At least one pipeline failed. The sender of the event sends it again."""


@logger.inject_lambda_context
def handler(event: dict[str, Any], context: "LambdaContext") -> dict[str, Any]:
    """For queue messages, returns the ids of those that stay in the queue. Raises for other events, so that they are
    retried."""
    try:
        trigger = read_trigger(event)
    except UnknownEvent as error:
        log.error("event_unknown", error=str(error))  # noqa: TRY400 - this log has no `exception`
        raise
    outcome = dispatch().run(trigger, lambda: context.get_remaining_time_in_millis() / 1000, _report)
    if isinstance(trigger, WakeUps):
        return {
            "batchItemFailures": [{"itemIdentifier": message_id} for message_id in _messages_to_retry(trigger, outcome)]
        }
    if outcome.failed:
        raise DispatchFailed("; ".join(f"{found.pipeline}: {found.error}" for found in outcome.failed))
    return {}


@functools.cache
def dispatch() -> DispatchRound:
    """One per container."""
    return make_dispatch_round(make_runtime(variables(), log))


def _messages_to_retry(wakes: WakeUps, outcome: DispatchOutcome) -> list[str]:
    """Ids of the messages that stay in the queue."""
    names = [*(found.pipeline for found in outcome.failed), *outcome.postponed]
    return [*wakes.bad, *(message_id for name in names for message_id in wakes.messages[name])]


def _report(found: DispatchResult) -> None:
    report(found, log=log, namespace=metrics_namespace(variables()), now_ts=time.time())
