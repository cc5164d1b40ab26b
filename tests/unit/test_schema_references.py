"""Schemas of a registry that refer to others, and messages that were written by them."""

from collections.abc import Iterator
from typing import Any

import fastavro
import pytest
from hypothesis import given
from hypothesis import strategies as st

from blizzard.errors import RetryableError
from blizzard.kafka import schema_registry
from blizzard.kafka.schema_references import self_contained
from blizzard.kafka.schema_registry import NoSchema, SchemaRegistry
from tests.unit.schema_registry import Registry, encoded, record_of, refers_to
from tests.unit.test_avro_messages import block, opened, reasons, rows

ADDRESS = record_of({"city": "string"}, "Address", namespace="com.acme")
COLOR = {"type": "enum", "name": "Color", "namespace": "com.acme", "symbols": ["RED", "BLUE"]}
CUSTOMER = record_of({"name": "string", "home": "Address", "likes": "com.acme.Color"}, "com.acme.Customer")
ORDER = record_of(
    {
        "id": "long",
        "buyer": "com.acme.Customer",
        "to": ["null", "com.acme.Address"],
        "all": {"type": "array", "items": "com.acme.Address"},
        "by_name": {"type": "map", "values": "com.acme.Color"},
    },
    "Order",
    namespace="com.shop",
)
WHOLE_CUSTOMER = {
    **CUSTOMER,
    "fields": [{"name": "name", "type": "string"}, {"name": "home", "type": ADDRESS}, {"name": "likes", "type": COLOR}],
}
WHOLE_ORDER = {
    **ORDER,
    "fields": [field | ({"type": WHOLE_CUSTOMER} if field["name"] == "buyer" else {}) for field in ORDER["fields"]],
}
"""As a producer has it, in one piece."""
VALUE = {
    "id": 7,
    "buyer": {"name": "n", "home": {"city": "Rome"}, "likes": "BLUE"},
    "to": {"city": "Paris"},
    "all": [{"city": "a"}, {"city": "b"}],
    "by_name": {"x": "RED"},
}
COLUMNS = (
    "id BIGINT, buyer STRUCT<name: STRING, home: STRUCT<city: STRING>, likes: STRING>, to STRUCT<city: STRING>, "
    "all ARRAY<STRUCT<city: STRING>>, by_name MAP<STRING, STRING>"
)


@pytest.fixture
def registry() -> Iterator[Registry]:
    with Registry() as made:
        yield made


def order_in(registry: Registry) -> int:
    """The id of ORDER, whose references go two deep, and meet again."""
    address, color = registry.add_version("address", ADDRESS), registry.add_version("a/color ü", COLOR)
    customer = registry.add_version("customer", CUSTOMER, references=refers_to(address, color))
    return registry.add(ORDER, references=refers_to(customer, address, color))


def payload(schema_id: int, schema: Any, value: Any) -> bytes:
    return b"\0" + schema_id.to_bytes(4, "big") + encoded(schema, value)


def test_messages_are_read_by_the_schema_and_those_that_it_refers_to(registry: Registry) -> None:
    schema_id = order_in(registry)
    message = payload(schema_id, WHOLE_ORDER, VALUE)
    parsed = opened(COLUMNS, registry=registry).parse([block(message, message[:-1], message)])
    assert rows(parsed) == [{**VALUE, "by_name": [("x", "RED")]}] * 2
    assert [*reasons(parsed)] == [1]


def test_each_is_asked_for_once(registry: Registry) -> None:
    first = order_in(registry)
    second = registry.add(record_of({"at": "com.acme.Address"}), references=refers_to(("address", 1)))
    for _ in range(2):
        for schema_id in (first, second):
            SchemaRegistry(registry.url).schema(schema_id)
    of_references = ["customer", "address", "a%2Fcolor%20%C3%BC"]
    paths = [f"/subjects/{subject}/versions/1" for subject in of_references]
    assert registry.asked == [f"/schemas/ids/{first}", *paths, f"/schemas/ids/{second}"]


