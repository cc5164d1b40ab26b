"""ORC: read in batches of rows, and only the columns of the schema, by a process of its own."""

from collections.abc import Iterator
from functools import partial

import pyarrow as pa

from spark_job.formats.columns import BatchBlock, ColumnFormat, by_library, counted, each_by_library, in_blocks
from spark_job.formats.old_calendar import GREGORIAN, Earliest
from spark_job.formats.orc.reader import LOCK, READER
from spark_job.formats.protocol import Content

_WHAT = "ORC"
_EARLIEST = Earliest(day=GREGORIAN)
"""Writers count earlier days in two calendars, Hive's and Spark's in the Julian one, and pyarrow does not say in which
a file does. Earlier times are outside of what it can read."""


class OrcFormat(ColumnFormat):
    """The rows before the first wanted record are read, and passed over."""

    def blocks(self, content: Content, *, first_record: int) -> Iterator[BatchBlock]:
        stored = content.random_access()
        with LOCK:
            file = READER.open(stored)
            columns = by_library(_WHAT, lambda: self.columns_of(file.schema, _EARLIEST))
            if not file.stripes or 0 < file.rows <= first_record:
                return
            batches = in_blocks(partial(_batches, columns.wanted), content, file.rows, file.content_bytes)
            whole = counted(_WHAT, batches, file.rows, "the file")
            yield from self.bounded(whole, columns, 0, first_record)


def _batches(columns: list[str], rows: int) -> Iterator[pa.RecordBatch]:
    return each_by_library(_WHAT, READER.batches(columns, rows))
