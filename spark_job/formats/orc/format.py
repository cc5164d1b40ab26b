"""ORC: read in batches of rows, and only the columns of the schema."""

from collections.abc import Iterator
from datetime import date
from functools import partial
from typing import BinaryIO

import pyarrow as pa
import pyarrow.dataset as ds
from pyarrow import orc

from spark_job.formats.columns import BatchBlock, ColumnFormat, by_library, counted, each_by_library, in_blocks
from spark_job.formats.protocol import Content

_WHAT = "ORC"


class OrcFormat(ColumnFormat):
    """The rows before the first wanted record are read, and passed over."""

    first_day = date(1582, 10, 15)
    """Writers count earlier days in two calendars, Hive's and Spark's in the Julian one, and pyarrow does not say in
    which a file does. Earlier times are outside of what it can read."""

    def blocks(self, content: Content, *, first_record: int) -> Iterator[BatchBlock]:
        stored = content.random_access()
        file = by_library(_WHAT, lambda: orc.ORCFile(stored))
        columns = by_library(_WHAT, lambda: self.columns_of(file.schema))
        if not file.nstripes or 0 < file.nrows <= first_record:
            return
        batches = in_blocks(
            partial(_batches, stored, columns.wanted), content, file.content_length / max(1, file.nrows)
        )
        whole = counted(_WHAT, batches, file.nrows, "the file")
        yield from self.bounded(whole, columns, 0, first_record)


def _batches(stored: BinaryIO, columns: list[str], rows: int) -> Iterator[pa.RecordBatch]:
    """A fragment reads a stripe in batches of so many rows; ORCFile only as a whole."""
    fragment = by_library(_WHAT, lambda: ds.OrcFileFormat().make_fragment(stored))
    made = by_library(
        _WHAT,
        lambda: fragment.to_batches(
            columns=columns, batch_size=rows, use_threads=False, batch_readahead=0, fragment_readahead=0
        ),
    )
    return each_by_library(_WHAT, made)
