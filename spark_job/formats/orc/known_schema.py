"""What is read of small files with a certain schema, found once for all of them."""

from dataclasses import dataclass

import pyarrow as pa

from spark_job.formats.columns import FileColumns, by_library, validate
from spark_job.formats.orc.reader import SmallRequest
from spark_job.formats.orc.small_file import digest_of


@dataclass(frozen=True, slots=True)
class KnownSchema:
    columns: FileColumns
    request: SmallRequest

    def check(self, batch: pa.RecordBatch) -> None:
        """Raises FileFault for rows that do not fit together."""
        by_library("ORC", lambda: validate(batch, self.columns.maps))


def known_schema(serialized: bytes, schema: pa.Schema, columns: FileColumns) -> KnownSchema | None:
    """None if its columns cannot be read as plain ones, which have other names only at places inside of them. Raises
    UnicodeDecodeError for a damaged name."""
    wanted = columns.plain if columns.spelled is None else columns.spelled
    found = (schema.field(name).type for name in columns.wanted)
    if not all(_is_alike(one, other.type) for one, other in zip(found, wanted, strict=True)):
        return None
    return KnownSchema(columns, SmallRequest(digest_of(serialized), columns.wanted, wanted))


def _is_alike(one: pa.DataType, other: pa.DataType) -> bool:
    """Whether they differ in the names of fields alone, so that Arrow has the same bytes for both."""
    if one.id != other.id or one.num_fields != other.num_fields:
        return False
    if not one.num_fields:
        return bool(one == other)
    return all(_is_alike(one.field(at).type, other.field(at).type) for at in range(one.num_fields))
