"""Messages that Kafka takes and its Python client or a table does not: they are dead letters, and the others rows."""

import ctypes
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from infra.local.kafka.cluster import KafkaCluster
from tests.fixtures_kafka import NewTopic
from tests.kafka.topic_lake import TopicLake
from tests.kafka.topics import Message

VALUE, PARTITION, FLAGS, HEADERS, TOPIC, END, COPY = 4, 3, 7, 10, 1, 0, 2
"""librdkafka's: tags of `rd_kafka_producev`, and the flag to copy the payload."""
SOURCES = {
    "envelope": "format: envelope",
    "text": "format: text",
    "ndjson": "format: ndjson\n                    schema: id BIGINT",
    "avro": "format: avro\n                    schema: id BIGINT\n                    "
    """avro: {schema: '{"type": "record", "name": "r", "fields": [{"name": "id", "type": "long"}]}'}""",
}
GOOD = {"envelope": b"x", "text": b"x", "ndjson": b'{"id": 7}', "avro": b"\x0e"}


@pytest.fixture
def lake(tmp_path: Path, kafka: KafkaCluster, new_topic: NewTopic) -> Iterator[TopicLake]:
    made = TopicLake(tmp_path, kafka, new_topic(message_timestamp_after_max_ms=str(2**63 - 1)))
    yield made
    made.close()


def library() -> ctypes.CDLL:
    """librdkafka, as confluent_kafka has loaded it."""
    (path,) = {*re.findall(r"/\S*librdkafka\S*", Path("/proc/self/maps").read_text())}
    found = ctypes.CDLL(path)
    for name in ("rd_kafka_conf_new", "rd_kafka_new", "rd_kafka_headers_new"):
        getattr(found, name).restype = ctypes.c_void_p
    return found


def produce_with_header(servers: str, topic: str, payload: bytes, name: bytes) -> None:
    """confluent_kafka takes only names that are text."""
    kafka, error, pointer, size = library(), ctypes.create_string_buffer(512), ctypes.c_void_p, ctypes.c_size_t
    settings = kafka.rd_kafka_conf_new()
    kafka.rd_kafka_conf_set(pointer(settings), b"bootstrap.servers", servers.encode(), error, size(512))
    producer = pointer(kafka.rd_kafka_new(0, pointer(settings), error, size(512)))
    headers = pointer(kafka.rd_kafka_headers_new(size(1)))
    kafka.rd_kafka_header_add(headers, name, ctypes.c_ssize_t(len(name)), b"v", ctypes.c_ssize_t(1))
    told: list[object] = [TOPIC, topic.encode(), PARTITION, ctypes.c_int32(0)]
    told += [VALUE, ctypes.c_char_p(payload), size(len(payload)), FLAGS, COPY, HEADERS, headers, END]
    assert kafka.rd_kafka_producev(producer, *told) == 0
    assert kafka.rd_kafka_flush(producer, 30_000) == 0
    kafka.rd_kafka_destroy(producer)


@pytest.mark.parametrize("name", SOURCES)
def test_a_time_that_is_none_and_a_header_that_is_no_text(lake: TopicLake, name: str) -> None:
    good = GOOD[name]
    lake.produce(good, Message(good, timestamp_ms=1_795_000_000_000_000_000), Message(good, timestamp_ms=2**62))
    produce_with_header(lake.servers, lake.topic, good, b"bad\xff\xfe")
    lake.produce(Message(good, headers=[("h", b"v")], timestamp_ms=253_402_300_799_999), good)
    lake.run(SOURCES[name])
    assert lake.places() == [(0, 0), (0, 4), (0, 5)]
    if name == "envelope":
        assert [row["message_headers"] for row in lake.rows()] == [[], [("h", b"v")], []]
    letters = {letter["row"]: letter for letter in lake.letters()}
    assert [*letters] == [1, 2, 3]
    assert "its time is 1795000000000000000 ms, which is not in the years 1 to 9999" in letters[1]["error"]
    assert "the name of one of its headers is not UTF-8" in letters[3]["error"]
    assert letters[3]["raw"] == good.decode()
