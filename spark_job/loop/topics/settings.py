"""How a source of topics is ingested."""

from dataclasses import dataclass, field

from blizzard.config.kafka_options import KafkaOptions
from blizzard.kafka.batch_limits import BatchLimits
from spark_job.loop.ingest import LoopSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicLoopSettings(LoopSettings):
    """The settings of the loop, and those specific to topics."""

    options: KafkaOptions
    limits: BatchLimits = field(default_factory=lambda: BatchLimits(1_000_000, 1 << 30))
