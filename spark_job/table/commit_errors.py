"""What an error of a commit says about the commit. That it is there does not mean that nothing was committed."""

from py4j.protocol import Py4JJavaError
from pyspark.errors import AnalysisException

from blizzard.errors import CommitOutcomeUnknown, LostRace, PermanentError, RetryableError
from spark_job.table.spark_errors import said

CONFLICTS = ("ConcurrentTransactionException", "MetadataChangedException", "ProtocolChangedException")
"""After these the Txn version says what happened; they can mask each other."""
TRANSIENT = ("ConcurrentAppendException", "ConcurrentWriteException", "ConcurrentDeleteReadException")


def translated(error: Exception) -> Exception:
    text = f"{type(error).__name__}: {said(error)}"
    if _is(error, *CONFLICTS):
        return LostRace(text)
    if _is(error, *TRANSIENT):
        return RetryableError(f"a concurrent change of the table got in the way: {text}")
    if isinstance(error, AnalysisException):
        return PermanentError(
            f"the table refused the commit: {text}\nMake the source's columns fit the table, or the table these, and "
            "start again."
        )
    return CommitOutcomeUnknown(text)


def _is(error: Exception, *names: str) -> bool:
    """Whether the error, on either side of the gateway, is one of Delta's classes of these names."""
    found = {type(error).__name__}
    if isinstance(error, Py4JJavaError):
        found.add(error.java_exception.getClass().getSimpleName())
    return bool(found & set(names))
