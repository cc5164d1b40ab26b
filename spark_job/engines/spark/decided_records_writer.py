"""Writes the deferred records that Spark decided: good ones become data files, the others dead letters."""

import json
import time
import uuid
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import BinaryType, LongType, StringType, StructField, StructType

from blizzard.storage.s3_connection import S3Settings
from spark_job.tasks.destination import Destination
from spark_job.tasks.error_context import add_file_names
from spark_job.write.parquet_files import DataFileWriter
from spark_job.write.write_errors import CannotWriteError, writing

DEAD_LETTER_COLUMNS = StructType(
    [
        StructField("file", StringType()),
        StructField("etag", StringType()),
        StructField("row", LongType()),
        StructField("line", StringType()),
        StructField("undecodable", BinaryType()),
        StructField("fault", StringType()),
        StructField("member", StringType()),
        StructField("report", StringType()),
    ]
)
_ARROW_COLUMNS = pa.schema(to_arrow_type(DEAD_LETTER_COLUMNS))


@dataclass(frozen=True, slots=True)
class DecidedRecordsWriter:
    """The stage after `Format.decide`, for `mapInArrow`: good records become data files, the others rows with
    `DEAD_LETTER_COLUMNS`. The last row is a `report`, also when the table's storage refuses the data files."""

    destination: Destination
    s3: S3Settings
    buffer_bytes: int

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        new_writer = self.destination.writer_factory(self.s3, self.buffer_bytes, lambda: uuid.uuid4().hex, time.time)
        writer, refused = new_writer(), Counter[str]()
        report: dict[str, Any] = {"refused": refused, "data_files": [], "refused_write": None}
        try:
            yield from self._dead_letters(batches, writer, refused)
            with writing():
                report["data_files"] = [asdict(data_file) for data_file in writer.close()]
        except CannotWriteError as error:
            writer.try_to_discard()
            report["refused_write"] = asdict(error.refusal)
        except BaseException:
            writer.try_to_discard()
            raise
        yield pa.RecordBatch.from_pylist([{"report": json.dumps(report)}], schema=_ARROW_COLUMNS)

    def _dead_letters(
        self, batches: Iterator[pa.RecordBatch], writer: DataFileWriter, refused: Counter[str]
    ) -> Iterator[pa.RecordBatch]:
        """Rows of refused records, which are counted by file; the other records go to `writer`. Raises
        CannotWriteError."""
        schema = self.destination.arrow_schema()
        for batch in batches:
            good = pc.is_null(batch["fault"])
            dead_letters = batch.filter(pc.invert(good))
            refused.update(dead_letters["file"].to_pylist())
            if dead_letters.num_rows:
                columns = [dead_letters[name] for name in _ARROW_COLUMNS.names[:-1]]
                yield pa.RecordBatch.from_arrays(
                    [*columns, pa.nulls(dead_letters.num_rows, pa.string())], schema=_ARROW_COLUMNS
                )
            if dead_letters.num_rows < batch.num_rows:
                taken = batch.filter(good)
                with add_file_names(
                    "writing rows up to those of", taken["file"].to_pylist, expected_errors=(CannotWriteError,)
                ):
                    rows = self._rows(taken, schema)
                    with writing():
                        writer.write(rows)

    def _rows(self, batch: pa.RecordBatch, schema: pa.Schema) -> pa.Table:
        provenance = self.destination.provenance
        count = batch.num_rows
        partitions = [
            batch[f"partition_{index}"].cast(field.type) for index, field in enumerate(provenance.fields[:-1])
        ]
        source = [
            pa.repeat(provenance.source_id, count),
            batch["file"],
            batch["row"],
            batch["etag"],
            batch["modified"],
            pa.repeat(pa.scalar(provenance.sequence, pa.int64()), count),
            *([batch["member"]] if provenance.members else []),
        ]
        source_type = schema.field("_source").type
        columns = [*batch["record"].flatten(), *partitions, pa.StructArray.from_arrays(source, names=source_type.names)]
        return pa.Table.from_arrays(columns, names=schema.names).cast(schema)
