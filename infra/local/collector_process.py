"""The collector function with its queue poller, as a process: what Lambda is on AWS."""

import argparse
import signal
import sys
import threading
import time

import boto3  # type: ignore[import-untyped]

from blizzard.log import JsonLog
from functions.collector.handler import handler
from infra.local.lambda_event import EventSource
from infra.local.lambda_poller import LambdaPoller


def main() -> None:
    """Run until SIGTERM."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--queue-url", required=True)
    parser.add_argument("--queue-arn", required=True)
    options = parser.parse_args()
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    source = EventSource(
        queue_url=options.queue_url, queue_arn=options.queue_arn, batch_size=100, window_secs=1.0, retry_after_secs=1
    )
    with LambdaPoller(boto3.client("sqs"), source, handler, JsonLog(sys.stderr, time.time)):
        stop.wait()


if __name__ == "__main__":
    main()
