"""Refused records that do not fit into memory: sorted in runs, which wait on this machine's disk and are merged."""

import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from heapq import merge
from typing import Any, BinaryIO, cast

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import ipc

from blizzard.errors import RetryableError, StorageBroken
from blizzard.state.dead_letters import DeadLetter
from blizzard.storage.base import ObjectStore
from blizzard.storage.ranged_file import RangedFile
from spark_job.tasks.decided_records import BY_RECORD, counted_by_file, dead_letter_of, refused_already
from spark_job.tasks.engine import Undecided
from spark_job.tasks.unknown_fields import UnknownFieldCounts
from spark_job.write.data_file import DataFile

RUN_BYTES = 64 << 20
"""In memory while a run is sorted; as large as a row group of the staged files."""
BATCH_BYTES = 1 << 20
"""Of each run in memory, while all of them are merged."""
FOOTER_BYTES = 64 << 10


class RefusedOnDisk:
    """Implements `DecidedRecords`, for records each of which has a fault. `store`: the table's folder, which has the
    staged files."""

    def __init__(self, store: ObjectStore, undecided: Undecided) -> None:
        self.refused = Counter[str]()
        self.misfits = UnknownFieldCounts()
        self.data_files: Sequence[DataFile] = ()
        self._runs: list[BinaryIO] = []
        self._files = ExitStack()
        try:
            for records in _runs(store, undecided):
                self.refused.update(counted_by_file(records))
                with _on_disk():
                    self._runs.append(self._files.enter_context(_written(records.sort_by(BY_RECORD))))
        except BaseException:
            self.release()
            raise

    def dead_letters(self) -> Iterator[DeadLetter]:
        with _on_disk():
            yield from map(dead_letter_of, merge(*map(_rows, self._runs), key=lambda row: (row["file"], row["row"])))

    def release(self) -> None:
        self._runs.clear()
        self._files.close()


def _runs(store: ObjectStore, undecided: Undecided) -> Iterator[pa.Table]:
    """Refused records in any order, some RUN_BYTES at a time."""
    waiting: list[pa.Table] = []
    for file in undecided.files:
        with _reading(file.path):
            parquet = pq.ParquetFile(RangedFile(store, file.path, file.size, tail_bytes=FOOTER_BYTES), pre_buffer=False)
        for group in range(parquet.num_row_groups):
            with _reading(file.path):
                waiting.append(refused_already(parquet.read_row_group(group, use_threads=False), undecided.failed))
            if sum(table.nbytes for table in waiting) >= RUN_BYTES:
                yield pa.concat_tables(waiting)
                waiting = []
    if any(table.num_rows for table in waiting):
        yield pa.concat_tables(waiting)


def _written(run: pa.Table) -> BinaryIO:
    file = tempfile.TemporaryFile()  # noqa: SIM115 - it is there until the records are released
    rows = max(1, run.num_rows * BATCH_BYTES // max(1, run.nbytes))
    with ipc.new_stream(file, run.schema) as stream:
        stream.write_table(run, max_chunksize=rows)
    return cast("BinaryIO", file)


def _rows(run: BinaryIO) -> Iterator[dict[str, Any]]:
    run.seek(0)
    with ipc.open_stream(run) as stream:
        for batch in stream:
            yield from batch.to_pylist()


@contextmanager
def _reading(path: str) -> Iterator[None]:
    try:
        yield
    except pa.ArrowException as error:
        raise RetryableError(
            f"reading refused records from the staged file {path}: {error}. Nothing was committed; it can be retried."
        ) from error


@contextmanager
def _on_disk() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StorageBroken(
            f"sorting refused records on the disk of {tempfile.gettempdir()}, since they do not fit into memory: "
            f"{error}. Nothing was committed. Free space there, or set TMPDIR to a larger disk."
        ) from error
