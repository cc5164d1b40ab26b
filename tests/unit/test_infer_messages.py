"""The sample of messages by which a schema is inferred: what it takes, and what it leaves."""

import json
from collections.abc import Iterator

import pytest

from blizzard.errors import PermanentError, RetryableError
from blizzard.infer.ddl_text import ddl_of
from blizzard.infer.observed import Observed
from blizzard.kafka.schema_registry import NoSchema
from spark_job.formats.messages.message_columns import Message
from spark_job.formats.protocol import FileFault, Limits
from spark_job.infer import message_sample
from spark_job.infer.message_sample import AvroTypes, JsonTypes, observe_messages
from spark_job.ports.offset_range import OffsetRange
from tests.unit.schema_registry import encoded, framed, record_of

LIMITS = Limits(max_record_bytes=100)
OLD = record_of({"id": "int", "name": "string"})
NEW = record_of({"id": "long", "n": {"type": "array", "items": "double"}})


def of(number: int, *payloads: bytes | None, first: int = 0) -> tuple[OffsetRange, list[Message]]:
    one = OffsetRange("t", number, "id", 0, 1000)
    return one, [Message(first + at, 0, None, (), payload) for at, payload in enumerate(payloads)]


def columns(observed: Observed) -> str:
    return ddl_of(observed.schema().schema.columns, with_not_null=False)


def json_types() -> JsonTypes:
    return JsonTypes(LIMITS)


def test_a_record_that_would_be_refused_says_nothing_about_the_columns() -> None:
    too_long = json.dumps({"long": "x" * 100}).encode()
    found = [
        of(0, b'{"id": 1}', too_long, None, b'{"bad": "\xff"}', b"[{}]", b'{"a": 1} {"b": 2}', b" ", b'{\n"id":2.5}')
    ]
    sample = observe_messages(found, ["t/1", "t/0"], json_types)
    assert columns(sample.observed) == "id DOUBLE"
    assert (sample.observed.records, sample.observed.broken, sample.messages) == (2, 6, 8)
    assert (sample.partitions, sample.first) == (1, "t/0")
    assert sample.fault == "offset 1 of t/0: limit max_record_bytes: it holds more than 100 bytes"


def test_a_message_with_a_fault_of_its_own_says_nothing() -> None:
    one, _ = of(0)
    found = [(one, [Message(0, None, None, (), b'{"a": 1}', "its time is none")])]
    sample = observe_messages(found, ["t/0"], json_types)
    assert (sample.observed.records, sample.first, sample.fault) == (0, None, "offset 0 of t/0: its time is none")


def test_each_partition_has_its_share_and_reading_ends_with_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(message_sample, "SAMPLE_BYTES", 400)
    read = list[int]()

    def messages() -> Iterator[tuple[OffsetRange, list[Message]]]:
        for number, name in ((0, b"a"), (0, b"b"), (0, b"c"), (0, b"d"), (1, b"e"), (1, b"f"), (1, b"g"), (1, b"h")):
            read.append(number)
            yield of(number, b'{"%s": 1}' % name)

    sample = observe_messages(messages(), ["t/1", "t/0"], json_types)
    assert columns(sample.observed) == "e BIGINT, f BIGINT, g BIGINT, a BIGINT, b BIGINT, c BIGINT"
    assert (read, sample.messages, sample.first) == ([0] * 4 + [1] * 3, 6, "t/1")


def test_without_a_record_more_is_read_and_not_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(message_sample, "SAMPLE_BYTES", 100)
    sample = observe_messages([of(0, *[None] * 50, b'{"id": 1}', b'{"late": 1}')], ["t/0"], json_types)
    assert (columns(sample.observed), sample.messages) == ("id BIGINT", 51)
    ended = observe_messages((of(0, *[b"x" * (1 << 20)] * 2) for _ in range(1000)), ["t/0"], json_types)
    assert (ended.messages, ended.observed.records) == (16, 0)


