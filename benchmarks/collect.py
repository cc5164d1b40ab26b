"""Simulates millions of events through the real collector: `python -m benchmarks.collect [--events N] [--json]`.

A simulated standard queue delivers at least once and in any order: some events twice, some much later, and some again
after a failed invocation. The collector is the real one, with routing, manifest and wake-ups, on an in-memory store
that counts requests and sometimes fails. No network is used: times are the collector's CPU seconds, and costs are
counts times list prices.
"""

import argparse
import heapq
import json
import random
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from blizzard.collect.collector import Message
from blizzard.collect.routing import Route, Router
from blizzard.dispatch.wake import Waker, WakeUp
from blizzard.errors import StorageUnavailable
from blizzard.log import silent
from blizzard.manifest.pending_manifest import Manifest
from blizzard.paths.pattern import Pattern
from blizzard.prices.price_list import read_prices
from blizzard.storage.base import ObjectInfo
from blizzard.storage.memory import MemoryStore
from functions.collector.composition import Collector, Setup
from functions.runtime import ReloadingConfig

BATCH_EVENTS = 3_000
"""About the number of events that fit into the 6 MB of one invocation."""
WINDOW_SECS = 15.0
EVENTS_PER_SEC = 400.0
S3_LATENCY_SECS = 0.03
"""Latency of one request, for the estimate of Lambda's duration."""
START_TS = 1_706_400_000.0

PRICES = read_prices().prices
"""US dollars, us-east-1, arm64, without the free tier."""
MEMORY_GB = 0.5
LOG_BYTES_PER_INVOCATION = 1_500


