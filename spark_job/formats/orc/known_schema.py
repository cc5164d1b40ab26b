"""What is read of small files with a certain schema, found once for all of them."""

from dataclasses import dataclass

import pyarrow as pa

from spark_job.formats.columns import FileColumns, by_library, validate
from spark_job.formats.orc.reader import SmallRequest
from spark_job.formats.orc.small_file import digest_of
from spark_job.formats.typed_values import plain_type


@dataclass(frozen=True, slots=True)
class KnownSchema:
    """`has_maps`: whether a column has them, at any depth."""

    columns: FileColumns
    request: SmallRequest
    has_maps: bool

    def check(self, batch: pa.RecordBatch) -> None:
        """Raises FileFault for rows that do not fit together."""
        by_library("ORC", lambda: validate(batch) if self.has_maps else batch.validate())


def known_schema(serialized: bytes, schema: pa.Schema, columns: FileColumns) -> KnownSchema | None:
    """None if its columns cannot be read as plain ones, which have other names only at places inside of them. Raises
    UnicodeDecodeError for a damaged name."""
    found = [schema.field(name) for name in columns.wanted]
    plain = pa.schema([pa.field(field.name, plain_type(field.type)) for field in found])
    wanted = plain if columns.spelled is None else columns.spelled
    if not all(_is_alike(one.type, other.type) for one, other in zip(found, wanted, strict=True)):
        return None
    has_maps = any(_has_map(field.type) for field in wanted)
    return KnownSchema(columns, SmallRequest(digest_of(serialized), columns.wanted, wanted), has_maps)


def _is_alike(one: pa.DataType, other: pa.DataType) -> bool:
    """Whether they differ in the names of fields alone, so that Arrow has the same bytes for both."""
    if one.id != other.id or one.num_fields != other.num_fields:
        return False
    if not one.num_fields:
        return bool(one == other)
    return all(_is_alike(one.field(at).type, other.field(at).type) for at in range(one.num_fields))


def _has_map(kind: pa.DataType) -> bool:
    return bool(pa.types.is_map(kind)) or any(_has_map(kind.field(at).type) for at in range(kind.num_fields))
