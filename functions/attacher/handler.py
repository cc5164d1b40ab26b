"""The attacher Lambda: a custom resource of the stack, which lets a bucket that exists notify the events queue."""

import functools
import time
from typing import TYPE_CHECKING, Any

from blizzard.environment import variables
from functions.attacher.composition import S3_ATTEMPTS, Attacher
from functions.attacher.custom_resource import Request, send
from functions.runtime import FunctionLog, function_logger, make_runtime

if TYPE_CHECKING:
    from aws_lambda_powertools.utilities.typing import LambdaContext

logger = function_logger("attacher")
log = FunctionLog(logger)


@logger.inject_lambda_context
def handler(event: dict[str, Any], context: "LambdaContext") -> None:
    """Raises only when the request cannot be answered: Lambda then invokes the function again."""
    request = Request.from_event(event)
    answer = attacher().answer(request, lambda: context.get_remaining_time_in_millis() / 1000)
    send(request, answer, time.sleep)


@functools.cache
def attacher() -> Attacher:
    """One per container."""
    return Attacher(lambda: make_runtime(variables(), log).client("s3", max_attempts=S3_ATTEMPTS), log, time.sleep)
