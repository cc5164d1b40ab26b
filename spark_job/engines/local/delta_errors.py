"""Translates errors of deltalake into Blizzard's errors."""

import re
from collections.abc import Iterator
from contextlib import contextmanager

from deltalake.exceptions import DeltaError

from blizzard.errors import BlizzardError, PermanentError, RetryableError

DELTALAKE_ERRORS = (DeltaError, OSError)
_LACKS_COMMITS = "contiguous commit files"
_MAX_TEXT_CHARS = 2_000
_DECORATION = re.compile("\x1b\\[[0-9;]*m|\u21b3")


@contextmanager
def translating_delta_errors(action: str) -> Iterator[None]:
    """Translates errors of work that commits nothing. `action` starts the error's text."""
    try:
        yield
    except BlizzardError:
        raise
    except DELTALAKE_ERRORS as error:
        if _LACKS_COMMITS in str(error):
            raise PermanentError(
                f"{action}: nothing was committed: the table's log lacks a commit. Expected numbers without a gap in "
                "_delta_log, back to the last checkpoint. Restore the missing files from a version or a backup of the "
                "bucket or disk, or the whole table. `blizzard status` shows the newest commits."
            ) from error
        raise RetryableError(
            f"{action}: nothing was committed: {_text(error)}\nIt can be retried. If the same error comes back each "
            "time, the table's log or its storage is at fault: `blizzard status` reads both."
        ) from error


def _text(error: Exception) -> str:
    """In one line, without the colours and the arrows by which deltalake shows causes."""
    text = " ".join(_DECORATION.sub(" ", str(error)).split())
    return f"{type(error).__name__}: {text[:_MAX_TEXT_CHARS]}"
