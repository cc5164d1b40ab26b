"""Run the demo. Exit status 0: nothing missing, nothing doubled; 1: something is, or it did not get there in time."""

import json
import shutil
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

from rich.console import Console
from rich.markup import escape

from blizzard.dead_letters import DeadLetters
from blizzard.environment import adopt
from blizzard.errors import BlizzardError
from blizzard.status import source_status
from blizzard.storage.s3 import S3Store
from blizzard.storage.s3_connection import S3Settings
from infra.local.demo import data
from infra.local.demo.parts import CHECKOUT, Part, start_collector, start_job
from infra.local.demo.view import Figures, View
from infra.local.process import LocalAws, local_aws
from infra.local.stack import Stack, create_stack
from infra.local.verdict import Verdict, judge, read_source

FOLDER = CHECKOUT / "build" / "demo"
PREFIX = "raw-events/"
STATE_PREFIX = "_blizzard/events_landing"
SEED = 20240128
TIMEOUT_SECS = 240.0
COLUMNS = ["id", "timestamp", "value", "payload"]

CONFIG = """\
pipelines:
  events:
    table_uri: s3://lake/events
    partition_by: [date]
    sources:
      landing:
        uri: s3://landing/raw-events/
        pattern: "**/*.ndjson.gz"
        schema: "id STRING NOT NULL, timestamp BIGINT, value DOUBLE, payload STRING"
        partition_columns: {date: date}
        partition_filter: {prefix_template: "date=%Y-%m-%d", lookback: 7}
        checkpoint: {interval_files: 30, interval_secs: 1}
        settle_delay_secs: 2
        sweep: {interval_secs: 3, late_interval_secs: 20}
"""


@dataclass(slots=True)
class Demo:
    """The state of one run."""

    aws: LocalAws
    stack: Stack
    view: View
    figures: Figures = field(default_factory=Figures)
    started: float = field(default_factory=time.monotonic)
    rows_from: float | None = None

    @property
    def s3(self) -> Any:
        return self.aws.client("s3")


def main() -> int:
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job begins with it ignored
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir(parents=True)
    try:
        with ExitStack() as stack:
            verdict, secs = _run(stack)
    except KeyboardInterrupt:
        return 130
    except BlizzardError as error:
        Console(stderr=True).print(escape(f"demo: {error}"))
        return 1
    console = Console(highlight=False, soft_wrap=True)
    for line in verdict.lines():
        console.print(escape(line))
    answer = "nothing missing, nothing doubled" if verdict.good else "NOT GOOD"
    console.print(f"{answer}, in {secs:.0f} s", style="bold green" if verdict.good else "bold red")
    return 0 if verdict.good else 1


def _run(stack: ExitStack) -> tuple[Verdict, float]:
    view = stack.enter_context(View())
    view.say("starting a local S3 and SQS, the collector and the Spark job")
    aws = stack.enter_context(local_aws())
    adopt(aws.environment())
    demo = Demo(
        aws, create_stack(aws, landing="landing", lake="lake", prefixes=[PREFIX], visibility_timeout_secs=10), view
    )
    config = FOLDER / "pipelines.yaml"
    config.write_text(CONFIG)
    queue = demo.stack.queue
    stack.enter_context(start_collector(config, queue.url, queue.arn, aws.environment(), FOLDER / "collector.log"))

    def job() -> Part:
        return stack.enter_context(start_job(config, CHECKOUT / "jars", aws.environment(), FOLDER / "job.log"))

    _tell(demo, data.first_wave(time.time(), SEED))
    running = _kill_in_mid_batch(demo, job)
    _tell(demo, data.second_wave(time.time(), SEED))
    verdict = _until_good(demo, running)
    return verdict, time.monotonic() - demo.started


def _tell(demo: Demo, drops: "list[data.Drop] | Iterator[data.Drop]") -> None:
    count = 0
    for drop in drops:
        _drop(demo, drop)
        count += 1
        if drop.what != "plain":
            demo.view.say(f"dropped {drop.path}: {drop.what}")
    demo.view.say(f"dropped {count} files")


def _drop(demo: Demo, drop: data.Drop) -> None:
    s3 = demo.s3
    landing, key = demo.stack.landing, PREFIX + drop.path
    if drop.events == 0:
        wanted = s3.get_bucket_notification_configuration(Bucket=landing)
        wanted.pop("ResponseMetadata", None)
        s3.put_bucket_notification_configuration(Bucket=landing, NotificationConfiguration={})
        s3.put_object(Bucket=landing, Key=key, Body=drop.body)
        s3.put_bucket_notification_configuration(Bucket=landing, NotificationConfiguration=wanted)
    else:
        s3.put_object(Bucket=landing, Key=key, Body=drop.body)
    if drop.events == 2:
        _send_event_again(demo, key, len(drop.body))
    demo.figures.seen += 1


