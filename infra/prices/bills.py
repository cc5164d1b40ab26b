"""The bills of docs/operate.md: a month without files, one with files, a million files, a thousand short runs."""

from collections.abc import Callable, Iterator, Sequence

from blizzard.prices.backlog import (
    COMMIT_REQUESTS,
    DISPATCH_REQUESTS,
    DISPATCH_SECS,
    LOG_GB,
    MEMORY_GB,
    SEGMENT_REQUESTS,
    VCPUS,
    WAKE_REQUESTS,
)
from blizzard.prices.price_list import Item, PriceList
from infra.prices.quantities import DAYS_SECS, SWEEP_REQUESTS, Quantities

SWEEP_SECS, COLLECT_SECS = 1.0, 0.3
"""Assumed durations of one invocation."""
IDLE_LOG_GB = 0.2
FILES, BATCHES, BATCH_SECS = 1_000_000, 1_000, 20
"""A million files in one day, in batches of a thousand."""
EVENTS_PER_RECEIVE, RUNS = 10, 1_000

Row = Callable[[str, float, str], Item]


def idle_month(used: Quantities, prices: PriceList) -> list[Item]:
    """One pipeline with one source of seven open folders."""
    row = _row(prices)
    return [
        row("alarms (metrics that they evaluate)", used.alarm_metrics, "alarm_metric_month"),
        row("custom metrics that are written while idle", used.idle_metrics, "custom_metric_month"),
        row("dashboard", used.dashboards, "dashboard_month"),
        row("Lambda's own polling of the events queue, requests", used.queues * used.polls_of_a_queue, "sqs_request"),
        row("and of the wake queue", used.fifo_queues * used.polls_of_a_queue, "sqs_fifo_request"),
        row("EventBridge Scheduler, invocations", used.sweeps + used.dispatches, "scheduler_invocation"),
        row(
            f"sweeper, {used.sweeper_gb:g} GB for {SWEEP_SECS:g} s: GB-seconds",
            used.sweeps * used.sweeper_gb * SWEEP_SECS,
            "lambda_gb_second",
        ),
        row(
            f"dispatcher, {used.dispatcher_gb:g} GB for {DISPATCH_SECS:g} s: GB-seconds",
            used.dispatches * used.dispatcher_gb * DISPATCH_SECS,
            "lambda_gb_second",
        ),
        row("Lambda requests", used.sweeps + used.dispatches, "lambda_request"),
        row(f"S3: sweeps, {SWEEP_REQUESTS} LIST and PUT each", used.sweeps * SWEEP_REQUESTS, "s3_put_or_list"),
        row(
            f"S3: dispatcher, {DISPATCH_REQUESTS} LIST and GET each",
            used.dispatches * DISPATCH_REQUESTS,
            "s3_put_or_list",
        ),
        row("logs, GB", IDLE_LOG_GB, "log_gb"),
        row("EMR Serverless, stopped or without a run", 0, "emr_vcpu_hour"),
    ]


def month_in_use(used: Quantities, prices: PriceList) -> list[Item]:
    """Beyond an idle month, whatever the number of files."""
    return [_row(prices)("custom metrics that are written while files come", used.busy_metrics, "custom_metric_month")]


def million_files(used: Quantities, prices: PriceList) -> list[Item]:
    """Beyond what a day in use costs without them."""
    row, hours = _row(prices), BATCHES * BATCH_SECS / 3600
    windows, wakes = DAYS_SECS // used.batching_secs, DAYS_SECS // used.wake_secs
    return [
        row("EMR Serverless, ARM64: vCPU-hours", round(VCPUS * hours, 1), "emr_vcpu_hour"),
        row("EMR Serverless, ARM64: GB-hours", round(MEMORY_GB * hours, 1), "emr_gb_hour"),
        row(
            "SQS: send by S3, receive and delete by tens",
            FILES + 2 * FILES // EVENTS_PER_RECEIVE,
            "sqs_request",
        ),
        row(f"SQS: wake-ups, {WAKE_REQUESTS} requests each", wakes * WAKE_REQUESTS, "sqs_fifo_request"),
        row("S3: GET of each file", FILES, "s3_get"),
        row(
            f"S3: segments, {SEGMENT_REQUESTS} LIST and PUT for each of {windows:,} windows",
            windows * SEGMENT_REQUESTS,
            "s3_put_or_list",
        ),
        row(
            f"S3: data files, log, receipts, {COMMIT_REQUESTS} PUT and LIST a commit",
            BATCHES * COMMIT_REQUESTS,
            "s3_put_or_list",
        ),
        row(f"S3: dispatcher, {DISPATCH_REQUESTS} for each wake-up", wakes * DISPATCH_REQUESTS, "s3_put_or_list"),
        row(
            f"collector, {windows:,} times {COLLECT_SECS:g} s of {used.collector_gb:g} GB: GB-seconds",
            windows * COLLECT_SECS * used.collector_gb,
            "lambda_gb_second",
        ),
        row(
            f"dispatcher, {wakes:,} times {DISPATCH_SECS:g} s of {used.dispatcher_gb:g} GB: GB-seconds",
            wakes * DISPATCH_SECS * used.dispatcher_gb,
            "lambda_gb_second",
        ),
        row("logs, most of them Spark's: GB", BATCHES * LOG_GB, "log_gb"),
    ]


def thousand_runs(prices: PriceList, *, minutes: int, vcpus: int, memory_gb: int, requests: int) -> list[Item]:
    """A driver and one executor of these sizes together; `requests` to S3 in each run."""
    row, hours = _row(prices), RUNS * minutes / 60
    return [
        row("EMR Serverless, ARM64: vCPU-hours", round(vcpus * hours, 1), "emr_vcpu_hour"),
        row("EMR Serverless, ARM64: GB-hours", round(memory_gb * hours, 1), "emr_gb_hour"),
        row(f"S3: {requests} requests each", RUNS * requests, "s3_put_or_list"),
    ]


def total(items: Sequence[Item]) -> float:
    return round(sum(item.dollars for item in items), 2)


def as_markdown(items: Sequence[Item]) -> Iterator[str]:
    yield "| what | quantity | unit price | $ |"
    yield "|---|---:|---:|---:|"
    for item in items:
        yield f"| {item.what} | {_number(item.quantity)} | {_price(item.price)} | {item.dollars:.2f} |"
    yield f"| **sum** | | | **{total(items):.2f}** |"


def _row(prices: PriceList) -> Row:
    return lambda what, quantity, name: Item(what, quantity, prices[name])


def _number(value: float) -> str:
    return f"{value:,.0f}" if value == int(value) else f"{value:,.1f}"


def _price(value: float) -> str:
    return f"{value:.2f}" if value >= 0.1 else f"{value:.10f}".rstrip("0")
