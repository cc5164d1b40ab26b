"""Files of each format whose records have one column `v`, with values as their format writes them."""

import io
from collections.abc import Mapping, Sequence
from typing import Any

import fastavro
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.parquet as pq  # type: ignore[import-untyped]
from pyarrow import orc


def ndjson(*lines: str) -> bytes:
    return "\n".join(lines).encode()


def json_array(*records: str) -> bytes:
    return f"[{', '.join(records)}]".encode()


def parquet(columns: Mapping[str, pa.Array]) -> bytes:
    file = io.BytesIO()
    pq.write_table(pa.table(dict(columns)), file)
    return file.getvalue()


def orc_file(columns: Mapping[str, pa.Array]) -> bytes:
    file = io.BytesIO()
    orc.write_table(pa.table(dict(columns)), file)
    return file.getvalue()


def avro(types: Mapping[str, Any], records: Sequence[Mapping[str, Any]]) -> bytes:
    """Fields of these types, each of which may be null."""
    fields = [
        {"name": name, "type": ["null", *(kind if isinstance(kind, list) else [kind])]} for name, kind in types.items()
    ]
    file = io.BytesIO()
    fastavro.writer(file, {"type": "record", "name": "r", "fields": fields}, records)
    return file.getvalue()


def record_type(name: str, **fields: Any) -> dict[str, Any]:
    """Of Avro."""
    return {
        "type": "record",
        "name": name,
        "fields": [{"name": field, "type": ["null", kind]} for field, kind in fields.items()],
    }
