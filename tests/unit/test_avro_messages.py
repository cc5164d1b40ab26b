"""Messages of Avro: by a given schema, and by those of a registry."""

import json
import random
import time
from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest

from blizzard.config.schema_rules import NO_RULES, SchemaRules
from blizzard.errors import PermanentError, RetryableError
from spark_job.formats.messages.block import MessageBlock
from spark_job.formats.messages.message_columns import Message, MessageColumns
from spark_job.formats.messages.payloads import MessageFormat
from spark_job.formats.messages.registry import open_message_format
from spark_job.formats.protocol import Limits, Parsed
from spark_job.table.schema import columns_of
from tests.unit.schema_registry import Registry, encoded, framed, record_of

NOON = datetime(2026, 11, 21, 12, 0, 0, 123_456, tzinfo=UTC)
ID = record_of({"id": "long"})


@pytest.fixture
def registry() -> Iterator[Registry]:
    with Registry() as made:
        yield made


def block(*payloads: bytes | None, first: int = 0) -> MessageBlock:
    """Offsets with gaps."""
    messages = MessageColumns.of(
        [Message(first + 2 * at, 1000 + at, b"k", (), payload) for at, payload in enumerate(payloads)]
    )
    return MessageBlock("t", 0, messages, messages.size_bytes)


def opened(
    ddl: str, given: Any = None, registry: Registry | None = None, limits: Limits | None = None, **rules: Any
) -> MessageFormat:
    asked = {"url": registry.url, "username": None, "password": None, "ca_pem": None} if registry else None
    options = {"schema": None if given is None else json.dumps(given), "registry": asked}
    return open_message_format(
        "avro", columns_of(ddl), limits or Limits(), options, SchemaRules(**rules) if rules else NO_RULES
    )


def rows(parsed: Parsed) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = parsed.records.to_pylist()
    return found


def reasons(parsed: Parsed) -> dict[int, str | None]:
    return dict(parsed.refused)


def logical(kind: str, of: str, **more: Any) -> dict[str, Any]:
    return {"type": kind, "logicalType": of, **more}


@pytest.mark.parametrize(
    ("kind", "value", "ddl", "expected"),
    [
        ("int", 5, "BIGINT", 5),
        ("float", 0.5, "DOUBLE", 0.5),
        ("boolean", True, "BOOLEAN", True),
        ("string", "é", "STRING", "é"),
        ("bytes", b"\xff", "BINARY", b"\xff"),
        (["null", "string"], None, "STRING", None),
        (["string", "null"], "a", "STRING", "a"),
        (["int", "long"], 1 << 40, "BIGINT", 1 << 40),
        (logical("int", "date"), date(2026, 11, 21), "DATE", date(2026, 11, 21)),
        (logical("long", "timestamp-millis"), NOON, "TIMESTAMP", NOON.replace(microsecond=123_000)),
        (logical("long", "timestamp-micros"), NOON, "TIMESTAMP", NOON),
        (
            logical("long", "local-timestamp-micros"),
            NOON.replace(tzinfo=None),
            "TIMESTAMP_NTZ",
            NOON.replace(tzinfo=None),
        ),
        (logical("bytes", "decimal", precision=10, scale=2), Decimal("-1.50"), "DECIMAL(12,2)", Decimal("-1.50")),
        (
            logical("fixed", "decimal", name="f", size=16, precision=38, scale=2),
            Decimal("123456789012345678901234567890123456.78"),
            "DECIMAL(38,2)",
            Decimal("123456789012345678901234567890123456.78"),
        ),
        (logical("string", "uuid"), UUID(int=5), "STRING", str(UUID(int=5))),
        ({"type": "enum", "name": "e", "symbols": ["A", "B"]}, "B", "STRING", "B"),
        ({"type": "fixed", "name": "f", "size": 2}, b"xy", "BINARY", b"xy"),
        ({"type": "array", "items": ["null", "int"]}, [1, None], "ARRAY<BIGINT>", [1, None]),
        ({"type": "map", "values": "string"}, {"a": "x"}, "MAP<STRING, STRING>", [("a", "x")]),
        ({"type": "array", "items": logical("long", "timestamp-micros")}, [NOON], "ARRAY<TIMESTAMP>", [NOON]),
        (
            {"type": "record", "name": "in", "fields": [{"name": "b", "type": "int"}, {"name": "a", "type": "string"}]},
            {"b": 1, "a": "x"},
            "STRUCT<a: STRING, b: BIGINT, c: INT>",
            {"a": "x", "b": 1, "c": None},
        ),
    ],
)
def test_a_type_is_read_as_from_a_file_and_every_part_of_it_is_refused(
    registry: Registry, kind: Any, value: Any, ddl: str, expected: Any
) -> None:
    schema = record_of({"v": kind, "other": "string"})
    whole = encoded(schema, {"v": value, "other": "x"})
    given = opened(f"v {ddl}", schema).parse([block(whole, whole)])
    assert rows(given) == [{"v": expected}] * 2
    of_registry = opened(f"v {ddl}", registry=registry)
    prefix = b"\0" + registry.add(schema).to_bytes(4, "big")
    assert rows(of_registry.parse([block(prefix + whole)])) == [{"v": expected}]
    parts = [(prefix + whole)[:size] for size in range(len(prefix + whole))]
    cut = of_registry.parse([block(*parts, prefix + whole, prefix + whole + b"\0")])
    assert rows(cut) == [{"v": expected}]
    assert [*cut.numbers] == [len(parts)]
    assert [*reasons(cut)] == [*range(len(parts)), len(parts) + 1]
    assert [*cut.refused_texts] == [*parts, prefix + whole + b"\0"]