def test_a_partition_that_comes_late_has_its_share_however_much_of_another_came_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    large = [of(0, b'{"a": 1}'), *(of(0, b"x" * (1 << 20), first=at) for at in range(1, 41))]
    sample = observe_messages([*large, of(1, b'{"b": 1}')], ["t/0", "t/1"], json_types)
    assert columns(sample.observed) == "a BIGINT, b BIGINT"
    monkeypatch.setattr(message_sample, "PASSED_BYTES", 10 << 20)
    endless = iter([of(0, b'{"a": 1}', b"x" * (1 << 20))] * 100)
    sample = observe_messages(endless, ["t/0", "t/1"], json_types)
    assert (columns(sample.observed), sample.messages, len([*endless])) == ("a BIGINT", 4, 88)


def test_nothing_more_is_read_for_a_partition_that_has_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(message_sample, "SAMPLE_BYTES", 200)
    found = iter([of(1, b'{"b": 1}', first=999), of(0, b'{"a": 1}', b'{"d": 1}'), of(0, b'{"c": 1}')])
    assert columns(observe_messages(found, ["t/0", "t/1"], json_types).observed) == "a BIGINT, d BIGINT, b BIGINT"
    assert [*found] == [of(0, b'{"c": 1}')]


class Schemas:
    """Of a registry that is there. `asked`: for which ids."""

    def __init__(self, *schemas: object) -> None:
        self.asked = list[int]()
        self._schemas = schemas

    def schema(self, schema_id: int) -> str:
        self.asked.append(schema_id)
        if schema_id == 99:
            raise RetryableError("it does not answer")
        if not 0 < schema_id <= len(self._schemas):
            raise NoSchema("it has no schema with this id")
        return json.dumps(self._schemas[schema_id - 1])


def refusal(types: AvroTypes, payload: bytes) -> str:
    with pytest.raises(FileFault) as refused:
        types.add(payload)
    return refused.value.reason


def test_the_schemas_of_messages_that_can_be_read_are_merged() -> None:
    schemas = Schemas(OLD, NEW, "int", {"type": "record", "name": "r"})
    types = AvroTypes(LIMITS, None, schemas)
    assert "its 2 bytes are too few" in refusal(types, b"\0\0")
    assert "begins with byte 123" in refusal(types, b'{"id": 1}')
    assert "schema 7 of the registry: it has no schema with this id" in refusal(
        types, framed(7, OLD, {"id": 1, "name": ""})
    )
    assert "schema 3 of the registry: cannot be read: its records are of the type int" in refusal(
        types, b"\0\0\0\0\3\2"
    )
    assert "schema 4 of the registry: not a schema of Avro" in refusal(types, b"\0\0\0\0\4\2")
    assert "bytes follow the record" in refusal(types, framed(2, NEW, {"id": 1, "n": []}) + b"x")
    assert types.observed.records == 0
    assert columns(types.observed) == ""
    types.add(framed(1, OLD, {"id": 1, "name": "a"}))
    assert columns(types.observed) == "id INT, name STRING"
    types.add(framed(2, NEW, {"id": 1, "n": [1.5]}))
    types.add(framed(1, OLD, {"id": 1, "name": "a"}))
    assert columns(types.observed) == "id BIGINT, name STRING, n ARRAY<DOUBLE>"
    assert types.observed.records == 3
    assert refusal(types, b"\0\0\0\0\7\2")
    assert schemas.asked == [7, 3, 4, 2, 1]


def test_a_registry_that_does_not_answer_is_no_fault_of_a_message() -> None:
    with pytest.raises(RetryableError):
        AvroTypes(LIMITS, None, Schemas()).add(framed(99, OLD, {"id": 1, "name": ""}))


def test_a_given_schema_has_no_prefix() -> None:
    types = AvroTypes(LIMITS, json.dumps(NEW), None)
    assert "not valid Avro" in refusal(types, b"\xff")
    types.add(encoded(NEW, {"id": 1, "n": []}))
    assert columns(types.observed) == "id BIGINT, n ARRAY<DOUBLE>"


@pytest.mark.parametrize(
    "given", [{"type": "record", "name": "r"}, {"type": "record", "name": "r", "fields": 7}, "int"]
)
def test_a_given_schema_without_columns_is_refused(given: object) -> None:
    with pytest.raises(PermanentError, match="no schema can be inferred from the schema in `avro`"):
        AvroTypes(LIMITS, json.dumps(given), None)
