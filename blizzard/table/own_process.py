"""A call in a process of its own. Threads of deltalake, once it has read from S3, may abort a process that ends in the
usual way, after its work is done: then only the exit code of that process is wrong."""

import os
from collections.abc import Callable
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import ParamSpec, TypeVar

from blizzard.errors import BlizzardError, PermanentError, RetryableError

Result = TypeVar("Result")
Parameters = ParamSpec("Parameters")


def in_own_process(
    call: Callable[Parameters, Result], *arguments: Parameters.args, **named: Parameters.kwargs
) -> Result:
    """Raises what it raises, PermanentError instead of an error that cannot be passed on, such as deltalake's, and
    RetryableError if the process ends without an answer."""
    context = get_context("spawn")
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_answer, args=(theirs, call, arguments, named), name="table", daemon=True)
    process.start()
    theirs.close()
    try:
        answer, error = ours.recv()
    except EOFError as ended:
        process.join()
        raise RetryableError(
            f"the process that read the table ended with exit code {process.exitcode}. If nobody ended it, the machine "
            "is out of memory: try again where there is more."
        ) from ended
    process.join()
    if error is not None:
        raise error
    return answer  # type: ignore[no-any-return]


def _answer(
    theirs: Connection, call: Callable[..., object], arguments: tuple[object, ...], named: dict[str, object]
) -> None:
    try:
        theirs.send((call(*arguments, **named), None))
    except Exception as error:  # noqa: BLE001 - raised where it was asked for
        theirs.send((None, _portable(error)))
    theirs.close()
    os._exit(0)


def _portable(error: Exception) -> Exception:
    if isinstance(error, BlizzardError | OSError | ValueError):
        return error
    return PermanentError(f"{type(error).__name__}: {error}")
