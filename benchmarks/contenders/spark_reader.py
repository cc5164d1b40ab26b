"""Spark's own reader: `spark.read.schema(…).json(paths)`, appended to Delta."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from benchmarks.contenders import Run, Work
from benchmarks.contenders.timestamps import Timestamps

TITLE = "Spark's own reader"
UNSUPPORTED: dict[str, str] = {}


def prepare(work: Work, number: int) -> None:
    pass


@contextmanager
def opened(work: Work) -> Iterator[Run]:
    from benchmarks.contenders.session import session_of

    spark = session_of(work)

    def run(number: int) -> dict[str, Any]:
        timestamps = Timestamps()
        session = timestamps.noting_session(spark)()
        # `basePath` adds the folders' date as a column. DROPMALFORMED: malformed lines would become rows of nulls.
        reader = session.read.schema(f"{work.data.schema}, date DATE").option("mode", "DROPMALFORMED")
        frame = reader.option("basePath", work.source_uri).json(work.paths())
        timestamps.note("planned")
        frame.write.format("delta").mode("append").partitionBy("date").save(work.table(number))
        return {"moments": timestamps.at}

    yield run


def commits(work: Work, answer: dict[str, Any]) -> int:
    return 1
