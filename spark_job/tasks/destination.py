"""Where a batch's rows go: the table's storage, its layout, its columns. Made on the driver, used in tasks."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import StructType

from blizzard.storage.open import open_store
from blizzard.storage.s3_connection import S3Settings
from spark_job.formats.ndjson.parser import FastParser
from spark_job.tasks.provenance import Provenance
from spark_job.tasks.record_pipeline import Left, Parser, TextParser, deferred_lines_type
from spark_job.write.nullable_type import nullable_type
from spark_job.write.parquet_files import DataFileWriter, RowBuffer, TableLayout

Clock = Callable[[], float]
Opener = Callable[[], DataFileWriter]


@dataclass(frozen=True, slots=True)
class Destination:
    """`schema`: a record's columns, as Spark writes them in JSON. `deferred_folder`: prefix below the table's root, for
    the lines that the fast parser defers."""

    table_uri: str
    layout: TableLayout
    deferred_folder: str
    schema: str
    origin: Provenance

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> "Destination":
        layout, origin = TableLayout.from_document(document["layout"]), Provenance(**document["origin"])
        return cls(document["table_uri"], layout, document["deferred_folder"], document["schema"], origin)

    def record_type(self) -> StructType:
        return StructType.fromJson(json.loads(self.schema))

    def arrow_schema(self) -> pa.Schema:
        """All columns of a row: the record's, those that folders spell, and `_source`."""
        fields = self.record_type().fields
        record = [pa.field(field.name, to_arrow_type(nullable_type(field.dataType))) for field in fields]
        return pa.schema([*record, *self.origin.fields])

    def parser(self, file_format: str) -> Parser:
        return TextParser() if file_format == "text" else FastParser(self.record_type())

    def opener(self, s3: S3Settings, buffer_bytes: int, new_name: Callable[[], str], clock: Clock) -> Opener:
        """What makes writers of data files; each is for the lines of one task, or of one large file. They share
        `buffer_bytes`."""
        return self._opener(self.layout, self.arrow_schema(), s3, buffer_bytes, new_name, clock)

    def left(self, s3: S3Settings, buffer_bytes: int, new_name: Callable[[], str], clock: Clock) -> Left:
        """Where one task puts the lines that the fast parser leaves."""
        layout = TableLayout(self.deferred_folder, (), (), 0, self.layout.target_file_bytes)
        schema = pa.schema(to_arrow_type(deferred_lines_type(len(self.origin.partition_columns))))
        return Left(schema, self._opener(layout, schema, s3, buffer_bytes, new_name, clock))

    def _opener(
        self,
        layout: TableLayout,
        schema: pa.Schema,
        s3: S3Settings,
        buffer_bytes: int,
        new_name: Callable[[], str],
        clock: Clock,
    ) -> Opener:
        store = open_store(self.table_uri, s3, may_be_missing=True)
        buffer = RowBuffer(buffer_bytes)
        return lambda: DataFileWriter(store, layout, schema, buffer=buffer, new_name=new_name, clock=clock)
