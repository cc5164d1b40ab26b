"""The brokers of a source, if Kafka's client is installed."""

from blizzard.config.kafka_options import KafkaOptions
from blizzard.config.model import Source
from blizzard.errors import ConfigError
from blizzard.kafka.brokers import Brokers


def brokers_of(source: Source, options: KafkaOptions) -> Brokers:
    """Connects when they are first asked. Raises ConfigError."""
    try:
        from blizzard.kafka.client import KafkaBrokers
    except ImportError as error:
        raise ConfigError([f"source {source.id} reads topics: pip install blizzard[kafka]"]) from error
    return KafkaBrokers(options)
