"""The topic of the benchmark `kafka`: messages of 200 bytes of JSON, on a broker of this machine."""

import json
import random
from collections.abc import Callable

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from infra.local.kafka.cluster import KafkaCluster

TOPIC, PARTITIONS = "events", 8
MESSAGES, MESSAGE_BYTES = 10_000_000, 200
SCHEMA = "id STRING, n BIGINT, at TIMESTAMP, value DOUBLE, text STRING"
TEXTS = 1_000
"""Different ones, so that they compress as texts do, and not as one."""


def make(cluster: KafkaCluster, messages: int, tick: Callable[[str], None]) -> None:
    """The topic with its messages, spread evenly, each acknowledged."""
    settings = cluster.client_settings()
    admin = AdminClient(settings)
    admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)], operation_timeout=60)[TOPIC].result(90)
    producer = Producer({**settings, "compression.type": "lz4", "linger.ms": 50, "batch.size": 1 << 20, "log_level": 0})
    texts = _texts()
    for number in range(messages):
        payload = _payload(number, texts[number % TEXTS])
        while True:
            try:
                producer.produce(TOPIC, payload, str(number), number % PARTITIONS)
                break
            except BufferError:
                producer.poll(0.1)
        if number % 100_000 == 0:
            producer.poll(0)
            tick(f"{number:,} of {messages:,} messages are produced")
    if left := producer.flush(300):
        raise RuntimeError(f"{left} messages were not acknowledged")


def _texts() -> list[str]:
    rng = random.Random(24)
    return ["".join(rng.choices("abcdefghijklmnop qrstuvwxyz", k=MESSAGE_BYTES)) for _ in range(TEXTS)]


def _payload(number: int, text: str) -> bytes:
    """Exactly MESSAGE_BYTES."""
    record = {"id": f"e{number:09d}", "n": number, "at": "2026-11-26T12:00:00.000Z", "value": number / 7, "text": ""}
    begun = json.dumps(record)
    return json.dumps({**record, "text": text[: MESSAGE_BYTES - len(begun)]}).encode()