def _send_event_again(demo: Demo, key: str, size: int) -> None:
    etag = demo.s3.head_object(Bucket=demo.stack.landing, Key=key)["ETag"].strip('"')
    record = {
        "eventVersion": "2.1",
        "eventSource": "aws:s3",
        "eventName": "ObjectCreated:Put",
        "eventTime": time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime()),
        "s3": {
            "bucket": {"name": demo.stack.landing},
            "object": {"key": key, "size": size, "eTag": etag, "sequencer": "00"},
        },
    }
    demo.aws.client("sqs").send_message(QueueUrl=demo.stack.queue.url, MessageBody=json.dumps({"Records": [record]}))


def _kill_in_mid_batch(demo: Demo, start: Callable[[], Part]) -> Part:
    """Let the job commit once, kill it when the next batch is read and not committed, and start it again."""
    job = start()
    for event in _events(demo, job):
        if event["event"] == "batch_read" and event["sequence"] >= 1:
            job.kill()
            demo.view.say(f"killed the Spark job in the middle of batch {event['sequence']}; starting it again")
            return start()
    raise BlizzardError(f"the Spark job did not get to its second batch; {FOLDER / 'job.log'} says why")


def _events(demo: Demo, job: Part) -> Iterator[Mapping[str, Any]]:
    """The job's events as they come, with the view kept up to date."""
    while time.monotonic() - demo.started < TIMEOUT_SECS and job.ended is None:
        _refresh(demo)
        while not job.events.empty():
            event = job.events.get()
            _note(demo, event)
            yield event
        time.sleep(0.2)


def _note(demo: Demo, event: Mapping[str, Any]) -> None:
    figures = demo.figures
    if event["event"] == "batch_committed":
        figures.committed_files += event["files"] - event["dead_files"]
        figures.committed_rows += event["rows"]
        figures.dead_files += event["dead_files"]
        demo.rows_from = demo.rows_from or time.monotonic()
        demo.view.say(f"committed batch {event['sequence']}: {event['files']} files, {event['rows']} rows")
    elif event["event"] in ("source_failed", "race_lost", "state_repaired"):
        demo.view.say(f"{event['event']}: {event.get('error', '')}")
    elif event["event"] == "swept" and event["missed"]:
        demo.view.say(f"the {event['kind']} sweep found {event['missed']} files that no event had announced yet")


def _refresh(demo: Demo) -> None:
    status = source_status(
        _lake(demo),
        pipeline="events",
        source="landing",
        state_prefix=STATE_PREFIX,
        table_uri="s3://lake/events",
        now_ts=time.time(),
    )
    figures = demo.figures
    figures.pending, figures.sequence = status.backlog_files, status.sequence
    figures.watermarks = status.partition_watermarks
    if demo.rows_from is not None:
        figures.rows_per_sec = figures.committed_rows / max(1.0, time.monotonic() - demo.rows_from)
    demo.view.update(figures)


def _settings(demo: Demo) -> S3Settings:
    return S3Settings.from_environment(demo.aws.environment())


def _lake(demo: Demo) -> S3Store:
    return S3Store(demo.stack.lake, "events/", _settings(demo))


def _until_good(demo: Demo, job: Part) -> Verdict:
    """Wait until all is in and nothing is left to do, or the time is up; stop the job, and judge what stands then."""
    checked = 0.0
    for _ in _ticks(demo, job):
        if time.monotonic() - checked >= 2:
            checked = time.monotonic()
            if _quiet(demo) and _verdict(demo).good:
                break
    job.stop()
    return _verdict(demo)


def _quiet(demo: Demo) -> bool:
    """Nothing in the queue and nothing pending, so that no duplicate is still to come."""
    names = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
    queue = demo.aws.client("sqs").get_queue_attributes(QueueUrl=demo.stack.queue.url, AttributeNames=names)
    return demo.figures.pending == 0 and not any(int(queue["Attributes"][name]) for name in names)


def _ticks(demo: Demo, job: Part) -> Iterator[None]:
    while time.monotonic() - demo.started < TIMEOUT_SECS and job.ended is None:
        for _ in range(job.events.qsize()):
            _note(demo, job.events.get())
        _refresh(demo)
        yield
        time.sleep(0.2)


def _verdict(demo: Demo) -> Verdict:
    letters = list(DeadLetters(_lake(demo), STATE_PREFIX, "events:landing").letters())
    options = demo.aws.environment() | {"AWS_ALLOW_HTTP": "true"}
    return judge(read_source(_objects(demo), "id"), "s3://lake/events", options, letters, COLUMNS)


def _objects(demo: Demo) -> Iterator[tuple[str, bytes]]:
    s3 = demo.s3
    for page in s3.get_paginator("list_objects_v2").paginate(Bucket=demo.stack.landing, Prefix=PREFIX):
        for found in page.get("Contents", []):
            body = s3.get_object(Bucket=demo.stack.landing, Key=found["Key"])["Body"].read()
            yield found["Key"].removeprefix(PREFIX), body


if __name__ == "__main__":
    sys.exit(main())
