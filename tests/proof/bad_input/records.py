"""The required result of a line: a row with certain values, or a dead letter."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from tests.proof.bad_input.values import NULL, Expected, Pairs, by_name, expected, read_json

SCHEMA = StructType(
    [
        StructField("id", StringType(), False),
        StructField("n", LongType()),
        StructField("kind", StringType()),
        StructField("amount", DecimalType(38, 10)),
        StructField("ratio", DoubleType()),
        StructField("flag", BooleanType()),
        StructField("day", DateType()),
        StructField("at", TimestampType()),
        StructField("tags", ArrayType(StringType())),
        StructField("attributes", MapType(StringType(), StringType())),
        StructField("place", StructType([StructField("name", StringType()), StructField("x", LongType())])),
    ]
)
PARTITION = "kind"
DDL = ", ".join(f"{f.name} {f.dataType.simpleString()}{'' if f.nullable else ' NOT NULL'}" for f in SCHEMA)

_SHORT_LINE = 900
"""A shorter line cannot reach a limit of a parser: 1,000 levels, or a number of 1,000 digits."""


class Fate(Enum):
    ROW = "a row"
    DEAD = "a dead letter"
    EITHER = "a row or a dead letter"


@dataclass(frozen=True, slots=True)
class Record:
    """`is_object`: the line is one JSON object in valid UTF-8; `values`: the given values of each column."""

    fate: Fate
    is_object: bool
    values: Mapping[str, Sequence[Any]]

    def differs(self, row: Mapping[str, Any]) -> str:
        """What is wrong with a row of this record; empty: nothing."""
        if self.fate is Fate.DEAD and not self.values:
            return "it is a row, and cannot be one"
        for field in SCHEMA:
            given, found = self.values.get(field.name, ()), row[field.name]
            wanted = _expected(field, given)
            if found is None and given and given[-1] is not None and not wanted.holds(None):
                return f"{field.name} is null in its row, and {given[-1]!a:.100} in the record"
            if wanted.fits is False:
                return f"{field.name} does not fit, as {list(given)!a:.100}, and is {found!a:.100} in a row"
            if not wanted.holds(found):
                return f"{field.name} became {found!a:.100}, and is {given[-1:]!a:.100} in the record"
        return ""


def record_of(line: bytes) -> Record:
    try:
        value = read_json(line.decode())
        json.dumps(value, ensure_ascii=False).encode()
    except RecursionError:
        return Record(Fate.DEAD, True, {})
    except ValueError:
        return Record(Fate.DEAD, False, {})
    if not isinstance(value, Pairs):
        return Record(Fate.DEAD, False, {})
    values = by_name(value)
    fits = [_expected(field, values.get(field.name, ())).fits for field in SCHEMA]
    if False in fits:
        return Record(Fate.DEAD, True, values)
    sure = None not in fits and len(values) == len(value) and len(line) < _SHORT_LINE
    return Record(Fate.ROW if sure else Fate.EITHER, True, values)


def _expected(field: StructField, given: Sequence[Any]) -> Expected:
    """Delta stores an empty string as null in a partition column."""
    empty = field.name == PARTITION and given and given[-1] == ""
    return NULL if empty else expected(field, given)
