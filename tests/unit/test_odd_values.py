"""Values that do not fit their columns: each rule with each format, against expectations written by hand."""

from decimal import Decimal
from typing import Any, NamedTuple

import pyarrow as pa  # type: ignore[import-untyped]
import pytest

from blizzard.config.schema_rules import SchemaRules
from spark_job.formats.kinds import kind_ddl
from spark_job.formats.protocol import FileFault
from tests.unit.format_reading import read_file
from tests.unit.odd_files import avro, json_array, ndjson, orc_file, parquet, record_type
from tests.unit.odd_reading import RESCUE, columns, counts, rescued

TYPED = ("parquet", "orc", "avro")


class Bad(NamedTuple):
    """A column's type, a value as the format writes it, what is rescued of it, and the narrowest type that holds it."""

    kind: str
    value: Any
    rescued: Any
    needs: str


WIDER = {"INT", "BIGINT", "DOUBLE", "DECIMAL(19,0)", "DECIMAL(10,2)", "DECIMAL(6,3)", "DECIMAL(4,0)", "ARRAY<INT>"}
"""Those among the types below to which a column can be widened; others are not told."""
BAD_JSON = [
    Bad("TINYINT", "40000", 40000, "BIGINT"),
    Bad("TINYINT", "200", 200, "BIGINT"),
    Bad("SMALLINT", "40000", 40000, "BIGINT"),
    Bad("INT", "2147483648", 2147483648, "BIGINT"),
    Bad("INT", "1.5", 1.5, "DOUBLE"),
    Bad("INT", '"7"', "7", "STRING"),
    Bad("BIGINT", "9223372036854775808", 9223372036854775808, "DECIMAL(19,0)"),
    Bad("FLOAT", '"x"', "x", "STRING"),
    Bad("DOUBLE", "true", True, "BOOLEAN"),
    Bad("DECIMAL(5,2)", '"abc"', "abc", "STRING"),
    Bad("DECIMAL(5,2)", "999.995", 999.995, "DECIMAL(6,3)"),
    Bad("BOOLEAN", '"yes"', "yes", "STRING"),
    Bad("BOOLEAN", "1", 1, "BIGINT"),
    Bad("DATE", '"tomorrow"', "tomorrow", "STRING"),
    Bad("DATE", '"2026-02-30"', "2026-02-30", "STRING"),
    Bad("TIMESTAMP", '"soon"', "soon", "STRING"),
    Bad("TIMESTAMP_NTZ", "true", True, "BOOLEAN"),
    Bad("STRUCT<a: INT>", "5", 5, "BIGINT"),
    Bad("ARRAY<INT>", '[1, "x"]', [1, "x"], "ARRAY<STRING>"),
    Bad("ARRAY<STRUCT<a: INT>>", '[{"a": 1}, {"a": "x"}]', [{"a": 1}, {"a": "x"}], "ARRAY<STRUCT<a: STRING>>"),
    Bad("MAP<STRING, INT>", '{"k": "x"}', {"k": "x"}, "MAP<STRING, STRING>"),
]
BAD_CSV = [
    Bad("TINYINT", "200", "200", "BIGINT"),
    Bad("SMALLINT", "40000", "40000", "BIGINT"),
    Bad("INT", "x", "x", "STRING"),
    Bad("BIGINT", "9223372036854775808", "9223372036854775808", "DECIMAL(19,0)"),
    Bad("FLOAT", "abc", "abc", "STRING"),
    Bad("DOUBLE", '"1,5"', "1,5", "STRING"),
    Bad("DECIMAL(5,2)", "1000", "1000", "DECIMAL(4,0)"),
    Bad("BOOLEAN", "yes", "yes", "STRING"),
    Bad("DATE", "2026-02-30", "2026-02-30", "STRING"),
    Bad("TIMESTAMP", "soon", "soon", "STRING"),
    Bad("TIMESTAMP_NTZ", "2026-01-01 10:00:00Z", "2026-01-01 10:00:00Z", "TIMESTAMP"),
]
BAD_TYPED = [
    Bad("TINYINT", pa.array([300], pa.int32()), 300, "INT"),
    Bad("SMALLINT", pa.array([40000], pa.int32()), 40000, "INT"),
    Bad("INT", pa.array([2**40], pa.int64()), 2**40, "BIGINT"),
    Bad("INT", pa.array(["x"]), "x", "STRING"),
    Bad("BIGINT", pa.array([1.5]), 1.5, "DOUBLE"),
    Bad("FLOAT", pa.array([1.5]), 1.5, "DOUBLE"),
    Bad("DOUBLE", pa.array(["x"]), "x", "STRING"),
    Bad("DECIMAL(5,2)", pa.array([Decimal("1000.00")], pa.decimal128(10, 2)), "1000.00", "DECIMAL(10,2)"),
    Bad("STRING", pa.array([b"\xff"]), "/w==", "BINARY"),
    Bad("DOUBLE", pa.array([2**53 + 1], pa.int64()), 2**53 + 1, "BIGINT"),
    Bad("BOOLEAN", pa.array([1], pa.int32()), 1, "INT"),
    Bad("BINARY", pa.array([True]), True, "BOOLEAN"),
    Bad("DATE", pa.array(["2026-01-01"]), "2026-01-01", "STRING"),
    Bad("TIMESTAMP", pa.array([5], pa.int64()), 5, "BIGINT"),
    Bad("TIMESTAMP_NTZ", pa.array(["now"]), "now", "STRING"),
    Bad("STRUCT<a: INT>", pa.array(["x"]), "x", "STRING"),
    Bad("ARRAY<INT>", pa.array([["x"]]), ["x"], "ARRAY<STRING>"),
    Bad("MAP<STRING, INT>", pa.array([[1]], pa.list_(pa.int32())), [1], "ARRAY<INT>"),
]
BAD_AVRO = [
    Bad("INT", ("string", "x"), "x", "STRING"),
    Bad("INT", ("long", 2**40), 2**40, "BIGINT"),
    Bad("SMALLINT", ("int", 40000), 40000, "INT"),
    Bad("DOUBLE", ("bytes", b"\xff"), "/w==", "BINARY"),
    Bad("STRING", ("bytes", b"\xff"), "/w==", "BINARY"),
    Bad("BOOLEAN", ("int", 1), 1, "INT"),
    Bad("DATE", ("string", "2026-01-01"), "2026-01-01", "STRING"),
    Bad("TIMESTAMP", ("long", 5), 5, "BIGINT"),
    Bad("ARRAY<INT>", ({"type": "array", "items": "string"}, ["x"]), ["x"], "ARRAY<STRING>"),
    Bad("STRUCT<a: INT>", ("string", "x"), "x", "STRING"),
]


