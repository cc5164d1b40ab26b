"""How records are read that an operator gives."""

from dataclasses import replace

from blizzard.config.model import Source
from spark_job.tasks.read_settings import ReadSettings
from spark_job.wiring import read_settings


def given_settings(source: Source) -> ReadSettings:
    """As lines of JSON, whatever the format of the source."""
    settings = read_settings(source)
    options = settings.options if settings.format == "ndjson" else {}
    return replace(settings, format="ndjson", compression="none", options=options)
