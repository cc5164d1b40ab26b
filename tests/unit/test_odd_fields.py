"""Fields that no column is for: each rule with each format, against expectations written by hand."""

from collections.abc import Mapping
from datetime import date
from decimal import Decimal

import orjson
import pyarrow as pa  # type: ignore[import-untyped]
import pytest

from blizzard.config.schema_rules import RESCUED, SchemaRules
from spark_job.formats.json.odd_records_by_spark import _Prepare
from spark_job.formats.kinds import kind_ddl
from spark_job.formats.odd_places import places
from spark_job.formats.protocol import UnknownField
from spark_job.table.schema import columns_of
from tests.unit.format_reading import read_file
from tests.unit.odd_files import avro, json_array, ndjson, orc_file, parquet, record_type
from tests.unit.odd_reading import RESCUE, columns, counts, rescued

LINES = ['{"id": 1}', '{"id": 2, "extra": "x"}', '{"id": 3, "s": {"a": 4, "zip": 9.10}, "extra": null}']
IDS = pa.array([1, 2, 3], pa.int32())
EXTRA = pa.array([None, "x", None])
NESTED = pa.array(
    [None, None, {"a": 4, "zip": 9.1}], pa.struct([pa.field("a", pa.int32()), pa.field("zip", pa.float64())])
)
AVRO_TYPES = {"id": "int", "extra": "string", "s": record_type("s", a="int", zip="double")}
FILES: Mapping[str, bytes] = {
    "ndjson": ndjson(*LINES),
    "json": json_array(*LINES),
    "parquet": parquet({"id": IDS, "extra": EXTRA, "s": NESTED}),
    "orc": orc_file({"id": IDS, "extra": EXTRA, "s": NESTED}),
    "avro": avro(AVRO_TYPES, [{"id": 1}, {"id": 2, "extra": "x"}, {"id": 3, "s": {"a": 4, "zip": 9.1}}]),
}
DDL = "id INT NOT NULL, s STRUCT<a: INT>"
ROWS = [{"id": 1, "s": None}, {"id": 2, "s": None}, {"id": 3, "s": {"a": 4}}]
TYPED = ("parquet", "orc", "avro")
CSV = b"id,extra\n1,\n2,x\n3,\n"


@pytest.mark.parametrize("name", FILES)
def test_unknown_fields_are_counted(name: str) -> None:
    read = read_file(name, DDL, FILES[name])
    all_records = name in TYPED
    assert read.values == ROWS
    assert read.unknown == {
        "extra": UnknownField(3, 0) if all_records else UnknownField(1, 1),
        "s.zip": UnknownField(3, 0) if all_records else UnknownField(1, 2),
    }


@pytest.mark.parametrize("new_fields", ["rescue", "add"])
@pytest.mark.parametrize("name", FILES)
def test_unknown_fields_are_rescued(name: str, new_fields: str) -> None:
    read = read_file(name, DDL, FILES[name], rules=SchemaRules(new_fields))
    assert columns(read) == ROWS
    assert rescued(read) == {0: None, 1: {"extra": "x"}, 2: {"s.zip": 9.1}}
    kinds = {field: None if one.kind is None else kind_ddl(one.kind) for field, one in read.unknown.items()}
    assert kinds == ({"extra": "STRING", "s.zip": "DOUBLE"} if new_fields == "add" else {"extra": None, "s.zip": None})
    assert {field: one[:2] for field, one in counts(read.unknown).items()} == {"extra": (1, 1), "s.zip": (1, 2)}


@pytest.mark.parametrize("name", FILES)
def test_records_with_unknown_fields_are_refused(name: str) -> None:
    read = read_file(name, DDL, FILES[name], rules=SchemaRules("dead_letter"))
    assert read.rows == {0: ROWS[0]}
    assert read.reasons == {
        1: "no column is for extra; `new_fields: dead_letter` refuses such records",
        2: "no column is for s.zip; `new_fields: dead_letter` refuses such records",
    }
    assert orjson.loads(read.texts[1])["extra"] == "x"
    assert counts(read.unknown) == {"extra": (1, 1), "s.zip": (1, 2)}


