"""Each test has its own deployment."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from blizzard.config.load import load_config
from blizzard.config.publish import to_published
from blizzard.log import silent
from functions.collector import handler as function
from infra.local.functions.poller import LambdaPoller
from infra.local.functions.sqs_event import EventSource
from infra.local.processes.server_process import LocalAws
from tests.e2e.world import CONFIG, PREFIX, World
from tests.fixtures_aws import new_stack


@pytest.fixture
def world(aws: LocalAws, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    stack = new_stack(aws, prefixes=[PREFIX])
    config = tmp_path / "pipelines.yaml"
    config.write_text(CONFIG.format(lake=stack.lake, landing=stack.landing))
    published = tmp_path / "config.json"
    published.write_text(to_published(load_config(config, {})))
    for name, value in {**aws.environment(), "BLIZZARD_CONFIG": str(published)}.items():
        monkeypatch.setenv(name, value)
    function.collector.cache_clear()
    source = EventSource(stack.queue.url, stack.queue.arn, batch_size=100, window_secs=0.2, retry_after_secs=0)
    yield World(aws, stack, config, LambdaPoller(aws.client("sqs"), source, function.handler, silent))
    function.collector.cache_clear()
