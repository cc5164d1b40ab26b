"""`schema: infer`: the columns of a source whose table has none yet, from the files of its first batch."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from blizzard.config import ddl
from blizzard.config.schema_rules import SchemaRules
from blizzard.errors import ConfigError, PermanentError
from blizzard.infer.choice import chosen
from blizzard.infer.ddl_text import ddl_of
from blizzard.infer.renamed import renamed
from blizzard.infer.storable import LeftOut, Storable, no_column, storable
from blizzard.log import Log
from blizzard.state.batch import PlannedFile
from blizzard.storage.base import ObjectInfo, ObjectStore
from spark_job.infer.observe import Reading, Sample, observe_files

SAMPLE_FILES = 60
SAMPLE_BYTES = 4 << 20
"""Decompressed, of all files together."""
_SHOWN, _SHOWN_CHARS = 20, 300
"""Fields without a column that the log names; characters of the records' keys that an error shows."""


@dataclass(frozen=True, slots=True)
class FirstBatch:
    """`files` holds the source's files. `partition_columns`: those from folders, which the records cannot have.
    `rules`: how records are read. `check` raises ConfigError if the configuration does not fit a schema."""

    source_id: str
    files: ObjectStore
    reading: Reading
    partition_columns: Mapping[str, str]
    rules: SchemaRules
    check: Callable[[str], None]
    log: Log

    def schema(self, planned: Sequence[PlannedFile]) -> str:
        """DDL. Raises PermanentError if no file holds a record, and ConfigError if the configuration does not fit what
        they hold."""
        infos = [ObjectInfo(file.path, file.size, "", file.event_ts) for file in planned]
        sample = observe_files(self.files, chosen(infos, SAMPLE_FILES), self.reading, SAMPLE_BYTES)
        found = self._columns(sample)
        if not found.schema.columns or (sample.cut_bytes and not sample.observed.records):
            raise PermanentError(self._nothing_found(len(planned), sample, found))
        schema = ddl_of(found.schema.columns, with_not_null=False)
        self.check(schema)
        self.log(
            "schema_inferred",
            source=self.source_id,
            schema=schema,
            files=sample.files,
            records=sample.observed.records,
            left_out=[one.why for one in found.left_out][:_SHOWN],
        )
        return schema

    def _columns(self, sample: Sample) -> Storable:
        keys = sample.observed.keys()
        found = renamed(keys, self.rules.fields, ignore_case=self.rules.ignores_case)
        if found.missing and keys.columns:
            raise ConfigError([self._nothing_to_read(found.missing, keys)])
        columns = storable(found.schema, is_typed=sample.observed.is_typed)
        others = [LeftOut(name, f"column `{name}` is read from another key") for name in found.replaced]
        in_folders = {name.lower() for name in self.partition_columns}
        others += [
            LeftOut(
                column.name,
                f"column `{column.name}` is in `partition_columns`; the field of the records is not read",
            )
            for column in columns.schema.columns
            if column.name.lower() in in_folders
        ]
        own = [column for column in columns.schema.columns if column.name.lower() not in in_folders]
        return Storable(ddl.Struct(tuple(own)), (*columns.left_out, *others))

    def _nothing_to_read(self, missing: Sequence[str], keys: ddl.Struct) -> str:
        shown = ", ".join(f"{name}: {'.'.join(self.rules.fields[name])}" for name in missing)
        known = ", ".join(column.name for column in keys.columns)
        return (
            f"fields of source {self.source_id} has {shown}, which none of the records has that were looked at; "
            f"found {known:.{_SHOWN_CHARS}}; correct it, or write the `schema`"
        )

    def _nothing_found(self, planned: int, sample: Sample, found: Storable) -> str:
        if sample.cut_bytes:
            return (
                f"no schema can be inferred for source {self.source_id}: no record of its first batch ends within the "
                f"first {sample.cut_bytes:,} bytes of a file, and no more is read. Write the `schema`, or correct the "
                "files or `format`"
            )
        if found.left_out:
            return (
                f"no schema can be inferred for source {self.source_id}: "
                f"{no_column([(one.path, one.why) for one in found.left_out])}"
            )
        example = next((f", such as {path}: {why}" for path, why in sample.faults.items()), "")
        return (
            f"no schema can be inferred for source {self.source_id}: none of the {planned} files of its first batch "
            f"holds a record that can be read as {self.reading.format}{example}. Correct the files or `format`, or "
            "write the `schema`; the next run looks again"
        )
