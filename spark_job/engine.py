"""Where Spark's errors become ours."""

from collections.abc import Iterator
from contextlib import contextmanager

from py4j.protocol import Py4JError
from pyspark.errors import AnalysisException, PySparkException

from blizzard.errors import PermanentError, RetryableError

ENGINE_ERRORS = (PySparkException, Py4JError)
SHOWN_CHARS = 1_000


@contextmanager
def engine(doing: str) -> Iterator[None]:
    """Work for Spark that changes nothing: what does not fit stays an error, everything else may be tried again."""
    try:
        yield
    except AnalysisException as error:
        raise PermanentError(f"{doing}: Spark refused it: {str(error)[:SHOWN_CHARS]}") from error
    except ENGINE_ERRORS as error:
        text = str(error)[:SHOWN_CHARS]
        raise RetryableError(f"{doing}: Spark failed, nothing was committed: {text}") from error