def bad_file(name: str, bad: Bad) -> bytes:
    """Of one record, whose column `id` fits, and whose column `v` does not."""
    if name == "csv":
        return f"id,v\n1,{bad.value}\n".encode()
    if name == "avro":
        kind, value = bad.value
        return avro({"id": "int", "v": kind}, [{"id": 1, "v": value}])
    if name in TYPED:
        made = {"id": pa.array([1], pa.int32()), "v": bad.value}
        return parquet(made) if name == "parquet" else orc_file(made)
    record = f'{{"id": 1, "v": {bad.value}}}'
    return ndjson(record) if name == "ndjson" else json_array(record)


CASES = [
    *((name, bad) for name in ("ndjson", "json") for bad in BAD_JSON),
    *(("csv", bad) for bad in BAD_CSV),
    *((name, bad) for name in ("parquet", "orc") for bad in BAD_TYPED),
    *(("avro", bad) for bad in BAD_AVRO),
]
each_misfit = pytest.mark.parametrize(("name", "bad"), CASES, ids=[f"{name}-{bad.kind}" for name, bad in CASES])


@each_misfit
@pytest.mark.parametrize("misfits", ["rescue", "widen"])
def test_a_value_that_does_not_fit_is_rescued(name: str, bad: Bad, misfits: str) -> None:
    read = read_file(name, f"id INT NOT NULL, v {bad.kind}", bad_file(name, bad), rules=SchemaRules(misfits=misfits))
    assert (columns(read), read.reasons) == ([{"id": 1, "v": None}], {})
    assert rescued(read) == {0: {"v": bad.rescued}}
    assert counts(read.misfits) == {"v": (1, 0)}
    kind = read.misfits["v"].kind
    told = misfits == "widen" and bad.needs in WIDER
    assert (None if kind is None else kind_ddl(kind)) == (bad.needs if told else None)


