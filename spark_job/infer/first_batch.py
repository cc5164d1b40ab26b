"""`schema: infer`: the columns of a source whose table has none yet, from the files of its first batch."""

from collections.abc import Sequence
from dataclasses import dataclass

from blizzard.errors import PermanentError
from blizzard.infer.choice import chosen
from blizzard.infer.storable import Storable
from blizzard.state.batch import PlannedFile
from blizzard.storage.base import ObjectInfo, ObjectStore
from spark_job.infer.first_records import FirstRecords, Inferred
from spark_job.infer.observe import Reading, Sample, observe_files

SAMPLE_FILES = 60
SAMPLE_BYTES = 4 << 20
"""Decompressed, of all files together."""


@dataclass(frozen=True, slots=True)
class FirstBatch:
    """`files` holds the source's files."""

    records: FirstRecords
    files: ObjectStore
    reading: Reading

    def schema(self, planned: Sequence[PlannedFile]) -> Inferred:
        """Raises PermanentError if no file holds a record, and ConfigError if the configuration does not fit what
        they hold."""
        infos = [ObjectInfo(file.path, file.size, "", file.event_ts) for file in planned]
        looked_at = chosen(infos, SAMPLE_FILES)
        sample = observe_files(self.files, looked_at, self.reading, SAMPLE_BYTES)
        found = self.records.columns(sample.observed)
        if not found.schema.columns or (sample.cut_bytes and not sample.observed.records):
            raise PermanentError(self._nothing_found(len(planned), sample, found))
        first = next((info.key for info in looked_at if info.key not in sample.faults), "")
        return self.records.inferred(found, sample.observed, first, files=sample.files)

    def _nothing_found(self, planned: int, sample: Sample, found: Storable) -> str:
        if sample.cut_bytes:
            return self.records.failed(
                f"no record of its first batch ends within the first {sample.cut_bytes:,} bytes of a file, and no more "
                "is read. Write the `schema`, or correct the files or `format`"
            )
        if found.left_out:
            return self.records.failed_without_columns(found)
        example = next((f", such as {path}: {why}" for path, why in sample.faults.items()), "")
        return self.records.failed(
            f"none of the {planned} files of its first batch holds a record that can be read as {self.reading.format}"
            f"{example}. Correct the files or `format`, or write the `schema`; the next run looks again"
        )
