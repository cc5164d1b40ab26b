"""Nested `new_fields: add`, `keys` and `fields` in each format, from files to the table: expectations written by
hand."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from tests.spark.engine_lake import EngineLake
from tests.unit.odd_files import avro, json_array, ndjson, parquet, record_type
from tests.unit.table_lake import lake

__all__ = ["lake"]


@dataclass(frozen=True)
class Case:
    """`files`: by format, one after the other. `types`: of the table, apart from `_source` and `_rescued`. `rescued`:
    what is in `_rescued`, by id."""

    schema: str
    settings: Mapping[str, Any]
    files: Mapping[str, tuple[bytes, ...]]
    types: Mapping[str, str]
    rows: tuple[Mapping[str, Any], ...]
    rescued: Mapping[int, Any] = field(default_factory=dict)
    unknown: frozenset[str] = frozenset()
    """Fields that the log names as left out."""


def of_json(*files: tuple[str, ...]) -> dict[str, tuple[bytes, ...]]:
    return {"ndjson": tuple(ndjson(*lines) for lines in files), "json": tuple(json_array(*lines) for lines in files)}


def struct(*fields: tuple[str, pa.DataType]) -> pa.DataType:
    return pa.struct([pa.field(name, kind) for name, kind in fields])


S, T = pa.string(), pa.int64()
ITEM, ITEM_MORE = struct(("x", T)), struct(("x", T), ("y", S))
INNER = struct(("a", T), ("b", S), ("t", struct(("z", T))))
NESTED = Case(
    "id BIGINT, s STRUCT<a: BIGINT>, l ARRAY<STRUCT<x: BIGINT>>",
    {"new_fields": "add"},
    {
        **of_json(
            ('{"id": 1, "s": {"a": 1}, "l": [{"x": 1}]}',),
            ('{"id": 2, "s": {"a": 2, "b": "B", "t": {"z": 5}}}', '{"id": 3, "l": [{"x": 3, "y": "Y"}, {"x": 4}]}'),
        ),
        "parquet": (
            parquet(
                {
                    "id": pa.array([1], T),
                    "s": pa.array([{"a": 1}], struct(("a", T))),
                    "l": pa.array([[{"x": 1}]], pa.list_(ITEM)),
                }
            ),
            parquet(
                {
                    "id": pa.array([2, 3], T),
                    "s": pa.array([{"a": 2, "b": "B", "t": {"z": 5}}, None], INNER),
                    "l": pa.array([None, [{"x": 3, "y": "Y"}, {"x": 4, "y": None}]], pa.list_(ITEM_MORE)),
                }
            ),
        ),
        "avro": (
            avro(
                {
                    "id": "long",
                    "s": record_type("s", a="long"),
                    "l": {"type": "array", "items": record_type("i", x="long")},
                },
                [{"id": 1, "s": {"a": 1}, "l": [{"x": 1}]}],
            ),
            avro(
                {
                    "id": "long",
                    "s": record_type("s", a="long", b="string", t=record_type("t", z="long")),
                    "l": {"type": "array", "items": record_type("i", x="long", y="string")},
                },
                [
                    {"id": 2, "s": {"a": 2, "b": "B", "t": {"z": 5}}},
                    {"id": 3, "l": [{"x": 3, "y": "Y"}, {"x": 4}]},
                ],
            ),
        ),
    },
    {
        "id": "long",
        "s": "struct<a:long,b:string,t:struct<z:long>>",
        "l": "array<struct<x:long,y:string>>",
    },
    (
        {"id": 1, "s": {"a": 1, "b": None, "t": None}, "l": [{"x": 1, "y": None}]},
        {"id": 2, "s": {"a": 2, "b": "B", "t": {"z": 5}}, "l": None},
        {"id": 3, "s": None, "l": [{"x": 3, "y": "Y"}, {"x": 4, "y": None}]},
    ),
)
FLAT = Case(
    "id BIGINT",
    {"new_fields": "add"},
    {"csv": (b"id\n1\n", b"id,b\n2,B\n3,\n")},
    {"id": "long", "b": "string"},
    ({"id": 1, "b": None}, {"id": 2, "b": "B"}, {"id": 3, "b": None}),
)
KEYS_ROWS = (
    {"id": 1, "s": {"a": 1}, "name": "x"},
    {"id": 2, "s": {"a": 2}, "name": "y"},
)
KEYS_FILES = {
    **of_json(('{"id": 1, "S": {"A": 1}, "Name": "x"}',), ('{"id": 2, "s": {"a": 2}, "name": "y"}',)),
    "parquet": (
        parquet({"id": pa.array([1], T), "S": pa.array([{"A": 1}], struct(("A", T))), "Name": pa.array(["x"])}),
        parquet({"id": pa.array([2], T), "s": pa.array([{"a": 2}], struct(("a", T))), "name": pa.array(["y"])}),
    ),
    "avro": (
        avro(
            {"id": "long", "S": record_type("S", A="long"), "Name": "string"}, [{"id": 1, "S": {"A": 1}, "Name": "x"}]
        ),
        avro(
            {"id": "long", "s": record_type("s", a="long"), "name": "string"}, [{"id": 2, "s": {"a": 2}, "name": "y"}]
        ),
    ),
}
KEYS_TYPES = {"id": "long", "s": "struct<a:long>", "name": "string"}
KEYS_DDL = "id BIGINT, s STRUCT<a: BIGINT>, name STRING"
ANY_CASE = Case(KEYS_DDL, {"keys": "ignore_case"}, KEYS_FILES, KEYS_TYPES, KEYS_ROWS)
EXACT = Case(
    KEYS_DDL,
    {"keys": "exact"},
    KEYS_FILES,
    KEYS_TYPES,
    ({"id": 1, "s": None, "name": None}, KEYS_ROWS[1]),
    unknown=frozenset({"S", "Name"}),
)
FLAT_TYPES = {"id": "long", "name": "string"}
FLAT_ANY_CASE = Case(
    "id BIGINT, name STRING",
    {"keys": "ignore_case"},
    {"csv": (b"ID,Name\n1,x\n", b"name,id\ny,2\n")},
    FLAT_TYPES,
    ({"id": 1, "name": "x"}, {"id": 2, "name": "y"}),
)
FLAT_EXACT = Case(
    "id BIGINT, name STRING",
    {"keys": "exact"},
    {"csv": (b"ID,name\n1,x\n", b"name,id\ny,2\n")},
    FLAT_TYPES,
    ({"id": None, "name": "x"}, {"id": 2, "name": "y"}),
    unknown=frozenset({"ID"}),
)
ADDRESS = struct(("city", S), ("zip", S))
FIELDS = Case(
    "id BIGINT, city STRING, again STRING",
    {"new_fields": "rescue", "fields": {"id": "userId", "city": "address.city", "again": "address.city"}},
    {
        **of_json(
            ('{"userId": 1, "address": {"city": "Bern", "zip": "3000"}}', '{"userId": 2}'),
            ('{"userId": 3, "city": "not this", "address": {"zip": null}}',),
        ),
        "parquet": (
            parquet(
                {
                    "userId": pa.array([1, 2], T),
                    "address": pa.array([{"city": "Bern", "zip": "3000"}, None], ADDRESS),
                }
            ),
            parquet(
                {
                    "userId": pa.array([3], T),
                    "city": pa.array(["not this"]),
                    "address": pa.array([{"zip": None}], struct(("zip", S))),
                }
            ),
        ),
        "avro": (
            avro(
                {"userId": "long", "address": record_type("address", city="string", zip="string")},
                [{"userId": 1, "address": {"city": "Bern", "zip": "3000"}}, {"userId": 2}],
            ),
            avro(
                {"userId": "long", "city": "string", "address": record_type("address", zip="string")},
                [{"userId": 3, "city": "not this", "address": {"zip": None}}],
            ),
        ),
    },
    {"id": "long", "city": "string", "again": "string"},
    (
        {"id": 1, "city": "Bern", "again": "Bern"},
        {"id": 2, "city": None, "again": None},
        {"id": 3, "city": None, "again": None},
    ),
    {1: {"address.zip": "3000"}, 3: {"city": "not this"}},
)
FLAT_FIELDS = Case(
    "id BIGINT, city STRING",
    {"new_fields": "rescue", "fields": {"id": "User Id", "city": "town"}},
    {"csv": (b"User Id,town,id\n1,Bern,9\n", b"town,User Id\n,2\n")},
    {"id": "long", "city": "string"},
    ({"id": 1, "city": "Bern"}, {"id": 2, "city": None}),
    {1: {"id": "9"}},
)
CASES = {
    "nested add": (NESTED, FLAT),
    "keys in any case": (ANY_CASE, FLAT_ANY_CASE),
    "exact keys": (EXACT, FLAT_EXACT),
    "columns from other keys": (FIELDS, FLAT_FIELDS),
}
ALL = [(what, case, name) for what, cases in CASES.items() for case in cases for name in case.files]


def text_of(kind: Any) -> str:
    """Of the JSON of a type."""
    if isinstance(kind, str):
        return kind
    if kind["type"] == "array":
        return f"array<{text_of(kind['elementType'])}>"
    fields = ",".join(f"{one['name']}:{text_of(one['type'])}" for one in kind["fields"])
    return f"struct<{fields}>"


@pytest.mark.parametrize(("what", "case", "name"), ALL, ids=[f"{what}-{name}" for what, _, name in ALL])
def test_a_table_is_as_the_rules_of_its_source_say(lake: EngineLake, what: str, case: Case, name: str) -> None:
    lake.settings = {"schema": case.schema, "format": name, "pattern": "*", **case.settings}
    for number, body in enumerate(case.files[name]):
        lake.put_bytes(f"{number}.{name}", body)
        lake.run()
    assert lake.letters() == []
    fields = json.loads(DeltaTable(str(lake.table)).schema().to_json())["fields"]
    types = {one["name"]: text_of(one["type"]) for one in fields if one["name"] not in ("_source", "_rescued")}
    assert types == case.types
    rows = [dict(row) for row in lake.rows()]
    for row in rows:
        del row["_source"]
    rescued = {row["id"]: json.loads(kept) for row in rows if (kept := row.pop("_rescued", None)) is not None}
    assert (rows, rescued) == ([*case.rows], case.rescued)
    assert {one["name"] for event in lake.logged("unknown_fields") for one in event["fields"]} >= case.unknown


def test_each_rule_is_tried_in_each_format_that_can_have_it() -> None:
    formats = {what: {name for other, _, name in ALL if other == what} for what in CASES}
    assert set(map(frozenset, formats.values())) == {frozenset({"ndjson", "json", "csv", "parquet", "avro"})}