def test_unknown_fields_of_csv() -> None:
    assert read_file("csv", "id INT", CSV).unknown == {"extra": UnknownField(3, 0)}
    read = read_file("csv", "id INT", CSV, rules=SchemaRules("rescue"))
    assert columns(read) == [{"id": 1}, {"id": 2}, {"id": 3}]
    assert rescued(read) == {0: None, 1: {"extra": "x"}, 2: None}
    assert counts(read.unknown) == {"extra": (1, 1)}
    refused = read_file("csv", "id INT", CSV, rules=SchemaRules("dead_letter"))
    assert refused.values == [{"id": 1}, {"id": 3}]
    assert refused.reasons == {1: "no column is for extra; `new_fields: dead_letter` refuses such records"}
    assert refused.texts == {1: b"2,x"}


def test_columns_of_csv_without_a_name_have_their_position() -> None:
    read = read_file("csv", "id INT", b"id,,_c2,\n1,a,b,c\n2,,,\n", rules=SchemaRules("rescue"))
    assert rescued(read) == {0: {"_c1": "a", "_c2": "b", "_c3": "c"}, 1: None}
    assert rescued(read_file("csv", "id INT", b"id,,_c1\n1,a,b\n", rules=RESCUE)) == {0: {"__c1": "a", "_c1": "b"}}
    assert read_file("csv", "id INT", b"id,,_c2,\n1,a,b,c\n").unknown.keys() == {"_c1", "_c2", "_c3"}
    assert read_file("csv", "_c0 INT, id INT", b",id\n5,1\n").values == [{"_c0": 5, "id": 1}]


@pytest.mark.parametrize(
    ("name", "stored", "expected"),
    [
        (
            "csv",
            b"id,a,b,c,zip\n1,17,1.5,2026-01-01,07\n2,,x,,\n",
            {"a": "BIGINT", "b": "STRING", "c": "DATE", "zip": "STRING"},
        ),
        (
            "ndjson",
            ndjson('{"a": 1, "b": [], "c": {"d": null}}', '{"a": 1.5, "b": [true], "c": {"d": "x", "e": 1e3}}'),
            {"a": "DOUBLE", "b": "ARRAY<BOOLEAN>", "c": "STRUCT<d: STRING, e: DOUBLE>"},
        ),
        (
            "ndjson",
            ndjson('{"a": 1}', '{"a": {"b": 1}}', '{"c": 99999999999999999999}'),
            {"a": "STRING", "c": "DECIMAL(20,0)"},
        ),
        (
            "parquet",
            parquet({"id": IDS, "d": pa.array([None, Decimal("1.50"), None], pa.decimal128(5, 2)), "n": pa.nulls(3)}),
            {"d": "DECIMAL(5,2)"},
        ),
        (
            "avro",
            avro({"id": "int", "t": {"type": "long", "logicalType": "timestamp-millis"}}, [{"id": 1, "t": 0}]),
            {"t": "TIMESTAMP"},
        ),
    ],
)
def test_the_types_of_unknown_fields_are_told(name: str, stored: bytes, expected: dict[str, str]) -> None:
    read = read_file(name, "id INT", stored, rules=SchemaRules("add"))
    assert {field: kind_ddl(one.kind) for field, one in read.unknown.items() if one.kind is not None} == expected


def test_unknown_fields_inside_arrays_and_maps_have_places_of_their_own() -> None:
    ddl = "l ARRAY<STRUCT<a: INT>>, m MAP<STRING, STRUCT<a: INT>>"
    line = '{"l": [{"a": 1}, {"a": 2, "k": "x"}, {"k": 1.10}], "m": {"one": {"k": 5}, "two": {"a": 3}}}'
    read = read_file("ndjson", ddl, line.encode(), rules=RESCUE)
    [row] = columns(read)
    assert row == {"l": [{"a": 1}, {"a": 2}, {"a": None}], "m": {"one": {"a": None}, "two": {"a": 3}}}
    assert rescued(read) == {0: {"l[1].k": "x", "l[2].k": 1.10, "m{one}.k": 5}}
    assert counts(read.unknown) == {"l[].k": (1, 0), "m{}.k": (1, 0)}
    kind = pa.map_(pa.string(), pa.struct([("a", pa.int32()), ("k", pa.int32())]))
    values = pa.array([[("one", {"a": None, "k": 5}), ("two", {"a": 3, "k": None})]], kind)
    typed = read_file("parquet", ddl, parquet({"m": values}), rules=RESCUE)
    assert rescued(typed) == {0: {"m{one}.k": 5}}


