"""The brokers of a source, if Kafka's client is installed."""

from blizzard.config.kafka_options import KafkaOptions
from blizzard.config.model import Source
from blizzard.errors import ConfigError
from blizzard.kafka.brokers import Brokers
from blizzard.kafka.missing_client import missing_client


def brokers_of(source: Source, options: KafkaOptions) -> Brokers:
    """Connects when they are first asked. Raises ConfigError."""
    try:
        from blizzard.kafka.client import KafkaBrokers
    except ImportError as error:
        raise ConfigError([missing_client(f"source {source.id} reads topics")]) from error
    return KafkaBrokers(options)
