"""Runs checks one by one: one that fails hides no other."""

import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from blizzard.errors import BlizzardError
from blizzard.log import first_line

T = TypeVar("T")
S = TypeVar("S")

MAX_ERROR_CHARS = 500
_CALL = re.compile(r"^An error occurred while calling \S+ : ")


@dataclass
class Checks:
    """`failed`: what went wrong, by check. `secs`: how long each took."""

    failed: dict[str, str] = field(default_factory=dict)
    secs: dict[str, float] = field(default_factory=dict)

    def run(self, name: str, check: Callable[[], T]) -> T | None:
        """What the check found; None if it failed."""
        started = time.monotonic()
        try:
            return check()
        except Exception as error:  # noqa: BLE001 - the next check has to run whatever this one met
            self.failed[name] = error_text(error)
            return None
        finally:
            self.secs[name] = round(time.monotonic() - started, 2)

    def run_with(self, needed: S | None, name: str, check: Callable[[S], T]) -> T | None:
        """Without what it needs, the check is skipped: why that is missing has been recorded already."""
        return None if needed is None else self.run(name, lambda: check(needed))


def error_text(error: Exception) -> str:
    """Its kind and its first line: further lines of AWS's may hold the request with its session token. Blizzard's own
    errors say enough without their kind."""
    if isinstance(error, BlizzardError):
        return str(error)[:MAX_ERROR_CHARS]
    if type(error).__module__.partition(".")[0] in ("py4j", "pyspark"):
        from spark_job.engines.spark.spark_errors import error_text as spark_error_text

        return _CALL.sub("", " ".join(spark_error_text(error).split()))[:MAX_ERROR_CHARS]
    return f"{type(error).__name__}: {first_line(str(error))}"[:MAX_ERROR_CHARS]
