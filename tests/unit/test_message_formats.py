"""What messages of topics hold."""

import json
from typing import Any

import pytest

from blizzard.config.formats import envelope_schema
from blizzard.config.schema_rules import NO_RULES
from spark_job.formats.messages.block import MessageBlock
from spark_job.formats.messages.message_columns import Message, MessageColumns
from spark_job.formats.messages.registry import open_message_format
from spark_job.formats.protocol import Limits, Parsed
from spark_job.table.schema import columns_of


def block(*payloads: bytes | None, first: int = 0, partition: int = 0) -> MessageBlock:
    """Offsets with gaps."""
    messages = MessageColumns.of(
        [Message(first + 2 * at, 1000 + at, b"k", (), payload) for at, payload in enumerate(payloads)]
    )
    return MessageBlock("t", partition, messages, messages.size_bytes)


def parsed(name: str, schema: str, *blocks: MessageBlock, limits: Limits | None = None, **options: Any) -> Parsed:
    known = open_message_format(name, columns_of(schema), limits or Limits(), options, NO_RULES)
    return known.parse(blocks)


def test_json_payloads_are_records_whatever_their_line_ends() -> None:
    found = parsed("ndjson", "id BIGINT", block(b'{"id": 1}', b'{\n"id":\r\n2}', b' {"id": 3} \n'), block(b'{"id": 4}'))
    assert found.records.to_pydict() == {"id": [1, 2, 3, 4]}
    assert [*found.numbers] == [0, 1, 2, 3]
    assert not found.refused


@pytest.mark.parametrize(
    ("payload", "why"),
    [
        (None, "tombstone"),
        (b"", "it is empty"),
        (b" \n ", "it is empty"),
        (b"\xff", "not UTF-8 at byte 0"),
        (b'{"id": 1}\n{"id": 2}', "found 2 of them"),
        (b'{"id": "a\nb"}', "line end in a string"),
        (b'{"id": \n', ""),
        (b'[\n{"id": 1}]', ""),
        (b'"a\nb"', ""),
        (b'{"id": 1} x\n', ""),
        (b'{"id": 1}' + b" " * 100, "limit max_record_bytes"),
    ],
)
def test_another_payload_is_refused_and_its_neighbours_are_not(payload: bytes | None, why: str) -> None:
    found = parsed("ndjson", "id BIGINT", block(b'{"id": 1}', payload, b'{"id": 3}'), limits=Limits(50))
    assert found.records.to_pydict() == {"id": [1, 3]}
    assert [*found.numbers] == [0, 2]
    [(number, reason)] = found.refused
    assert number == 1
    assert why in (reason or "")
    assert [*found.refused_texts] == [payload or b""] or b"\n" in (payload or b"")


def test_two_broken_payloads_are_not_one_good_text() -> None:
    found = parsed("ndjson", "id STRING", block(b'{"id": "\xc3', b'\xa4"}'))
    assert found.records.num_rows == 0
    assert [number for number, _ in found.refused] == [0, 1]


def test_a_message_with_a_fault_is_refused_however_good_its_payload_is() -> None:
    both = MessageColumns.of([Message(0, 1, None, (), b'{"id": 1}', "bad"), Message(1, 1, None, (), b'{"id": 2}')])
    found = parsed("ndjson", "id BIGINT", block(b'{"id": 0}'), MessageBlock("t", 1, both, 18))
    assert (found.records.to_pydict(), [*found.numbers]) == ({"id": [0, 2]}, [0, 2])
    assert (found.refused, [*found.refused_texts]) == ([(1, "bad")], [b'{"id": 1}'])


def test_text_is_the_payload() -> None:
    found = parsed("text", "value STRING", block("ä\n".encode(), None, b"\xff", b""))
    assert found.records.to_pydict() == {"value": ["ä\n", None, ""]}
    assert [*found.numbers] == [0, 1, 3]
    assert found.refused == [(2, "not UTF-8 at byte 0: invalid start byte")]


def test_an_envelope_has_the_places_of_all_its_blocks() -> None:
    blocks = block(b"a", None, first=5), block(b"\xff", first=8, partition=3)
    found = parsed("envelope", envelope_schema("binary"), *blocks, payload="binary")
    assert found.records["stream_partition"].to_pylist() == [0, 0, 3]
    assert found.records["stream_offset"].to_pylist() == [5, 7, 8]
    assert found.records["message_payload"].to_pylist() == [b"a", None, b"\xff"]
    as_text = parsed("envelope", envelope_schema("string"), *blocks, payload="string")
    assert as_text.records["message_payload"].to_pylist() == ["a", None]
    assert as_text.records["stream_partition"].to_pylist() == [0, 0]
    assert [number for number, _ in as_text.refused] == [2]


def test_only_what_is_too_large_is_refused_of_an_envelope() -> None:
    found = parsed("envelope", envelope_schema("binary"), block(b"a", b"b" * 9), limits=Limits(8), payload="binary")
    assert found.records["message_payload"].to_pylist() == [b"a"]
    assert "limit max_record_bytes" in str(found.refused)


def test_a_letter_has_key_and_headers_as_text_or_in_base64() -> None:
    message = Message(7, None, b"\xff", [("a", b"x"), ("b", None), ("c", b"\xfe")], b"")
    both = MessageColumns.of([Message(5, 1, b"k", (), b""), message])
    about = json.loads(MessageBlock("t", 0, both, 1).about(7))
    assert about == {
        "key_base64": "/w==",
        "headers": [{"name": "a", "value": "x"}, {"name": "b", "value": None}, {"name": "c", "value_base64": "/g=="}],
    }