def test_the_version_that_is_named_is_read_and_not_the_newest(registry: Registry) -> None:
    old = registry.add_version("address", ADDRESS)
    registry.add_version("address", record_of({"zip": "int", "city": "string"}, "Address", namespace="com.acme"))
    main = record_of({"at": "com.acme.Address"})
    schema_id = registry.add(main, references=refers_to(old))
    message = payload(schema_id, record_of({"at": ADDRESS}), {"at": {"city": "Rome"}})
    parsed = opened("at STRUCT<city: STRING>", registry=registry).parse([block(message)])
    assert rows(parsed) == [{"at": {"city": "Rome"}}]


def test_a_name_is_looked_for_in_its_namespace_first_and_then_without_one() -> None:
    plain, named = record_of({"a": "int"}, "t"), record_of({"b": "int"}, "t", namespace="n")
    inside = record_of({"x": "t", "y": {"type": "array", "items": "u"}}, "main", namespace="n")
    found = self_contained(inside, [plain, named, record_of({"c": "t"}, "u")])
    by_name = {field["name"]: field["type"] for field in found["fields"]}
    assert [field["name"] for field in by_name["x"]["fields"]] == ["b"]
    assert [field["name"] for field in by_name["y"]["items"]["fields"][0]["type"]["fields"]] == ["a"]
    value = {"x": {"b": 1}, "y": [{"c": {"a": 2}}]}
    assert encoded(found, value) == b"\2\2\4\0"


def test_what_a_schema_defines_inside_of_it_can_be_referred_to(registry: Registry) -> None:
    customer = registry.add_version("customer", WHOLE_CUSTOMER)
    main = record_of({"at": "com.acme.Address", "likes": "com.acme.Color"})
    schema_id = registry.add(main, references=refers_to(customer))
    whole = record_of({"at": ADDRESS, "likes": COLOR})
    message = payload(schema_id, whole, {"at": {"city": "c"}, "likes": "RED"})
    parsed = opened("at STRUCT<city: STRING>, likes STRING", registry=registry).parse([block(message)])
    assert rows(parsed) == [{"at": {"city": "c"}, "likes": "RED"}]


def test_a_definition_that_two_schemas_have_alike_is_one(registry: Registry) -> None:
    versions = registry.add_version("one", ADDRESS), registry.add_version("two", ADDRESS)
    schema_id = registry.add(record_of({"at": "com.acme.Address"}), references=refers_to(*versions))
    assert SchemaRegistry(registry.url).schema(schema_id)


def refused(registry: Registry, schema: Any, says: str, **more: Any) -> None:
    """By the registry's client; and its messages are dead letters."""
    schema_id = registry.add(schema, **more)
    with pytest.raises(NoSchema, match=says):
        SchemaRegistry(registry.url).schema(schema_id)
    parsed = opened("id BIGINT", registry=registry).parse([block(b"\0" + schema_id.to_bytes(4, "big") + b"\2")])
    [reason] = reasons(parsed).values()
    assert str(reason).startswith(f"schema {schema_id} of the registry: ")


ID = record_of({"id": "long"})


@pytest.mark.parametrize(
    ("references", "says"),
    [
        (refers_to(("nobody", 1)), "it refers to version 1 of subject 'nobody': the registry has no such subject"),
        (refers_to(("address", 2)), "version 2 of subject 'address': the registry has no such version of the subject"),
        (refers_to(("proto", 1)), "version 1 of subject 'proto': it is a schema of the type 'PROTOBUF'"),
        (refers_to(("broken", 1)), "it, or a schema that it refers to, is no JSON"),
        (refers_to(("address", 1), ("other", 1)), "define com.acme.Address in two ways"),
        ([{}], "it refers to other schemas, and not by their subjects and versions"),
        ([{"subject": "address", "version": -1}], "not by their subjects and versions"),
        ([{"subject": "", "version": 1}], "not by their subjects and versions"),
        ([{"subject": "address", "version": True}], "not by their subjects and versions"),
        (["address"], "not by their subjects and versions"),
        ("address", "not by their subjects and versions"),
        (refers_to(("\ud800", 1)), "the registry has no such subject"),
    ],
)
def test_references_that_cannot_be_followed_are_a_fault_of_the_schema(
    registry: Registry, references: Any, says: str
) -> None:
    registry.add_version("address", ADDRESS)
    registry.add_version("other", record_of({"town": "string"}, "Address", namespace="com.acme"))
    registry.add_version("proto", "syntax", schemaType="PROTOBUF")
    registry.add_version("broken", ID)
    registry.rewrite("broken", "{")
    refused(registry, ID, says, references=references)


