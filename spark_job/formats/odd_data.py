"""What of a record is not as the schema says: fields that no column is for, and values that do not fit their column."""

import base64
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, NamedTuple

import orjson
from pyspark.sql.types import StructType

from blizzard.config.ddl import Type
from blizzard.config.field_places import in_place
from spark_job.formats.struct_parts import parts_of


class OddValue(NamedTuple):
    """`name`: of the field, for counts: `items[].sku`. `place`: of this value in its record: `items[2].sku`. `kind`:
    its type, where the file says it."""

    name: str
    place: str
    value: Any
    kind: Type | None = None


@dataclass(slots=True)
class OddRecord:
    """`text`: the record as a dead letter shows it; empty where no rule may refuse it."""

    unknown: list[OddValue] = field(default_factory=list)
    misfits: list[OddValue] = field(default_factory=list)
    text: bytes = b""

    def document(self) -> str | None:
        """As a JSON object, by their places. None: there is nothing."""
        values = {one.place: one.value for one in (*self.unknown, *self.misfits)}
        return json_text(values) if values else None


def outside(unknown: Sequence[OddValue], misfits: Sequence[OddValue]) -> list[OddValue]:
    """Without the fields inside a value that does not fit, which is kept with all that is in it."""
    inside = tuple(f"{one.place}{mark}" for one in misfits for mark in ".[{")
    return [one for one in unknown if not one.place.startswith(inside)]


class NumberText(str):
    """A number as its file writes it."""

    __slots__ = ()


class NotFinite(NumberText):
    """NaN or an infinity, which Spark reads although it is not JSON."""

    __slots__ = ()


def json_text(value: Any) -> str:
    """Bytes in Base64, decimals and times as strings, numbers as their file writes them."""
    options = orjson.OPT_NON_STR_KEYS | orjson.OPT_PASSTHROUGH_SUBCLASS
    try:
        return orjson.dumps(value, default=_shown, option=options).decode()
    except orjson.JSONEncodeError:  # more levels than orjson writes; numbers become strings
        return json.dumps(value, default=str, ensure_ascii=False)


def _shown(value: object) -> object:
    if isinstance(value, NumberText) and not isinstance(value, NotFinite):
        return orjson.Fragment(value.encode())
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    return str(value) if isinstance(value, Decimal | str) else repr(value)


class UnknownValues:
    """Finds the fields of records that no column is for. Those that are null are not counted: nothing is dropped."""

    def __init__(self, schema: StructType) -> None:
        self._record = _Struct(schema)

    def of(self, record: Mapping[str, Any]) -> list[OddValue]:
        found: list[OddValue] = []
        self._record.find(record, "", "", found)
        return found


class _Struct:
    mark = "."

    def __init__(self, schema: StructType) -> None:
        self._names = frozenset(schema.names)
        parts: list[tuple[str, _Struct | _Elements]] = parts_of(schema, _Struct, _Elements)
        self._parts = [(key, in_place(key), part) for key, part in parts]

    def find(self, value: Any, name: str, place: str, found: list[OddValue]) -> None:
        if not isinstance(value, dict):
            return
        unknown = [key for key in value if key not in self._names and value[key] is not None]
        found += [OddValue(name + (shown := in_place(key)), place + shown, value[key]) for key in unknown]
        for key, shown, part in self._parts:
            if (inner := value.get(key)) is not None:
                part.find(inner, f"{name}{shown}{part.mark}", f"{place}{shown}{part.mark}", found)


class _Elements:
    """Of an array or a map, whose elements or values have parts. The places of both are in brackets, which the part
    before them leaves open."""

    mark = ""

    def __init__(self, part: "_Struct | _Elements", *, of_map: bool) -> None:
        self._part = part
        self._of_map = of_map

    def find(self, value: Any, name: str, place: str, found: list[OddValue]) -> None:
        opening, closing = "{}" if self._of_map else "[]"
        mark = self._part.mark
        for key, element in self._elements(value):
            inner = f"{place}{opening}{in_place(str(key))}{closing}{mark}"
            self._part.find(element, f"{name}{opening}{closing}{mark}", inner, found)

    def _elements(self, value: Any) -> Iterator[tuple[Any, Any]]:
        if self._of_map and isinstance(value, dict):
            yield from value.items()
        elif self._of_map and isinstance(value, list):
            yield from (pair for pair in value if isinstance(pair, tuple))  # as Arrow has maps
        elif isinstance(value, list):
            yield from enumerate(value)
