"""How long a backlog takes on EMR Serverless, and what it costs there: with the template's default sizes."""

import math
from dataclasses import dataclass

from blizzard.prices.price_list import Item, PriceList

CORES, VCPUS, MEMORY_GB = 4, 6, 23
"""One executor of 4 vCPUs, which read; with the driver's, as EMR Serverless bills the template's defaults."""
FILES_PER_SEC, MB_PER_SEC = {True: 1_000.0, False: 4_100.0}, {True: 11.0, False: 21.0}
"""Rates of one core, from S3 (True) and from a local disk, as docs/sizing.md has them: of nearly empty files, and of
compressed bytes (MB are 10^6)."""
MESSAGES_PER_SEC, MESSAGES_MB_PER_SEC = 200_000.0, 75.0
"""Rates of one core that reads a topic, as docs/sizing.md has them: of nearly empty messages, and of their bytes."""
BATCH_SECS, BATCH_FILE_SECS = 0.2, 26e-6
"""The driver's share of a batch, and of each of its files."""
START_SECS, RUN_SECS = 60.0, 3_600.0
"""What a run takes to start, and after which time it gives way to the next one."""
COMMIT_REQUESTS, SEGMENT_REQUESTS, LIST_OBJECTS = 20, 3, 1_000
SEGMENT_FILES = 5_000
SWEEPER_GB, LIST_SECS = 1.0, 0.1
"""Of the sweeper: its memory, and the assumed time of one LIST with what follows from it."""
DISPATCHER_GB, DISPATCH_SECS, DISPATCH_REQUESTS, WAKE_REQUESTS = 0.5, 1.0, 6, 3
"""Of the dispatcher, which each segment wakes, and each end of a run: its memory, the assumed time of one invocation,
and its requests to S3 and to the queue that wakes it."""
LOG_GB = 0.0005
"""Of a commit, most of it Spark's."""


@dataclass(frozen=True, slots=True)
class Work:
    """What is to be done. `listed`: how many objects a sweep has to list for it. `messages`, `message_bytes`: of
    topics, beside the files."""

    files: int = 0
    bytes: int = 0
    commits: int = 0
    listed: int = 0
    messages: int = 0
    message_bytes: int = 0

    @property
    def is_nothing(self) -> bool:
        return not (self.files or self.messages)


@dataclass(frozen=True, slots=True)
class Estimate:
    """`secs`: of all runs, one after the other, each with its start."""

    runs: int
    secs: float


def estimate(work: Work, *, cores: int = CORES, from_s3: bool = True, start_secs: float = START_SECS) -> Estimate:
    if work.is_nothing:
        return Estimate(0, 0.0)
    core_secs = work.files / FILES_PER_SEC[from_s3] + work.bytes / 1e6 / MB_PER_SEC[from_s3]
    core_secs += work.messages / MESSAGES_PER_SEC + work.message_bytes / 1e6 / MESSAGES_MB_PER_SEC
    secs = core_secs / cores + work.commits * BATCH_SECS + work.files * BATCH_FILE_SECS
    runs = math.ceil(secs / RUN_SECS)
    return Estimate(runs, secs + runs * start_secs)


def bill(work: Work, secs: float, prices: PriceList) -> list[Item]:
    """For runs of so many seconds on EMR Serverless. What was announced has paid for its events."""
    if work.is_nothing:
        return []
    hours, lists = secs / 3_600, math.ceil(work.listed / LIST_OBJECTS)
    segments = math.ceil(work.files / SEGMENT_FILES)
    dispatches = segments + math.ceil(secs / RUN_SECS)
    items: list[tuple[str, float, str]] = [
        ("EMR Serverless, ARM64: vCPU-hours", VCPUS * hours, "emr_vcpu_hour"),
        ("EMR Serverless, ARM64: GB-hours", MEMORY_GB * hours, "emr_gb_hour"),
        ("S3: GET of each file", work.files, "s3_get"),
        _commits(work),
        ("S3: sweeps and segments, LIST and PUT", lists + segments * SEGMENT_REQUESTS, "s3_put_or_list"),
        ("S3: dispatcher, LIST and GET", dispatches * DISPATCH_REQUESTS, "s3_put_or_list"),
        ("SQS: wake-ups of the dispatcher", segments * WAKE_REQUESTS, "sqs_fifo_request"),
        ("Lambda, sweeper: GB-seconds", lists * LIST_SECS * SWEEPER_GB, "lambda_gb_second"),
        ("Lambda, dispatcher: GB-seconds", dispatches * DISPATCH_SECS * DISPATCHER_GB, "lambda_gb_second"),
        ("Lambda: invocations", dispatches + bool(lists), "lambda_request"),
        ("CloudWatch: logs, GB", work.commits * LOG_GB, "log_gb"),
    ]
    return [Item(what, quantity, prices[name]) for what, quantity, name in items if quantity or work.files]


def commits_bill(work: Work, prices: PriceList) -> list[Item]:
    """For a job of this machine, which reads its files and writes to a table on S3."""
    what, quantity, name = _commits(work)
    return [] if work.is_nothing else [Item(what, quantity, prices[name])]


def _commits(work: Work) -> tuple[str, float, str]:
    return "S3: data files, log, receipts, PUT and LIST", work.commits * COMMIT_REQUESTS, "s3_put_or_list"
