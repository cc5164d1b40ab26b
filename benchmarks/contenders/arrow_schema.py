"""The Arrow schema of the records, as written by hand for the contenders without Spark."""

from datetime import date
from itertools import pairwise

import pyarrow as pa

from benchmarks.contenders import date_of

EVENTS = pa.schema(
    [
        pa.field("id", pa.string()),
        pa.field("n", pa.int64()),
        pa.field("timestamp", pa.int64()),
        pa.field("value", pa.float64()),
        pa.field("payload", pa.string()),
    ]
)
NESTED = pa.schema(
    [
        *EVENTS,
        pa.field("origin", pa.struct([pa.field("host", pa.string()), pa.field("port", pa.int64())])),
        pa.field("tags", pa.list_(pa.field("element", pa.string()))),
    ]
)
DATE = pa.field("date", pa.date32())
WITH_DATE = EVENTS.append(DATE)


def schema_of(form: str) -> pa.Schema:
    """Of the files of this format."""
    return EVENTS if form in ("ndjson", "csv") else NESTED


def with_date(table: pa.Table, path: str) -> pa.Table:
    """Adds the column `date` from the name of the file's folder."""
    day = pa.scalar(date.fromisoformat(date_of(path)), pa.date32())
    return table.append_column(DATE, pa.repeat(day, table.num_rows))


def shares(paths: list[str], count: int) -> list[list[str]]:
    """Divides the paths into `count` contiguous shares, so that each share touches few folders."""
    edges = [len(paths) * n // count for n in range(count + 1)]
    return [paths[start:stop] for start, stop in pairwise(edges) if start < stop]