@each_misfit
def test_a_value_that_does_not_fit_is_refused(name: str, bad: Bad) -> None:
    assert_refused(name, f"id INT, v {bad.kind}", bad, SchemaRules("rescue"))


@each_misfit
def test_a_value_that_does_not_fit_a_column_that_is_not_null_is_refused(name: str, bad: Bad) -> None:
    assert_refused(name, f"id INT, v {bad.kind} NOT NULL", bad, RESCUE)


LEFT_TO_SPARK = dict.fromkeys(["200", "999.995", '"2026-02-30"'], "v: the value does not fit it, says Spark")
"""Unless a rule asks for the values that do not fit."""


def assert_refused(name: str, ddl: str, bad: Bad, rules: SchemaRules) -> None:
    """As a record, or as a whole file whose column has another type."""
    try:
        read = read_file(name, ddl, bad_file(name, bad), rules=rules)
    except FileFault as fault:
        reason = fault.reason
    else:
        assert (read.rows, read.misfits) == ({}, {})
        reason = str(read.reasons[0] or LEFT_TO_SPARK.get(bad.value))
    assert reason.startswith("v: the value does not fit ") or (name in TYPED and "which does not widen to" in reason)


A_AND_B = '{"v": {"a": "x", "b": "y"}}'
STRUCT = pa.array([{"a": "x", "b": "y"}])


@pytest.mark.parametrize(
    ("name", "stored"),
    [
        ("ndjson", ndjson(A_AND_B)),
        ("json", json_array(A_AND_B)),
        ("parquet", parquet({"v": STRUCT})),
        ("orc", orc_file({"v": STRUCT})),
        ("avro", avro({"v": record_type("v", a="string", b="string")}, [{"v": {"a": "x", "b": "y"}}])),
    ],
)
def test_of_a_struct_only_the_field_that_does_not_fit_is_rescued(name: str, stored: bytes) -> None:
    read = read_file(name, "v STRUCT<a: INT, b: STRING>", stored, rules=RESCUE)
    assert (columns(read), rescued(read)) == ([{"v": {"a": None, "b": "y"}}], {0: {"v.a": "x"}})
    assert counts(read.misfits) == {"v.a": (1, 0)}
    whole = read_file(name, "v STRUCT<a: INT NOT NULL, b: STRING>", stored, rules=RESCUE)
    assert (columns(whole), rescued(whole)) == ([{"v": None}], {0: {"v": {"a": "x", "b": "y"}}})
    deep = read_file(name, "v STRUCT<a: INT, c: INT>", stored, rules=RESCUE)
    assert (columns(deep), rescued(deep)) == ([{"v": {"a": None, "c": None}}], {0: {"v.a": "x", "v.b": "y"}})


def test_values_in_a_struct_that_do_not_fit_leave_the_others_of_their_column() -> None:
    values = pa.array([{"a": 1}, {"a": 40_000}, None, {"a": 2}], pa.struct([pa.field("a", pa.int32())]))
    read = read_file("parquet", "v STRUCT<a: SMALLINT>", parquet({"v": values}), rules=RESCUE)
    assert [row["v"] for row in columns(read)] == [{"a": 1}, {"a": None}, None, {"a": 2}]
    assert rescued(read) == {0: None, 1: {"v.a": 40_000}, 2: None, 3: None}


