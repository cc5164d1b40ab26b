"""The other readers: what they make of the same file, and with which schema it is read.

They are pyarrow for Parquet and ORC, fastavro for Avro, and Python's own modules for CSV, JSON and XML.
"""

import csv
import io
import math
from collections.abc import Callable, Mapping
from typing import Any

import fastavro
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.parquet as pq  # type: ignore[import-untyped]
from pyarrow import orc
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from spark_job.formats.typed_values import plain_type
from tests.proof.corpora.reference import NoReference, Reference
from tests.proof.corpora.text_references import of_json, of_xml

_LEAVES: Mapping[pa.DataType, DataType] = {
    pa.int8(): ByteType(),
    pa.int16(): ShortType(),
    pa.int32(): IntegerType(),
    pa.int64(): LongType(),
    pa.uint8(): ShortType(),
    pa.uint16(): IntegerType(),
    pa.uint32(): LongType(),
    pa.uint64(): DecimalType(20, 0),
    pa.float16(): FloatType(),
    pa.float32(): FloatType(),
    pa.float64(): DoubleType(),
    pa.string(): StringType(),
    pa.binary(): BinaryType(),
    pa.bool_(): BooleanType(),
    pa.date32(): DateType(),
    pa.null(): StringType(),
}


def of_parquet(data: bytes) -> Reference:
    return _of_table(lambda: pq.read_table(io.BytesIO(data), coerce_int96_timestamp_unit="us"))


def of_orc(data: bytes) -> Reference:
    return _of_table(lambda: orc.ORCFile(io.BytesIO(data)).read())


def _of_table(load: Callable[[], pa.Table]) -> Reference:
    try:
        table = load()
    except (pa.ArrowException, OSError) as error:
        raise NoReference(str(error)) from error
    known = [(field.name, _spark_type(plain_type(field.type))) for field in table.schema]
    schema = StructType([StructField(name, kind) for name, kind in known if kind is not None])
    if not schema.names:
        raise NoReference("no column has a type of Spark")
    try:
        plain = pa.schema([(name, plain_type(table.schema.field(name).type)) for name in schema.names])
        rows = table.select(schema.names).cast(plain).to_pylist()
    except (ValueError, OverflowError, pa.ArrowException):
        rows = None
    return Reference(schema, table.num_rows, rows)


def _spark_type(kind: pa.DataType) -> DataType | None:
    types = pa.types
    if types.is_struct(kind):
        parts = {field.name: _spark_type(field.type) for field in kind}
        return None if None in parts.values() else StructType([StructField(name, part) for name, part in parts.items()])
    if types.is_map(kind):
        key, value = _spark_type(kind.key_type), _spark_type(kind.item_type)
        return None if key is None or value is None else MapType(key, value)
    if types.is_list(kind):
        element = _spark_type(kind.value_type)
        return None if element is None else ArrayType(element)
    if types.is_timestamp(kind):
        return TimestampType() if kind.tz else TimestampNTZType()
    if types.is_decimal(kind):
        return DecimalType(kind.precision, kind.scale) if kind.precision <= 38 else None
    return _LEAVES.get(kind)


def of_avro(data: bytes) -> Reference:
    """Only fields of simple types are compared."""
    try:
        reader = fastavro.reader(io.BytesIO(data))
        records = list(reader)
        fields = reader.writer_schema["fields"]  # type: ignore[index,call-overload]
    except (ValueError, LookupError, EOFError, TypeError) as error:
        raise NoReference(repr(error)) from error
    leaves = {"string": StringType(), "long": LongType(), "int": IntegerType(), "double": DoubleType()}
    simple = {field["name"]: leaves.get(str(field["type"])) for field in fields}
    schema = StructType([StructField(name, kind) for name, kind in simple.items() if kind is not None])
    if not schema.names:
        raise NoReference("no field has a simple type")
    return Reference(schema, len(records), [{name: record[name] for name in schema.names} for record in records])


def of_csv(data: bytes) -> Reference:
    """All columns as text; an empty field is null unless it is quoted, which Python's module does not tell."""
    try:
        header, *rows = csv.reader(io.StringIO(data.decode(), newline=""), strict=True)
    except (UnicodeDecodeError, csv.Error, ValueError) as error:
        raise NoReference(str(error)) from error
    schema = StructType([StructField(name, StringType()) for name in header])
    return Reference(schema, len(rows), [dict(zip(header, row, strict=False)) for row in rows])


REFERENCES: Mapping[str, Callable[[bytes], Reference]] = {
    "parquet": of_parquet,
    "orc": of_orc,
    "avro": of_avro,
    "csv": of_csv,
    "json": of_json,
    "xml": of_xml,
}


def comparable(value: Any) -> Any:
    """With NaN equal to itself, and an empty text equal to null."""
    if isinstance(value, float) and math.isnan(value):
        return "NaN"
    if isinstance(value, dict):
        return {key: comparable(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [comparable(inner) for inner in value]
    return None if value == "" else value