def test_numbers_are_rescued_as_they_are_written() -> None:
    line = b'{"id": 1.0, "x": 1.10, "y": [123456789012345678901234567890, 1E30], "d": 1.10}'
    [row] = read_file("ndjson", "id INT, d DECIMAL(9,2)", line, rules=RESCUE).values
    assert row["d"] == Decimal("1.10")
    assert row[RESCUED] == '{"x":1.10,"y":[123456789012345678901234567890,1E30],"id":1.0}'


def test_a_key_named_like_the_column_for_what_is_rescued_does_not_fill_it() -> None:
    assert rescued(read_file("ndjson", "id INT", b'{"id": 1, "_rescued": "x"}', rules=RESCUE)) == {0: {RESCUED: "x"}}


def test_values_that_json_has_no_number_or_text_for() -> None:
    table = {
        "id": pa.array([1], pa.int32()),
        "x": pa.array([float("nan")]),
        "b": pa.array([b"\xff"]),
        "t": pa.array([1_767_322_800_000_000], pa.timestamp("us")),
        "s": pa.array([{"d": date(2026, 1, 2), "i": float("inf"), "l": [b"x", b"\xff"]}]),
        "n": pa.array([[1_767_322_800_000_000_001]], pa.list_(pa.timestamp("ns", tz="UTC"))),
    }
    read = read_file("parquet", "id INT", parquet(table), rules=RESCUE)
    assert rescued(read)[0] == {
        "x": "nan",
        "b": "/w==",
        "t": "2026-01-02 03:00:00.000000",
        "s": {"d": "2026-01-02", "i": "inf", "l": ["x", "/w=="]},
        "n": ["2026-01-02 03:00:00.000000001Z"],
    }


def test_a_union_of_avro_that_no_column_can_hold_is_rescued_as_its_text() -> None:
    stored = avro({"id": "int", "u": ["int", "string"]}, [{"id": 1, "u": 5}, {"id": 2, "u": "five"}, {"id": 3}])
    read = read_file("avro", "id INT", stored, rules=RESCUE)
    assert rescued(read) == {0: {"u": "5"}, 1: {"u": '"five"'}, 2: None}


@pytest.mark.parametrize("name", FILES)
def test_unknown_fields_that_are_counted_are_not_rescued_with_misfits(name: str) -> None:
    read = read_file(name, DDL, FILES[name], rules=SchemaRules(misfits="rescue"))
    assert (columns(read), rescued(read)) == (ROWS, dict.fromkeys(range(3)))
    assert read.unknown == read_file(name, DDL, FILES[name]).unknown


DOTTED = '{"address": {"zip": 1, "city": "x"}, "address.zip": 2}'


def test_a_key_with_a_dot_has_another_place_than_a_field_of_a_struct() -> None:
    ddl = "id STRING, address STRUCT<city: STRING>"
    for name, stored in {"ndjson": ndjson(DOTTED), "json": json_array(DOTTED)}.items():
        read = read_file(name, ddl, stored, rules=SchemaRules("rescue"))
        assert columns(read) == [{"id": None, "address": {"city": "x"}}]
        assert rescued(read) == {0: {"`address.zip`": 2, "address.zip": 1}}
        assert counts(read.unknown) == {"`address.zip`": (1, 0), "address.zip": (1, 0)}
        assert {*read_file(name, ddl, stored).unknown} == {"`address.zip`", "address.zip"}


@pytest.mark.parametrize("name", ["parquet", "orc"])
def test_a_column_with_a_dot_has_another_place_than_a_field_of_a_struct(name: str) -> None:
    inner = pa.struct([pa.field("zip", pa.int32()), pa.field("city", pa.string())])
    data = {"address": pa.array([{"zip": 1, "city": "x"}], inner), "address.zip": pa.array([2], pa.int32())}
    stored = parquet(data) if name == "parquet" else orc_file(data)
    ddl = "id STRING, address STRUCT<city: STRING>"
    read = read_file(name, ddl, stored, rules=SchemaRules("add"))
    assert columns(read) == [{"id": None, "address": {"city": "x"}}]
    assert rescued(read) == {0: {"`address.zip`": 2, "address.zip": 1}}
    kinds = {field: kind_ddl(one.kind) for field, one in read.unknown.items() if one.kind is not None}
    assert kinds == {"`address.zip`": "INT", "address.zip": "INT"}
    assert {*read_file(name, ddl, stored).unknown} == {"`address.zip`", "address.zip"}


