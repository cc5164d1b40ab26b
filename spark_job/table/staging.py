"""Data files that Spark's writer shall read: below the table's `_blizzard/`, until the rows are in the table."""

import re
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from blizzard.errors import BlizzardError, BucketMissing
from blizzard.storage.base import ObjectStore
from blizzard.storage.keys import folder_of
from blizzard.storage.local import LocalStore
from spark_job.write.parquet_files import DataFile

READS_AT_ONCE = 16
"""There is a file for each task that left lines, and on S3 each is a request of its own."""
LEFTOVER_SECS = 86_400.0
"""What is older belongs to no batch that is still at work."""


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
        self._looked_ts = float("-inf")

    def new_folder(self) -> str:
        """For the files of one attempt; ends in `/`."""
        return f"{self._prefix}{self._new_id()}/"

    @property
    def deferred_folder(self) -> str:
        """For lines that tasks leave; ends in `/`. Names in it are unique, so all batches share it."""
        return f"{self._prefix}left/"

    def frame(self, spark: SparkSession, table_uri: str, files: Sequence[DataFile], schema: StructType) -> DataFrame:
        """Their rows; a file that is gone or torn is an error, whatever the session says."""
        paths = [_without_glob(f"{table_uri.rstrip('/')}/{file.path}") for file in files]
        return spark.read.schema(schema).options(ignoreMissingFiles=False, ignoreCorruptFiles=False).parquet(*paths)

    def table(self, files: Sequence[DataFile]) -> pa.Table:
        """Their rows, in memory. Raises NotFound, or what storage has against it."""
        with ThreadPoolExecutor(READS_AT_ONCE, thread_name_prefix="left") as pool:
            bodies = pool.map(self._store.get, [file.path for file in files])
            return pa.concat_tables(pq.read_table(pa.BufferReader(body)) for body in bodies)

    def remove(self, files: Sequence[DataFile]) -> None:
        """Nobody needs them any more, so what cannot be removed costs space and nothing else: `remove_leftovers` comes
        back."""
        with suppress(BlizzardError):
            self._delete([file.path for file in files if file.path.startswith(self._prefix)])

    def remove_leftovers(self) -> None:
        """Of attempts that ended without a commit; looks once in so long as they are let alone."""
        now_ts = self._clock()
        if now_ts - self._looked_ts < LEFTOVER_SECS:
            return
        with suppress(BucketMissing):
            listed = self._store.list(self._prefix)
            self._delete([info.key for info in listed if info.modified_ts < now_ts - LEFTOVER_SECS])
        self._looked_ts = now_ts

    def _delete(self, keys: Iterable[str]) -> None:
        """With the folders of attempts; that for lines that are left may be written to at any time, and stays."""
        keys = [*keys]
        self._store.delete(keys)
        if isinstance(self._store, LocalStore):
            for folder in sorted({folder_of(key) for key in keys} - {self.deferred_folder, self._prefix}):
                self._store.remove_folder(folder)


def _without_glob(path: str) -> str:
    """Spark takes a path for a pattern."""
    return re.sub(r"([\\{}\[\]*?])", r"\\\1", path)
