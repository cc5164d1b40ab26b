"""What a rebuild needs of one source of topics, put together."""

from collections.abc import Collection
from dataclasses import replace

from blizzard.config.kafka_options import EARLIEST, KafkaOptions
from blizzard.config.model import Pipeline, Source
from blizzard.kafka.brokers import Cluster
from blizzard.kafka.positions import first_positions
from blizzard.log import Log
from blizzard.state.topic_checkpoint import TopicCheckpoint
from blizzard.storage.s3_connection import S3Settings
from spark_job.rebuild.topic_state import RestatedTopics, TopicParts
from spark_job.tasks.engine import Engine
from spark_job.topic_wiring import (
    TopicLogins,
    TopicReading,
    brokers_of,
    topic_ingest,
    topic_parts,
    topic_reader,
    topic_settings,
    topic_table,
)
from spark_job.wiring import read_settings


def rebuilt_topics(
    pipeline: Pipeline,
    source: Source,
    options: KafkaOptions,
    *,
    engine: Engine,
    s3: S3Settings,
    log: Log,
    known: Collection[str],
) -> TopicParts:
    """Commits no rows, whatever the columns of the table. Raises PermanentError if Kafka's client is not installed."""
    brokers = brokers_of(source, options)
    parts = replace(topic_parts(pipeline, source, engine=engine, s3=s3, log=log), only_states=True)
    table = topic_table(parts)
    reader = topic_reader(parts, table, TopicReading(read_settings(source)), TopicLogins(source, options))
    from_earliest = options.model_copy(update={"start": EARLIEST})

    def firsts(checkpoint: TopicCheckpoint, cluster: Cluster) -> TopicCheckpoint:
        return first_positions(brokers, cluster, from_earliest, checkpoint, {})

    return TopicParts(
        identity=parts.identity,
        table=table,
        state=parts.state,
        brokers=brokers,
        ingest=topic_ingest(parts, topic_settings(pipeline, source, options), brokers, table, reader, RestatedTopics),
        known=known,
        first_positions=firsts,
        log=log,
    )
