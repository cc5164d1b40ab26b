"""A checksum of all values of a row, for rows of two tables that are to be the same. A column or a field that a row
does not have is null there. Only checksums of one process can be compared."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from blizzard.table.row_checksums import mixed

_ALL_BITS = (1 << 64) - 1
_NAN = float("nan")


def checksums(columns: Mapping[str, pa.Array]) -> pa.Array:
    """One for each row, of 64 bits, whatever the order of the columns. `columns`: one or more, by name, of the same
    length."""
    sums = [_checksums(values, name) for name, values in columns.items()]
    total = sums[0]
    for more in sums[1:]:
        total = pc.add(total, more)
    return total


def hashes(values: pa.Array) -> pa.Array:
    """Python's, of texts, numbers or bytes, for this process. Null of null."""
    found = values.dictionary_encode()
    of_different = pa.array([hash(value) for value in found.dictionary.to_pylist()], pa.int64())
    return of_different.take(found.indices)


def _checksums(values: pa.Array, path: str) -> pa.Array:
    salt = hash(path) & _ALL_BITS
    if isinstance(values, pa.ChunkedArray):
        values = values.combine_chunks()
    own = pc.if_else(pc.is_valid(values), mixed(_words(values), salt), _word(0))
    if not pa.types.is_struct(values.type):
        return own
    for field in values.type:
        own = pc.add(own, _checksums(pc.struct_field(values, field.name), f"{path}.{field.name}"))
    return own


def _words(values: pa.Array) -> pa.Array:
    """64 bits of each value, signed; anything for null."""
    kind = values.type
    if pa.types.is_struct(kind):
        return pa.repeat(pa.scalar(1, pa.int64()), len(values))
    if pa.types.is_null(kind):
        return pa.repeat(pa.scalar(0, pa.int64()), len(values))
    if pa.types.is_integer(kind) or pa.types.is_boolean(kind):
        return _filled(values.cast(pa.int64(), safe=False))
    if pa.types.is_floating(kind):
        numbers = values.cast(pa.float64())
        return _filled(pc.if_else(pc.is_nan(numbers), _NAN, numbers)).view(pa.int64())
    if pa.types.is_timestamp(kind):
        return _filled(values.cast(pa.timestamp("us", kind.tz), safe=False).cast(pa.int64()))
    if pa.types.is_date32(kind):
        return _filled(values.cast(pa.int32()).cast(pa.int64()))
    if pa.types.is_nested(kind):
        return pa.array([hash(repr(_plain(value))) for value in values.to_pylist()], pa.int64())
    return _filled(hashes(values))


def _filled(values: pa.Array) -> pa.Array:
    return pc.fill_null(values, pa.scalar(0, values.type))


def _plain(value: Any) -> Any:
    """Without the fields of structs that are null."""
    if isinstance(value, dict):
        return {name: _plain(value[name]) for name in sorted(value) if value[name] is not None}
    if isinstance(value, datetime) and value.tzinfo is not None:
        return value.astimezone(UTC)
    return [*map(_plain, value)] if isinstance(value, list | tuple) else value


def _word(value: int) -> pa.Scalar:
    return pa.scalar(value, pa.uint64())
