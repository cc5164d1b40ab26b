"""The loop of a source of topics that commits what an operator wants to have read once more, put together."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from blizzard.audit.topics import AuditedTopics
from blizzard.config.kafka_options import KafkaOptions
from blizzard.state.topic_checkpoint import Partition
from spark_job.loop.ingest import Ingest
from spark_job.repair.given_settings import given_settings
from spark_job.repair.repair_files import Repair
from spark_job.repair.settler import Settler
from spark_job.repair.topic_source import Offsets, RepairTopicSource
from spark_job.repair.topic_whole import WholePartitions
from spark_job.repair.work import Work
from spark_job.topic_wiring import (
    TopicAccess,
    TopicLogins,
    TopicReading,
    brokers_of,
    topic_settings,
    topic_table_and_readers,
)
from spark_job.wiring import TableParts, new_id, read_settings

FETCHED_AHEAD_BYTES = 32 << 20


def topic_repair_of(
    parts: TableParts, options: KafkaOptions, work: Work, whole: WholePartitions | None = None
) -> Repair:
    """Nothing is opened or started yet. `whole`: which partitions can be replaced; None: none is. Raises PermanentError
    if Kafka's client is not installed."""
    source, identity = parts.source, parts.identity
    common: dict[str, Any] = {"clock": time.time, "new_id": new_id, "log": parts.log}
    settings, own = topic_settings(parts.pipeline, source, options), read_settings(source)
    access = TopicAccess(options, brokers_of(source, options), TopicLogins(source, options))
    readings = TopicReading(own), TopicReading(own, replacing=True), TopicReading(given_settings(source))
    table, [reader, replacing_reader, given_reader] = topic_table_and_readers(parts, access, *readings)
    settler = Settler(identity, work, state=parts.state, **common)
    common |= {"table": table, "watch": parts.watch}
    kind = RepairTopicSource(
        identity,
        settings,
        work=work,
        settler=settler,
        brokers=access.brokers,
        reader=reader,
        replacing_reader=replacing_reader,
        whole=whole,
        given_reader=given_reader,
        offsets=_offsets(options),
        state=parts.state,
        **common,
    )
    return Repair(Ingest(identity, settings, source=kind, sleep=time.sleep, **common), settler)


def whole_partitions(parts: TableParts, options: KafkaOptions, matches: Callable[[str], bool]) -> WholePartitions:
    """`matches`: of paths. Raises PermanentError if Kafka's client is not installed."""
    brokers = brokers_of(parts.source, options)
    place = parts.identity, parts.pipeline.table_uri, parts.state, parts.s3
    return WholePartitions(AuditedTopics(*place, brokers, _offsets(options), by_receipts=False), matches, time.time)


def _offsets(options: KafkaOptions) -> Offsets:
    def read(ranges: Mapping[Partition, tuple[int, int]]) -> Iterator[tuple[Partition, Sequence[int]]]:
        from blizzard.kafka.login import Login
        from blizzard.kafka.range_consumer import RangeConsumer

        consumer = RangeConsumer(ranges, Login(options).settings(), options.isolation, FETCHED_AHEAD_BYTES)
        for partition, messages in consumer.messages():
            yield partition, [message.offset() for message in messages]

    return read
