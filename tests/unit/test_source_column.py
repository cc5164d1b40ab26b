"""A data file that cannot be read: whether it is damaged, or storage refuses it."""

import io

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from blizzard.errors import BlizzardError, DataFileDamaged, NotFound, StorageError, StorageUnavailable
from blizzard.storage.memory import MemoryStore
from blizzard.table.added_files import AddedFile
from blizzard.table.source_column import FOOTER_BYTES, SourceColumn

ROWS = 20_000


class RefusingStore(MemoryStore):
    """`refusals`: what each of the next requests for a range raises; None: it answers."""

    def __init__(self) -> None:
        super().__init__(lambda: 0.0)
        self.refusals: list[BlizzardError | None] = []

    def get_range(self, key: str, start: int, size: int) -> bytes:
        refusal = self.refusals.pop(0) if self.refusals else None
        if refusal is not None:
            raise refusal
        return super().get_range(key, start, size)


def data_file() -> bytes:
    """Larger than what is read of the end at first."""
    file = io.BytesIO()
    rows = pa.array([{"source": "s", "file": f"{n * 7919 % ROWS}", "row": n} for n in range(ROWS)])
    pq.write_table(pa.table({"_source": rows}), file, compression="none", row_group_size=ROWS // 2)
    assert len(file.getvalue()) > 2 * FOOTER_BYTES
    return file.getvalue()


def rows_of(store: MemoryStore, size: int) -> int:
    unknown: tuple[None, None] = (None, None)
    file = AddedFile("a%20b.parquet", size, 0, ROWS, 0, unknown, unknown, unknown, 0)
    column = SourceColumn(store, file)
    return sum(batch.num_rows for batch in column.batches("file", "row"))


@pytest.mark.parametrize("before", [0, 1, 2])
@pytest.mark.parametrize("error", [StorageError("archived"), StorageUnavailable("slow"), NotFound("gone")])
def test_what_storage_says_is_raised_as_it_is(error: BlizzardError, before: int) -> None:
    store, stored = RefusingStore(), data_file()
    store.put("a b.parquet", stored)
    assert rows_of(store, len(stored)) == ROWS
    store.refusals = [*[None] * before, error]
    with pytest.raises(type(error)) as raised:
        rows_of(store, len(stored))
    assert raised.value is error


@pytest.mark.parametrize("left", [0, 1, FOOTER_BYTES, -1])
def test_a_file_that_was_cut_off_is_damaged(left: int) -> None:
    store, stored = RefusingStore(), data_file()
    store.put("a b.parquet", stored[:left])
    with pytest.raises(DataFileDamaged, match=r"^the data file a b\.parquet cannot be read \("):
        rows_of(store, len(stored))


def test_a_file_with_other_bytes_is_damaged() -> None:
    store, stored = RefusingStore(), data_file()
    store.put("a b.parquet", b"\xff" * (len(stored) // 2) + stored[len(stored) // 2 :])
    with pytest.raises(DataFileDamaged):
        rows_of(store, len(stored))