def test_versions_of_a_schema_in_any_order_become_rows_in_the_order_of_the_messages(registry: Registry) -> None:
    old = record_of({"id": "int", "was": "string", "gone": "long"})
    new = {
        "type": "record",
        "name": "r",
        "fields": [
            {"name": "name", "type": "string", "aliases": ["was"]},
            {"name": "id", "type": "long"},
            {"name": "is", "type": ["null", "string"], "default": None, "aliases": ["was"]},
            {"name": "more", "type": "int"},
        ],
    }
    first, second = registry.add(old), registry.add(new)
    payloads = [
        framed(second, new, {"id": 1 << 40, "name": "n", "is": None, "more": 1}),
        framed(first, old, {"id": 1, "was": "w", "gone": 5}),
        b"\1rest",
        framed(second, new, {"id": 2, "name": "m", "is": "i", "more": 1}),
        framed(first, old, {"id": 3, "was": "v", "gone": 5}),
    ]
    messages = opened("id BIGINT NOT NULL, was STRING, is STRING", registry=registry)
    found = messages.parse([block(*payloads[:2]), block(*payloads[2:], first=100)])
    assert rows(found) == [
        {"id": 1 << 40, "was": "n", "is": None},
        {"id": 1, "was": "w", "is": None},
        {"id": 2, "was": "m", "is": "i"},
        {"id": 3, "was": "v", "is": None},
    ]
    assert [*found.numbers] == [0, 1, 3, 4]
    assert {name: (field.records, field.first) for name, field in found.unknown.items()} == {
        "more": (2, 0),
        "gone": (2, 1),
    }


def test_an_unknown_field_of_several_schemas_is_counted_from_its_first_message(registry: Registry) -> None:
    old, new = record_of({"id": "int", "x": "int"}), record_of({"x": "string", "id": "int"})
    first, second = registry.add(old), registry.add(new)
    whole = framed(first, old, {"id": 1, "x": 1})
    found = opened("id INT", registry=registry).parse(
        [block(whole[:-1], framed(second, new, {"id": 2, "x": ""}), whole)]
    )
    assert rows(found) == [{"id": 2}, {"id": 1}]
    assert {name: (field.records, field.first) for name, field in found.unknown.items()} == {"x": (2, 1)}


