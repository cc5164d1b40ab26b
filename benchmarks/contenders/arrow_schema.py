"""Spark's DDL as the Arrow schema that somebody would write down by hand for the same records."""

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
WITH_DATE = EVENTS.append(pa.field("date", pa.date32()))


def with_date(table: pa.Table, path: str) -> pa.Table:
    """With the column that the file's folder spells."""
    day = pa.scalar(date.fromisoformat(date_of(path)), pa.date32())
    return pa.Table.from_arrays([*table.columns, pa.repeat(day, table.num_rows)], schema=WITH_DATE)


def shares(paths: list[str], count: int) -> list[list[str]]:
    """Neighbours together, so that each share touches few folders."""
    edges = [len(paths) * n // count for n in range(count + 1)]
    return [paths[start:stop] for start, stop in pairwise(edges) if start < stop]
