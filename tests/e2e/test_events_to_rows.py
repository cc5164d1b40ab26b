"""From events to rows: bucket, queue, collector and the real Spark job on the local AWS."""

import json
from collections.abc import Mapping
from typing import Any

from tests.e2e.world import HOSTILE, World
from tests.fixtures_aws import drain


def record(name: str) -> str:
    return json.dumps({"id": name, "timestamp": len(name)})


def names(letters: list[Mapping[str, Any]]) -> list[tuple[str, int | None]]:
    return [(letter["path"], letter.get("row")) for letter in letters]


def test_announced_files_are_in_the_table_and_bad_input_in_the_dead_letters(world: World) -> None:
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


def test_a_sweep_finds_a_file_without_an_event_and_repeated_events_change_nothing(world: World) -> None:
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