def test_a_misfit_in_a_column_with_a_dot_has_a_place_of_its_own() -> None:
    line = b'{"x": {"y": "s"}, "x.y": "t"}'
    read = read_file("ndjson", "x STRUCT<y: INT>, `x.y` INT", line, rules=RESCUE)
    assert columns(read) == [{"x": {"y": None}, "x.y": None}]
    assert rescued(read) == {0: {"x.y": "s", "`x.y`": "t"}}
    assert counts(read.misfits) == {"x.y": (1, 0), "`x.y`": (1, 0)}
    values = {"x": pa.array([{"y": "s"}], pa.struct([("y", pa.string())])), "x.y": pa.array(["t"])}
    typed = read_file("parquet", "x STRUCT<y: INT>, `x.y` INT", parquet(values), rules=RESCUE)
    assert rescued(typed) == {0: {"x.y": "s", "`x.y`": "t"}}


def test_keys_of_maps_are_quoted_like_names() -> None:
    line = '{"m": {"k": {"x": 1}, "k}.x": {"x": 2}, "a`b": {"x": 3}}, "m{k}.x": 4, "a[0]": 5}'
    read = read_file("ndjson", "m MAP<STRING, STRUCT<a: INT>>", line.encode(), rules=RESCUE)
    assert rescued(read) == {0: {"m{k}.x": 1, "m{`k}.x`}.x": 2, "m{`a``b`}.x": 3, "`m{k}.x`": 4, "`a[0]`": 5}}
    assert {*read.unknown} == {"m{}.x", "`m{k}.x`", "`a[0]`"}


def test_columns_of_csv_with_a_dot_are_quoted() -> None:
    stored = b"id,a.b\n1,x\n"
    assert {*read_file("csv", "id INT", stored).unknown} == {"`a.b`"}
    assert rescued(read_file("csv", "id INT", stored, rules=RESCUE)) == {0: {"`a.b`": "x"}}


def test_what_is_in_a_misfit_is_rescued_once() -> None:
    ddl, kind = (
        "l ARRAY<STRUCT<a: TINYINT>>",
        pa.list_(pa.struct([pa.field("a", pa.int32()), pa.field("b", pa.bool_())])),
    )
    typed = parquet({"l": pa.array([[{"a": 300, "b": False}]], kind)})
    for name, stored, value in (("ndjson", b'{"l": [{"a": "s", "b": false}]}', "s"), ("parquet", typed, 300)):
        read = read_file(name, ddl, stored, rules=RESCUE)
        assert rescued(read) == {0: {"l": [{"a": value, "b": False}]}}
        assert (counts(read.unknown), counts(read.misfits)) == ({}, {"l": (1, 0)})


PLACES_DDL = "address STRUCT<city: STRING>, x STRUCT<y: INT>, `x.y` INT, l ARRAY<STRUCT<a: INT>>"


def test_spark_names_places_as_the_fast_reader_does() -> None:
    schema = columns_of(PLACES_DDL)
    at = [place.path for place in places(schema)]
    line = (
        '{"address": {"zip": 1}, "address.zip": 2, "x": {"y": "s"}, "x.y": "t", "l": [{"a": "u", "b": 3}], "l[0].b": 4}'
    )
    misfits = [at.index(("x", "y")), at.index(("x.y",)), at.index(("l",))]
    _, kept, told = _Prepare(schema.json(), SchemaRules("rescue", "widen")).prepared(line, misfits)
    assert orjson.loads(kept or "") == {
        "`address.zip`": 2,
        "`l[0].b`": 4,
        "address.zip": 1,
        "x.y": "s",
        "`x.y`": "t",
        "l": [{"a": "u", "b": 3}],
    }
    assert orjson.loads(told or "").keys() == {"x.y", "`x.y`", "l"}
    fast = read_file("ndjson", PLACES_DDL, line.encode(), rules=RESCUE)
    assert rescued(fast) == {0: orjson.loads(kept or "")}
