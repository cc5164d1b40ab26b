"""Checks that Spark's parser decides the deferred lines as required: a row with the right values, or a refusal."""

from collections.abc import Callable, Sequence

from pyspark.sql import SparkSession

from spark_job.formats.json.spark_parser import decided_by_spark
from tests.proof.bad_input.compare import shown
from tests.proof.bad_input.reader import Found
from tests.proof.bad_input.records import PARTITION, SCHEMA, Fate, record_of
from tests.proof.campaign import Failed, Run

LINES_AT_ONCE = 2_000
"""A query takes half a second, however few lines it has."""


class Undecided:
    """Collects lines for one query. Without `spark` they stay undecided."""

    def __init__(self, run: Run, spark: Callable[[], SparkSession] | None) -> None:
        self._run = run
        self._spark = spark
        self._lines: dict[str, None] = {}

    def add(self, found: Found) -> None:
        """Adds those of one batch. Raises Failed."""
        self._lines |= dict.fromkeys(line["line"] for line in found.undecided)
        if len(self._lines) >= LINES_AT_ONCE:
            self.decide()

    def decide(self) -> None:
        """Decides all collected lines. Raises Failed."""
        lines, self._lines = [*self._lines], {}
        if self._spark is not None and lines:
            self._run.say(f"{len(lines)} lines for Spark")
            self._run.counts.update(check_decided(self._spark(), lines))


def check_decided(spark: SparkSession, lines: Sequence[str]) -> dict[str, int]:
    """Returns the numbers of rows and of refused lines. Raises Failed."""
    frame = spark.createDataFrame([(n, line, None) for n, line in enumerate(lines)], "n INT, line STRING, fault STRING")
    table = decided_by_spark(frame, SCHEMA).select("n", "record", "fault").orderBy("n").toArrow().to_pylist()
    refused = 0
    for line, found in zip(lines, table, strict=True):
        record, row = record_of(line.encode()), found["record"]
        refused += row is None
        if row is None and (record.fate is Fate.ROW or not found["fault"]):
            raise _failed(line, f"is refused, and {record.fate.value}: {found['fault']}")
        if row is not None and (why := record.differs(row | {PARTITION: row[PARTITION] or None})):
            raise _failed(line, why)
    return {"lines that Spark took": len(lines) - refused, "lines that Spark refused": refused}


def _failed(line: str, why: str) -> Failed:
    return Failed(f"a line that Spark decided: {why}", [f"a line of {shown(line.encode())}"])
