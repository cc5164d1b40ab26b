"""Parquet: row groups are read one by one, each in batches of rows, and only the columns of the schema."""

import io
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql.types import StructType

from blizzard.config.schema_rules import NO_RULES, SchemaRules
from blizzard.state.dead_letters import Stage
from spark_job.formats.columns import (
    MAX_BLOCK_ROWS,
    BatchBlock,
    ColumnFormat,
    FileColumns,
    by_library,
    counted,
    each_by_library,
    in_blocks,
)
from spark_job.formats.old_calendar import Earliest, earliest_of
from spark_job.formats.parquet.footers import Footers, Shape
from spark_job.formats.parquet.page_sizes import PageSizes, refuse_encrypted_footer
from spark_job.formats.protocol import Content, FileFault, Limits

_WHAT = "Parquet"
_BUFFER_BYTES = 64 << 10
"""Without it, or with `pre_buffer`, pyarrow reads a column of a whole row group at once."""
_MOST_KNOWN = 16
"""Of which shapes of footers the columns are kept."""


class ParquetFormat(ColumnFormat):
    """Row groups before the first wanted record are not read."""

    def __init__(self, schema: StructType, limits: Limits, rules: SchemaRules = NO_RULES) -> None:
        super().__init__(schema, limits, rules)
        self._footers = Footers()
        self._known: dict[Shape, FileColumns] = {}

    def blocks(self, content: Content, *, first_record: int) -> Iterator[BatchBlock]:
        stored = content.random_access()
        refuse_encrypted_footer(stored)
        file = by_library(_WHAT, lambda: _opened(stored))
        pages = PageSizes(stored, self._footers)
        columns = self._columns_of(file, pages.shape)
        number, metadata = 0, file.metadata
        groups = [metadata.row_group(group).num_rows for group in range(metadata.num_row_groups)]
        if sum(groups) != metadata.num_rows:
            reason = f"not valid Parquet, or damaged: its row groups have {sum(groups):,} rows; it says that it has"
            raise FileFault(Stage.PARSE, f"{reason} {metadata.num_rows:,}")
        pages.check_footer()
        for group, rows in enumerate(groups):
            if number + rows > first_record or not rows:
                pages.check(group, columns.wanted)
                batches = _batches(file, group, columns, content)
                whole = counted(_WHAT, batches, rows, f"row group {group}")
                yield from self.bounded(whole, columns, number, first_record)
            number += rows

    def _columns_of(self, file: pq.ParquetFile, shape: Shape | None) -> FileColumns:
        """Files of the same shape have the same columns."""
        found = self._known.get(shape) if shape is not None else None
        if found is None:
            found = by_library(_WHAT, lambda: self.columns_of(file.schema_arrow, _earliest(file)))
            if shape is not None:
                self._known = {**dict(islice(self._known.items(), _MOST_KNOWN - 1)), shape: found}
        return found


def _opened(stored: BinaryIO) -> pq.ParquetFile:
    """What is in memory is read without copies, and without a call of Python for each read."""
    memory = pa.BufferReader(stored.getvalue()) if isinstance(stored, io.BytesIO) else None
    return pq.ParquetFile(
        memory or stored,
        buffer_size=0 if memory else _BUFFER_BYTES,
        pre_buffer=False,
        coerce_int96_timestamp_unit="us",
        page_checksum_verification=True,
    )


def _earliest(file: pq.ParquetFile) -> Earliest:
    texts = {key.decode(errors="replace"): value.decode(errors="replace") for key, value in _metadata(file).items()}
    leaves = (file.schema.column(at) for at in range(len(file.schema))) if texts else ()
    return earliest_of(texts, has_int96=any(leaf.physical_type == "INT96" for leaf in leaves))


def _metadata(file: pq.ParquetFile) -> Mapping[bytes, bytes]:
    return file.metadata.metadata or {}


def _batches(file: pq.ParquetFile, group: int, columns: FileColumns, content: Content) -> Iterator[pa.RecordBatch]:
    def of_size(rows: int) -> Iterator[pa.RecordBatch]:
        made = by_library(
            _WHAT, lambda: file.iter_batches(rows, row_groups=[group], columns=columns.wanted, use_threads=False)
        )
        return each_by_library(_WHAT, made, columns.maps)

    metadata = file.metadata.row_group(group)
    # To begin again takes the decoding of each column's first page and dictionary.
    may_grow = metadata.num_rows > MAX_BLOCK_ROWS
    return in_blocks(of_size, content, metadata.num_rows, metadata.total_byte_size, may_grow=may_grow)
