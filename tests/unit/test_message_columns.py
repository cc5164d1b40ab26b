"""Messages by column hold what the messages hold one by one."""

from collections.abc import Sequence
from typing import Any

import pytest
from confluent_kafka import TIMESTAMP_CREATE_TIME, TIMESTAMP_LOG_APPEND_TIME, TIMESTAMP_NOT_AVAILABLE
from confluent_kafka import Message as KafkaMessage
from hypothesis import given
from hypothesis import strategies as st

from blizzard.config.formats import envelope_schema
from blizzard.config.schema_rules import NO_RULES
from spark_job.formats.messages.block import MessageBlock
from spark_job.formats.messages.message_columns import Message, MessageColumns, joined
from spark_job.formats.messages.registry import open_message_format
from spark_job.formats.protocol import Limits, Parsed
from spark_job.ports.offset_range import OffsetRange
from spark_job.table.schema import columns_of as columns_of_ddl
from spark_job.tasks.topics.chosen import chosen_messages
from spark_job.tasks.topics.consume import FIRST_MS, LAST_MS, columns_of

BYTES = st.none() | st.binary(max_size=3)
TEXTS = st.none() | st.sampled_from([b"", b"a", "é".encode(), b"\xc3", b"\xa9", b"\xed\xa0\x80", b"\xf4\x90\x80\x80"])
HEADERS = st.lists(st.tuples(st.text(max_size=2), BYTES), max_size=2)
FAULTS = st.none() | st.sampled_from(["one", "two"])


@st.composite
def some_messages(draw: st.DrawFn, payloads: st.SearchStrategy[bytes | None] = BYTES) -> list[Message]:
    """One at least. Half of all lists have no headers, and half no faults, as nearly all messages of topics."""
    headers = draw(st.sampled_from([HEADERS, st.just([])]))
    faults = draw(st.sampled_from([FAULTS, st.none()]))
    times = st.none() | st.integers(FIRST_MS, LAST_MS)
    offset, found = 0, list[Message]()
    for step in draw(st.lists(st.integers(1, 3), min_size=1, max_size=6)):
        offset += step
        found.append(Message(offset, draw(times), draw(BYTES), draw(headers), draw(payloads), draw(faults)))
    return found


def listed(columns: MessageColumns) -> list[Message]:
    return [message._replace(headers=[*message.headers]) for message in columns]


@given(st.lists(some_messages(), min_size=1, max_size=3), st.data())
def test_they_are_joined_and_chosen_as_lists_are(parts: list[list[Message]], data: st.DataObject) -> None:
    messages = [message for part in parts for message in part]
    whole = joined([MessageColumns.of(part) for part in parts])
    assert listed(whole) == messages
    assert whole.size_bytes == sum(message.size_bytes for message in messages)
    assert (whole.headers is None) == (not any(message.headers for message in messages))
    places = data.draw(st.lists(st.integers(0, len(messages) - 1), unique=True).map(sorted))
    assert listed(whole.chosen(places)) == [messages[at] for at in places]


def test_the_size_of_a_message_is_that_of_key_headers_and_payload() -> None:
    message = Message(0, None, b"key", [("name", b"value"), ("é", None)], b"payload")
    assert message.size_bytes == 3 + 4 + 5 + 1 + 7
    assert Message(0, None, None, (), None).size_bytes == 0


def parsed(payload: str, limits: Limits, messages: Sequence[Sequence[Message]]) -> Parsed:
    """By the format `envelope`, or `text`."""
    blocks = [MessageBlock("t", at, MessageColumns.of(some), 1) for at, some in enumerate(messages)]
    name, schema = ("text", "value STRING") if payload == "text" else ("envelope", envelope_schema(payload))
    return open_message_format(name, columns_of_ddl(schema), limits, {"payload": payload}, NO_RULES).parse(blocks)


def is_taken(message: Message, payload: str) -> bool:
    """By a limit of two bytes."""
    if message.fault is not None or len(message.payload or b"") > 2:
        return False
    try:
        return payload == "binary" or (message.payload or b"").decode() is not None
    except UnicodeDecodeError:
        return False


