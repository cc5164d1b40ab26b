"""Fields of Avro records that are found by an alias."""

import io
from typing import Any

import fastavro

from blizzard.config.schema_rules import SchemaRules
from tests.unit.format_reading import read_file


def avro(fields: list[dict[str, Any]], record: dict[str, Any]) -> bytes:
    file = io.BytesIO()
    fastavro.writer(file, {"type": "record", "name": "r", "fields": fields}, [record])
    return file.getvalue()


def test_a_column_is_found_by_an_alias() -> None:
    fields = [
        {"name": "new", "type": "int", "aliases": ["old", "older"]},
        {"name": "x", "type": "int", "aliases": ["new"]},
    ]
    stored = avro(fields, {"new": 1, "x": 2})
    assert read_file("avro", "older INT", stored).values == [{"older": 1}]
    assert read_file("avro", "new INT, x INT", stored).values == [{"new": 1, "x": 2}]


PLACE = {
    "type": "record",
    "name": "place",
    "fields": [{"name": "k", "type": "int", "aliases": ["kk"]}, {"name": "rest", "type": "string"}],
}
PLACES = {"type": "map", "values": ["null", "place"]}


def test_a_field_inside_of_a_column_is_found_by_an_alias() -> None:
    fields = [{"name": "list", "type": {"type": "array", "items": PLACE}}, {"name": "map", "type": PLACES}]
    stored = avro(fields, {"list": [{"k": 1, "rest": "a"}], "map": {"m": {"k": 2, "rest": "b"}}})
    found = read_file("avro", "list ARRAY<STRUCT<kk: INT, rest: STRING>>, map MAP<STRING, STRUCT<KK: INT>>", stored)
    assert found.values == [{"list": [{"kk": 1, "rest": "a"}], "map": {"m": {"KK": None}}}]
    rules = SchemaRules(keys="ignore_case")
    found = read_file("avro", "map MAP<STRING, STRUCT<KK: INT>>", stored, rules=rules)
    assert found.values == [{"map": {"m": {"KK": 2}}}]


def test_a_field_inside_of_a_column_keeps_a_name_that_is_asked_for() -> None:
    """Even if another column asks for an alias of it: a record that is used by its name has the same fields."""
    fields = [{"name": "one", "type": PLACE}, {"name": "other", "type": "place"}]
    stored = avro(fields, {"one": {"k": 1, "rest": "a"}, "other": {"k": 2, "rest": "b"}})
    found = read_file("avro", "one STRUCT<k: INT>, other STRUCT<kk: INT, rest: STRING>", stored)
    assert found.values == [{"one": {"k": 1}, "other": {"kk": None, "rest": "b"}}]
