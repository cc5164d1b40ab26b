"""Deferred records that a Spark query decided."""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Self

from pyspark import StorageLevel
from pyspark.sql import DataFrame

from blizzard.state.dead_letters import DeadLetter
from spark_job.tasks.decided_records import dead_letter_of
from spark_job.tasks.unknown_fields import UnknownFieldCounts
from spark_job.write.data_file import DataFile
from spark_job.write.write_errors import RefusedWrite, raise_refused


class DecidedBySpark:
    """Implements `DecidedRecords`; `frame` has the `DEAD_LETTER_COLUMNS`."""

    def __init__(self, frame: DataFrame, reports: Iterable[Mapping[str, Any]]) -> None:
        self._frame = frame
        self.refused: Counter[str] = Counter()
        self.misfits = UnknownFieldCounts()
        self.data_files: list[DataFile] = []
        for report in reports:
            self.refused.update(report["refused"])
            self.misfits.merge(UnknownFieldCounts.from_document(report["misfits"]))
            self.data_files += [DataFile(**data_file) for data_file in report["data_files"]]

    @classmethod
    def of(cls, frame: DataFrame) -> Self:
        """Runs the stage. The frame stays cached until `release`, so that it runs once. Raises StorageError or
        StorageUnavailable if the table's storage refuses the rows."""
        frame.persist(StorageLevel.MEMORY_AND_DISK)
        try:
            rows = frame.where("report IS NOT NULL").select("report").collect()
            reports = [json.loads(row["report"]) for row in rows]
            raise_refused(RefusedWrite.from_document(report["refused_write"]) for report in reports)
            return cls(frame, reports)
        except BaseException:
            frame.unpersist()
            raise

    def dead_letters(self) -> Iterator[DeadLetter]:
        refused = self._frame.where("report IS NULL").sort("file", "row").toLocalIterator()
        return (dead_letter_of(row) for row in refused)

    def release(self) -> None:
        self._frame.unpersist()
