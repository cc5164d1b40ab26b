"""What becomes of the lines that the fast parser left: rows of more data files, or dead letters."""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from heapq import merge
from typing import Any, Protocol, Self

import pyarrow as pa
import pyarrow.compute as pc
from pyspark import StorageLevel
from pyspark.sql import DataFrame

from blizzard.state.dead_letters import DeadLetter, Stage
from spark_job.write.parquet_files import DataFile
from spark_job.write.write_errors import RefusedWrite, raise_refused


class Decided(Protocol):
    """Lines of which each is a row in one of the data files, or refused."""

    @property
    def refused(self) -> Mapping[str, int]:
        """Records by file."""
        ...

    @property
    def data_files(self) -> Sequence[DataFile]: ...

    def letters(self) -> Iterator[DeadLetter]:
        """Of the refused ones, sorted by file and row."""
        ...

    def release(self) -> None:
        """Nothing is asked any more."""
        ...


class RefusedByTasks:
    """Lines that were refused when they were read; `lines` as `deferred_records_type` has them."""

    def __init__(self, lines: pa.Table) -> None:
        self._lines = lines.sort_by([("file", "ascending"), ("row", "ascending")])
        self.refused = Counter({count["values"]: count["counts"] for count in lines["file"].value_counts().to_pylist()})
        self.data_files: Sequence[DataFile] = ()

    def letters(self) -> Iterator[DeadLetter]:
        return (_letter(row) for batch in self._lines.to_batches(max_chunksize=1000) for row in batch.to_pylist())

    def release(self) -> None:
        """It holds nothing but memory."""


class DecidedBySpark:
    """Lines that Spark's own parser decided: `letters` as `LETTERS` has them."""

    def __init__(self, letters: DataFrame, reports: Iterable[Mapping[str, Any]]) -> None:
        self._letters = letters
        self.refused: Counter[str] = Counter()
        self.data_files: list[DataFile] = []
        for report in reports:
            self.refused.update(report["refused"])
            self.data_files += [DataFile(**data_file) for data_file in report["data_files"]]

    @classmethod
    def of(cls, letters: DataFrame) -> Self:
        """This does the work. The frame stays cached until `release`, so that it is done once. Raises StorageError or
        StorageUnavailable for what the table's storage has against it."""
        letters.persist(StorageLevel.MEMORY_AND_DISK)
        try:
            rows = letters.where("report IS NOT NULL").select("report").collect()
            reports = [json.loads(row["report"]) for row in rows]
            raise_refused(RefusedWrite.from_document(report["refused_write"]) for report in reports)
            return cls(letters, reports)
        except BaseException:
            letters.unpersist()
            raise

    def letters(self) -> Iterator[DeadLetter]:
        refused = self._letters.where("report IS NULL").sort("file", "row").toLocalIterator()
        return (_letter(row) for row in refused)

    def release(self) -> None:
        self._letters.unpersist()


def letters_of(parts: Iterable[Decided]) -> Iterator[DeadLetter]:
    """All together, sorted by file and row."""
    return merge(*(part.letters() for part in parts), key=lambda letter: (letter.path, letter.row or 0))


def refused_already(lines: pa.Table, failed: Iterable[str]) -> pa.Table:
    """Those of lines that nothing has to decide any more; without the lines of files that failed as a whole."""
    of_failed = pc.is_in(lines["file"], pa.array([*failed], pa.string()))
    return lines.filter(pc.and_(pc.is_valid(lines["fault"]), pc.invert(of_failed)))


def _letter(row: Any) -> DeadLetter:
    raw = bytes(row["undecodable"]) if row["undecodable"] is not None else row["line"]
    return DeadLetter(row["file"], row["etag"], Stage.PARSE, row["fault"], row["row"], raw)
