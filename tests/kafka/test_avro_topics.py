"""Messages of Avro from a real broker, with a schema registry over HTTP."""

import base64
import json
from collections.abc import Iterator

import pytest

from blizzard.errors import PermanentError
from tests.kafka.test_topic_replay import Replay
from tests.kafka.topic_lake import NewLake
from tests.kafka.topics import Message
from tests.unit.schema_registry import Answer, Registry, encoded, framed, record_of, refers_to

OLD = record_of({"id": "long", "name": "string"}, "click")
NEW = record_of({"id": "long", "page": ["null", "string"], "name": "string"}, "click")
COLUMNS = "id BIGINT NOT NULL, name STRING, page STRING"


@pytest.fixture
def registry() -> Iterator[Registry]:
    with Registry(("u", "secret-password")) as made:
        yield made


def source(registry: Registry) -> str:
    return f"""format: avro
                    schema: {COLUMNS}
                    retries: {{max_backoff_secs: 0.1}}
                    avro: {{registry: {{url: "{registry.url}", username: u, password: secret-password}}}}"""


def test_two_versions_of_a_schema_in_one_topic(new_lake: NewLake, registry: Registry) -> None:
    """The registry fails at first, which is no fault of the messages."""
    old, new = registry.add(OLD), registry.add(NEW)
    failed = list[str]()

    def fail_once() -> Answer:
        failed.append(registry.asked[-1])
        registry.answer = None
        return 503, b"{}"

    registry.answer = fail_once
    lake = new_lake(partitions=2)
    lake.produce(
        Message(framed(old, OLD, {"id": 1, "name": "a"})),
        Message(framed(new, NEW, {"id": 2, "name": "b", "page": "p"}), partition=1),
        Message(framed(new, NEW, {"id": 3, "name": "c", "page": None})),
        Message(framed(9, NEW, {"id": 4, "name": "d", "page": None}), b"\xff", headers=[("h", b"x")]),
        Message(None, b"gone"),
        Message(framed(old, OLD, {"id": 5, "name": "e"}) + b"x", partition=1),
        Message(b'{"id": 6}'),
        Message(framed(old, OLD, {"id": 7, "name": "g"})),
    )
    lake.run(source(registry))
    assert failed
    rows = [(row["id"], row["name"], row["page"], row["_source"]["row"]) for row in lake.rows()]
    assert rows == [(1, "a", None, 0), (3, "c", None, 1), (7, "g", None, 5), (2, "b", "p", 0)]
    letters = [(letter["path"][-1], letter["row"], letter["error"]) for letter in lake.letters()]
    assert [(path, row) for path, row, _ in letters] == [("0", 2), ("0", 3), ("0", 4), ("1", 1)]
    expected = ["it has no schema with this id", "tombstone", "begins with byte 123", "1 bytes follow the record"]
    assert [text for text, (_, _, error) in zip(expected, letters, strict=True) if text not in error] == []
    unknown, tombstone, *_ = lake.letters()
    assert (unknown["key_base64"], unknown["headers"]) == ("/w==", [{"name": "h", "value": "x"}])
    assert unknown["raw"].startswith("\0\0\0\0\x09")
    assert (tombstone["key"], tombstone["raw"]) == ("gone", "")
    assert "secret-password" not in str(lake.events)


def test_a_registry_that_refuses_stops_the_source_before_anything_is_committed(
    new_lake: NewLake, registry: Registry
) -> None:
    lake = new_lake()
    lake.produce(framed(registry.add(OLD), OLD, {"id": 1, "name": "a"}))
    with pytest.raises(PermanentError, match="401") as refused:
        lake.run(source(registry).replace("secret-password", "wrong-password"))
    assert "wrong-password" not in str(refused.value)
    lake.run(source(registry))
    assert lake.places() == [(0, 0)]
    assert lake.letters() == []


def given(columns: str, schema: object) -> str:
    return f"""format: avro
                    schema: {columns}
                    new_fields: add
                    avro: {{schema: '{json.dumps(schema)}'}}"""


def test_a_given_schema_that_does_not_fit_is_found_before_anything_is_read(new_lake: NewLake) -> None:
    with pytest.raises(PermanentError, match="p:clicks: the schema in `avro` does not fit"):
        new_lake().job(given("other STRING", OLD))


