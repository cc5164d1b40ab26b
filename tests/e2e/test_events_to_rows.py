"""Events to rows: bucket, queue, collector and the real Spark job on the local AWS, judged by rows."""

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


def record(name: str) -> str:
    return json.dumps({"id": name, "timestamp": len(name)})


def names(letters: list[Mapping[str, Any]]) -> list[tuple[str, int | None]]:
    return [(letter["path"], letter.get("row")) for letter in letters]


def test_what_events_announce_is_in_the_table_and_what_is_broken_in_the_dead_letters(world: World) -> None:
    for number in range(6):
        world.put(f"date=2026-01-0{1 + number % 2}/{9 - number}.ndjson.gz", record(f"a{number}"), record(f"b{number}"))
    world.put(HOSTILE, record("hostile"))
    world.put("date=2026-01-01/cut.ndjson.gz", record("lost"), cut_bytes=6)
    world.put("date=2026-01-01/lines.ndjson.gz", record("good"), "{broken", '{"timestamp": 1}', record("also good"))
    world.aws.client("sqs").send_message(QueueUrl=world.stack.queue.url, MessageBody="this is no S3 event")
    world.collect()
    assert drain(world.aws, world.stack.dead_letters) == ["this is no S3 event"]

    world.run()

    verdict = world.verdict()
    assert verdict.good, list(verdict.lines())
    assert (verdict.rows_in, verdict.rows_out) == (15, 15)
    assert names(verdict.dead_letters) == [
        ("date=2026-01-01/cut.ndjson.gz", None),
        ("date=2026-01-01/lines.ndjson.gz", 1),
        ("date=2026-01-01/lines.ndjson.gz", 2),
    ]


def test_a_file_without_an_event_is_found_by_a_sweep_and_events_that_come_again_change_nothing(world: World) -> None:
    world.put("date=2026-01-01/announced.ndjson.gz", record("announced"))
    [body] = [*drain(world.aws, world.stack.queue, wait_secs=2)]
    for _ in range(3):
        world.aws.client("sqs").send_message(QueueUrl=world.stack.queue.url, MessageBody=body)
    world.collect()
    world.put("date=2026-01-01/withheld.ndjson.gz", record("withheld"))
    drain(world.aws, world.stack.queue, wait_secs=2)

    world.run()
    assert [path for path, _ in world.verdict().missing] == ["date=2026-01-01/withheld.ndjson.gz"]

    world.run("--sweep")
    verdict = world.verdict()
    assert verdict.good, list(verdict.lines())
    assert verdict.rows_out == 2
