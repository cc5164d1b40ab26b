"""In what batches the rows of typed columns are read: small at first, and read again only where that is worth it."""

import io
from collections.abc import Iterator

import pyarrow as pa
import pyarrow.parquet as pq

from spark_job.formats.columns import FIRST_ROWS, MAX_BLOCK_ROWS, in_blocks
from spark_job.formats.protocol import Limits
from spark_job.formats.registry import open_format
from spark_job.table.schema import columns_of
from tests.unit.contents import StoredContent

CONTENT = StoredContent(io.BytesIO())


class Rows:
    """Makes batches of rows, each of so many bytes. `asked`: for how many rows at a time."""

    def __init__(self, row_bytes: list[int]) -> None:
        self._table = pa.table({"at": range(len(row_bytes)), "text": [b"x" * size for size in row_bytes]})
        self.asked: list[int] = []

    def make(self, rows: int) -> Iterator[pa.RecordBatch]:
        self.asked.append(rows)
        return iter(self._table.to_batches(rows))

    def read(self, encoded_bytes: int = 0, *, may_grow: bool = True) -> list[int]:
        """The sizes of the batches, which have each row once and in order."""
        found = [*in_blocks(self.make, CONTENT, self._table.num_rows, encoded_bytes, may_grow=may_grow)]
        assert [at for batch in found for at in batch.column(0).to_pylist()] == [*range(self._table.num_rows)]
        return [batch.num_rows for batch in found]


def test_few_rows_are_one_batch() -> None:
    rows = Rows([10] * FIRST_ROWS)
    assert rows.read() == [FIRST_ROWS]
    assert rows.asked == [FIRST_ROWS]


def test_batches_of_small_rows_grow_once_if_they_may() -> None:
    rows = Rows([10] * 9_000)
    assert rows.read() == [FIRST_ROWS, 9_000 - FIRST_ROWS]
    assert [rows.asked[0], len(rows.asked)] == [FIRST_ROWS, 2]
    assert rows.asked[1] > 9_000
    assert rows.read(may_grow=False) == [FIRST_ROWS] * 8 + [9_000 - 8 * FIRST_ROWS]
    assert rows.asked[2:] == [FIRST_ROWS]


def test_batches_of_large_rows_shrink() -> None:
    for may_grow in (True, False):
        rows = Rows([100_000] * 1_100)
        sizes = rows.read(may_grow=may_grow)
        assert sizes[0] == FIRST_ROWS
        assert max(sizes[1:]) <= 20
        assert len(rows.asked) == 2


def test_rows_that_say_that_they_are_large_come_in_small_batches() -> None:
    rows = Rows([100_000] * 300)
    assert max(rows.read(300 * 100_000)) <= 20
    assert len(rows.asked) == 1


def sizes_of(rows: int, first_record: int = 0) -> list[int]:
    file = io.BytesIO()
    pq.write_table(pa.table({"id": range(rows)}), file, compression="none")
    parquet = open_format("parquet", columns_of("id BIGINT"), Limits(), {})
    blocks = [*parquet.blocks(StoredContent(io.BytesIO(file.getvalue())), first_record=first_record)]
    parsed = parquet.parse(blocks)
    assert parsed.records.column("id").to_pylist() == [*range(first_record, rows)]
    assert parsed.positions is None
    assert next(block.first_record for block in blocks) == first_record
    return [block.count for block in blocks]


def test_a_row_group_is_begun_again_only_if_it_is_large() -> None:
    assert {*sizes_of(MAX_BLOCK_ROWS)} == {FIRST_ROWS}
    assert sizes_of(MAX_BLOCK_ROWS + 1) == [FIRST_ROWS, MAX_BLOCK_ROWS - FIRST_ROWS, 1]
    assert sizes_of(3_000, 1_500) == [2 * FIRST_ROWS - 1_500, 3_000 - 2 * FIRST_ROWS]
