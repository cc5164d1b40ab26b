"""Where the rows of a batch go: the table's storage, layout and columns. Made on the driver, used by tasks."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_type, to_arrow_type
from pyspark.sql.types import StructField, StructType

from blizzard.storage.open import open_store
from blizzard.storage.s3_connection import S3Settings
from spark_job.formats.deferred import deferred_records_type
from spark_job.formats.nullable_type import nullable_type
from spark_job.table.columns import source_column
from spark_job.tasks.deferred_records import DeferredRecords
from spark_job.tasks.provenance import Provenance
from spark_job.write.data_file import TableLayout
from spark_job.write.parquet_files import BufferBudget, DataFileWriter

Clock = Callable[[], float]
WriterFactory = Callable[[], DataFileWriter]


@dataclass(frozen=True, slots=True)
class Destination:
    """`schema`: a record's columns, in Spark's JSON form. `deferred_folder`: the prefix of the deferred records,
    relative to the table."""

    table_uri: str
    layout: TableLayout
    deferred_folder: str
    schema: str
    provenance: Provenance

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> "Destination":
        layout, provenance = TableLayout.from_document(document["layout"]), Provenance(**document["provenance"])
        return cls(document["table_uri"], layout, document["deferred_folder"], document["schema"], provenance)

    def record_type(self) -> StructType:
        return StructType.fromJson(json.loads(self.schema))

    def row_type(self) -> StructType:
        """All columns of a row: the record's, the partition columns from the path, the derived ones, and `_source`. Of
        one that is staged with letters also LETTER."""
        partitions = [StructField(f.name, from_arrow_type(f.type)) for f in self.provenance.fields[:-1]]
        derived = self.layout.rules.derived_fields()
        record = [StructField(f.name, nullable_type(f.dataType)) for f in self.record_type().fields]
        return StructType([*record, *partitions, *derived, source_column(members=self.provenance.members)])

    def arrow_schema(self) -> pa.Schema:
        """The same for Arrow."""
        *row, _ = self.row_type().fields
        return pa.schema([*(pa.field(f.name, to_arrow_type(f.dataType)) for f in row), self.provenance.fields[-1]])

    def staged(self, folder: str, *, letters: bool = False) -> "Destination":
        """Where tasks put rows of which Spark still has to evaluate expressions. `letters`: as `Provenance` has it."""
        provenance = replace(self.provenance, letters=letters)
        return replace(self, layout=self.layout.staged(folder), provenance=provenance)

    def writer_factory(
        self, s3: S3Settings, buffer_bytes: int, new_name: Callable[[], str], clock: Clock
    ) -> WriterFactory:
        """A function that makes writers of data files: one for the rows of a task, one for each large file. They share
        `buffer_bytes`."""
        return self._writer_factory(self.layout, self.arrow_schema(), s3, buffer_bytes, new_name, clock)

    def deferred(self, s3: S3Settings, buffer_bytes: int, new_name: Callable[[], str], clock: Clock) -> DeferredRecords:
        """The writer of the records that one task defers."""
        layout = TableLayout(self.deferred_folder, (), (), 0, self.layout.target_file_bytes)
        schema = pa.schema(to_arrow_type(deferred_records_type(len(self.provenance.partition_columns))))
        return DeferredRecords(schema, self._writer_factory(layout, schema, s3, buffer_bytes, new_name, clock))

    def _writer_factory(
        self,
        layout: TableLayout,
        schema: pa.Schema,
        s3: S3Settings,
        buffer_bytes: int,
        new_name: Callable[[], str],
        clock: Clock,
    ) -> WriterFactory:
        store = open_store(self.table_uri, s3, may_be_missing=True)
        buffer = BufferBudget(buffer_bytes)
        return lambda: DataFileWriter(store, layout, schema, buffer=buffer, new_name=new_name, clock=clock)
