"""Which values of a refused line do not fit their columns: the parser itself decides, for one column at a time."""

from collections.abc import Mapping, Sequence
from decimal import Decimal
from functools import cached_property
from typing import Any

from pyspark.sql.types import ArrayType, DataType, DecimalType, MapType, StructType

from blizzard.config.ddl import Type
from blizzard.config.field_places import place_of
from blizzard.infer.values import type_of
from spark_job.formats.json.certain_misfits import certainly_misfits
from spark_job.formats.json.exact_records import exact_record, line_of
from spark_job.formats.json.parser import NdjsonParser
from spark_job.formats.kinds import kind_beside, kind_of
from spark_job.formats.odd_data import NumberText, OddValue
from spark_job.formats.odd_places import Path, Place, places


class MisfitSearch:
    """Of lines that are JSON objects, whose keys are spelled like the columns. Threads may share it."""

    def __init__(self, schema: StructType) -> None:
        self._places = places(schema)

    @cached_property
    def _parsers(self) -> Sequence[NdjsonParser]:
        return [NdjsonParser(place.alone, has_other_keys=True) for place in self._places]

    def find(self, lines: Sequence[bytes]) -> tuple[Mapping[int, list[Place]], set[int]]:
        """By line, the places whose values certainly do not fit; and the lines that have another value of which only
        Spark can tell. A line is in neither if all its values fit, each for itself."""
        found: dict[int, list[Place]] = {}
        undecided = set[int]()
        block = b"\n".join(lines)
        for place, parser in zip(self._places, self._parsers, strict=True):
            parsed, _ = parser.read(block)
            for number, why in parsed.refused:
                if why is None and not _certainly_misfits(lines[number], place):
                    undecided.add(number)
                else:
                    found.setdefault(number, []).append(place)
        return found, undecided


def _certainly_misfits(line: bytes, place: Place) -> bool:
    value: Any = exact_record(line)
    for name in place.path:
        value = value.get(name) if isinstance(value, dict) else None
    return certainly_misfits(value, place.data_type)


def without_misfits(record: dict[str, Any], some: Sequence[Place]) -> tuple[bytes, list[OddValue]] | None:
    """The line of a record without the values at these places, and what was taken out; what is NOT NULL stays, so that
    the record is refused because of it. Changes the record. None: nothing was taken out, or the record cannot be
    written again."""
    misfits = list[OddValue]()
    for place in some:
        path = place.taken_out(_depth(record, place.path))
        if path is None:
            continue
        around: Any = record
        for name in path[:-1]:
            around = around.get(name) if isinstance(around, dict) else None
        if isinstance(around, dict) and path[-1] in around:  # else it was taken out with another one
            value = around.pop(path[-1])
            dotted = place_of(path)
            kind = kind_beside(value, place.data_type, _kind) if path == place.path and _tells(place) else None
            misfits.append(OddValue(dotted, dotted, value, kind))
    line = line_of(record)
    return None if line is None or not misfits else (line, misfits)


def _tells(place: Place) -> bool:
    """Whether the type of a value that does not fit depends on that of the column."""
    return isinstance(place.data_type, DecimalType | ArrayType | MapType)


def _kind(value: Any, wanted: DataType) -> Type:
    """A number beside a DECIMAL is one with more digits, and no DOUBLE."""
    is_number = isinstance(wanted, DecimalType) and isinstance(value, NumberText)
    return type_of(Decimal(value)) if is_number else kind_of(value)


def _depth(record: dict[str, Any], path: Path) -> int:
    """How many names of the path lead to a value: where a struct is expected there may be none."""
    value: Any = record
    for depth, name in enumerate(path):
        if not isinstance(value, dict):
            return depth
        value = value.get(name)
    return len(path)
