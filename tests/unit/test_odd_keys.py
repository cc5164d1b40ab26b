"""Keys in another case, and columns from other keys, against expectations written by hand."""

import re
from pathlib import Path
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]
import pytest

from blizzard.config.schema_rules import RESCUED, SchemaRules
from tests.unit.config_files import source
from tests.unit.format_reading import read_file
from tests.unit.odd_files import avro, json_array, ndjson, orc_file, parquet, record_type
from tests.unit.odd_reading import columns, counts, rescued

IDS = pa.array([1, 2, 3], pa.int32())
IGNORE_CASE = SchemaRules("rescue", keys="ignore_case")


@pytest.mark.parametrize(
    ("line", "row", "kept"),
    [
        ('{"id": 1, "address": {"zip": 2}}', (1, 2, None), None),
        ('{"ID": 1, "Address": {"ZIP": 2}}', (1, 2, None), None),
        ('{"Id": 1, "iD": 2}', (1, None, None), {"iD": 2}),
        ('{"ID": 1, "id": 2}', (2, None, None), {"ID": 1}),
        ('{"ID": 1, "id": null}', (None, None, None), {"ID": 1}),
        ('{"ID": 1, "other": 2}', (1, None, None), {"other": 2}),
        ('{"L": [{"A": 1}, {"a": 2}, {"a": 3, "A": 4}]}', (None, None, [1, 2, 3]), {"l[2].A": 4}),
    ],
)
def test_keys_of_json_in_another_case_fill_their_columns(line: str, row: Any, kept: Any) -> None:
    ddl = "id INT, address STRUCT<zip: INT>, l ARRAY<STRUCT<a: INT>>"
    for name, stored in {"ndjson": ndjson(line, line), "json": json_array(line, line)}.items():
        read = read_file(name, ddl, stored, rules=IGNORE_CASE)
        identity, zip_code, elements = row
        address = None if zip_code is None else {"zip": zip_code}
        made = None if elements is None else [{"a": element} for element in elements]
        assert columns(read) == [{"id": identity, "address": address, "l": made}] * 2
        assert rescued(read) == {0: kept, 1: kept}


def test_exact_keys_leave_others_alone() -> None:
    read = read_file("ndjson", "id INT", b'{"ID": 1}', rules=SchemaRules("rescue"))
    assert (columns(read), rescued(read)) == ([{"id": None}], {0: {"ID": 1}})


def test_lines_in_another_case_that_do_not_fit_are_shown_as_they_are() -> None:
    read = read_file("ndjson", "id INT NOT NULL", b'{"ID": "x"}\n{"ID": 1}', rules=IGNORE_CASE)
    assert (read.reasons, read.texts) == ({0: "id: the value does not fit int"}, {0: b'{"ID": "x"}'})
    assert columns(read) == [{"id": 1}]


UPPER = {"ID": IDS, "Id": pa.array([7, 8, 9], pa.int32()), "S": pa.array([{"A": 1, "a": 2}, None, {"A": 3, "a": None}])}


@pytest.mark.parametrize(
    ("name", "stored"),
    [
        ("parquet", parquet(UPPER)),
        ("orc", orc_file(UPPER)),
        (
            "avro",
            avro(
                {"ID": "int", "Id": "int", "S": record_type("s", A="int", a="int")},
                [{"ID": 1, "Id": 7, "S": {"A": 1, "a": 2}}, {"ID": 2, "Id": 8}, {"ID": 3, "Id": 9, "S": {"A": 3}}],
            ),
        ),
    ],
)
def test_columns_of_files_in_another_case_fill_those_of_the_schema(name: str, stored: bytes) -> None:
    read = read_file(name, "s STRUCT<a: BIGINT>, id INT NOT NULL", stored, rules=IGNORE_CASE)
    assert columns(read) == [{"s": {"a": 2}, "id": 1}, {"s": None, "id": 2}, {"s": {"a": None}, "id": 3}]
    assert rescued(read) == {0: {"Id": 7, "s.A": 1}, 1: {"Id": 8}, 2: {"Id": 9, "s.A": 3}}


def test_a_header_of_csv_in_another_case_names_the_columns() -> None:
    read = read_file("csv", "id INT NOT NULL, v STRING", b"V,ID,Id\na,1,2\n", rules=IGNORE_CASE)
    assert (columns(read), rescued(read)) == ([{"id": 1, "v": "a"}], {0: {"Id": "2"}})
    both = read_file("csv", "id INT", b"ID,id\n1,2\n", rules=IGNORE_CASE)
    assert (columns(both), rescued(both)) == ([{"id": 2}], {0: {"ID": "1"}})


FIELDS = {"user_id": ("userId",), "city": ("address", "city"), "again": ("userId",), "dotted": ("a.b",)}
FROM_KEYS = SchemaRules("rescue", fields=FIELDS)
MAPPED_DDL = "user_id BIGINT, city STRING, again BIGINT, dotted INT, address STRUCT<zip: STRING>"
MAPPED_LINES = [
    '{"userId": 1, "address": {"city": "Bern", "zip": "3000"}, "a.b": 5}',
    '{"userId": 2, "address": null}',
    '{"user_id": 3, "address": {"street": "x"}, "city": "y"}',
]
MAPPED_ROWS = [
    {"user_id": 1, "city": "Bern", "again": 1, "dotted": 5, "address": {"zip": "3000"}},
    {"user_id": 2, "city": None, "again": 2, "dotted": None, "address": None},
    {"user_id": None, "city": None, "again": None, "dotted": None, "address": {"zip": None}},
]
MAPPED_KEPT = {0: None, 1: None, 2: {"user_id": 3, "address.street": "x", "city": "y"}}
ADDRESSES = pa.array(
    [{"city": "Bern", "zip": "3000", "street": None}, None, {"city": None, "zip": None, "street": "x"}],
    pa.struct([pa.field(name, pa.string()) for name in ("city", "zip", "street")]),
)
MAPPED_COLUMNS = {
    "userId": pa.array([1, 2, None], pa.int64()),
    "address": ADDRESSES,
    "a.b": pa.array([5, None, None], pa.int32()),
    "user_id": pa.array([None, None, 3], pa.int64()),
    "city": pa.array([None, None, "y"]),
}


