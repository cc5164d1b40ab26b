"""Spark's own reader: `spark.read.schema(…).json(paths)`, or the reader of another format, appended to Delta."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from benchmarks.contenders import Run, Work
from benchmarks.contenders.timestamps import Timestamps

TITLE = "Spark's own reader"
_NO_AVRO = "Spark's reader of Avro is a jar of its own, which this project does not use"
UNSUPPORTED: dict[str, str] = {"avro-big": _NO_AVRO, "avro-small": _NO_AVRO}
_DROP_MALFORMED = {"mode": "DROPMALFORMED"}
"""Malformed lines would become rows of nulls."""
OPTIONS: Mapping[str, Mapping[str, str]] = {
    "ndjson": _DROP_MALFORMED,
    "json": {**_DROP_MALFORMED, "multiLine": "true"},
    "csv": {**_DROP_MALFORMED, "header": "true"},
}
"""Of Spark's readers, by format. Those of other formats need none."""


def source_of(form: str) -> str:
    """What Spark calls its reader of a format."""
    return "json" if form == "ndjson" else form


def prepare(work: Work, number: int) -> None:
    pass


@contextmanager
def opened(work: Work) -> Iterator[Run]:
    from benchmarks.contenders.session import session_of

    spark = session_of(work)

    def run(number: int) -> dict[str, Any]:
        timestamps = Timestamps()
        session = timestamps.noting_session(spark)()
        form = work.data.format
        reader = session.read.format(source_of(form)).schema(f"{work.data.schema}, date DATE")
        # `basePath` adds the folders' date as a column.
        frame = reader.options(**OPTIONS.get(form, {})).option("basePath", work.source_uri).load(work.paths())
        timestamps.note("planned")
        frame.write.format("delta").mode("append").partitionBy("date").save(work.table(number))
        return {"moments": timestamps.at}

    yield run


def commits(work: Work, answer: dict[str, Any]) -> int:
    return 1