def test_other_lines_of_a_block_stay_what_they_are() -> None:
    lines = ['{"id": 1, "v": 1}', '{"id": 2, "v": "x"}', '{"id": ', '{"id": "y", "v": 3}', "17"]
    lines += ['{"id": 4, "w": {"v": 1}}', '{"v": 5}', '{"id": 6, "v": 1e3, "w": 1}']
    read = read_file("ndjson", "id INT NOT NULL, v DOUBLE", ndjson(*lines), rules=RESCUE)
    assert {number: row["id"] for number, row in read.rows.items()} == {0: 1, 1: 2, 5: 4, 7: 6}
    assert rescued(read) == {0: None, 1: {"v": "x"}, 5: {"w": {"v": 1}}, 7: {"w": 1}}
    assert sorted(read.reasons) == [2, 3, 4, 6]
    assert read.reasons[3] == "id: the value does not fit int"
    assert read.reasons[6] == "id: NOT NULL, but it is missing or null"
    assert read.texts[3] == lines[3].encode()


def test_the_reason_names_the_column_that_must_not_be_null() -> None:
    lines = ['{"v": "x", "id": "y"}', '{"v": "x"}', '{"v": "x", "id": 1}']
    read = read_file("ndjson", "v INT, id INT NOT NULL", ndjson(*lines), rules=RESCUE)
    assert read.reasons == {0: "id: the value does not fit int", 1: "id: NOT NULL, but it is missing or null"}
    assert read.texts == {0: lines[0].encode(), 1: lines[1].encode()}
    assert rescued(read) == {2: {"v": "x"}}
    typed = read_file("csv", "v INT, id INT NOT NULL", b"v,id\nx,y\nx,\nx,1\n", rules=RESCUE)
    assert (typed.reasons, rescued(typed)) == (read.reasons, {2: {"v": "x"}})
    assert counts(typed.misfits) == counts(read.misfits) == {"v": (1, 2)}


def test_what_is_taken_out_lacks_nothing_any_more() -> None:
    kind = pa.struct([pa.field("a", pa.int32()), pa.field("b", pa.int32())])
    values = pa.array([{"a": None, "b": 40_000}, {"a": None, "b": 1}, {"a": 1, "b": 1}], kind)
    ddl = "v STRUCT<a: INT NOT NULL, b: SMALLINT NOT NULL>"
    read = read_file("parquet", ddl, parquet({"v": values}), rules=RESCUE)
    assert rescued(read) == {0: {"v": {"a": None, "b": 40_000}}, 2: None}
    assert (columns(read)[0], read.reasons) == ({"v": None}, {1: "v.a: NOT NULL, but it is missing or null"})


@pytest.mark.parametrize("value", ["5", "[1]", '{"k": 1}'])
def test_records_with_a_value_that_only_spark_can_judge_are_left_to_it(value: str) -> None:
    line = f'{{"v": "x", "t": {value}}}'
    read = read_file("ndjson", "v INT, t STRING", ndjson(line, '{"v": "x"}'), rules=RESCUE)
    assert (read.reasons, read.texts) == ({0: None}, {0: line.encode()})
    assert rescued(read) == {1: {"v": "x"}}


@pytest.mark.parametrize(
    ("kind", "value"),
    [("TINYINT", "1e2"), ("DECIMAL(5,2)", "1e9"), ("DECIMAL(5,2)", '"999999"'), ("DATE", '"2026-2-30"'), ("DATE", "5")],
)
def test_values_of_another_form_are_left_to_spark(kind: str, value: str) -> None:
    read = read_file("ndjson", f"v {kind}, t STRING", ndjson(f'{{"v": {value}, "t": 1}}'), rules=RESCUE)
    assert read.reasons == {0: None}


@pytest.mark.parametrize(
    ("name", "stored"),
    [
        ("ndjson", ndjson('{"id": 1, "v": "x"}', '{"v": "y"}')),
        ("csv", b"id,v\n1,x\n,y\n"),
        ("parquet", parquet({"id": pa.array([1, None], pa.int32()), "v": pa.array(["x", "y"])})),
        ("avro", avro({"id": "int", "v": "string"}, [{"id": 1, "v": "x"}, {"v": "y"}])),
    ],
)
def test_values_of_refused_records_are_not_counted(name: str, stored: bytes) -> None:
    read = read_file(name, "id INT NOT NULL, v INT", stored, rules=RESCUE)
    assert (rescued(read), counts(read.misfits)) == ({0: {"v": "x"}}, {"v": (1, 0)})
    assert read.reasons == {1: "id: NOT NULL, but it is missing or null"}
