"""Staged data files: an engine reads them to write their rows into the table, or to judge deferred lines. They are in
the table's `_blizzard/` folder until the commit."""

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING

from blizzard.errors import BlizzardError, BucketMissing
from blizzard.storage.base import ObjectStore
from blizzard.storage.keys import parent_folder
from blizzard.storage.local import LocalStore
from spark_job.write.data_file import DataFile

if TYPE_CHECKING:
    import pyarrow as pa

PARALLEL_READS = 16
"""Each task that deferred lines has written a file, and on S3 each file is one request."""
LEFTOVER_SECS = 86_400.0
"""Older files belong to no running batch."""


class Staging:
    """The staged files of one source. `clock` gives Unix seconds, `new_id` a short unique text."""

    def __init__(
        self,
        store: ObjectStore,
        state_prefix: str,
        *,
        clock: Callable[[], float],
        new_id: Callable[[], str],
    ) -> None:
        self._store = store
        self._prefix = f"{state_prefix}/staging/"
        self._clock = clock
        self._new_id = new_id
        self._last_clean_up_ts = float("-inf")

    def new_folder(self) -> str:
        """A unique prefix for the files of one attempt; ends in `/`."""
        return f"{self._prefix}{self._new_id()}/"

    @property
    def deferred_folder(self) -> str:
        """The prefix for the deferred lines of all batches, which share it since file names are unique; ends in `/`."""
        return f"{self._prefix}left/"

    def table(self, files: Sequence[DataFile]) -> "pa.Table":
        """The files' rows, in memory, in the order of the files. Raises NotFound and other errors of storage."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        with ThreadPoolExecutor(PARALLEL_READS, thread_name_prefix="staged") as pool:
            bodies = pool.map(self._store.get, [file.path for file in files])
            return pa.concat_tables(pq.read_table(pa.BufferReader(body)) for body in bodies)

    def remove(self, files: Sequence[DataFile]) -> None:
        """Best effort: a file that stays costs only space, and `remove_leftovers` removes it later."""
        with suppress(BlizzardError):
            self._delete([file.path for file in files if file.path.startswith(self._prefix)])

    def discard(self, files: Sequence[DataFile]) -> None:
        """Files of a batch that will not be committed, staged or not. Best effort: those that stay cost only space,
        until VACUUM removes them."""
        with suppress(BlizzardError):
            self._store.delete([file.path for file in files])

    def remove_leftovers(self) -> None:
        """Remove files older than LEFTOVER_SECS, of attempts that ended without a commit. Lists at most once in that
        time."""
        now_ts = self._clock()
        if now_ts - self._last_clean_up_ts < LEFTOVER_SECS:
            return
        with suppress(BucketMissing):
            listed = self._store.list(self._prefix)
            self._delete([info.key for info in listed if info.modified_ts < now_ts - LEFTOVER_SECS])
        self._last_clean_up_ts = now_ts

    def _delete(self, keys: Iterable[str]) -> None:
        """Deletes the files and, on a local disk, the emptied folders of attempts. The folder of deferred lines stays,
        since other batches write to it at any time."""
        keys = [*keys]
        self._store.delete(keys)
        if isinstance(self._store, LocalStore):
            for folder in sorted({parent_folder(key) for key in keys} - {self.deferred_folder, self._prefix}):
                self._store.remove_folder(folder)
