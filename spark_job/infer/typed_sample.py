"""The schemas of Parquet, Avro and ORC files, and some of their records."""

import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO, cast

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq

from blizzard.config.ddl import Struct
from blizzard.state.dead_letters import Stage
from blizzard.storage.base import ObjectStore
from blizzard.storage.ranged_file import RangedFile
from spark_job.formats.avro.arrow_schema import Unsupported, fields_of
from spark_job.formats.avro.container import Container
from spark_job.formats.columns import by_library
from spark_job.formats.orc.reader import OrcReader
from spark_job.formats.parquet.page_sizes import PageSizes
from spark_job.formats.protocol import FileFault
from spark_job.infer.arrow_types import struct_of
from spark_job.infer.heads import Head

ROWS = 1000
"""Records of a file that are looked at."""
_TAIL_BYTES = 64 << 10
_MAX_BLOCK_BYTES = 64 << 20


@dataclass(frozen=True, slots=True)
class TypedPart:
    """What one file says. `without`: fields that no column can be for, each with its type, or a sentence
    about it."""

    schema: Struct
    rows: Sequence[Mapping[str, Any]]
    without: Mapping[str, str]


def parquet_part(store: ObjectStore, head: Head) -> TypedPart:
    """Raises FileFault. Of a file that is not in memory, only the footer is fetched."""

    stored = _file(store, head)
    file = by_library("Parquet", lambda: pq.ParquetFile(stored, coerce_int96_timestamp_unit="us"))
    struct, without = struct_of(by_library("Parquet", lambda: _with_zones(file)))
    rows = None
    if head.is_whole and file.num_row_groups and struct.columns:
        names = [column.name for column in struct.columns]
        PageSizes(stored).check(0, names)
        rows = by_library("Parquet", lambda: next(file.iter_batches(ROWS, row_groups=[0], columns=names), None))
    return TypedPart(struct, _pylist(rows), without)


def _with_zones(file: pq.ParquetFile) -> pa.Schema:
    """INT96 is a time in UTC, as Spark and Hive write it."""
    leaves = (file.schema.column(at) for at in range(len(file.schema)))
    old = {leaf.path for leaf in leaves if leaf.physical_type == "INT96"}
    utc = pa.timestamp("us", tz="UTC")
    return pa.schema([field.with_type(utc) if field.name in old else field for field in file.schema_arrow])


def orc_part(store: ObjectStore, head: Head) -> TypedPart:
    """Raises FileFault."""
    reader = OrcReader()
    try:
        schema = reader.open(_file(store, head)).schema
        struct, without = struct_of(schema)
        rows: list[Any] = []
        if head.is_whole:
            rows = _pylist(next(reader.batches([column.name for column in struct.columns], ROWS), None))
        return TypedPart(struct, rows, without)
    finally:
        reader.close()


def avro_part(head: Head) -> TypedPart:
    """Raises FileFault."""
    struct, without = avro_struct(Container(io.BytesIO(head.data), _MAX_BLOCK_BYTES).header.schema)
    return TypedPart(struct, [*_avro_rows(head.data)], without)


def avro_struct(schema: Any) -> tuple[Struct, Mapping[str, str]]:
    """`schema`: of Avro, as JSON values. The columns of its records, and the types of fields that no column can be for.
    Raises FileFault if they are no records."""
    fields, without = list[pa.Field](), dict[str, str]()
    try:
        for one in fields_of(schema):
            try:
                fields.append(pa.field(one.name, one.kind()))
            except Unsupported as error:
                without[one.name] = str(error)
    except Unsupported as error:
        raise FileFault(Stage.PARSE, f"cannot be read: {error}") from error
    struct, others = struct_of(pa.schema(fields))
    return struct, {**without, **others}


def _avro_rows(data: bytes) -> Iterator[Mapping[str, Any]]:
    """Up to where the file is cut off."""
    try:
        for number, record in enumerate(fastavro.reader(io.BytesIO(data))):
            if number == ROWS:
                return
            yield cast("Mapping[str, Any]", record)
    except Exception:  # noqa: BLE001 - fastavro raises many types; the records up to here are examples only
        return


def _file(store: ObjectStore, head: Head) -> BinaryIO:
    if head.is_whole:
        return io.BytesIO(head.data)
    if head.compression != "none":
        raise FileFault(Stage.PARSE, f"it is compressed by {head.compression}, and too large to look into")
    return cast("BinaryIO", RangedFile(store, head.info.key, head.info.size, tail_bytes=_TAIL_BYTES))


def _pylist(batch: pa.RecordBatch | None) -> list[Any]:
    """Values that Python has no object for are left out: they are only examples."""
    if batch is None:
        return []
    columns: dict[str, list[Any]] = {}
    for name, values in zip(batch.schema.names, batch.columns, strict=True):
        try:
            columns[name] = values.to_pylist()
        except (ValueError, OverflowError, ArithmeticError):
            columns[name] = values.cast(pa.string()).to_pylist() if pa.types.is_primitive(values.type) else []
    return [{name: held[row] for name, held in columns.items() if row < len(held)} for row in range(batch.num_rows)]
