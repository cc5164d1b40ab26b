"""ORC: read in batches of rows, and only the columns of the schema."""

from collections.abc import Iterator
from datetime import date

import pyarrow.dataset as ds
from pyarrow import orc

from spark_job.formats.columns import BatchBlock, ColumnFormat, by_library, counted, each_by_library, rows_a_block
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
        size = rows_a_block(content, file.content_length / max(1, file.nrows))
        # A fragment reads a stripe in batches; ORCFile only as a whole.
        fragment = by_library(_WHAT, lambda: ds.OrcFileFormat().make_fragment(stored))
        batches = by_library(
            _WHAT,
            lambda: fragment.to_batches(
                columns=columns.wanted, batch_size=size, use_threads=False, batch_readahead=0, fragment_readahead=0
            ),
        )
        whole = counted(_WHAT, each_by_library(_WHAT, batches), file.nrows, "the file")
        yield from self.bounded(whole, columns, 0, first_record)
