"""`pipelines.yaml`: what it may say, and reading it."""

from blizzard.config.load import Reading, load_config, parse_config, read_config, read_config_file
from blizzard.config.model import Checkpoint, Config, Limits, PartitionFilter, Pipeline, Retries, Source, Sweep
from blizzard.config.problems import Problem

__all__ = [
    "Checkpoint",
    "Config",
    "Limits",
    "PartitionFilter",
    "Pipeline",
    "Problem",
    "Reading",
    "Retries",
    "Source",
    "Sweep",
    "load_config",
    "parse_config",
    "read_config",
    "read_config_file",
]
