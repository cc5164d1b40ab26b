"""Parquet: row groups are read one by one, each in batches of rows, and only the columns of the schema."""

from collections.abc import Iterator, Mapping

import pyarrow as pa
import pyarrow.parquet as pq

from blizzard.state.dead_letters import Stage
from spark_job.formats.columns import BatchBlock, ColumnFormat, by_library, counted, each_by_library, in_blocks
from spark_job.formats.old_calendar import Earliest, earliest_of
from spark_job.formats.parquet.page_sizes import PageSizes, refuse_encrypted_footer
from spark_job.formats.protocol import Content, FileFault

_WHAT = "Parquet"
_BUFFER_BYTES = 64 << 10
"""Without it, or with `pre_buffer`, pyarrow reads a column of a whole row group at once."""


class ParquetFormat(ColumnFormat):
    """Row groups before the first wanted record are not read."""

    def blocks(self, content: Content, *, first_record: int) -> Iterator[BatchBlock]:
        stored = content.random_access()
        refuse_encrypted_footer(stored)
        file = by_library(
            _WHAT,
            lambda: pq.ParquetFile(
                stored,
                buffer_size=_BUFFER_BYTES,
                pre_buffer=False,
                coerce_int96_timestamp_unit="us",
                page_checksum_verification=True,
            ),
        )
        columns = by_library(_WHAT, lambda: self.columns_of(file.schema_arrow, _earliest(file)))
        number, metadata = 0, file.metadata
        of_groups = sum(metadata.row_group(group).num_rows for group in range(file.num_row_groups))
        if of_groups != metadata.num_rows:
            reason = f"not valid Parquet, or damaged: its row groups have {of_groups:,} rows; it says that it has"
            raise FileFault(Stage.PARSE, f"{reason} {metadata.num_rows:,}")
        pages = PageSizes(stored)
        for group in range(file.num_row_groups):
            rows = metadata.row_group(group).num_rows
            if number + rows > first_record or not rows:
                pages.check(group, columns.wanted)
                batches = _batches(file, group, columns.wanted, content)
                whole = counted(_WHAT, batches, rows, f"row group {group}")
                yield from self.bounded(whole, columns, number, first_record)
            number += rows


def _earliest(file: pq.ParquetFile) -> Earliest:
    texts = {key.decode(errors="replace"): value.decode(errors="replace") for key, value in _metadata(file).items()}
    leaves = (file.schema.column(at) for at in range(len(file.schema))) if texts else ()
    return earliest_of(texts, has_int96=any(leaf.physical_type == "INT96" for leaf in leaves))


def _metadata(file: pq.ParquetFile) -> Mapping[bytes, bytes]:
    return file.metadata.metadata or {}


def _batches(file: pq.ParquetFile, group: int, columns: list[str], content: Content) -> Iterator[pa.RecordBatch]:
    def of_size(rows: int) -> Iterator[pa.RecordBatch]:
        made = by_library(
            _WHAT, lambda: file.iter_batches(rows, row_groups=[group], columns=columns, use_threads=False)
        )
        return each_by_library(_WHAT, made)

    metadata = file.metadata.row_group(group)
    return in_blocks(of_size, content, metadata.total_byte_size / max(1, metadata.num_rows))
