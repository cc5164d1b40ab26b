"""Lines that the fast parser leaves: Spark's `from_json` decides, and a second stage writes what is good."""

import json
import time
import uuid
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import BinaryType, LongType, StringType, StructField, StructType

from blizzard.errors import BlizzardError
from blizzard.storage.s3_connection import S3Settings
from spark_job.formats.ndjson.schema_fit import does_not_fit, misfits, parsing_type
from spark_job.tasks.destination import Destination
from spark_job.tasks.error_context import naming
from spark_job.write.nullable_type import nullable_type
from spark_job.write.parquet_files import DataFileWriter
from spark_job.write.write_errors import CannotWriteError, writing

CORRUPT = "_blizzard_corrupt"
PARSING = {
    "mode": "PERMISSIVE",
    "columnNameOfCorruptRecord": CORRUPT,
    # What Spark 1.5 did: '20240128' as a DATE is the day so many days after 1970.
    "enableDateTimeParsingFallback": "false",
}
LETTERS = StructType(
    [
        StructField("file", StringType()),
        StructField("etag", StringType()),
        StructField("row", LongType()),
        StructField("line", StringType()),
        StructField("undecodable", BinaryType()),
        StructField("fault", StringType()),
        StructField("report", StringType()),
    ]
)
_LETTERS = pa.schema(to_arrow_type(LETTERS))


def parsed(lines: DataFrame, schema: StructType, *, is_text: bool) -> DataFrame:
    """Lines with the `record` that each holds; `fault` says why one is refused."""
    if is_text:
        return lines.withColumn("record", F.struct(F.col("line").alias("value")))
    to_parse = F.when(F.col("fault").isNull(), F.col("line"))
    found = lines.withColumn("record", F.from_json(to_parse, _with_corrupt(schema.fields), PARSING))
    is_record = F.col("line").isNotNull() & F.col("fault").isNull()
    found = found.withColumn("fault", F.coalesce("fault", F.when(is_record, _misfit(schema))))
    wanted = F.struct(*[_as_wanted(field) for field in schema.fields])
    return found.withColumn("record", F.when(F.col("fault").isNull(), wanted))


def _misfit(schema: StructType) -> Column:
    """Why a record that is good JSON does not fit the schema; null when it fits."""
    wrong_type = F.when(F.col(f"record.{CORRUPT}").isNotNull(), _which_column(schema))
    others = [F.when(m.condition, F.lit(m.reason)) for m in misfits(schema, F.col("record"))]
    return F.coalesce(wrong_type, *others)


def _which_column(schema: StructType) -> Column:
    """The first column whose value alone does not fit; evaluated for refused records only."""
    checks = []
    for field in schema.fields:
        alone = F.from_json("line", _with_corrupt([field]), PARSING)
        text = does_not_fit(field.name, field.dataType)
        checks.append(F.when(alone[CORRUPT].isNotNull(), F.lit(text)))
    return F.coalesce(*checks, F.lit("the record does not fit the schema"))


def _with_corrupt(fields: Iterable[StructField]) -> StructType:
    """What to parse: these fields, and where Spark says that one of them did not fit."""
    columns = [StructField(field.name, parsing_type(field.dataType)) for field in fields]
    return StructType([*columns, StructField(CORRUPT, StringType())])


def _as_wanted(field: StructField) -> Column:
    column = F.col("record").getField(field.name)
    wanted = nullable_type(field.dataType)
    return (column if parsing_type(field.dataType) == wanted else column.cast(wanted)).alias(field.name)


@dataclass(frozen=True, slots=True)
class SparkFallback:
    """The stage behind `parsed`, for `mapInArrow`: good records become data files, the others letters. The last row is
    a `report`, also when the table's storage refuses the data files."""

    destination: Destination
    s3: S3Settings
    buffer_bytes: int

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        open_writer = self.destination.opener(self.s3, self.buffer_bytes, lambda: uuid.uuid4().hex, time.time)
        writer, refused = open_writer(), Counter[str]()
        report: dict[str, Any] = {"refused": refused, "data_files": [], "refused_write": None}
        try:
            yield from self._letters(batches, writer, refused)
            with writing():
                report["data_files"] = [asdict(data_file) for data_file in writer.close()]
        except CannotWriteError as error:
            _discard(writer)
            report["refused_write"] = asdict(error.refusal)
        except BaseException:
            _discard(writer)
            raise
        yield pa.RecordBatch.from_pylist([{"report": json.dumps(report)}], schema=_LETTERS)

    def _letters(
        self, batches: Iterator[pa.RecordBatch], writer: DataFileWriter, refused: Counter[str]
    ) -> Iterator[pa.RecordBatch]:
        """What is refused, counted by file; the rest goes to `writer`. Raises CannotWriteError."""
        schema = self.destination.arrow_schema()
        for batch in batches:
            good = pc.is_null(batch["fault"])
            letters = batch.filter(pc.invert(good))
            refused.update(letters["file"].to_pylist())
            if letters.num_rows:
                columns = [letters[name] for name in _LETTERS.names[:-1]]
                yield pa.RecordBatch.from_arrays([*columns, pa.nulls(letters.num_rows, pa.string())], schema=_LETTERS)
            if letters.num_rows < batch.num_rows:
                taken = batch.filter(good)
                with naming("writing rows up to those of", taken["file"].to_pylist, foreseen=(CannotWriteError,)):
                    rows = self._rows(taken, schema)
                    with writing():
                        writer.write(rows)

    def _rows(self, batch: pa.RecordBatch, schema: pa.Schema) -> pa.Table:
        origin = self.destination.origin
        count = batch.num_rows
        partitions = [batch[f"partition_{index}"].cast(field.type) for index, field in enumerate(origin.fields[:-1])]
        source = [
            pa.repeat(origin.source_id, count),
            batch["file"],
            batch["row"],
            batch["etag"],
            batch["modified"],
            pa.repeat(pa.scalar(origin.sequence, pa.int64()), count),
        ]
        source_type = schema.field("_source").type
        columns = [*batch["record"].flatten(), *partitions, pa.StructArray.from_arrays(source, names=source_type.names)]
        return pa.Table.from_arrays(columns, names=schema.names).cast(schema)


def _discard(writer: DataFileWriter) -> None:
    with suppress(BlizzardError):  # a file that stays is named by no commit, and VACUUM removes it
        writer.discard()
