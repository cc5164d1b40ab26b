"""Two records in a file of each format: the first has a column `id` and others, the second has `id` alone. What the
others become is written down by hand, for each format."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any, NamedTuple

import pyarrow as pa  # type: ignore[import-untyped]

from tests.unit.odd_files import avro, json_array, ndjson, parquet, record_type

SHOWN = "2026-11-21 10:00:00.000000"
DAY, MOMENT = date(2026, 11, 21), datetime(2026, 11, 21, 10, tzinfo=UTC)
LOCAL = MOMENT.replace(tzinfo=None)
BIG = 9223372036854775808
STRUCT_OF_INTS = {"x": 1, "y": "b"}


class New(NamedTuple):
    """A field that no column is for. `written`: as the format has it; `kind`: the type of the column that it becomes,
    as Delta writes it; `value`: in that column; `rescued`: in `_rescued`."""

    written: Any
    kind: Any
    value: Any
    rescued: Any


def struct(**fields: Any) -> dict[str, Any]:
    nullable = {"nullable": True, "metadata": {}}
    return {"type": "struct", "fields": [{"name": name, "type": kind, **nullable} for name, kind in fields.items()]}


def array(element: Any) -> dict[str, Any]:
    return {"type": "array", "elementType": element, "containsNull": True}


def map_of(value: Any) -> dict[str, Any]:
    return {"type": "map", "keyType": "string", "valueType": value, "valueContainsNull": True}


OF_JSON = {
    "whole": New("7", "long", 7, 7),
    "fraction": New("1.50", "double", 1.5, 1.5),
    "flag": New("true", "boolean", True, True),
    "day": New('"2026-11-21"', "date", DAY, "2026-11-21"),
    "moment": New('"2026-11-21T10:00:00Z"', "timestamp", MOMENT, "2026-11-21T10:00:00Z"),
    "zip": New('"10115"', "string", "10115", "10115"),
    "words": New('"a b"', "string", "a b", "a b"),
    "part": New('{"x": 1, "y": "b"}', struct(x="long", y="string"), STRUCT_OF_INTS, STRUCT_OF_INTS),
    "list": New("[1, 2]", array("long"), [1, 2], [1, 2]),
}
OF_JSON_BY_SPARK = {
    "big": New(str(BIG), "decimal(19,0)", Decimal(BIG), BIG),
    "mixed": New('[1, "a"]', array("string"), ["1", "a"], [1, "a"]),
    "empty": New("{}", "string", "{}", {}),
}
"""What only Spark's parser puts into a column."""
OF_TEXT = {
    "whole": New("7", "long", 7, "7"),
    "big": New(str(BIG), "decimal(19,0)", Decimal(BIG), str(BIG)),
    "fraction": New("1.50", "double", 1.5, "1.50"),
    "flag": New("true", "boolean", True, "true"),
    "day": New("2026-11-21", "date", DAY, "2026-11-21"),
    "moment": New("2026-11-21 10:00:00", "timestamp", MOMENT, "2026-11-21 10:00:00"),
    "zip": New("10115", "string", "10115", "10115"),
    "words": New("a b", "string", "a b", "a b"),
}
OF_PARQUET = {
    "whole": New(pa.array([7, None], pa.int32()), "integer", 7, 7),
    "small": New(pa.array([7, None], pa.int16()), "short", 7, 7),
    "big": New(pa.array([BIG, None], pa.uint64()), "decimal(20,0)", Decimal(BIG), BIG),
    "fraction": New(pa.array([1.5, None], pa.float32()), "float", 1.5, 1.5),
    "exact": New(pa.array([Decimal("1.50"), None], pa.decimal128(10, 2)), "decimal(10,2)", Decimal("1.50"), "1.50"),
    "flag": New(pa.array([True, None]), "boolean", True, True),
    "day": New(pa.array([DAY, None]), "date", DAY, "2026-11-21"),
    "moment": New(pa.array([MOMENT, None], pa.timestamp("us", "UTC")), "timestamp", MOMENT, f"{SHOWN}Z"),
    "local": New(pa.array([LOCAL, None], pa.timestamp("us")), "timestamp_ntz", LOCAL, SHOWN),
    "tiny": New(pa.array([7, None], pa.int8()), "byte", 7, 7),
    "long": New(pa.array([7, None], pa.int64()), "long", 7, 7),
    "precise": New(pa.array([1.5, None]), "double", 1.5, 1.5),
    "words": New(pa.array(["a b", None]), "string", "a b", "a b"),
    "bytes": New(pa.array([b"\xff", None]), "binary", b"\xff", "/w=="),
    "part": New(
        pa.array([STRUCT_OF_INTS, None], pa.struct([("x", pa.int32()), ("y", pa.string())])),
        struct(x="integer", y="string"),
        STRUCT_OF_INTS,
        STRUCT_OF_INTS,
    ),
    "list": New(pa.array([[1, 2], None], pa.list_(pa.int32())), array("integer"), [1, 2], [1, 2]),
    "map": New(pa.array([[("k", 1)], None], pa.map_(pa.string(), pa.int32())), map_of("integer"), [("k", 1)], {"k": 1}),
}
OF_AVRO = {
    "whole": New(("int", 7), "integer", 7, 7),
    "long": New(("long", 7), "long", 7, 7),
    "fraction": New(("float", 1.5), "float", 1.5, 1.5),
    "exact": New(
        ({"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2}, Decimal("1.50")),
        "decimal(10,2)",
        Decimal("1.50"),
        "1.50",
    ),
    "flag": New(("boolean", True), "boolean", True, True),
    "day": New(({"type": "int", "logicalType": "date"}, DAY), "date", DAY, "2026-11-21"),
    "moment": New(
        ({"type": "long", "logicalType": "timestamp-micros"}, MOMENT),
        "timestamp",
        MOMENT,
        f"{SHOWN}Z",
    ),
    "precise": New(("double", 1.5), "double", 1.5, 1.5),
    "local": New(({"type": "long", "logicalType": "local-timestamp-micros"}, LOCAL), "timestamp_ntz", LOCAL, SHOWN),
    "words": New(("string", "a b"), "string", "a b", "a b"),
    "bytes": New(("bytes", b"\xff"), "binary", b"\xff", "/w=="),
    "part": New(
        (record_type("part", x="int", y="string"), STRUCT_OF_INTS),
        struct(x="integer", y="string"),
        STRUCT_OF_INTS,
        STRUCT_OF_INTS,
    ),
    "list": New(({"type": "array", "items": "int"}, [1, 2]), array("integer"), [1, 2], [1, 2]),
    "map": New(({"type": "map", "values": "int"}, {"k": 1}), map_of("integer"), [("k", 1)], {"k": 1}),
}

Columns = Mapping[str, Any]
"""By name, the value of the first record as a format has it: `New.written`."""


def _json(columns: Columns) -> list[str]:
    first = ", ".join(f'"{name}": {value}' for name, value in columns.items())
    return [f'{{"id": 1, {first}}}', '{"id": 2}']


def _csv(columns: Columns) -> bytes:
    lines = [["id", *columns], ["1", *columns.values()], ["2", *("" for _ in columns)]]
    return "\n".join(map(",".join, lines)).encode()


def _avro(columns: Columns) -> bytes:
    types = {"id": "int", **{name: kind for name, (kind, _) in columns.items()}}
    return avro(types, [{"id": 1, **{name: value for name, (_, value) in columns.items()}}, {"id": 2}])


def _xml(columns: Columns) -> bytes:
    inside = "".join(f"<{name}>{value}</{name}>" for name, value in columns.items())
    return f"<all><o><id>1</id>{inside}</o><o><id>2</id></o></all>".encode()


@dataclass(frozen=True)
class Written:
    """How one format writes such a file, and which new fields it has. `settings`: of a source of such files.
    `by_spark`: new fields whose values only Spark puts into a column."""

    write: Callable[[Columns], bytes]
    new: Mapping[str, New]
    settings: Mapping[str, Any]
    has_schema: bool = False
    """Whether the file says which fields its records have."""
    by_spark: Mapping[str, New] = field(default_factory=dict)

    @property
    def all(self) -> Mapping[str, New]:
        return {**self.new, **self.by_spark}

    def file(self, new: Mapping[str, New]) -> bytes:
        return self.write({name: one.written for name, one in new.items()})


FORMATS: Mapping[str, Written] = {
    "ndjson": Written(lambda columns: ndjson(*_json(columns)), OF_JSON, {}, by_spark=OF_JSON_BY_SPARK),
    "json": Written(lambda columns: json_array(*_json(columns)), OF_JSON, {}, by_spark=OF_JSON_BY_SPARK),
    "csv": Written(_csv, OF_TEXT, {}, has_schema=True),
    "parquet": Written(
        lambda columns: parquet({"id": pa.array([1, 2], pa.int32()), **columns}), OF_PARQUET, {}, has_schema=True
    ),
    "avro": Written(_avro, OF_AVRO, {}, has_schema=True),
    "xml": Written(_xml, OF_TEXT, {"xml": {"row_tag": "o"}}),
}
