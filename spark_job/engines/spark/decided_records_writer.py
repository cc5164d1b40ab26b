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
from spark_job.expressions.row_checker import RowChecker
from spark_job.formats.kinds import kind_from
from spark_job.formats.protocol import MISFITS
from spark_job.tasks.destination import Destination
from spark_job.tasks.error_context import add_file_names
from spark_job.tasks.provenance import letter_column
from spark_job.tasks.unknown_fields import FieldCount, UnknownFieldCounts
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
        StructField("about", StringType()),
        StructField("report", StringType()),
    ]
)
_ARROW_COLUMNS = pa.schema(to_arrow_type(DEAD_LETTER_COLUMNS))


@dataclass(frozen=True, slots=True)
class DecidedRecordsWriter:
    """The stage after `Format.decide`, for `mapInArrow`: good records become data files, the others rows with
    `DEAD_LETTER_COLUMNS`. The last row is a `report`, also when the table's storage refuses the data files.

    `whole_rows`: `record` has all columns of a row, and every rule has been applied to them."""

    destination: Destination
    s3: S3Settings
    buffer_bytes: int
    whole_rows: bool = False

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        new_writer = self.destination.writer_factory(self.s3, self.buffer_bytes, lambda: uuid.uuid4().hex, time.time)
        writer, refused, misfits = new_writer(), Counter[str](), UnknownFieldCounts()
        report: dict[str, Any] = {"refused": refused, "misfits": {}, "data_files": [], "refused_write": None}
        try:
            yield from self._dead_letters(_counted(batches, misfits), writer, refused)
            with writing():
                report["data_files"] = [asdict(data_file) for data_file in writer.close()]
        except CannotWriteError as error:
            writer.try_to_discard()
            report["refused_write"] = asdict(error.refusal)
        except BaseException:
            writer.try_to_discard()
            raise
        report["misfits"] = misfits.as_document()
        yield pa.RecordBatch.from_pylist([{"report": json.dumps(report)}], schema=_ARROW_COLUMNS)

    def _dead_letters(
        self, batches: Iterator[pa.RecordBatch], writer: DataFileWriter, refused: Counter[str]
    ) -> Iterator[pa.RecordBatch]:
        """Rows of refused records, which are counted by file; the other records go to `writer`. Raises
        CannotWriteError."""
        schema, checker = self.destination.arrow_schema(), RowChecker(self.destination.layout.rules)
        for batch in batches:
            good = pc.is_null(batch["fault"])
            refused.update(batch.filter(pc.invert(good))["file"].to_pylist())
            if not pc.all(good).as_py():
                yield _dead_letters(batch.filter(pc.invert(good)))
            if not pc.any(good).as_py():
                continue
            taken = batch.filter(good)
            with add_file_names(
                "writing rows up to those of", taken["file"].to_pylist, expected_errors=(CannotWriteError,)
            ):
                rows, unfit = self._checked(taken, schema, checker)
                if unfit.num_rows:
                    refused.update(unfit["file"].to_pylist())
                    yield _dead_letters(unfit)
                with writing():
                    writer.write(rows)

    def _checked(
        self, taken: pa.RecordBatch, schema: pa.Schema, checker: RowChecker
    ) -> tuple[pa.Table, pa.RecordBatch]:
        """The rows that satisfy the rules, and the records of the others, with their reason as `fault`."""
        if self.whole_rows:
            return pa.Table.from_arrays(taken["record"].flatten(), names=schema.names).cast(schema), taken.slice(0, 0)
        checked = checker.apply(self._rows(taken, schema))
        unfit = taken.take(pa.array([row for row, _ in checked.refused], pa.int64()))
        faults = pa.array([fault for _, fault in checked.refused], pa.string())
        unfit = unfit.set_column(unfit.schema.get_field_index("fault"), "fault", faults)
        return checked.rows.select(schema.names).cast(schema), unfit

    def _rows(self, batch: pa.RecordBatch, schema: pa.Schema) -> pa.Table:
        """Without derived columns."""
        provenance = self.destination.provenance
        count = batch.num_rows
        partitions = [
            batch[f"partition_{index}"].cast(field.type) for index, field in enumerate(provenance.partition_fields)
        ]
        letters = [letter_column(batch["about"], batch["line"], batch["undecodable"])] if provenance.letters else []
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
        place = pa.StructArray.from_arrays(source, names=source_type.names)
        columns = [*batch["record"].flatten(), *partitions, *letters, place]
        derived = {column.name for column in self.destination.layout.rules.derived}
        read = pa.schema([field for field in schema if field.name not in derived])
        return pa.Table.from_arrays(columns, names=read.names).cast(read)


def _counted(batches: Iterator[pa.RecordBatch], misfits: UnknownFieldCounts) -> Iterator[pa.RecordBatch]:
    """The batches, after what was taken out of their records was counted."""
    for batch in batches:
        if MISFITS in batch.schema.names:
            told = pc.and_(pc.is_null(batch["fault"]), pc.is_valid(batch[MISFITS]))
            for record in batch.filter(told).select(["file", "row", MISFITS]).to_pylist():
                for name, kind in json.loads(record[MISFITS]).items():
                    misfits.add(name, FieldCount(1, record["file"], record["row"], kind_from(kind)))
        yield batch


def _dead_letters(records: pa.RecordBatch) -> pa.RecordBatch:
    columns = [records[name] for name in _ARROW_COLUMNS.names[:-1]]
    return pa.RecordBatch.from_arrays([*columns, pa.nulls(records.num_rows, pa.string())], schema=_ARROW_COLUMNS)
