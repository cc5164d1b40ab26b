"""Every failure of Spark, in every call of the table, becomes an error of Blizzard that concerns one source."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from py4j.protocol import Py4JError, Py4JNetworkError
from pyspark.errors import AnalysisException, PySparkRuntimeError
from pyspark.sql.types import StructType

from blizzard.errors import BlizzardError, CommitOutcomeUnknown, PermanentError, RetryableError
from blizzard.state.run_ref import SequenceRange
from blizzard.state.unknown_fields import NO_FIELDS
from blizzard.storage.memory import MemoryStore
from spark_job.engines.spark.java_references import JavaReferences
from spark_job.engines.spark.table import SparkTable
from spark_job.table.delta_table import DeltaSourceTable
from spark_job.table.table_source import TableSource
from spark_job.write.data_file import DataFile, TableLayout

FILE = DataFile("_blizzard/p_a/staging/1/a.parquet", 1, 1, 0.0, {}, "{}")
STAGED = TableLayout("_blizzard/p_a/staging/1/", (), (), 0, 1 << 20)
ERRORS = [Py4JError("gone"), Py4JNetworkError("reset"), PySparkRuntimeError("SlowDown: 503", messageParameters={})]


class Rows:
    """A batch of one staged file, for Spark's writer."""

    data_files = (FILE,)
    layout = STAGED
    record_type = StructType()
    unknown_fields = misfits = NO_FIELDS


class FailingSpark:
    """Stands for every object behind the gateway. The first `answers` calls succeed, all later ones fail."""

    def __init__(self, error: Exception, answers: Iterator[None]) -> None:
        self._error, self._answers = error, answers

    def __call__(self, *_: object, **__: object) -> "FailingSpark":
        if next(self._answers, self) is self:
            raise self._error
        return self

    def __getattr__(self, name: str) -> "FailingSpark":
        return self

    def __iter__(self) -> Iterator["FailingSpark"]:
        return iter(())

    def __contains__(self, name: object) -> bool:
        return True


def table_on(error: Exception, *, answers: int) -> DeltaSourceTable:
    engine = FailingSpark(error, iter([None] * answers))
    store = MemoryStore(lambda: 0.0)
    store.put(f"_delta_log/{0:020d}.json", b'{"commitInfo":{}}')
    session: Callable[[], Any] = engine
    source = TableSource("memory://lake", "p:a", "blizzard:p:a", "id STRING", {}, ())
    return DeltaSourceTable(
        SparkTable(session, source, JavaReferences()), source, store=store, state_prefix="_blizzard/p_a"
    )


def without_transactions(table: DeltaSourceTable) -> DeltaSourceTable:
    table.preparation._engine.why_no_transactions = lambda: "no API"  # type: ignore[method-assign]
    return table


CALLS: dict[str, Callable[[DeltaSourceTable], object]] = {
    "txn_version": lambda table: table.txn_version("blizzard:p:a"),
    "txns": lambda table: table.txns(),
    "orphan_files": lambda table: table.orphan_files(),
    "holds_rows": lambda table: table.holds_rows(),
    "holds_rows_of_nobody": lambda table: table.holds_rows_of_nobody(),
    "last_rows_after": lambda table: table.last_rows_after(3),
    "rows_present": lambda table: table.rows_present({"a": (1,)}),
    "files_of_commits": lambda table: table.files_of_commits(SequenceRange(0, 3)),
    "prepare": lambda table: table.prepare(),
    "layout": lambda table: table.layout(),
    "append nothing": lambda table: table.append(None, sequence=1, user_metadata="{}"),
    "append staged": lambda table: table.append(Rows(), sequence=1, user_metadata="{}"),
    "append by Spark": lambda table: without_transactions(table).append(None, sequence=1, user_metadata="{}"),
    "replace": lambda table: table.replace(Rows(), ["a"], sequence=1, user_metadata="{}"),
}


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("answers", range(2))
@pytest.mark.parametrize("name", CALLS)
def test_a_spark_failure_before_the_commit_is_retryable(name: str, answers: int, error: Exception) -> None:
    with pytest.raises(RetryableError, match="Spark failed, nothing was committed"):
        CALLS[name](table_on(error, answers=answers))


@pytest.mark.parametrize("name", CALLS)
def test_an_analysis_error_is_permanent(name: str) -> None:
    refused = AnalysisException("column id is not there", messageParameters={})
    with pytest.raises(PermanentError, match="Spark refused it: column id is not there"):
        CALLS[name](table_on(refused, answers=0))


@pytest.mark.parametrize("name", ["append staged", "append by Spark", "replace"])
def test_only_a_failure_of_the_commit_itself_has_an_unknown_outcome(name: str) -> None:
    kinds: list[type[BlizzardError] | None] = []
    while None not in kinds:
        table = table_on(Py4JError("gone"), answers=len(kinds))
        table.preparation.__dict__["source_columns"] = []
        table.prepare = lambda: None  # type: ignore[method-assign]
        kinds.append(_error_of(lambda table=table: CALLS[name](table)))
    assert kinds == [RetryableError] * (len(kinds) - 2) + [CommitOutcomeUnknown, None]
    assert len(kinds) >= 6


def _error_of(call: Callable[[], object]) -> type[BlizzardError] | None:
    try:
        call()
    except BlizzardError as error:
        return type(error)
    return None
