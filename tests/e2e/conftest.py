"""Each test has a deployment of its own."""

import gzip
import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from blizzard.dead_letters import DeadLetters
from blizzard.log import silent
from blizzard.storage.s3 import S3Store
from blizzard.storage.s3_connection import S3Settings
from functions.collector import handler as function
from infra.local.lambda_event import EventSource
from infra.local.lambda_poller import LambdaPoller
from infra.local.process import LocalAws
from infra.local.stack import MAX_RECEIVE_COUNT, Stack
from infra.local.verdict import Verdict, judge, read_source
from tests.fixtures_aws import drain, new_stack

CHECKOUT = Path(__file__).resolve().parents[2]
PREFIX = "raw-events/"
COLUMNS = ["id", "timestamp"]
HOSTILE = "date=2026-01-02/a key + 100% é.ndjson.gz"

CONFIG = """
pipelines:
  events:
    table_uri: s3://{lake}/events
    partition_by: [date]
    sources:
      landing:
        uri: s3://{landing}/raw-events/
        pattern: "**/*.ndjson.gz"
        schema: "id STRING NOT NULL, timestamp BIGINT"
        partition_columns: {{date: date}}
        settle_delay_secs: 0
        checkpoint: {{interval_files: 4}}
"""


@pytest.fixture
def world(aws: LocalAws, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    stack = new_stack(aws, prefixes=[PREFIX])
    config = tmp_path / "pipelines.yaml"
    config.write_text(CONFIG.format(lake=stack.lake, landing=stack.landing))
    for name, value in {**aws.environment(), "BLIZZARD_CONFIG": str(config)}.items():
        monkeypatch.setenv(name, value)
    function.collector.cache_clear()
    source = EventSource(stack.queue.url, stack.queue.arn, batch_size=100, window_secs=0.2, retry_after_secs=0)
    yield World(aws, stack, config, LambdaPoller(aws.client("sqs"), source, function.handler, silent))
    function.collector.cache_clear()


