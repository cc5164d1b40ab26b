"""Structured Streaming's file source with Trigger.AvailableNow, into Delta."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from benchmarks.contenders import Run, Work

TITLE = "Structured Streaming"
UNSUPPORTED: dict[str, str] = {}


def prepare(work: Work, number: int) -> None:
    pass


@contextmanager
def opened(work: Work) -> Iterator[Run]:
    from benchmarks.contenders.session import session_of

    spark = session_of(work)

    def run(number: int) -> dict[str, Any]:
        reader = spark().readStream.schema(f"{work.data.schema}, date DATE").option("mode", "DROPMALFORMED")
        writer = reader.json(work.source_uri).writeStream.format("delta").partitionBy("date")
        writer = writer.option("checkpointLocation", f"{work.out}/{number}/stream").trigger(availableNow=True)
        query = writer.start(work.table(number))
        query.awaitTermination()
        return {"batches": [{"rows": p["numInputRows"], "ms": dict(p["durationMs"])} for p in query.recentProgress]}

    yield run


def commits(work: Work, answer: dict[str, Any]) -> int:
    """One per micro-batch with rows. AvailableNow puts all files into one micro-batch."""
    return sum(batch["rows"] > 0 for batch in answer["batches"])
