"""Splits rows by partition, and writes partition values as in Delta's log and in Hive's folder names."""

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from hashlib import sha256
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from blizzard.paths.partition import HIVE_NULL

Values = tuple[str | None, ...]

_DAYS_OF_400_YEARS = 146_097
_EPOCH_DAY = date(1970, 1, 1).toordinal()
_MICROS_OF_A_DAY = 86_400_000_000
_UNSAFE = re.compile(r"[\x00-\x1f\x7f\"#%'*/:=?\\{\[\]^]")
"""Characters that Spark escapes in the name of a partition's folder."""
_MAX_FOLDER_BYTES = 200
_SMALL_DICTIONARY = 16


def split_by_partition(rows: pa.Table, partition_by: Sequence[str]) -> Iterator[tuple[Values, pa.Table]]:
    """The rows of each partition, in their order, without the columns of `partition_by`; "" becomes null. Partitions
    share no memory, so that each can be freed alone."""
    rest = rows.drop_columns(list(partition_by)) if partition_by else rows
    if not rows.num_rows:
        return
    columns = [_value_codes(rows.column(name)) for name in partition_by]
    if all(codes is None for codes, _ in columns):
        yield tuple(texts[0] for _, texts in columns), rest
        return
    codes, groups = _combined_codes(columns)
    order = pc.array_sort_indices(codes)
    rest = rest.combine_chunks()
    start = 0
    for count, values in zip(pc.value_counts(codes).field("counts").to_pylist(), groups, strict=True):
        yield values, _without_unused_values(rest.take(order.slice(start, count)))
        start += count


def partition_folders(values: Mapping[str, str | None]) -> str:
    """`date=2024-01-28/kind=a%2Fb/`, escaped as Spark does. It is only for people: readers use the values in the
    log. A name that is too long for a file system is cut and gets a hash."""
    return "".join(f"{_folder(name, value)}/" for name, value in values.items())


def _folder(name: str, value: str | None) -> str:
    folder = f"{_escaped(name)}={HIVE_NULL if value is None else _escaped(value)}"
    encoded = folder.encode()
    if len(encoded) <= _MAX_FOLDER_BYTES:
        return folder
    return f"{encoded[: _MAX_FOLDER_BYTES - 20].decode(errors='ignore')}~{sha256(encoded).hexdigest()[:16]}"


def _escaped(text: str) -> str:
    return _UNSAFE.sub(lambda found: f"%{ord(found[0]):02X}", text)


# --- Codes: partition values as integers ---


def _value_codes(column: pa.ChunkedArray) -> tuple[pa.Array | None, list[str | None]]:
    """For each row the index of its value, and the distinct values. None for the indices if there is only one value."""
    if (only := _only_value(column)) is not None:
        return None, [_text(only)]
    whole = pa.chunked_array(
        [chunk if pa.types.is_dictionary(chunk.type) else chunk.dictionary_encode() for chunk in column.chunks]
    ).combine_chunks()
    numbers: dict[str | None, int] = {}
    texts = [*map(_text, whole.dictionary), None]
    renumbered = pa.array([numbers.setdefault(text, len(numbers)) for text in texts], pa.int64())
    codes = renumbered.take(whole.indices.cast(pa.int64()).fill_null(len(texts) - 1))
    return codes, list(numbers)


def _only_value(column: pa.ChunkedArray) -> pa.Scalar | None:
    if column.null_count == len(column):
        return pa.scalar(None, column.type)
    if column.null_count or pa.types.is_floating(column.type):
        return None
    if pa.types.is_dictionary(column.type):
        values = {value for chunk in column.chunks for value in (chunk.dictionary if len(chunk) else ())}
        return values.pop() if len(values) == 1 else None
    found = pc.min_max(column)
    return found["min"] if found["min"] == found["max"] else None


def _combined_codes(columns: Sequence[tuple[pa.Array | None, list[str | None]]]) -> tuple[pa.Array, list[Values]]:
    """For each row the index of its partition, from 0 in the order of first appearance, and the partitions' values."""
    codes: pa.Array | None = None
    groups: list[Values] = [()]
    for own, texts in columns:
        if own is None:
            groups = [(*group, texts[0]) for group in groups]
            continue
        pairs = own if codes is None else pc.add(pc.multiply(codes, len(texts)), own)
        encoded = pairs.dictionary_encode()
        codes = encoded.indices.cast(pa.int64())
        found = (divmod(pair, len(texts)) for pair in encoded.dictionary.to_pylist())
        groups = [(*groups[group], texts[text]) for group, text in found]
    return codes, groups


def _without_unused_values(rows: pa.Table) -> pa.Table:
    """Dictionaries reduced to the values that the rows use. Otherwise each file would contain all values."""
    columns = [
        pa.chunked_array([_reduced_dictionary(chunk) for chunk in column.chunks], column.type)
        for column in rows.columns
    ]
    return pa.table(columns, schema=rows.schema)


def _reduced_dictionary(array: pa.Array) -> pa.Array:
    if pa.types.is_dictionary(array.type) and len(array.dictionary) > _SMALL_DICTIONARY:
        return array.dictionary_decode().dictionary_encode().cast(array.type)
    if pa.types.is_struct(array.type):
        fields = [array.type.field(number) for number in range(array.type.num_fields)]
        found = [array.field(number) for number in range(len(fields))]
        children = [_reduced_dictionary(child) for child in found]
        if any(new is not old for new, old in zip(children, found, strict=True)):
            return pa.StructArray.from_arrays(children, fields=fields, mask=array.is_null())
    return array


# --- Texts ---


def _text(value: pa.Scalar) -> str | None:
    """The value as Delta writes it into the log; readers convert it with Spark's cast. None for null and for ""."""
    kind = value.type
    if not value.is_valid:
        return None
    if pa.types.is_dictionary(kind):
        return _text(value.dictionary[value.index.as_py()])
    if pa.types.is_date32(kind):
        return _date_text(value.value)
    if pa.types.is_timestamp(kind) and kind.unit == "us":
        return _time_text(value.value, zoned=kind.tz is not None)
    if pa.types.is_boolean(kind):
        return "true" if value.as_py() else "false"
    if pa.types.is_floating(kind):
        return _number_text(value.as_py())
    if pa.types.is_decimal(kind):
        return format(value.as_py(), "f")
    if pa.types.is_integer(kind) or pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return str(value.as_py()) or None
    raise TypeError(f"expected simple values in a partition column, found {kind}")


def _number_text(value: Any) -> str:
    names = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}
    return names.get(repr(value), repr(value))


def _date_text(days: int) -> str:
    """The date of any year, with a sign if it has more than four digits or is negative. Python's own dates end in
    9999."""
    cycles, day = divmod(days, _DAYS_OF_400_YEARS)
    found = date.fromordinal(_EPOCH_DAY + day)
    year = found.year + 400 * cycles
    sign = "-" if year < 0 else "+" if year > 9999 else ""
    return f"{sign}{abs(year):04d}-{found:%m-%d}"


def _time_text(micros: int, *, zoned: bool) -> str:
    days, rest = divmod(micros, _MICROS_OF_A_DAY)
    clock = (datetime(1, 1, 1, tzinfo=UTC) + timedelta(microseconds=rest)).time()
    if zoned:
        return f"{_date_text(days)}T{clock.isoformat('microseconds')}Z"
    return f"{_date_text(days)} {clock.isoformat('microseconds' if clock.microsecond else 'seconds')}"