@pytest.mark.parametrize("payload", ["binary", "string", "text"])
@given(st.lists(some_messages(TEXTS), min_size=1, max_size=3))
def test_each_message_is_taken_or_refused_whatever_its_neighbours_are(payload: str, parts: list[list[Message]]) -> None:
    messages = [(partition, message) for partition, part in enumerate(parts) for message in part]
    taken = [is_taken(message, payload) for _, message in messages]
    found = parsed(payload, Limits(max_record_bytes=2), parts)
    assert [*found.numbers] == [number for number, is_good in enumerate(taken) if is_good]
    assert [number for number, _ in found.refused] == [number for number, is_good in enumerate(taken) if not is_good]
    assert [*found.refused_texts] == [messages[number][1].payload or b"" for number, _ in found.refused]
    for (_, message), (number, why) in zip(
        [one for one, is_good in zip(messages, taken, strict=True) if not is_good], found.refused, strict=True
    ):
        assert message.fault in (None, why), number
    rows = found.records.to_pylist()
    for row, (partition, message) in zip(rows, [messages[number] for number in found.numbers], strict=True):
        value = message.payload if payload == "binary" or message.payload is None else message.payload.decode()
        if payload == "text":
            assert row == {"value": value}
            continue
        assert (row["stream_topic"], row["stream_partition"], row["stream_offset"]) == ("t", partition, message.offset)
        assert (row["message_key"], row["message_headers"]) == (message.key, [*message.headers])
        assert row["message_payload"] == value
    if payload != "text":
        times = found.records["message_timestamp"].cast("int64").to_pylist()
        assert times == [None if (ms := messages[number][1].time_ms) is None else 1000 * ms for number in found.numbers]


def kafka_message(offset: int, timestamp: tuple[int, int], **more: Any) -> KafkaMessage:
    return KafkaMessage(topic="t", partition=0, offset=offset, timestamp=timestamp, **more)


def test_messages_without_anything_odd_are_taken_as_they_are() -> None:
    found = columns_of(
        [
            kafka_message(3, (TIMESTAMP_CREATE_TIME, FIRST_MS), key=b"k", value=b"v"),
            kafka_message(7, (TIMESTAMP_LOG_APPEND_TIME, LAST_MS)),
        ]
    )
    assert (found.headers, found.faults) == (None, {})
    assert listed(found) == [Message(3, FIRST_MS, b"k", [], b"v"), Message(7, LAST_MS, None, [], None)]


def test_headers_are_those_of_their_messages() -> None:
    time = TIMESTAMP_CREATE_TIME, 5
    some = [("a", b"x"), ("b", None)]
    found = columns_of(
        [kafka_message(0, time), kafka_message(1, time, headers=some), kafka_message(2, time, headers=[])]
    )
    assert [message.headers for message in listed(found)] == [[], some, []]


@pytest.mark.parametrize("ms", [FIRST_MS - 1, LAST_MS + 1, 2**62])
def test_a_time_that_no_reader_can_show_is_the_fault_of_its_message(ms: int) -> None:
    times = [(TIMESTAMP_CREATE_TIME, 5), (TIMESTAMP_CREATE_TIME, ms), (TIMESTAMP_NOT_AVAILABLE, -1)]
    for some in (times, times[:2]):
        found = columns_of([kafka_message(at, time) for at, time in enumerate(some)])
        assert found.times_ms.to_pylist() == [5, None, None][: len(some)]
        assert [*found.faults] == [1]
        assert f"its time is {ms} ms" in found.faults[1]


def test_a_message_without_a_time_has_none() -> None:
    found = columns_of([kafka_message(0, (TIMESTAMP_NOT_AVAILABLE, -1)), kafka_message(1, (TIMESTAMP_CREATE_TIME, -1))])
    assert (found.times_ms.to_pylist(), found.faults) == ([None, -1], {})


def test_some_messages_are_chosen_by_their_offsets_and_others_given() -> None:
    """What an operator has read once more."""
    wanted = OffsetRange("t", 0, "id", 0, 9, (3, 5))
    given_one = OffsetRange("t", 1, "id", 0, 9, (4,), ((4, "new"), (6, "é")))
    there = [
        Message(at, at, b"k", [("h", b"v")] if at == 4 else (), b"%d" % at, "bad" if at == 3 else None)
        for at in range(2, 6)
    ]

    def read(ranges: Sequence[OffsetRange]) -> list[tuple[OffsetRange, MessageColumns]]:
        return [(one, MessageColumns.of(some)) for one in ranges for some in (there[:2], there[2:])]

    found = [(one, listed(some)) for one, some in chosen_messages([wanted, given_one], read, 77)]
    assert found == [
        (wanted, [Message(3, 3, b"k", [], b"3", "bad")]),
        (wanted, [Message(5, 5, b"k", [], b"5")]),
        (
            given_one,
            [Message(4, 4, b"k", [("h", b"v")], b"new"), Message(6, 77, None, [], "é".encode())],
        ),
    ]
