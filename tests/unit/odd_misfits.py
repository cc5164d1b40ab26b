"""Values that do not fit their columns, in files of two records of each format. What becomes of them is written down by
hand, for each type of a column and each format."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]

from tests.unit.odd_files import record_type
from tests.unit.odd_lands import BIG, LOCAL, MOMENT, SHOWN

LARGE = 5_000_000_000
BEYOND_DOUBLE = 2**53 + 1


@dataclass(frozen=True)
class Wide:
    """A column of the table with a value that does not fit it, in the first of two records; the second has none.

    `written`: the value as the format has it. `rescued`: in `_rescued`. `widened`: the type to which the column is
    widened, as in `simpleString`; None: it is not. `value`: in the widened column. `place`: of what does not fit within
    the column; `left`: what then stays in it. `needs_spark`: to refuse the value;
    `by_spark`: also to rescue it, since only Spark can tell that it does not fit. `said`: whether the log says that the
    column was not widened, by an engine that cannot or because Delta does not. `whole_file`: of files with types, why
    the file is a dead letter as a whole; empty: values are compared one by one.
    """

    kind: str
    written: Any
    rescued: Any
    widened: str | None = None
    value: Any = None
    place: str = ""
    left: Any = None
    needs_spark: bool = False
    by_spark: bool = False
    said: bool = True
    whole_file: str = ""

    @property
    def family(self) -> str:
        """The type without its parameters."""
        return self.kind.partition("(")[0].partition("<")[0]

    @property
    def simple(self) -> str:
        """The type as in `simpleString`."""
        return self.kind.lower().replace(" ", "")


def _not(wide: Wide) -> Wide:
    """Nobody could widen the column for such a value, so that nothing is said."""
    return Wide(**{**vars(wide), "said": False})


WIDE_JSON: Sequence[Wide] = [
    Wide("TINYINT", "300", 300, "bigint", 300, needs_spark=True),
    Wide("SMALLINT", "40000", 40_000, "bigint", 40_000),
    Wide("INT", "5000000000", LARGE, "bigint", LARGE),
    Wide("INT", "1.5", 1.5, "double", 1.5),
    _not(Wide("INT", '"x"', "x")),
    Wide("BIGINT", str(BIG), BIG, "decimal(20,0)", Decimal(BIG)),
    Wide("BIGINT", "1.5", 1.5),
    _not(Wide("FLOAT", '"x"', "x")),
    _not(Wide("DOUBLE", '"x"', "x")),
    _not(Wide("DOUBLE", "true", True)),
    Wide("DECIMAL(5,2)", "123456.125", 123456.125, "decimal(9,3)", Decimal("123456.125"), needs_spark=True),
    Wide("BOOLEAN", "1", 1),
    Wide("BINARY", "5", 5, by_spark=True),
    _not(Wide("BINARY", '"%"', "%", by_spark=True)),
    _not(Wide("DATE", '"soon"', "soon")),
    _not(Wide("TIMESTAMP", '"soon"', "soon")),
    _not(Wide("TIMESTAMP_NTZ", "true", True)),
    _not(Wide("TIMESTAMP_NTZ", '"2026-11-21T10:00:00Z"', "2026-11-21T10:00:00Z", by_spark=True)),
    _not(Wide("STRUCT<x: INT>", '"x"', "x")),
    Wide(
        "STRUCT<x: INT>",
        '{"x": 5000000000}',
        LARGE,
        "struct<x:bigint>",
        {"x": LARGE},
        place=".x",
        left={"x": None},
    ),
    Wide("ARRAY<INT>", "[1, 5000000000]", [1, LARGE], "array<bigint>", [1, LARGE]),
    Wide(
        "ARRAY<DECIMAL(5,2)>",
        "[1.5, 123456.125]",
        [1.5, 123456.125],
        "array<decimal(9,3)>",
        [Decimal("1.500"), Decimal("123456.125")],
        by_spark=True,
    ),
    _not(Wide("ARRAY<INT>", '[1, "x"]', [1, "x"])),
    Wide("MAP<STRING, INT>", '{"k": 5000000000}', {"k": LARGE}, "map<string,bigint>", {"k": LARGE}),
    _not(Wide("MAP<STRING, INT>", '{"k": "x"}', {"k": "x"})),
]
WIDE_TEXT: Sequence[Wide] = [
    Wide("TINYINT", "300", "300", "bigint", 300),
    Wide("SMALLINT", "40000", "40000", "bigint", 40_000),
    Wide("INT", "5000000000", "5000000000", "bigint", LARGE),
    Wide("INT", "1.5", "1.5", "double", 1.5),
    _not(Wide("INT", "x", "x")),
    Wide("BIGINT", str(BIG), str(BIG), "decimal(20,0)", Decimal(BIG)),
    Wide("BIGINT", "1.5", "1.5"),
    _not(Wide("FLOAT", "x", "x")),
    _not(Wide("DOUBLE", "x", "x")),
    Wide("DECIMAL(5,2)", "1000", "1000", "decimal(6,2)", Decimal(1000)),
    Wide("DECIMAL(5,2)", "123456.125", "123456.125", "decimal(9,3)", Decimal("123456.125")),
    _not(Wide("BOOLEAN", "yes", "yes")),
    _not(Wide("DATE", "soon", "soon")),
    _not(Wide("TIMESTAMP", "soon", "soon")),
    _not(Wide("TIMESTAMP_NTZ", "2026-11-21 10:00:00Z", "2026-11-21 10:00:00Z")),
]
WIDE_XML: Sequence[Wide] = [
    *WIDE_TEXT,
    Wide(
        "STRUCT<x: INT>",
        "<x>5000000000</x>",
        "5000000000",
        "struct<x:bigint>",
        {"x": LARGE},
        place=".x",
        left={"x": None},
    ),
    Wide("ARRAY<INT>", "5000000000", ["5000000000"], "array<bigint>", [LARGE]),
    Wide("MAP<STRING, INT>", "<k>5000000000</k>", {"k": "5000000000"}, "map<string,bigint>", {"k": LARGE}),
]
WIDE_PARQUET: Sequence[Wide] = [
    Wide("TINYINT", pa.array([300, None], pa.int16()), 300, "smallint", 300),
    Wide("SMALLINT", pa.array([40_000, None], pa.int32()), 40_000, "int", 40_000),
    Wide("INT", pa.array([LARGE, None]), LARGE, "bigint", LARGE, whole_file="v: expected int, found int64"),
    _not(Wide("INT", pa.array(["x", None]), "x", whole_file="v: expected int, found string")),
    Wide(
        "BIGINT",
        pa.array([BIG, None], pa.uint64()),
        BIG,
        "decimal(20,0)",
        Decimal(BIG),
        whole_file="v: expected bigint, found uint64",
    ),
    Wide("BIGINT", pa.array([1.5, None]), 1.5, whole_file="v: expected bigint, found double"),
    Wide("FLOAT", pa.array([0.1, None]), 0.1, "double", 0.1, whole_file="v: expected float, found double"),
    _not(Wide("FLOAT", pa.array(["x", None]), "x", whole_file="v: expected float, found string")),
    Wide("DOUBLE", pa.array([BEYOND_DOUBLE, None]), BEYOND_DOUBLE),
    _not(Wide("DOUBLE", pa.array(["x", None]), "x", whole_file="v: expected double, found string")),
    Wide(
        "DECIMAL(5,2)",
        pa.array([Decimal("123456.125"), None], pa.decimal128(9, 3)),
        "123456.125",
        "decimal(9,3)",
        Decimal("123456.125"),
        whole_file="v: expected decimal(5,2), found decimal128(9, 3)",
    ),
    Wide("BOOLEAN", pa.array([1, None], pa.int32()), 1, whole_file="v: expected boolean, found int32"),
    _not(Wide("STRING", pa.array([b"\xff", None]), "/w==")),
    Wide("BINARY", pa.array([5, None], pa.int32()), 5, whole_file="v: expected binary, found int32"),
    Wide(
        "DATE",
        pa.array([LOCAL, None], pa.timestamp("us")),
        SHOWN,
        "timestamp_ntz",
        LOCAL,
        whole_file="v: expected date, found timestamp[us]",
    ),
    _not(Wide("DATE", pa.array(["soon", None]), "soon", whole_file="v: expected date, found string")),
    Wide("TIMESTAMP", pa.array([5, None]), 5, whole_file="v: expected timestamp, found int64"),
    _not(
        Wide(
            "TIMESTAMP_NTZ",
            pa.array([MOMENT, None], pa.timestamp("us", "UTC")),
            f"{SHOWN}Z",
            whole_file="v: expected timestamp_ntz, found timestamp[us, tz=UTC]",
        )
    ),
    _not(Wide("STRUCT<x: INT>", pa.array(["x", None]), "x", whole_file="v: expected struct<x:int>, found string")),
    Wide(
        "STRUCT<x: INT>",
        pa.array([{"x": LARGE}, None]),
        LARGE,
        "struct<x:bigint>",
        {"x": LARGE},
        place=".x",
        left={"x": None},
        whole_file="v.x: expected int, found int64",
    ),
    Wide(
        "ARRAY<INT>",
        pa.array([[1, LARGE], None]),
        [1, LARGE],
        "array<bigint>",
        [1, LARGE],
        whole_file="v[]: expected int, found int64",
    ),
    Wide(
        "MAP<STRING, INT>",
        pa.array([[("k", LARGE)], None], pa.map_(pa.string(), pa.int64())),
        {"k": LARGE},
        "map<string,bigint>",
        {"k": LARGE},
        whole_file="v{}: expected int, found int64",
    ),
    Wide(
        "MAP<STRING, INT>",
        pa.array([[1], None], pa.list_(pa.int32())),
        [1],
        whole_file="v: expected map<string,int>, found list<element: int32>",
    ),
]
_MICROS = {"type": "long", "logicalType": "timestamp-micros"}
_LOCAL_MICROS = {"type": "long", "logicalType": "local-timestamp-micros"}
_DIGITS = {"type": "bytes", "logicalType": "decimal"}
WIDE_AVRO: Sequence[Wide] = [
    Wide("TINYINT", ("int", 300), 300, "int", 300),
    Wide("SMALLINT", ("int", 40_000), 40_000, "int", 40_000),
    Wide("INT", ("long", LARGE), LARGE, "bigint", LARGE, whole_file="v: expected int, found int64"),
    _not(Wide("INT", ("string", "x"), "x", whole_file="v: expected int, found string")),
    Wide(
        "BIGINT",
        ({**_DIGITS, "precision": 19, "scale": 0}, Decimal(BIG)),
        str(BIG),
        "decimal(20,0)",
        Decimal(BIG),
        whole_file="v: expected bigint, found decimal128(19, 0)",
    ),
    Wide("BIGINT", ("double", 1.5), 1.5, whole_file="v: expected bigint, found double"),
    Wide("FLOAT", ("double", 0.1), 0.1, "double", 0.1, whole_file="v: expected float, found double"),
    Wide("DOUBLE", ("long", BEYOND_DOUBLE), BEYOND_DOUBLE),
    _not(Wide("DOUBLE", ("string", "x"), "x", whole_file="v: expected double, found string")),
    Wide(
        "DECIMAL(5,2)",
        ({**_DIGITS, "precision": 9, "scale": 3}, Decimal("123456.125")),
        "123456.125",
        "decimal(9,3)",
        Decimal("123456.125"),
        whole_file="v: expected decimal(5,2), found decimal128(9, 3)",
    ),
    Wide("BOOLEAN", ("int", 1), 1, whole_file="v: expected boolean, found int32"),
    _not(Wide("STRING", ("bytes", b"\xff"), "/w==")),
    Wide("BINARY", ("int", 5), 5, whole_file="v: expected binary, found int32"),
    Wide(
        "DATE",
        (_LOCAL_MICROS, LOCAL),
        SHOWN,
        "timestamp_ntz",
        LOCAL,
        whole_file="v: expected date, found timestamp[us]",
    ),
    _not(Wide("DATE", ("string", "soon"), "soon", whole_file="v: expected date, found string")),
    Wide("TIMESTAMP", ("long", 5), 5, whole_file="v: expected timestamp, found int64"),
    _not(
        Wide(
            "TIMESTAMP_NTZ",
            (_MICROS, MOMENT),
            f"{SHOWN}Z",
            whole_file="v: expected timestamp_ntz, found timestamp[us, tz=UTC]",
        )
    ),
    _not(Wide("STRUCT<x: INT>", ("string", "x"), "x", whole_file="v: expected struct<x:int>, found string")),
    Wide(
        "STRUCT<x: INT>",
        (record_type("wide_part", x="long"), {"x": LARGE}),
        LARGE,
        "struct<x:bigint>",
        {"x": LARGE},
        place=".x",
        left={"x": None},
        whole_file="v.x: expected int, found int64",
    ),
    Wide(
        "ARRAY<INT>",
        ({"type": "array", "items": "long"}, [1, LARGE]),
        [1, LARGE],
        "array<bigint>",
        [1, LARGE],
        whole_file="v[]: expected int, found int64",
    ),
    Wide(
        "MAP<STRING, INT>",
        ({"type": "map", "values": "long"}, {"k": LARGE}),
        {"k": LARGE},
        "map<string,bigint>",
        {"k": LARGE},
        whole_file="v{}: expected int, found int64",
    ),
]
WIDE: Mapping[str, Sequence[Wide]] = {
    "ndjson": WIDE_JSON,
    "json": WIDE_JSON,
    "csv": WIDE_TEXT,
    "parquet": WIDE_PARQUET,
    "avro": WIDE_AVRO,
    "xml": WIDE_XML,
}
TYPES = (
    *("TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL", "BOOLEAN", "STRING", "BINARY"),
    *("DATE", "TIMESTAMP", "TIMESTAMP_NTZ", "STRUCT", "ARRAY", "MAP"),
)
ALL_FIT: Mapping[str, frozenset[str]] = {
    **dict.fromkeys(("ndjson", "json", "csv", "xml"), frozenset({"STRING"})),
    **dict.fromkeys(("parquet", "avro"), frozenset()),
}
"""Types of columns that take every value that the format can have."""
NO_COLUMNS: Mapping[str, frozenset[str]] = {
    "csv": frozenset({"BINARY", "STRUCT", "ARRAY", "MAP"}),
    "xml": frozenset({"BINARY"}),
}
"""Types of columns that a source of the format cannot have."""
