"""How a source of topics is ingested."""

from dataclasses import dataclass, field

from blizzard.config.kafka_options import KafkaOptions
from blizzard.kafka.batch_limits import BatchLimits
from spark_job.loop.ingest import LoopSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicLoopSettings(LoopSettings):
    """The settings of the loop, and those specific to topics. `begins_with_rows`: whether, if there is no table, where
    the source begins is in the commit of its first rows, which makes the table. Else it is committed before anything is
    read. `configured`: ids of the sources of its pipeline."""

    options: KafkaOptions
    configured: frozenset[str] = frozenset()
    begins_with_rows: bool = False
    limits: BatchLimits = field(default_factory=lambda: BatchLimits(1_000_000, 1 << 30))
