"""What is said where Kafka's client is not installed."""


def missing_client(what: str) -> str:
    """`what`: needs it."""
    return f"{what}, which needs the package confluent-kafka: install it with `pip install 'blizzard[kafka]'`"
