"""Writes records as files, each by another library than the one that reads them where there is one."""

import base64
import csv
import io
import json
import math
import re
from collections.abc import Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Any
from xml.sax.saxutils import escape, quoteattr

import fastavro
import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    LongType,
    MapType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from spark_job.table.schema import columns_of
from tests.spark.format_values import leaves_mapped

Record = Mapping[str, Any]


def text_of(value: Any) -> str:
    """As CSV and XML write it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        if math.isfinite(value):
            return repr(value)
        return "NaN" if math.isnan(value) else ("Infinity" if value > 0 else "-Infinity")
    if isinstance(value, datetime):
        return moment_text(value)
    if isinstance(value, date):
        return value.isoformat()
    return f"{value:f}" if isinstance(value, Decimal) else str(value)


def moment_text(value: datetime) -> str:
    """In one of several forms."""
    text = value.replace(tzinfo=None).isoformat(sep="T" if value.second % 2 else " ")
    return text if value.tzinfo is None else text + ("Z", "+00:00", "")[value.minute % 3]


def csv_file(ddl: str, records: Sequence[Record], encoding: str = "utf-8", **form: Any) -> bytes:
    """`form`: as csv.writer takes it."""
    out = io.StringIO(newline="")
    writer = csv.writer(out, **form)
    writer.writerow(columns_of(ddl).names)
    writer.writerows([["" if v is None else text_of(v) for v in record.values()] for record in records])
    return out.getvalue().encode(encoding)


_NUMBER_MARK = re.compile(r'"\(number\)(-?[0-9.]+)"')


def json_file(records: Sequence[Record], *, ensure_ascii: bool, indent: int | None) -> bytes:
    """An array. Half of the decimals are numbers, the others strings."""

    def plain(value: Any) -> Any:
        if isinstance(value, bytes):
            return base64.b64encode(value).decode()
        if isinstance(value, Decimal):
            return f"(number){value:f}" if int(value) % 2 else f"{value:f}"
        return text_of(value) if isinstance(value, date) else value

    text = json.dumps([leaves_mapped(dict(r), plain) for r in records], ensure_ascii=ensure_ascii, indent=indent)
    return _NUMBER_MARK.sub(r"\1", text).encode()


def arrow_table(ddl: str, records: Sequence[Record]) -> pa.Table:
    return pa.Table.from_pylist([dict(record) for record in records], schema=to_arrow_schema(columns_of(ddl)))


def avro_file(schema: Mapping[str, Any], records: Sequence[Record], codec: str = "null") -> bytes:
    out = io.BytesIO()
    fastavro.writer(out, dict(schema), [dict(record) for record in records], codec=codec, sync_interval=2_000)
    return out.getvalue()


def avro_schema(ddl: str) -> dict[str, Any]:
    """Every field may be null."""
    return _avro_record(columns_of(ddl), "r")


def _avro_record(struct: StructType, name: str) -> dict[str, Any]:
    fields = [{"name": f.name, "type": ["null", _avro_type(f.dataType, f"{name}_{f.name}")]} for f in struct]
    return {"type": "record", "name": name, "fields": fields}


def _avro_type(data_type: DataType, name: str) -> Any:
    if isinstance(data_type, StructType):
        return _avro_record(data_type, name)
    if isinstance(data_type, ArrayType):
        return {"type": "array", "items": ["null", _avro_type(data_type.elementType, name)]}
    if isinstance(data_type, MapType):
        return {"type": "map", "values": ["null", _avro_type(data_type.valueType, name)]}
    if isinstance(data_type, DecimalType):
        return {"type": "bytes", "logicalType": "decimal", "precision": data_type.precision, "scale": data_type.scale}
    return _AVRO_LEAVES.get(type(data_type), "int")


_AVRO_LEAVES: Mapping[type[DataType], Any] = {
    StringType: "string",
    BinaryType: "bytes",
    BooleanType: "boolean",
    FloatType: "float",
    DoubleType: "double",
    LongType: "long",
    DateType: {"type": "int", "logicalType": "date"},
    TimestampType: {"type": "long", "logicalType": "timestamp-micros"},
    TimestampNTZType: {"type": "long", "logicalType": "local-timestamp-micros"},
}


def xml_file(records: Sequence[Record]) -> bytes:
    """Elements named `one`. A field whose name begins with `_` is an attribute."""
    rows = "\n".join(_element("one", record) for record in records)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n<all>\n{rows}\n</all>'.encode()


def _element(name: str, value: Any) -> str:
    if not isinstance(value, Mapping):
        return f"<{name}>{'' if value is None else escape(text_of(value))}</{name}>"
    attributes, children = "", ""
    for key, inner in value.items():
        if inner is None:
            continue
        if key == "_VALUE":
            children += escape(text_of(inner))
        elif key.startswith("_"):
            attributes += f" {key[1:]}={quoteattr(text_of(inner))}"
        else:
            children += "".join(_element(key, one) for one in (inner if isinstance(inner, list) else [inner]))
    return f"<{name}{attributes}>{children}</{name}>"
