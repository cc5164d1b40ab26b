"""Texts and kinds of Spark's errors: the end of a worker's traceback, or the JVM's text without its frames."""

import traceback

import pytest
from py4j.protocol import Py4JError
from pyspark.errors import AnalysisException

from blizzard.errors import BlizzardError, CommitOutcomeUnknown, LostRace, PermanentError, RetryableError
from spark_job.engines.spark.commit_errors import translate_commit_error
from spark_job.engines.spark.spark_errors import MAX_TEXT_CHARS, error_text, translating_spark_errors
from spark_job.tasks.error_context import add_file_names

JAVA_FRAMES = "\n".join(f"\tat org.apache.spark.scheduler.Frame{n}.run(Frame.scala:{n})" for n in range(60))


def fail(text: str) -> None:
    try:
        int("a first cause")
    except ValueError as cause:
        raise ValueError(text) from cause


def worker_failed(text: str = "the reason") -> str:
    """The text of a Py4JJavaError when a task failed: the worker's traceback, twice, between Java frames."""
    with (
        pytest.raises(ValueError, match=text) as raised,
        add_file_names("parsing records of", lambda: ("day=1/poison.ndjson",)),
    ):
        fail(text)
    told = "".join(traceback.format_exception(raised.value))
    python = f"org.apache.spark.api.python.PythonException: {told}\n{JAVA_FRAMES}\n"
    return (
        "An error occurred while calling o71.collect.\n: org.apache.spark.SparkException: Job aborted due to stage "
        f"failure: Task 0 failed: {python}\nDriver stacktrace:\n{JAVA_FRAMES}\nCaused by: {python}\t... 1 more\n"
    )


def test_the_error_of_a_failed_python_worker_keeps_the_end_of_its_traceback() -> None:
    with pytest.raises(RetryableError) as raised, translating_spark_errors("reading a batch of 2 files"):
        raise Py4JError(worker_failed())
    text = str(raised.value)
    assert text.startswith("reading a batch of 2 files: Spark failed, nothing was committed: ")
    assert "ValueError: the reason\nwhile parsing records of day=1/poison.ndjson\n" in text
    assert "first cause" not in text
    assert "\tat " not in text
    assert "see the executors' logs" in text


def test_a_long_traceback_is_cut_at_its_start() -> None:
    text = error_text(Py4JError(worker_failed("x" * 2 * MAX_TEXT_CHARS + " the very end")))
    assert text.endswith("xx the very end\nwhile parsing records of day=1/poison.ndjson")
    assert len(text) <= MAX_TEXT_CHARS + 2


def test_a_jvm_error_keeps_its_start_and_its_last_cause_without_frames() -> None:
    java = f"java.io.IOException: write failed\n{JAVA_FRAMES}\nCaused by: SlowDown: 503\n{JAVA_FRAMES}\n\t... 9 more"
    assert error_text(Py4JError(java)) == "java.io.IOException: write failed\nCaused by: SlowDown: 503"
    long = error_text(Py4JError("first words " + "x" * 9_000 + f"\n{JAVA_FRAMES}\nCaused by: the last cause"))
    assert long.startswith("first words x")
    assert long.endswith("\nCaused by: the last cause")
    assert len(long) <= MAX_TEXT_CHARS + 3


def test_an_analysis_error_says_what_to_do() -> None:
    with (
        pytest.raises(PermanentError, match="Spark refused it: no column n\nMake the configuration fit"),
        translating_spark_errors("x"),
    ):
        raise AnalysisException("no column n", messageParameters={})


@pytest.mark.parametrize(
    ("error", "kind", "text"),
    [
        (AnalysisException("no column n", messageParameters={}), PermanentError, "refused the commit: .*: no column n"),
        (Py4JError(f"gone\n{JAVA_FRAMES}\nCaused by: SlowDown"), CommitOutcomeUnknown, "gone\nCaused by: SlowDown"),
        (type("ConcurrentTransactionException", (Exception,), {})("v 7"), LostRace, "v 7"),
        (type("ConcurrentAppendException", (Exception,), {})("v 7"), RetryableError, "interfered: .*v 7"),
    ],
)
def test_each_error_of_a_commit_gets_its_kind_and_keeps_its_reason(
    error: Exception, kind: type[BlizzardError], text: str
) -> None:
    found = translate_commit_error(error)
    assert type(found) is kind
    with pytest.raises(kind, match=text):
        raise found