def test_a_circle_of_references_ends(registry: Registry) -> None:
    for subject, other in (("a", "b"), ("b", "c"), ("c", "a")):
        registry.add_version(subject, ID, references=refers_to((other, 1)))
    refused(
        registry, ID, "it refers to version 1 of subject 'a', which refers to itself", references=refers_to(("a", 1))
    )
    assert len(registry.asked) <= 5


def test_references_are_limited_in_number_depth_and_bytes(registry: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    many = [registry.add_version(f"s{n}", record_of({"v": "int"}, f"t{n}")) for n in range(101)]
    registry.add(ID, references=refers_to(*many[:100]))
    assert SchemaRegistry(registry.url).schema(102)
    refused(registry, ID, "it refers to more than 100 other schemas", references=refers_to(*many))
    chain = registry.add_version("c0", ID)
    for n in range(1, 21):
        chain = registry.add_version(f"c{n}", ID, references=refers_to(chain))
    refused(registry, ID, "its references go more than 20 schemas deep", references=refers_to(chain))
    monkeypatch.setattr(schema_registry, "MAX_ANSWER_BYTES", 5000)
    refused(registry, ID, "it refers to schemas of more than 5,000 bytes", references=refers_to(*many[:70]))


def test_a_registry_that_fails_in_between_is_asked_again(registry: Registry) -> None:
    schema_id = order_in(registry)
    client = SchemaRegistry(registry.url)
    seen = len(registry.asked)

    def fail_at_a_subject() -> tuple[int, bytes] | None:
        return (503, b"{}") if registry.asked[-1].startswith("/subjects/address") else None

    registry.answer = fail_at_a_subject
    with pytest.raises(RetryableError, match="answers 503"):
        client.schema(schema_id)
    registry.answer = None
    assert client.schema(schema_id)
    assert len(registry.asked) > seen


NAMES = ("r0", "r1", "n.r2", "n.r3", "m.n.r4")


@st.composite
def graphs(draw: st.DrawFn) -> dict[str, dict[str, Any]]:
    """Records by their full names, each of which has fields of some that come after it."""
    found = {}
    for at, name in enumerate(NAMES):
        fields: dict[str, Any] = {"v": "long"}
        for number, other in enumerate(
            draw(st.lists(st.sampled_from(NAMES[at + 1 :]), max_size=3)) if NAMES[at + 1 :] else ()
        ):
            wrap = draw(
                st.sampled_from([lambda of: of, lambda of: {"type": "array", "items": of}, lambda of: ["null", of]])
            )
            fields[f"f{number}"] = wrap(other)
        found[name] = record_of(fields, name)
    return found


@given(graphs(), st.randoms(use_true_random=False))
def test_any_graph_of_schemas_becomes_one_that_decodes_what_they_describe(
    graph: dict[str, dict[str, Any]], random: Any
) -> None:
    """fastavro itself knows the others by their names."""
    known: dict[str, Any] = {}
    for name in reversed(NAMES):
        fastavro.parse_schema(graph[name], named_schemas=known)
    first, *others = NAMES
    shuffled = [graph[name] for name in others]
    random.shuffle(shuffled)
    found = self_contained(graph[first], shuffled)
    value = _value_of(graph[first], graph)
    expected = encoded(fastavro.parse_schema(graph[first], named_schemas=dict(known)), value)
    assert encoded(found, value) == expected


def _value_of(schema: Any, graph: dict[str, dict[str, Any]]) -> Any:
    if isinstance(schema, list):
        return _value_of(schema[1], graph)
    if isinstance(schema, str):
        return 5 if schema == "long" else _value_of(graph[schema], graph)
    if schema["type"] == "array":
        return [_value_of(schema["items"], graph)] * 2
    return {field["name"]: _value_of(field["type"], graph) for field in schema["fields"]}