@pytest.mark.parametrize(
    ("payload", "why"),
    [
        (None, "a tombstone"),
        (b"", "its 0 bytes are too few"),
        (b"\0\0\0\0", "its 4 bytes are too few"),
        (b'{"id": 1}', "it begins with byte 123; expected 0"),
        (b"\0\0\0\0\1", "a record cannot be decoded"),
        (b"\0\0\0\0\1\2\2", "1 bytes follow the record"),
        (b"\0\0\0\0\1" + b"\xff" * 11, "a record cannot be decoded"),
        (b"\0\0\0\0\x07\2", "schema 7 of the registry: it has no schema with this id"),
        (b"\0\xff\xff\xff\xff\2", "schema 4294967295 of the registry: it has no schema with this id"),
        (b"\0\0\0\0\1\2" + b" " * 50, "limit max_record_bytes"),
    ],
)
def test_what_is_no_record_is_refused_beside_the_others(registry: Registry, payload: bytes | None, why: str) -> None:
    registry.add(ID)
    one, three = framed(1, ID, {"id": 1}), framed(1, ID, {"id": 3})
    found = opened("id BIGINT", registry=registry, limits=Limits(50)).parse([block(one, payload), block(three)])
    assert rows(found) == [{"id": 1}, {"id": 3}]
    assert [*found.numbers] == [0, 2]
    assert why in str(reasons(found)[1])
    assert [*found.refused_texts] == [payload or b""]


@pytest.mark.parametrize(
    ("schema", "more", "why"),
    [
        ("string", {}, "its records are of the type string"),
        (["null", ID], {}, "its records are of the type"),
        (record_of({"id": "nonsense"}), {}, "its type nonsense is not defined"),
        ({"type": "record", "name": "r"}, {}, "its schema: KeyError"),
        (record_of({"id": ["null", "string", "long"]}), {}, "it is a union of string, long"),
        (record_of({"id": ["null", "r"]}), {}, "its type r contains itself"),
        (record_of({"id": "long", "x": {"type": "array", "items": "null"}}), {}, "elements take no bytes"),
        (record_of({"id": "string"}), {}, "id: "),
        (record_of({"other": "long"}), {}, "it has none of the schema's columns"),
        ({"type": "object"}, {"schemaType": "JSON"}, "it is a schema of the type 'JSON'"),
        (
            ID,
            {"references": [{"name": "x", "subject": "x", "version": 1}]},
            "it refers to version 1 of subject 'x': the registry has no such subject",
        ),
    ],
)
def test_a_schema_that_columns_cannot_be_read_by_refuses_its_messages(
    registry: Registry, schema: Any, more: dict[str, Any], why: str
) -> None:
    good, bad = registry.add(ID), registry.add(schema, **more)
    payloads = [framed(good, ID, {"id": 1}), b"\0" + bad.to_bytes(4, "big") + b"\2"]
    found = opened("id BIGINT", registry=registry).parse([block(*payloads)])
    assert rows(found) == [{"id": 1}]
    assert why in str(reasons(found)[1])
    assert f"schema {bad} of the registry: " in str(reasons(found)[1])


def test_a_schema_that_is_no_json_refuses_its_messages(registry: Registry) -> None:
    registry.answer = lambda: (200, json.dumps({"schema": "{"}).encode())
    found = opened("id BIGINT", registry=registry).parse([block(b"\0\0\0\0\1\2")])
    assert "schema 1 of the registry: it is no JSON" in str(reasons(found)[0])


def test_a_value_that_no_column_can_hold_refuses_its_message_alone() -> None:
    schema = record_of({"id": "long", "at": logical("long", "timestamp-millis"), "text": "bytes"})
    plain = record_of({"id": "long", "at": "long", "text": "bytes"})
    good = [encoded(plain, {"id": n, "at": n, "text": b"x"}) for n in range(9)]
    bad = [
        encoded(plain, {"id": 1, "at": (1 << 63) - 1, "text": b"x"}),
        encoded(plain, {"id": 1, "at": 1 << 50, "text": b"x"}),
        encoded(plain, {"id": 1, "at": 1, "text": b"\xff"}),
    ]
    payloads = [*good[:4], bad[0], *good[4:6], bad[1], bad[2], *good[6:]]
    found = opened("id BIGINT, at TIMESTAMP, text STRING", schema).parse([block(*payloads)])
    assert [row["id"] for row in rows(found)] == [*range(9)]
    assert [*reasons(found)] == [4, 7, 8]
    assert [*found.refused_texts] == bad


