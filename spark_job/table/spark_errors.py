"""Where Spark's errors become ours."""

from collections.abc import Iterator
from contextlib import contextmanager

from py4j.protocol import Py4JError
from pyspark.errors import AnalysisException, PySparkException

from blizzard.errors import PermanentError, RetryableError

ENGINE_ERRORS = (PySparkException, Py4JError)
SHOWN_CHARS = 2_000
_PYTHON = "Traceback (most recent call last):"
_JAVA = ("\tat ", "\t... ")


@contextmanager
def engine(doing: str) -> Iterator[None]:
    """Work for Spark that changes nothing: what does not fit stays an error, everything else may be tried again."""
    try:
        yield
    except AnalysisException as error:
        raise PermanentError(
            f"{doing}: Spark refused it: {said(error)}\nMake the configuration fit the table, or the table the "
            "configuration, and start again."
        ) from error
    except ENGINE_ERRORS as error:
        raise RetryableError(
            f"{doing}: Spark failed, nothing was committed: {said(error)}\nIt may be tried again. If the same comes "
            "each time, the executors' logs say more, and a file that is named here can be moved out of the source."
        ) from error


def said(error: Exception) -> str:
    """What an error of Spark says, at most some SHOWN_CHARS of it: of a Python worker that failed the end of its
    traceback, where the error stands; of others all but the frames of Java, the last cause with the first."""
    text = str(error)
    if _PYTHON in text:
        traceback = text.rpartition(_PYTHON)[2]
        return _end(_before_java(traceback).strip())
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith(_JAVA)]
    told = "\n".join(dict.fromkeys(lines))
    half = SHOWN_CHARS // 2
    return told if len(told) <= SHOWN_CHARS else f"{told[:half]} … {told[-half:]}"


def _before_java(traceback: str) -> str:
    at = min((at for at in (traceback.find(f"\n{frame}") for frame in _JAVA) if at >= 0), default=len(traceback))
    return traceback[:at]


def _end(text: str) -> str:
    return text if len(text) <= SHOWN_CHARS else f"… {text[-SHOWN_CHARS:]}"
