"""Delta's statistics of a data file, from Parquet's statistics of its row groups.

Queries use them to skip files. Bounds that are too narrow would hide rows, so an uncertain bound is left out.
"""

import json
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from math import isfinite
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001
_EPOCH_DAY = date(1970, 1, 1).toordinal()
_LAST_CHARACTER = chr(0x10FFFF)

Path = tuple[str, ...]
ToJson = Callable[[Any], str | None]
"""Turns Parquet's raw value into JSON text; None for a value that JSON or Delta cannot represent."""


@dataclass(frozen=True, slots=True)
class _Leaf:
    index: int
    """Index of the Parquet column."""
    path: Path
    type: pa.DataType


class FileStatistics:
    """Collected while one file is written. `schema`: of the file. `columns`: dotted paths of leaves; those that are not
    in the file, or are in an array or a map, get no statistics."""

    def __init__(self, schema: pa.Schema, columns: Collection[str], string_prefix_chars: int) -> None:
        self._leaves = [leaf for leaf in _leaves(schema) if ".".join(leaf.path) in columns]
        self._string_prefix_chars = string_prefix_chars
        self._with_nan: set[int] = set()

    def observe(self, rows: pa.Table) -> None:
        """Must get all rows: Parquet's statistics ignore NaN, which for Spark is the largest number."""
        for leaf in self._leaves:
            if pa.types.is_floating(leaf.type) and leaf.index not in self._with_nan:
                chunks = rows.column(leaf.path[0]).chunks
                if any(pc.any(pc.is_nan(_child(chunk, leaf.path[1:]))).as_py() for chunk in chunks):
                    self._with_nan.add(leaf.index)

    def to_json(self, metadata: pq.FileMetaData) -> str:
        groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
        lowest: dict[Path, str] = {}
        highest: dict[Path, str] = {}
        nulls: dict[Path, str] = {}
        for leaf in self._leaves:
            found = [(group.column(leaf.index).statistics, group.num_rows) for group in groups]
            if all(stats is not None and stats.has_null_count for stats, _ in found):
                nulls[leaf.path] = str(sum(stats.null_count for stats, _ in found))
                for path_to_text, text in zip((lowest, highest), self._bounds(leaf, found), strict=True):
                    if text is not None:
                        path_to_text[leaf.path] = text
        sections = {"minValues": lowest, "maxValues": highest, "nullCount": nulls}
        texts = [f'"{name}":{_nested_json(values)}' for name, values in sections.items() if values]
        return "{" + ",".join([f'"numRecords":{metadata.num_rows}', *texts]) + "}"

    def _bounds(self, leaf: _Leaf, found: Collection[tuple[Any, int]]) -> tuple[str | None, str | None]:
        formats = _bound_formats(leaf.type, self._string_prefix_chars)
        filled = [stats for stats, rows in found if stats.null_count < rows]
        if formats is None or leaf.index in self._with_nan or not filled:
            return None, None
        if not all(stats.has_min_max for stats in filled):
            return None, None
        # Decimals may be big-endian bytes, which do not compare as numbers.
        value = _raw_value(leaf.type)
        format_low, format_high = formats
        return (
            format_low(min(value(stats.min_raw) for stats in filled)),
            format_high(max(value(stats.max_raw) for stats in filled)),
        )


def _leaves(schema: pa.Schema) -> Iterator[_Leaf]:
    """The leaves at the top level and in structs, not those in arrays and maps."""
    found = (leaf for field in schema for leaf in _leaves_of(field.type, (field.name,)))
    for index, (path, kind) in enumerate(found):
        if path is not None:
            yield _Leaf(index, path, kind.value_type if pa.types.is_dictionary(kind) else kind)


def _leaves_of(kind: pa.DataType, path: Path | None) -> Iterator[tuple[Path | None, pa.DataType]]:
    if not pa.types.is_nested(kind):
        yield path, kind
        return
    for number in range(kind.num_fields):
        field = kind.field(number)
        inside = (*path, field.name) if path is not None and pa.types.is_struct(kind) else None
        yield from _leaves_of(field.type, inside)


def _child(array: pa.Array, path: Path) -> pa.Array:
    for name in path:
        array = array.field(name)
    return array


def _nested_json(values: Mapping[Path, str]) -> str:
    """A JSON object that is nested like the paths. The values are JSON texts."""
    by_name: dict[str, dict[Path, str]] = {}
    for path, text in values.items():
        by_name.setdefault(path[0], {})[path[1:]] = text
    members = (
        f"{json.dumps(name, ensure_ascii=False)}:{inner.get(()) or _nested_json(inner)}"
        for name, inner in by_name.items()
    )
    return "{" + ",".join(members) + "}"


def _raw_value(kind: pa.DataType) -> Callable[[Any], Any]:
    if pa.types.is_decimal(kind):
        return lambda raw: int.from_bytes(raw, "big", signed=True) if isinstance(raw, bytes) else int(raw)
    return lambda raw: raw


def _bound_formats(kind: pa.DataType, string_prefix_chars: int) -> tuple[ToJson, ToJson] | None:
    """The formats of lower and upper bounds; None for types for which Delta keeps no bounds."""
    if pa.types.is_signed_integer(kind):
        return str, str
    if pa.types.is_floating(kind):
        return _number_json, _number_json
    if pa.types.is_decimal(kind):
        return (lambda raw: _decimal_json(raw, kind.scale),) * 2
    if pa.types.is_date32(kind):
        return _date_json, _date_json
    if pa.types.is_timestamp(kind) and kind.unit == "us":
        zone = "Z" if kind.tz else ""
        return (lambda raw: _time_json(raw // 1000, zone)), (lambda raw: _time_json(-(-raw // 1000), zone))
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return (
            lambda raw: json.dumps(raw.decode()[:string_prefix_chars], ensure_ascii=False),
            lambda raw: _upper_string_bound(raw.decode(), string_prefix_chars),
        )
    return None


def _number_json(raw: float) -> str | None:
    return repr(float(raw)) if isfinite(raw) else None


def _decimal_json(raw: int, scale: int) -> str:
    # scaleb() would round to the 28 digits of its context.
    sign, digits, _ = Decimal(raw).as_tuple()
    return format(Decimal((sign, digits, -scale)), "f")


def _date_json(days: int) -> str | None:
    try:
        return f'"{date.fromordinal(_EPOCH_DAY + days).isoformat()}"'
    except (ValueError, OverflowError):
        return None


def _time_json(millis: int, zone: str) -> str | None:
    """Callers round an upper bound up to whole milliseconds. The protocol requires readers to allow for truncation, but
    not all do."""
    try:
        return f'"{(_EPOCH + timedelta(milliseconds=millis)).isoformat(timespec="milliseconds")}{zone}"'
    except OverflowError:
        return None


def _upper_string_bound(text: str, prefix_chars: int) -> str | None:
    """The text, or for a longer one its prefix and the last character of Unicode, which sorts after all texts with this
    prefix. None if there is no such bound."""
    if len(text) > prefix_chars:
        if text[prefix_chars] == _LAST_CHARACTER:
            return None
        text = text[:prefix_chars] + _LAST_CHARACTER
    return json.dumps(text, ensure_ascii=False)
