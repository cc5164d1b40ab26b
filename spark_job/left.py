"""What becomes of the lines that the fast parser left: rows of more data files, or dead letters."""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame

from blizzard.dead_letters import DeadLetter, Stage
from spark_job.data_files import DataFile


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


class DecidedByTasks:
    """Lines that were refused when they were read, all of them; `lines` as `left_type` has them."""

    def __init__(self, lines: pa.Table, remove_lines: Callable[[], None]) -> None:
        self._lines = lines.sort_by([("file", "ascending"), ("row", "ascending")])
        self._remove_lines = remove_lines
        self.refused: Counter[str] = Counter(lines["file"].to_pylist())
        self.data_files: list[DataFile] = []

    def letters(self) -> Iterator[DeadLetter]:
        return (_letter(row) for batch in self._lines.to_batches(max_chunksize=1000) for row in batch.to_pylist())

    def release(self) -> None:
        self._remove_lines()


class DecidedBySpark:
    """Lines that Spark's own parser decided: `letters` as `LETTERS` has them, with a report of each task."""

    def __init__(self, letters: DataFrame, remove_lines: Callable[[], None]) -> None:
        self._letters = letters
        self._remove_lines = remove_lines
        self.refused: Counter[str] = Counter()
        self.data_files: list[DataFile] = []

    def decide(self) -> None:
        """This does the work."""
        for row in self._letters.where("report IS NOT NULL").select("report").collect():
            report = json.loads(row["report"])
            self.refused.update(report["refused"])
            self.data_files += [DataFile(**data_file) for data_file in report["data_files"]]

    def letters(self) -> Iterator[DeadLetter]:
        refused = self._letters.where("report IS NULL").sort("file", "row").toLocalIterator()
        return (_letter(row) for row in refused)

    def release(self) -> None:
        self._letters.unpersist()
        self._remove_lines()


def without(lines: pa.Table, files: Iterable[str]) -> pa.Table:
    """The lines of all other files."""
    return lines.filter(pc.invert(pc.is_in(lines["file"], pa.array([*files], pa.string()))))


def _letter(row: Any) -> DeadLetter:
    raw = bytes(row["undecodable"]) if row["undecodable"] is not None else row["line"]
    return DeadLetter(row["file"], row["etag"], Stage.PARSE, row["fault"], row["row"], raw)
