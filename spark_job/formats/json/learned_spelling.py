"""Keys that all records of a source spell in the same way, though not as the columns: read as fast as others."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pyarrow as pa
from pyspark.sql.types import ArrayType, DataType, StructField, StructType

from spark_job.formats.json.parser import NdjsonParser
from spark_job.formats.protocol import Parsed


class LearnedSpelling:
    """The spelling of one record, by which further ones are read. Threads may share it."""

    def __init__(self, schema: StructType, arrow_schema: pa.Schema, record: Mapping[str, Any]) -> None:
        """`arrow_schema`: of the parsed records. `record`: as the file has it."""
        self._schema = arrow_schema
        self._parser = NdjsonParser(_spelled(schema, record))

    def parse(self, block: bytes, *, braced: int | None) -> Parsed | None:
        """As `NdjsonParser.parse`. None: some line is spelled otherwise, has other keys, or is refused."""
        parsed, suspects = self._parser.read(block, braced=braced)
        if suspects.numbers or parsed.refused:
            return None
        columns = [
            pa.chunked_array([chunk.view(field.type) for chunk in column.chunks], field.type)
            for column, field in zip(parsed.records.columns, self._schema, strict=True)
        ]
        return replace(parsed, records=pa.Table.from_arrays(columns, schema=self._schema))


def _spelled(data_type: StructType, record: Any) -> StructType:
    found = {key.lower(): key for key in reversed(record)} if isinstance(record, Mapping) else {}
    exact = record if isinstance(record, Mapping) else {}
    fields = []
    for field in data_type:
        key = field.name if field.name in exact else found.get(field.name.lower(), field.name)
        fields.append(StructField(key, _spelled_type(field.dataType, exact.get(key)), field.nullable))
    return StructType(fields)


def _spelled_type(data_type: DataType, value: Any) -> DataType:
    if isinstance(data_type, StructType):
        return _spelled(data_type, value)
    if isinstance(data_type, ArrayType) and isinstance(value, list) and value:
        return ArrayType(_spelled_type(data_type.elementType, value[0]))
    return data_type