def test_a_record_that_is_large_only_when_decoded_is_refused_alone() -> None:
    schema = record_of({"v": {"type": "array", "items": "long"}})
    payloads = [encoded(schema, {"v": [1] * count}) for count in (3, 900, 5)]
    found = opened("v ARRAY<BIGINT>", schema, limits=Limits(4096)).parse([block(*payloads)])
    assert [len(row["v"]) for row in rows(found)] == [3, 5]
    assert "limit max_record_bytes: record 2 takes more than 4096 bytes" in str(reasons(found)[1])


@pytest.mark.parametrize("kind", ["bytes", "fixed"])
def test_a_decimal_of_any_number_of_digits_takes_no_time(kind: str) -> None:
    size = 1 << 20
    more = {"name": "f", "size": size} if kind == "fixed" else {}
    schema = record_of({"v": logical(kind, "decimal", precision=38, scale=2, **more)})
    plain = record_of({"v": {"type": kind, **more}})
    values = [bytes(size - 1) + b"\x05", b"\x7f" * size, b"\x80" + bytes(size - 1), b"\xff" * size]
    before = time.process_time()
    found = opened("v DECIMAL(38,2)", schema).parse([block(*(encoded(plain, {"v": value}) for value in values))])
    assert time.process_time() - before < 20
    assert rows(found) == [{"v": Decimal("0.05")}, {"v": Decimal("-0.01")}]
    assert ["more than 38 digits" in (why or "") for why in reasons(found).values()] == [True, True]


def test_numbers_of_elements_that_are_not_there_take_no_memory() -> None:
    schema = record_of({"v": {"type": "array", "items": record_of({"n": "null", "b": "boolean"}, "e")}, "t": "string"})
    huge = (1 << 62).to_bytes(9, "little")
    varint = bytes([0xFE, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x7F])
    for payload in (varint + b"\1" * 20, b"\0" + varint + b"x", varint[:-1] + b"\xff\1", huge, b"\1\1" + varint):
        found = opened("t STRING", schema).parse([block(payload)])
        assert [*reasons(found)] == [0]


def test_whatever_is_damaged_is_a_row_or_refused(registry: Registry) -> None:
    kinds: dict[str, Any] = {
        "a": ["null", "string"],
        "b": {"type": "array", "items": record_of({"x": "bytes", "y": ["null", "double"]}, "in")},
        "c": {"type": "map", "values": logical("long", "timestamp-micros")},
        "d": logical("bytes", "decimal", precision=9, scale=2),
        "e": {"type": "enum", "name": "e", "symbols": ["A", "B"]},
        "f": logical("int", "date"),
        "g": logical("string", "uuid"),
    }
    record = {"a": "é", "b": [{"x": b"x", "y": 0.5}] * 3, "c": {"k": NOON}, "d": Decimal("1.50"), "e": "B"}
    record |= {"f": date(2026, 11, 21), "g": UUID(int=7)}
    schema = record_of(kinds)
    whole = framed(registry.add(schema), schema, record)
    ddl = "a STRING, b ARRAY<STRUCT<x: STRING, y: DOUBLE>>, c MAP<STRING, TIMESTAMP>, d DECIMAL(9,2), e STRING, f DATE"
    dice = random.Random(7)
    payloads = []
    for _ in range(3_000):
        damaged = bytearray(whole)
        for _ in range(dice.randint(1, 4)):
            damaged[dice.randrange(1, len(damaged))] = dice.choice([0, 1, 2, 0x7F, 0x80, 0xFF, dice.randrange(256)])
        payloads.append(bytes(damaged[: dice.choice([len(damaged), dice.randrange(len(damaged))])]))
    for some in (payloads[:1_500], payloads[1_500:]):
        found = opened(ddl, registry=registry).parse([block(*some)])
        assert sorted([*found.numbers, *reasons(found)]) == [*range(len(some))]
        assert found.records.num_rows == len(found.numbers) > 100
        assert [*found.refused_texts] == [some[number] for number in reasons(found)]


def test_a_null_where_none_may_be_is_refused_with_its_payload(registry: Registry) -> None:
    schema = record_of({"id": ["null", "long"]})
    number = registry.add(schema)
    payloads = [framed(number, schema, {"id": value}) for value in (1, None, 3)]
    found = opened("id BIGINT NOT NULL", registry=registry).parse([block(*payloads)])
    assert rows(found) == [{"id": 1}, {"id": 3}]
    assert [*found.refused_texts] == [payloads[1]]
    assert "NULL" in str(reasons(found)[1])