class CountingStore(MemoryStore):
    """Counts requests as S3 bills them. Of `every` creates, one fails before the write and one after it."""

    def __init__(self, clock: Any, *, every: int, rng: random.Random) -> None:
        super().__init__(clock, "memory://lake/")
        self.requests: Counter[str] = Counter()
        self._every = every
        self._rng = rng

    def list(self, prefix: str = "", *, start_after: str = "", recursive: bool = True) -> Iterator[ObjectInfo]:
        found = [*super().list(prefix, start_after=start_after, recursive=recursive)]
        self.requests["list"] += max(1, -(-len(found) // 1000))
        yield from found

    def create(self, key: str, data: bytes) -> ObjectInfo:
        self.requests["put"] += 1
        fault = self._rng.randrange(self._every) if self._every else -1
        if fault == 0:
            raise StorageUnavailable("simulated: the segment was not written")
        info = super().create(key, data)
        if fault == 1:
            raise StorageUnavailable("simulated: the response was lost, but the segment was written")
        return info


@dataclass(order=True, slots=True)
class _Delivery:
    at_ts: float
    number: int
    event: int = field(compare=False)


class SimulatedQueue:
    """Delivers each event at least once, out of order. Failed messages are delivered again."""

    def __init__(self, events: int, rng: random.Random, *, duplicates: float = 0.02, late: float = 0.01) -> None:
        self.deliveries = 0
        self._numbers = iter(range(1 << 62))
        self._heap: list[_Delivery] = []
        for event in range(events):
            sent_ts = START_TS + event / EVENTS_PER_SEC
            self._put(event, sent_ts + rng.expovariate(1.0) + (rng.random() < late) * rng.uniform(0, 600))
            if rng.random() < duplicates:
                self._put(event, sent_ts + rng.uniform(0, 120))
        heapq.heapify(self._heap)

    def _put(self, event: int, at_ts: float) -> None:
        self._heap.append(_Delivery(at_ts, next(self._numbers), event))

    def again(self, event: int, at_ts: float) -> None:
        heapq.heappush(self._heap, _Delivery(at_ts, next(self._numbers), event))

    def batches(self) -> Iterator[tuple[float, list[int]]]:
        """Batches by window and size, as Lambda's event source mapping makes them."""
        while self._heap:
            first_ts = self._heap[0].at_ts
            batch: list[int] = []
            while self._heap and len(batch) < BATCH_EVENTS and self._heap[0].at_ts <= first_ts + WINDOW_SECS:
                batch.append(heapq.heappop(self._heap).event)
            self.deliveries += len(batch)
            yield first_ts + WINDOW_SECS, batch


@dataclass(frozen=True, slots=True)
class Outcome:
    """Counts of one simulation. `cost`: US dollars by item, for all events."""

    events: int
    deliveries: int
    invocations: int
    entries: int
    distinct_paths: int
    missing: int
    puts: int
    lists: int
    wakes: int
    busy_secs: float
    slowest_batch_secs: float
    cost: dict[str, float]

    @property
    def cost_per_million(self) -> float:
        return sum(self.cost.values()) * 1e6 / self.events


def body(event: int) -> str:
    """S3's event notification for one file."""
    record = {
        "eventVersion": "2.1",
        "eventSource": "aws:s3",
        "awsRegion": "eu-west-1",
        "eventTime": "2024-01-28T14:00:00.123Z",
        "eventName": "ObjectCreated:Put",
        "userIdentity": {"principalId": "AWS:AROAEXAMPLEPRINCIPAL:producer"},
        "requestParameters": {"sourceIPAddress": "192.0.2.10"},
        "responseElements": {"x-amz-request-id": f"EXAMPLE{event:09}", "x-amz-id-2": "EXAMPLE" * 10},
        "s3": {
            "s3SchemaVersion": "1.0",
            "configurationId": "landing-to-queue",
            "bucket": {"name": "landing", "ownerIdentity": {"principalId": "EXAMPLE"}, "arn": "arn:aws:s3:::landing"},
            "object": {
                "key": f"raw-events/{path(event).replace('=', '%3D')}",
                "size": 2048 + event % 1000,
                "eTag": f"{event:032x}",
                "sequencer": f"0065B66A5C{event:08X}",
            },
        },
    }
    return json.dumps({"Records": [record]}, separators=(",", ":"))


def path(event: int) -> str:
    return f"date=2024-01-{1 + event % 28:02}/{1_706_450_400 + event}-{event:08x}.ndjson.gz"


def simulate(events: int, *, seed: int = 1, fail_every: int = 200) -> Outcome:
    """`fail_every`: of this many appends, one fails before the write and one after it; 0: no failures."""
    rng, now = random.Random(seed), [START_TS]
    store = CountingStore(lambda: now[0], every=fail_every, rng=rng)
    wakes: set[WakeUp] = set()
    collector = collector_of(store, wakes, now)
    queue, invocations, spent = SimulatedQueue(events, rng), 0, [0.0]
    for at_ts, batch in queue.batches():
        now[0] = max(now[0], at_ts)
        messages = [Message(str(event), body(event)) for event in batch]
        begun = time.process_time()
        failed = collector.collect(messages, writer_id=f"w{invocations}").result.failed_message_ids
        spent.append(time.process_time() - begun)
        invocations += 1
        for message_id in failed:
            queue.again(int(message_id), at_ts + 90.0)
    requests = Counter(store.requests)
    entries = list(_paths(store))
    distinct = set(entries)
    return Outcome(
        events=events,
        deliveries=queue.deliveries,
        invocations=invocations,
        entries=len(entries),
        distinct_paths=len(distinct),
        missing=sum(path(event) not in distinct for event in range(events)),
        puts=requests["put"],
        lists=requests["list"],
        wakes=len(wakes),
        busy_secs=sum(spent),
        slowest_batch_secs=max(spent),
        cost=_cost(queue.deliveries, invocations, requests, len(wakes), sum(spent)),
    )


def collector_of(store: MemoryStore, wakes: set[WakeUp], now: Sequence[float]) -> Collector:
    """The real collector with one source. `now[0]` is its clock."""
    setup = Setup(
        Router([Route("events:landing", "s3://landing/raw-events/", Pattern("**/*.ndjson.gz").matches)]),
        {"events:landing": Manifest(store, "_blizzard/events_landing", "events:landing")},
        {"events:landing": "events"},
    )
    config = ReloadingConfig(lambda: "", lambda _: setup, silent)
    return Collector(config, Waker(wakes.add, WINDOW_SECS, silent), lambda: now[0])


def _paths(store: MemoryStore) -> Iterable[str]:
    manifest = Manifest(store, "_blizzard/events_landing", "events:landing")
    return (entry.path for ref in manifest.refs() for entry in manifest.read(ref).entries)


def _cost(deliveries: int, invocations: int, requests: Counter[str], wakes: int, busy_secs: float) -> dict[str, float]:
    """Lambda's duration is the measured CPU time plus the latency of requests. SQS: one send per event, one receive and
    one delete per ten messages; empty receives of the poller are negligible."""
    lambda_secs = busy_secs + S3_LATENCY_SECS * (requests["put"] + requests["list"] + wakes)
    return {
        "sqs": PRICES["sqs_request"] * (deliveries + 2 * deliveries / 10),
        "s3": PRICES["s3_put_or_list"] * (requests["put"] + requests["list"]),
        "lambda": PRICES["lambda_request"] * invocations + PRICES["lambda_gb_second"] * MEMORY_GB * lambda_secs,
        "wakes": PRICES["sqs_fifo_request"] * 3 * wakes,
        "logs": PRICES["log_gb"] * invocations * LOG_BYTES_PER_INVOCATION / 1e9,
    }


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="benchmarks.collect", description="Simulate events through the real collector."
    )
    parser.add_argument("--events", type=int, default=1_000_000, help="number of events")
    parser.add_argument("--seed", type=int, default=1, help="seed of the simulation")
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args(arguments)
    outcome = simulate(options.events, seed=options.seed)
    if options.json:
        print(json.dumps({**asdict(outcome), "cost_per_million": outcome.cost_per_million}, indent=1))
        return
    for name, value in asdict(outcome).items():
        if name != "cost":
            print(f"{name:<20}{value:>14,.3f}" if isinstance(value, float) else f"{name:<20}{value:>14,}")
    for name, dollars in outcome.cost.items():
        print(f"$ {name:<18}{dollars:>14.4f}")
    print(f"$ per million events{outcome.cost_per_million:>14.4f}")


if __name__ == "__main__":
    main()
