"""The names of the engines."""

from enum import StrEnum


class EngineName(StrEnum):
    """Values of `engine:` and `--engine`."""

    AUTO = "auto"
    LOCAL = "local"
    SPARK = "spark"


CONFIGURED = "configured"
"""Instead of a name: the one that the pipeline's configuration has."""
