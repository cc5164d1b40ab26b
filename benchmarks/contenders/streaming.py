"""Structured Streaming's file source with Trigger.AvailableNow, into Delta."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from benchmarks.contenders import Run, Work, spark_reader

TITLE = "Structured Streaming"
UNSUPPORTED: dict[str, str] = spark_reader.UNSUPPORTED


def prepare(work: Work, number: int) -> None:
    pass


@contextmanager
def opened(work: Work) -> Iterator[Run]:
    from benchmarks.contenders.session import session_of

    spark = session_of(work)

    def run(number: int) -> dict[str, Any]:
        form = work.data.format
        reader = spark().readStream.format(spark_reader.source_of(form)).schema(f"{work.data.schema}, date DATE")
        frame = reader.options(**spark_reader.OPTIONS.get(form, {})).load(work.source_uri)
        writer = frame.writeStream.format("delta").partitionBy("date")
        writer = writer.option("checkpointLocation", f"{work.out}/{number}/stream").trigger(availableNow=True)
        query = writer.start(work.table(number))
        query.awaitTermination()
        return {"batches": [{"rows": p["numInputRows"], "ms": dict(p["durationMs"])} for p in query.recentProgress]}

    yield run


def commits(work: Work, answer: dict[str, Any]) -> int:
    """One per micro-batch with rows. AvailableNow puts all files into one micro-batch."""
    return sum(batch["rows"] > 0 for batch in answer["batches"])