def test_a_given_schema_and_a_column_for_a_new_field(new_lake: NewLake) -> None:
    lake = new_lake()
    lake.produce(*(encoded(NEW, {"id": number, "name": "n", "page": "p"}) for number in range(3)), b"\1")
    lake.run(given("id BIGINT, name STRING", NEW))
    rows = [(row["id"], row["name"], row["page"], row["_rescued"]) for row in lake.rows()]
    assert rows == [(number, "n", "p", None) for number in range(3)]
    assert [letter["row"] for letter in lake.letters()] == [3]


def test_a_record_that_a_constraint_refuses_is_a_letter_with_its_payload(new_lake: NewLake) -> None:
    lake = new_lake()
    payloads = [encoded(OLD, {"id": number, "name": "n"}) for number in (1, 500, 2)]
    lake.produce(*payloads)
    lake.run(given("id BIGINT, name STRING", OLD), pipeline="constraints: {small: 'id < 100'}")
    assert [row["id"] for row in lake.rows()] == [1, 2]
    [letter] = lake.letters()
    assert letter["row"] == 1
    assert "small" in letter["error"]
    assert base64.b64decode(letter["raw_base64"]) == payloads[1]


def test_a_schema_that_refers_to_others(new_lake: NewLake, registry: Registry) -> None:
    """A subject that is gone refuses its messages; one that the registry cannot give now is asked for again."""
    address = record_of({"city": "string"}, "Address", namespace="com.acme")
    customer = record_of({"name": "string", "home": "Address"}, "Customer", namespace="com.acme")
    order = record_of({"id": "long", "buyer": "com.acme.Customer", "to": "com.acme.Address"}, "Order")
    buyer = {**customer, "fields": [customer["fields"][0], {"name": "home", "type": address}]}
    whole = record_of({"id": "long", "buyer": buyer, "to": "com.acme.Address"}, "Order")
    of_address = registry.add_version("address", address)
    of_customer = registry.add_version("customer", customer, references=refers_to(of_address))
    good = registry.add(order, references=refers_to(of_customer, of_address))
    bad = registry.add(order, references=refers_to(of_customer, ("address", 7)))
    value = {"id": 1, "buyer": {"name": "n", "home": {"city": "Rome"}}, "to": {"city": "Paris"}}
    failed = list[str]()

    def fail_once() -> Answer | None:
        if not registry.asked[-1].startswith("/subjects/address"):
            return None
        failed.append(registry.asked[-1])
        registry.answer = None
        return 503, b"{}"

    registry.answer = fail_once
    lake = new_lake()
    lake.produce(framed(good, whole, value), Message(framed(bad, whole, value), b"k"), framed(good, whole, value))
    columns = "id BIGINT, buyer STRUCT<name: STRING, home: STRUCT<city: STRING>>, to STRUCT<city: STRING>"
    lake.run(source(registry).replace(COLUMNS, f"'{columns}'"))
    assert failed
    found = [{name: row[name] for name in value} | {"row": row["_source"]["row"]} for row in lake.rows()]
    assert found == [{**value, "row": 0}, {**value, "row": 2}]
    [letter] = lake.letters()
    assert (letter["row"], letter["key"]) == (1, "k")
    said = "it refers to version 7 of subject 'address': the registry has no such version of the subject"
    assert f"schema {bad} of the registry: {said}" in letter["error"]


def test_refused_payloads_are_replayed_when_the_registry_knows_their_schema(
    new_lake: NewLake, registry: Registry
) -> None:
    lake = new_lake()
    known = registry.add(OLD)
    lake.produce(framed(known, OLD, {"id": 1, "name": "a"}), framed(known + 1, OLD, {"id": 2, "name": "b"}), b"none")
    lake.run(source(registry))
    assert [letter["row"] for letter in lake.letters()] == [1, 2]
    assert registry.add(OLD) == known + 1
    replay = Replay(lake, configured=source(registry))
    replay.run()
    assert [(result.fate, result.rows) for result in replay.work.results] == [("refused", 1)]
    Replay(lake, configured=source(registry), given={2: '{"id": 4, "name": "d", "page": "p"}'}).run()
    rows = [(row["id"], row["page"], row["_source"]["row"]) for row in lake.rows()]
    assert rows == [(1, None, 0), (2, None, 1), (4, "p", 2)]
