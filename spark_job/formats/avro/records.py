"""Decodes records that one schema was written by, and makes columns of them."""

import io
import struct
from collections.abc import Mapping, Sequence, Set
from typing import Any

import fastavro
import pyarrow as pa
from fastavro.read import LOGICAL_READERS
from fastavro.schema import SchemaParseException, UnknownType

from blizzard.state.dead_letters import Stage
from spark_job.formats.avro.arrow_schema import BOUNDED_DECIMAL, AvroField, least_bytes, names_in, plain_schema
from spark_job.formats.odd_data import json_text
from spark_job.formats.protocol import FileFault
from spark_job.formats.python_values import shown
from spark_job.formats.typed_values import plain_type

ERRORS = (
    ValueError,
    LookupError,
    EOFError,
    TypeError,
    AttributeError,
    ArithmeticError,
    MemoryError,
    RecursionError,
    struct.error,
    SchemaParseException,
    UnknownType,
    pa.ArrowException,
)
"""What fastavro and pyarrow raise for a schema or for bytes that are not valid."""
_DECIMAL_BITS = 128
"""More than 38 digits have."""
_read_decimal = LOGICAL_READERS["bytes-decimal"]


def _read_bounded_decimal(data: bytes, writer_schema: Any, reader_schema: Any = None) -> Any:
    """The digits of a number are found in a time that grows with its square: for 1 MB of them it would be minutes."""
    if int.from_bytes(data, "big", signed=True).bit_length() > _DECIMAL_BITS:
        raise ValueError(f"a decimal of {len(data):,} bytes, which has more than 38 digits")
    return _read_decimal(data, writer_schema, reader_schema)


LOGICAL_READERS[f"bytes-{BOUNDED_DECIMAL}"] = LOGICAL_READERS[f"fixed-{BOUNDED_DECIMAL}"] = _read_bounded_decimal


class RecordDecoder:
    """`fields`: those to read, by the names of their columns; `texts`: those that become JSON text. Raises what ERRORS
    names if the schema is not valid."""

    def __init__(self, schema: Any, fields: Mapping[str, AvroField], texts: Set[str]) -> None:
        self._fields = fields
        self._types = {name: _types(field) for name, field in fields.items() if name not in texts}
        plain = plain_schema(schema)
        self.least_bytes = least_bytes(plain, names_in(plain))
        """Of a record."""
        self.record = fastavro.parse_schema(plain)
        self.array = fastavro.parse_schema({"type": "array", "items": plain})

    def one(self, data: bytes, start: int) -> Any:
        """The record that `data` holds from there to its end. Raises FileFault."""
        stored = io.BytesIO(data)
        stored.seek(start)
        try:
            record: Any = fastavro.schemaless_reader(stored, self.record, None)
        except ERRORS as error:
            raise _no_record(error) from error
        if left := len(data) - stored.tell():
            raise FileFault(Stage.PARSE, f"not valid Avro: {left:,} bytes follow the record")
        return record

    def batch(self, records: Sequence[Any]) -> pa.RecordBatch:
        """In plain types. Raises FileFault if the columns cannot hold a value."""
        try:
            columns = [
                self._column(name, [record[field.name] for record in records]) for name, field in self._fields.items()
            ]
        except ERRORS as error:
            raise _no_record(error) from error
        return pa.RecordBatch.from_arrays(columns, names=[*self._fields])

    def _column(self, name: str, values: list[Any]) -> pa.Array:
        types = self._types.get(name)
        if types is None:
            return pa.array([None if value is None else json_text(shown(value)) for value in values], pa.string())
        decoded, converted = types
        column = pa.array(values, decoded)
        return column if converted is None else column.cast(converted)


def _types(field: AvroField) -> tuple[pa.DataType, pa.DataType | None]:
    """Of the values as they are decoded, and what they are cast to; None if that is the same. Raises Unsupported."""
    decoded, converted = plain_type(field.decoded()), plain_type(field.converted())
    return decoded, None if converted == decoded else converted


def _no_record(error: Exception) -> FileFault:
    return FileFault(Stage.PARSE, f"not valid Avro: a record cannot be decoded: {error!r}")