@pytest.mark.parametrize(
    ("name", "stored"),
    [
        ("ndjson", ndjson(*MAPPED_LINES)),
        ("json", json_array(*MAPPED_LINES)),
        ("parquet", parquet(MAPPED_COLUMNS)),
        ("orc", orc_file({name: values for name, values in MAPPED_COLUMNS.items() if name != "a.b"})),
    ],
)
def test_columns_come_from_other_keys(name: str, stored: bytes) -> None:
    read = read_file(name, MAPPED_DDL, stored, rules=FROM_KEYS)
    rows = [{**row, "dotted": None} for row in MAPPED_ROWS] if name == "orc" else MAPPED_ROWS
    assert (columns(read), rescued(read)) == (rows, MAPPED_KEPT)


def test_columns_of_csv_and_avro_come_from_other_keys() -> None:
    rules = SchemaRules("rescue", fields={"user_id": ("userId",), "dotted": ("a.b",)})
    read = read_file("csv", "user_id INT, dotted INT", b"a.b,userId,user_id\n1,2,3\n", rules=rules)
    assert (columns(read), rescued(read)) == ([{"user_id": 2, "dotted": 1}], {0: {"user_id": "3"}})
    types = {"userId": "long", "address": record_type("address", city="string", zip="string")}
    stored = avro(types, [{"userId": 1, "address": {"city": "Bern", "zip": "3000"}}, {"userId": 2}])
    read = read_file("avro", MAPPED_DDL, stored, rules=FROM_KEYS)
    assert columns(read) == [{**row, "dotted": None} for row in MAPPED_ROWS[:2]]


def test_a_column_from_another_key_that_is_not_null_and_does_not_fit() -> None:
    rules = SchemaRules(misfits="rescue", fields={"user_id": ("user", "id"), "v": ("V",)})
    lines = ['{"user": {"id": 1}, "V": "x"}', '{"user": {}}', "{}", '{"user": 5}', '{"user": {"id": "x"}}']
    read = read_file("ndjson", "user_id INT NOT NULL, v DOUBLE", ndjson(*lines), rules=rules)
    assert (columns(read), rescued(read)) == ([{"user_id": 1, "v": None}], {0: {"V": "x"}})
    assert counts(read.misfits) == {"v": (1, 0)}
    missing = "NOT NULL, but it is missing or null"
    assert {number: read.reasons[number] for number in (1, 2)} == {1: f"user.id: {missing}", 2: f"user: {missing}"}
    assert sorted(read.reasons) == [1, 2, 3, 4]


def test_keys_in_another_case_and_columns_from_other_keys_together() -> None:
    rules = SchemaRules("rescue", "rescue", "ignore_case", {"city": ("address", "city")})
    line = b'{"ADDRESS": {"City": "Bern", "ZIP": 1}, "CITY": "x"}'
    read = read_file("ndjson", "city STRING", line, rules=rules)
    assert (columns(read), rescued(read)) == ([{"city": "Bern"}], {0: {"address.ZIP": 1, "CITY": "x"}})


def test_the_example_of_the_documentation() -> None:
    page = (Path(__file__).parents[2] / "docs" / "schemas.md").read_text()
    section = page.partition("\n## Data that is not as the schema says\n")[2].partition("\n## ")[0]
    [ddl] = re.findall(r"With the schema `(.*?)`", section)
    [record] = re.findall(r"```text\n(.*?)\n```", section)
    [options] = re.findall(r"```yaml\n(.*?)\n```", section, re.DOTALL)
    rules = source(f"schema: {ddl}", *options.splitlines()).schema_rules
    [row] = read_file("ndjson", ddl, record.encode(), rules=rules).values
    shown = " | ".join("null" if value is None else str(value) for name, value in row.items() if name != RESCUED)
    assert f"| {shown} | `{row[RESCUED]}` |" in section


@pytest.mark.parametrize(
    ("name", "stored"),
    [
        ("ndjson", ndjson('{"ID": 1}', '{"ID": 2, "id": 3, "x": 4}', '{"Id": "5"}', '{"ID": 6, "x": 7}')),
        ("csv", b"ID,x\n1,\n5,4\nx,\n6,7\n"),
        ("parquet", parquet({"ID": IDS, "x": IDS})),
    ],
)
def test_keys_in_another_case_are_not_counted_as_unknown(name: str, stored: bytes) -> None:
    read = read_file(name, "id INT", stored, rules=SchemaRules(keys="ignore_case"))
    expected = {"ndjson": {"x": (2, 1), "ID": (1, 1)}, "csv": {"x": (4, 0)}, "parquet": {"x": (3, 0)}}
    assert counts(read.unknown) == expected[name]
    assert [row["id"] for row in read.values] == {"ndjson": [1, 3, 6], "csv": [1, 5, 6], "parquet": [1, 2, 3]}[name]
