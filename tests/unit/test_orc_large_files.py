"""ORC files that are read in batches: one answer ahead, once, and no further than is wanted."""

import io
import os
import signal
import time
from contextlib import closing
from pathlib import Path

import pyarrow as pa  # type: ignore[import-untyped]
import pytest

from spark_job.formats.columns import BLOCK_BYTES
from spark_job.formats.orc import format as orc_format
from spark_job.formats.orc import reader as orc_reader
from spark_job.formats.orc.format import OrcFormat
from spark_job.formats.orc.pipes import SILENT_SECS
from spark_job.formats.orc.reader import OrcReader
from spark_job.formats.protocol import FileFault
from spark_job.table.schema import columns_of
from tests.unit.contents import StoredContent
from tests.unit.format_reading import LIMITS, read_file
from tests.unit.orc_asked import Asked, asked_reader
from tests.unit.table_files import orc_file

GOOD = orc_file(pa.table({"id": list(range(10))}))
STRIPE_ROWS, STRIPE_COUNT = 10_000, 24
STRIPES = orc_file(
    pa.table({"id": [n * n * 1_000_003 % (1 << 40) for n in range(STRIPE_COUNT * STRIPE_ROWS)]}),
    compression="uncompressed",
    stripe_size=1,
    batch_size=STRIPE_ROWS,
)


class Noting(io.BytesIO):
    """A file that knows up to where it was read, apart from its last part."""

    furthest = 0

    def read(self, size: int | None = -1, /) -> bytes:
        data = super().read(size)
        if self.tell() < len(STRIPES) * 9 // 10:
            self.furthest = max(self.furthest, self.tell())
        return data


reader = pytest.fixture(asked_reader)


def test_the_process_reads_one_answer_ahead_and_no_more(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    notes.touch()
    monkeypatch.setenv("ORC_NOTES", str(notes))
    monkeypatch.setattr(orc_reader, "PROCESS", "tests.unit.noting_orc_reader")
    with closing(OrcReader()) as reader:
        reader.open(io.BytesIO(STRIPES))
        batches = reader.batches(["id"], STRIPE_ROWS, size_bytes=1)
        for answers in (1, 2, 3):
            assert next(batches).num_rows == STRIPE_ROWS
            deadline = time.monotonic() + 60
            while notes.stat().st_size <= answers and time.monotonic() < deadline:
                time.sleep(0.01)
            assert notes.stat().st_size == answers + 1
        assert sum(batch.num_rows for batch in batches) == (STRIPE_COUNT - 3) * STRIPE_ROWS


def test_a_file_that_is_left_is_not_decoded_to_its_end() -> None:
    with closing(OrcReader()) as reader:
        reader.open(file := Noting(STRIPES))
        batches = reader.batches(["id"], STRIPE_ROWS)
        next(batches)
        batches.close()  # type: ignore[attr-defined]
        assert reader.open(io.BytesIO(GOOD)).rows == 10
        assert file.furthest < len(STRIPES) // 2
        assert [batch.num_rows for batch in reader.batches(["id"], 20)] == [10]


@pytest.mark.parametrize("is_small", [True, False])
def test_a_process_that_hangs_at_a_file_that_was_left_is_no_fault_of_the_next_one(
    is_small: bool, reader: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(orc_format, "MAX_BYTES", 0)
    blocks = OrcFormat(columns_of("id BIGINT"), LIMITS).blocks(
        StoredContent(io.BytesIO(STRIPES), chunk_bytes=1), first_record=0
    )
    assert next(blocks).count
    blocks.close()  # type: ignore[attr-defined]
    assert reader._process is not None
    os.kill(reader._process.pid, signal.SIGSTOP)
    reader._silent_secs = 1
    monkeypatch.setattr(orc_format, "MAX_BYTES", 1 << 20 if is_small else 0)
    process = reader._running()
    reader._silent_secs = SILENT_SECS
    assert process.poll() is None
    assert len(read_file("orc", "id BIGINT", GOOD).rows) == 10
    assert reader.asked[-1] == ("rows" if is_small else "next")


def test_a_crash_in_the_middle_is_the_fault_of_the_file(reader: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(orc_format, "MAX_BYTES", 0)
    content = StoredContent(io.BytesIO(STRIPES), chunk_bytes=1)
    blocks = OrcFormat(columns_of("id BIGINT"), LIMITS).blocks(content, first_record=0)
    assert next(blocks).count
    assert reader._process is not None
    os.kill(reader._process.pid, signal.SIGKILL)
    with pytest.raises(FileFault, match=r"the process that read it ended \(signal 9\)"):
        list(blocks)
    assert len(read_file("orc", "id BIGINT", GOOD).rows) == 10


def test_many_narrow_rows_are_decoded_once_and_come_in_blocks_of_some_size(reader: Asked) -> None:
    rows = 400_000
    stored = orc_file(pa.table({"id": list(range(rows)), "s": [f"{n:030}" for n in range(rows)]}), compression="zlib")
    file_format = OrcFormat(columns_of("id BIGINT, s STRING"), LIMITS)
    for first_record in (0, 300_001):
        reader.asked.clear()
        blocks = [*file_format.blocks(StoredContent(io.BytesIO(stored)), first_record=first_record)]
        assert reader.asked.count("batches") == 1
        ends = [first_record, *(block.first_record + block.count for block in blocks)]
        assert [*(block.first_record for block in blocks), rows] == ends
        assert all(block.size_bytes < 2 * BLOCK_BYTES for block in blocks)
        assert all(block.size_bytes > BLOCK_BYTES // 2 for block in blocks[1:-1])
