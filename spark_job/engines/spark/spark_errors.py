"""Translates errors of Spark, Delta and the gateway to the JVM into Blizzard's errors."""

from collections.abc import Iterator
from contextlib import contextmanager

from py4j.protocol import Py4JError
from pyspark.errors import AnalysisException, PySparkException

from blizzard.errors import PermanentError, RetryableError

SPARK_ERRORS = (PySparkException, Py4JError)
MAX_TEXT_CHARS = 2_000
_PYTHON_TRACEBACK = "Traceback (most recent call last):"
_JAVA_FRAMES = ("\tat ", "\t... ")


@contextmanager
def translating_spark_errors(action: str) -> Iterator[None]:
    """Translates errors of work that commits nothing: AnalysisException becomes PermanentError, every other error of
    Spark becomes RetryableError. `action` starts the error's text."""
    try:
        yield
    except AnalysisException as error:
        raise PermanentError(
            f"{action}: Spark refused it: {error_text(error)}\nMake the configuration fit the table, or the table fit "
            "the configuration, and start again."
        ) from error
    except SPARK_ERRORS as error:
        raise RetryableError(
            f"{action}: Spark failed, nothing was committed: {error_text(error)}\nIt can be retried. If the same "
            "error comes back each time, see the executors' logs, and move a file that is named here out of the source."
        ) from error


def error_text(error: Exception) -> str:
    """The part of a Spark error that explains it, in about MAX_TEXT_CHARS. For a failed Python worker: the end of its
    traceback, which has the error. For other errors: all lines except Java frames, with the middle cut out."""
    text = str(error)
    if _PYTHON_TRACEBACK in text:
        traceback = text.rpartition(_PYTHON_TRACEBACK)[2]
        return _last_chars(_before_java_frames(traceback).strip())
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith(_JAVA_FRAMES)]
    without_frames = "\n".join(dict.fromkeys(lines))
    half = MAX_TEXT_CHARS // 2
    if len(without_frames) <= MAX_TEXT_CHARS:
        return without_frames
    return f"{without_frames[:half]} … {without_frames[-half:]}"


def _before_java_frames(traceback: str) -> str:
    starts = (traceback.find(f"\n{frame}") for frame in _JAVA_FRAMES)
    return traceback[: min((start for start in starts if start >= 0), default=len(traceback))]


def _last_chars(text: str) -> str:
    return text if len(text) <= MAX_TEXT_CHARS else f"… {text[-MAX_TEXT_CHARS:]}"
