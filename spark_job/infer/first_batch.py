"""`schema: infer`: the columns of a source whose table has none yet, from the files of its first batch."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from blizzard.config import ddl
from blizzard.errors import PermanentError
from blizzard.infer.choice import chosen
from blizzard.infer.ddl_text import ddl_of, type_ddl
from blizzard.infer.storable import LeftOut, Storable
from blizzard.log import Log
from blizzard.state.batch import PlannedFile
from blizzard.storage.base import ObjectInfo, ObjectStore
from spark_job.infer.observe import Reading, Sample, observe_files

SAMPLE_FILES = 60
SAMPLE_BYTES = 4 << 20
"""Decompressed, of all files together."""
_SHOWN = 20
"""Fields without a column that the log names."""


@dataclass(frozen=True, slots=True)
class FirstBatch:
    """`files` holds the source's files. `partition_columns`: those from folders, which the records cannot have."""

    source_id: str
    files: ObjectStore
    reading: Reading
    partition_columns: Mapping[str, str]
    partition_by: Sequence[str]
    log: Log

    def schema(self, planned: Sequence[PlannedFile]) -> str:
        """DDL. Raises PermanentError if no file holds a record, or if the table cannot be partitioned as configured."""
        infos = [ObjectInfo(file.path, file.size, "", file.event_ts) for file in planned]
        sample = observe_files(self.files, chosen(infos, SAMPLE_FILES), self.reading, SAMPLE_BYTES)
        found = self._without_partition_columns(sample.observed.schema())
        if not found.schema.columns:
            raise PermanentError(self._nothing_found(len(planned), sample))
        self._check_partition_by(found.schema)
        schema = ddl_of(found.schema.columns, with_not_null=False)
        self.log(
            "schema_inferred",
            source=self.source_id,
            schema=schema,
            files=sample.files,
            records=sample.observed.records,
            left_out=[one.why for one in found.left_out][:_SHOWN],
        )
        return schema

    def _without_partition_columns(self, found: Storable) -> Storable:
        in_folders = {name.lower() for name in self.partition_columns}
        columns = [column for column in found.schema.columns if column.name.lower() not in in_folders]
        twice = [
            LeftOut(
                column.name,
                f"column `{column.name}` is in `partition_columns`; the field of the records is not read",
            )
            for column in found.schema.columns
            if column.name.lower() in in_folders
        ]
        return Storable(ddl.Struct(tuple(columns)), (*found.left_out, *twice))

    def _check_partition_by(self, schema: ddl.Struct) -> None:
        types = {column.name: column.type for column in schema.columns}
        for name in self.partition_by:
            if name in self.partition_columns:
                continue
            if name not in types:
                raise PermanentError(
                    f"partition_by of source {self.source_id} has `{name}`, which none of the records has that were "
                    f"looked at; found {', '.join(types)}; correct it, or write the `schema`"
                )
            if isinstance(types[name], ddl.Struct | ddl.Array | ddl.Map) or types[name] == ddl.Atomic("binary"):
                raise PermanentError(
                    f"partition_by of source {self.source_id} has `{name}`, whose type was inferred as "
                    f"{type_ddl(types[name], with_not_null=False)}; a table is partitioned by simple values; choose "
                    "another column"
                )

    def _nothing_found(self, planned: int, sample: Sample) -> str:
        example = next((f", such as {path}: {why}" for path, why in sample.faults.items()), "")
        return (
            f"no schema can be inferred for source {self.source_id}: none of the {planned} files of its first batch "
            f"holds a record that can be read as {self.reading.format}{example}. Correct the files or `format`, or "
            "write the `schema`; the next run looks again"
        )
