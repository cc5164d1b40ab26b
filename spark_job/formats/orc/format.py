"""ORC: read by a process of its own, and only the columns of the schema: small files at once, others in batches."""

import os
from collections.abc import Iterator
from functools import partial
from typing import BinaryIO

import pyarrow as pa

from spark_job.formats.columns import (
    BLOCK_BYTES,
    BatchBlock,
    ColumnFormat,
    FileColumns,
    by_library,
    counted,
    each_by_library,
    in_blocks,
    rows_a_block,
    size_of,
)
from spark_job.formats.old_calendar import GREGORIAN, Earliest
from spark_job.formats.orc.known_schema import KnownSchema, known_schema
from spark_job.formats.orc.reader import LOCK, READER
from spark_job.formats.orc.small_file import MAX_BYTES
from spark_job.formats.protocol import Content, FileFault

_WHAT = "ORC"
_EARLIEST = Earliest(day=GREGORIAN)
"""Writers count earlier days in two calendars, Hive's and Spark's in the Julian one, and pyarrow does not say in which
a file does. Earlier times are outside of what it can read."""
_FEW_ROWS = 16
"""At a time, of a small file whose rows are very large."""


class OrcFormat(ColumnFormat):
    """The rows before the first wanted record are read, and passed over."""

    _known: KnownSchema | None = None
    """Of the newest small file: the next one probably has the same."""

    def blocks(self, content: Content, *, first_record: int) -> Iterator[BatchBlock]:
        stored = content.random_access()
        small = self._small_file(stored)
        if small is not None:
            batch, known = small
            for at, rows in _parts(batch, content, first_record):
                yield self.block(batch.slice(at, rows), known.columns, at)
            return
        at = first_record
        try:
            for block in self._in_batches(stored, content, first_record):
                yield block
                at = block.first_record + block.count
        except FileFault as fault:
            if stored.seek(0, os.SEEK_END) > MAX_BYTES:
                raise
            yield from self._in_batches(stored, content, at, few_after=fault)

    def _in_batches(
        self, stored: BinaryIO, content: Content, first_record: int, *, few_after: FileFault | None = None
    ) -> Iterator[BatchBlock]:
        """`few_after`: why a small file could not be read on from this record in batches of the usual size, for which
        there may have been too little memory. Raises FileFault."""
        # What a slice takes is counted by what was read, so nothing is read ahead for it.
        size_bytes = BLOCK_BYTES if content.chunk_bytes >= BLOCK_BYTES else 0
        with LOCK:
            file = READER.open(stored)
            columns = by_library(_WHAT, lambda: self.columns_of(file.schema, _EARLIEST))
            if few_after is not None and file.rows <= first_record:
                raise few_after
            if not file.stripes or 0 < file.rows <= first_record:
                return
            read = partial(_batches, columns, size_bytes)
            batches = (
                in_blocks(read, content, file.rows, file.content_bytes, may_grow=not size_bytes)
                if few_after is None
                else read(_FEW_ROWS)
            )
            whole = counted(_WHAT, _joined(batches, size_bytes), file.rows, "the file")
            yield from self.bounded(whole, columns, 0, first_record)

    def _small_file(self, stored: BinaryIO) -> tuple[pa.RecordBatch, KnownSchema] | None:
        """Its rows. None if it is not small, or not like most files: reading it in batches tells what it is."""
        if stored.seek(0, os.SEEK_END) > MAX_BYTES:
            return None
        stored.seek(0)
        data, known = stored.read(), self._known
        with LOCK:
            found = READER.small(data, None if known is None else known.request)
            if isinstance(found, bytes):
                known = self._new(found)
                found = None if known is None else READER.rows(known.request)
        if found is None or known is None:
            return None
        self._known = known
        known.check(found)
        return found, known

    def _new(self, serialized: bytes) -> KnownSchema | None:
        """Raises FileFault if a file with this schema does not fit."""
        schema = pa.ipc.read_schema(pa.py_buffer(serialized))
        columns = by_library(_WHAT, lambda: self.columns_of(schema, _EARLIEST))
        return by_library(_WHAT, lambda: known_schema(serialized, schema, columns))


def _parts(batch: pa.RecordBatch, content: Content, first_record: int) -> Iterator[tuple[int, int]]:
    """Where parts of some MiB begin, and how many rows they have."""
    rows = batch.num_rows
    each = rows_a_block(content, size_of(batch) / max(1, rows))
    return ((at, each) for at in range(first_record, rows, each))


def _batches(columns: FileColumns, size_bytes: int, rows: int) -> Iterator[pa.RecordBatch]:
    return each_by_library(_WHAT, READER.batches(columns.wanted, rows, size_bytes), columns.maps)


def _joined(batches: Iterator[pa.RecordBatch], size_bytes: int) -> Iterator[pa.RecordBatch]:
    """Batches of at least this size. The process reads smaller ones: for larger ones it would have to begin anew."""
    found, total = list[pa.RecordBatch](), 0
    for batch in batches:
        found.append(batch)
        total += batch.nbytes
        if total >= size_bytes:
            yield _one(found)
            found, total = [], 0
    if found:
        yield _one(found)


def _one(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    return batches[0] if len(batches) == 1 else pa.concat_batches(batches)
