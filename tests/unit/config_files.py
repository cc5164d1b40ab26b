"""Configurations for tests, and what reading them gives."""

import textwrap

import pytest

from blizzard.config.load import parse_config
from blizzard.config.model import Config, Source
from blizzard.errors import ConfigError

FULL = """\
pipelines:
  events:
    table_uri: s3://lake/events
    partition_by: [date]
    sources:
      landing:
        uri: s3://landing/raw-events/
        pattern: "**/*.ndjson.gz"
        format: ndjson
        schema: "id STRING NOT NULL, timestamp BIGINT, value DOUBLE, payload STRING"
        partition_columns: {date: date}
        partition_filter: {prefix_template: "date=%Y-%m-%d", lookback: 7}
        checkpoint: {interval_files: 1000, interval_bytes: 1GiB, interval_secs: 60}
        settle_delay_secs: 60
        on_overwrite: ignore
"""


def config(text: str, folder: str | None = "/conf", **environ: str) -> Config:
    return parse_config(textwrap.dedent(text), environ, name="f.yaml", folder=folder)


def problems(text: str, folder: str | None = "/conf", **environ: str) -> list[str]:
    with pytest.raises(ConfigError) as error:
        config(text, folder, **environ)
    return error.value.problems


def source_lines(*lines: str, table: str = "s3://lake/t", pipeline: str = "") -> str:
    """A file of one source with these lines, the first of which is line 6."""
    body = "".join(f"        {line}\n" for line in lines)
    return f"pipelines:\n  p:\n    table_uri: {table}\n{pipeline}    sources:\n      s:\n{body}"


def source(*lines: str, **environ: str) -> Source:
    """A source with these lines, and with a default uri and schema unless the lines have them."""
    uri = () if any(line.startswith("uri:") for line in lines) else ("uri: s3://landing/a",)
    schema = () if any(line.startswith(("schema:", "format: text")) for line in lines) else ("schema: id STRING",)
    return next(config(source_lines(*lines, *uri, *schema), **environ).sources())[1]
