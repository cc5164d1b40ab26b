"""Topics of a real broker beside a bucket, in one table, ingested by the deployed stack."""

import json
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from blizzard.cli import main
from infra.local.kafka.cluster import KafkaCluster
from infra.local.stack.local_stack import LocalStack, local_stack
from tests.e2e.stack_world import ACTIVE, FAST_PARAMETERS, POLL_SECS, SCHEDULES_OFF, TIMEOUT_SECS
from tests.fixtures_kafka import NewTopic
from tests.kafka.topics import Message, produce, produce_in_transaction

pytestmark = [pytest.mark.spark, pytest.mark.timeout(1500)]

TABLE = "s3://lake/events"
PARTITIONS = 3
BATCH = 20
CONFIG = """\
pipelines:
  events:
    table_uri: s3://lake/events
    sources:
      landing:
        uri: s3://landing/raw/
        pattern: "*.ndjson"
        schema: "id STRING NOT NULL, n BIGINT"
        settle_delay_secs: 0
      clicks:
        kafka: {{bootstrap_servers: "{servers}", topics: ["{topic}"], run_interval_secs: 0.1}}
        format: ndjson
        schema: "id STRING NOT NULL, n BIGINT"
        checkpoint: {{interval_records: {batch}}}
"""


@dataclass
class World:
    stack: LocalStack
    settings: dict[str, Any]
    topic: str
    config: Path
    sent: int = 0

    def produce(self, count: int) -> None:
        messages = [self._message() for _ in range(count)]
        produce(self.settings, self.topic, messages)

    def abort(self, count: int) -> None:
        messages = [Message(b'{"id": "aborted"}', partition=number % PARTITIONS) for number in range(count)]
        produce_in_transaction(self.settings, self.topic, messages, commit=False)

    def _message(self) -> Message:
        self.sent += 1
        return Message(json.dumps({"id": f"m{self.sent}", "n": 1}).encode(), partition=self.sent % PARTITIONS)

    def drop(self, name: str, ids: list[str]) -> None:
        self.stack.drop(name, "".join(f'{{"id": "{each}", "n": 1}}\n' for each in ids).encode())

    def dispatch(self) -> None:
        """Lets the schedule fire, and waits until no run is active any more."""
        before = len(self.stack.runs())
        self.stack.fire("DispatchScheduled")
        self.until(lambda: len(self.stack.runs()) > before)
        self.until(lambda: not any(run["state"] in ACTIVE for run in self.stack.runs()))

    def until(self, condition: Any) -> None:
        deadline = time.monotonic() + TIMEOUT_SECS
        while not condition():
            assert time.monotonic() < deadline, self.stack.logs("dispatcher")[-2000:] + self.stack.logs("job")[-4000:]
            time.sleep(POLL_SECS)

    def rows(self) -> Counter[str]:
        """How often each id is in the table."""
        options = {**self.stack.aws.environment(), "AWS_ALLOW_HTTP": "true"}
        if not DeltaTable.is_deltatable(TABLE, options):
            return Counter()
        return Counter(DeltaTable(TABLE, storage_options=options).to_pyarrow_table(columns=["id"])["id"].to_pylist())

    def expected(self, *of_files: str) -> Counter[str]:
        return Counter([f"m{number}" for number in range(1, self.sent + 1)] + [*of_files])

    def answer(self, command: str, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
        """Of a command that finds nothing wrong, about the topic."""
        with pytest.MonkeyPatch.context() as patched:
            for name, value in self.stack.aws.environment().items():
                patched.setenv(name, value)
            capsys.readouterr()
            status = main([command, "--json", str(self.config)])
        text = capsys.readouterr().out
        assert status == 0, text
        return next(dict(each) for each in json.loads(text) if each["source"] == "events:clicks")


@pytest.fixture
def world(tmp_path: Path, kafka: KafkaCluster, new_topic: NewTopic) -> Iterator[World]:
    topic, config = new_topic(PARTITIONS), tmp_path / "pipelines.yaml"
    config.write_text(CONFIG.format(servers=kafka.bootstrap_servers, topic=topic, batch=BATCH))
    parameters = {**FAST_PARAMETERS, **SCHEDULES_OFF, "LandingPrefix": "raw/"}
    with local_stack(config, parameters=parameters, folder=tmp_path / "stack", retry_after_secs=1) as stack:
        yield World(stack, kafka.client_settings(), topic, config)


def metrics(stack: LocalStack, name: str) -> float:
    """The sum of a metric over all that the sweeper has published."""
    lines = [json.loads(line) for line in stack.logs("sweeper").splitlines() if '"_aws"' in line]
    return sum(value[0] if isinstance(value, list) else value for line in lines if (value := line.get(name)))


def lag_metrics(stack: LocalStack) -> dict[str, str]:
    """By name, the topic of the metrics that the log of the job has brought."""
    namespace, own = f"Blizzard/{stack.stack.name}", {"Name": "source", "Value": "events:clicks"}
    found = stack.client("cloudwatch").list_metrics(Namespace=namespace)["Metrics"]
    return {
        one["MetricName"]: {each["Name"]: each["Value"] for each in one["Dimensions"]}["topic"]
        for one in found
        if own in one["Dimensions"]
    }


def test_a_topic_and_a_bucket_fill_one_table(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    stack = world.stack
    assert not stack.invoke("SweeperFunction", {"schedule": "sweep"}).error
    world.produce(3 * BATCH)
    world.abort(7)
    world.drop("one.ndjson", ["f1", "f2"])
    world.until(lambda: world.rows() == world.expected("f1", "f2"))  # the file's event starts the run
    world.until(lambda: not any(run["state"] in ACTIVE for run in stack.runs()))

    # Nothing lands any more: the schedule alone starts the next run, whose first one is killed.
    world.produce(4 * BATCH)
    stack.run_control.may_start.clear()
    stack.fire("DispatchScheduled")
    world.until(lambda: any(run["state"] in ACTIVE for run in stack.runs()))
    stack.run_control.may_start.set()
    world.until(lambda: len(world.rows()) > 2 + 3 * BATCH)
    stack.kill_run()
    world.until(lambda: not any(run["state"] in ACTIVE for run in stack.runs()))
    world.until(lambda: world.rows() == world.expected("f1", "f2") or bool(stack.fire("DispatchScheduled")))

    produce(world.settings, world.topic, [b"{torn"])
    world.dispatch()
    assert world.rows() == world.expected("f1", "f2")
    assert not stack.invoke("SweeperFunction", {"schedule": "sweep"}).error
    world.until(lambda: metrics(stack, "DeadRecords") == 1)
    assert metrics(stack, "RowsCommitted") == world.sent + 2
    world.until(lambda: lag_metrics(stack) == {"LagMessages": world.topic, "LagSeconds": world.topic})

    audited = world.answer("audit", capsys)
    assert (audited["committed"], audited["dead_lettered"]) == (world.sent, 1)
    assert world.answer("status", capsys)["lag"] == 0