def test_nothing_but_refused_messages_is_an_empty_table(registry: Registry) -> None:
    found = opened("id BIGINT", registry=registry).parse([block(None, b"x")])
    assert found.records.schema.names == ["id"]
    assert (found.records.num_rows, [*found.numbers]) == (0, [])


def test_rules_are_applied_as_to_files(registry: Registry) -> None:
    old = record_of({"ID": "long", "inner": record_of({"n": "int"}, "in")})
    new = record_of({"id": "string", "x": ["null", "int", record_of({"y": "bytes"}, "in")]})
    first, second = registry.add(old), registry.add(new)
    payloads = [
        framed(second, new, {"id": "7", "x": {"y": b"z"}}),
        framed(first, old, {"ID": 1, "inner": {"n": 2}}),
        framed(second, new, {"id": "8", "x": None}),
    ]
    columns = "id BIGINT, n INT, _rescued STRING"
    rules = {"new_fields": "rescue", "misfits": "rescue", "keys": "ignore_case", "fields": {"n": ["inner", "n"]}}
    found = opened(columns, registry=registry, **rules).parse([block(*payloads)])
    assert rows(found) == [
        {"id": None, "n": None, "_rescued": r'{"x":"{\"y\":\"z\"}","id":"7"}'},
        {"id": 1, "n": 2, "_rescued": None},
        {"id": None, "n": None, "_rescued": '{"id":"8"}'},
    ]
    assert {name: (field.records, field.first) for name, field in found.unknown.items()} == {"x": (1, 0)}
    assert {name: (field.records, field.first) for name, field in found.misfits.items()} == {"id": (2, 0)}
    strict = opened("id STRING", registry=registry, new_fields="dead_letter").parse([block(payloads[2], payloads[0])])
    assert rows(strict) == [{"id": "8"}]
    assert "no column is for x" in str(reasons(strict)[1])
    assert [*strict.refused_texts] == [payloads[0]]


def test_a_schema_is_asked_for_once_in_a_process_and_an_unknown_one_once_in_a_task(registry: Registry) -> None:
    first, second = registry.add(ID), registry.add(record_of({"id": "int"}))
    payloads = [framed(number, ID, {"id": n}) for n in range(20) for number in (first, second, 9)]
    for _ in range(3):
        messages = opened("id BIGINT", registry=registry)
        found = messages.parse([block(*payloads)])
        assert messages.parse([block(*payloads)]).records.num_rows == 40
        assert found.records.num_rows == 40
    assert sorted(registry.asked) == ["/schemas/ids/1", "/schemas/ids/2", *["/schemas/ids/9"] * 3]


def test_a_schema_that_becomes_known_is_found_by_the_next_task(registry: Registry) -> None:
    payload = framed(1, ID, {"id": 5})
    assert [*reasons(opened("id BIGINT", registry=registry).parse([block(payload)]))] == [0]
    registry.add(ID)
    assert rows(opened("id BIGINT", registry=registry).parse([block(payload)])) == [{"id": 5}]


def test_a_registry_that_does_not_answer_is_no_fault_of_the_messages(registry: Registry) -> None:
    registry.add(ID)
    registry.answer = lambda: (500, b"{}")
    messages, payload = opened("id BIGINT", registry=registry), framed(1, ID, {"id": 5})
    with pytest.raises(RetryableError):
        messages.parse([block(payload)])
    registry.answer = None
    assert rows(messages.parse([block(payload)])) == [{"id": 5}]


def test_a_given_schema_that_does_not_fit_the_columns_is_an_error_of_the_configuration() -> None:
    with pytest.raises(PermanentError, match="it has none of the schema's columns; it has id"):
        opened("other BIGINT", ID)
    with pytest.raises(PermanentError, match="contains itself"):
        opened("id BIGINT", record_of({"id": "long", "next": ["null", "r"]}))


def test_a_given_schema_has_no_prefix() -> None:
    found = opened("id BIGINT", ID).parse([block(encoded(ID, {"id": 7}), framed(1, ID, {"id": 7}), None)])
    assert rows(found) == [{"id": 7}]
    assert [*reasons(found)] == [1, 2]
