"""Errors of a commit, translated. An error does not mean that nothing was committed."""

from py4j.protocol import Py4JJavaError
from pyspark.errors import AnalysisException

from blizzard.errors import CommitOutcomeUnknown, LostRace, PermanentError, RetryableError
from spark_job.engines.spark.spark_errors import error_text

CONFLICTS = ("ConcurrentTransactionException", "MetadataChangedException", "ProtocolChangedException")
"""Delta may raise any of these when another one applies as well, so the Txn version decides what happened."""
VIOLATION = "DeltaInvariantViolationException"
TRANSIENT = ("ConcurrentAppendException", "ConcurrentWriteException", "ConcurrentDeleteReadException")


def translate_commit_error(error: Exception) -> Exception:
    text = f"{type(error).__name__}: {error_text(error)}"
    if _is_delta_error(error, *CONFLICTS):
        return LostRace(text)
    if _is_delta_error(error, *TRANSIENT):
        return RetryableError(f"a concurrent change of the table interfered: {text}")
    if is_violation(error):
        return RetryableError(
            f"the table has a constraint for which this batch was not checked; it is planned again: {text}"
        )
    if isinstance(error, AnalysisException):
        return PermanentError(
            f"the table refused the commit: {text}\nMake the source's columns fit the table, or the table fit them, "
            "and start again."
        )
    return CommitOutcomeUnknown(text)


def is_violation(error: Exception) -> bool:
    """Whether a row violates a constraint of the table, in which case nothing was committed."""
    if _is_delta_error(error, VIOLATION):
        return True
    cause = error.java_exception if isinstance(error, Py4JJavaError) else getattr(error, "_origin", None)
    while cause is not None and cause.getClass().getSimpleName() != VIOLATION:
        cause = cause.getCause()
    return cause is not None


def _is_delta_error(error: Exception, *class_names: str) -> bool:
    """Compares the Python class and, for an error of the gateway, the Java class."""
    found = {type(error).__name__}
    if isinstance(error, Py4JJavaError):
        found.add(error.java_exception.getClass().getSimpleName())
    return bool(found & set(class_names))
