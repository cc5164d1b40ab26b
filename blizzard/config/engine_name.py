"""The names of the engines, and what must be known of them before one is made."""

from enum import StrEnum


class EngineName(StrEnum):
    """Values of `engine:` and `--engine`."""

    AUTO = "auto"
    LOCAL = "local"
    SPARK = "spark"

    @property
    def needs_spark(self) -> bool:
        """Whether it does nothing without Java and Spark's jars. `auto` says what is missing once it needs them."""
        return self is EngineName.SPARK

    @property
    def has_spark(self) -> bool:
        """Whether it does what only Spark can do."""
        return self is not EngineName.LOCAL


CONFIGURED = "configured"
"""Instead of a name: the one that the pipeline's configuration has."""
