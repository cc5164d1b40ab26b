"""`collect`: one invocation of the collector with the number of events that fit into 6 MB.

`python -m benchmarks.suite.collect EVENTS` takes one measurement in a process that has imported everything that the
function imports, including botocore and its client, as Lambda counts memory. `python -m benchmarks.collect` simulates
millions of events.
"""

import json
import random
import sys
import time

from benchmarks.goals import goals_of
from benchmarks.machine import background_load_note
from benchmarks.result import Result, Table
from benchmarks.run_options import RunOptions
from benchmarks.stats import Spread, evaluate_goals
from benchmarks.suite.subprocess_run import background_loads, peak_bytes, run_module
from benchmarks.verify import WrongResult

EVENTS = 3_000


def run(options: RunOptions) -> Result:
    events = options.count(EVENTS, 10)
    found = []
    for number in range(options.rounds):
        options.report_progress(f"collect: round {number + 1} of {options.rounds}")
        found.append(run_module("benchmarks.suite.collect", events))
    secs, mib = (Spread.of([one[key] for one in found]) for key in ("secs", "peak_mb"))
    return Result(
        "collect",
        f"{events:,} events in one invocation: parsed, routed, and appended as one segment to an in-memory store",
        (Table(("", "s", "MB of the process"), (("collector", str(secs), str(mib)),)),),
        tuple(evaluate_goals(goals_of("collect"), {"secs": secs, "mib": mib}, {})),
        notes=(
            "Add the latency of S3: two LISTs and one PUT. Lambda's smaller processors take longer.",
            background_load_note({"collector": background_loads(found)}),
        ),
        raw={"runs": found},
    )


def measure(events: int) -> dict[str, float]:
    import functions.collector.handler  # noqa: F401 - its memory counts
    from benchmarks.collect import START_TS, CountingStore, body, collector_of, path
    from blizzard.collect.collector import Message
    from blizzard.manifest.pending_manifest import Manifest
    from blizzard.storage.s3_connection import S3Settings, connection

    _ = connection(S3Settings(region="eu-west-1")).client
    now = [START_TS]
    store = CountingStore(lambda: now[0], every=0, rng=random.Random(1))
    collector = collector_of(store, set(), now)
    messages = [Message(str(event), body(event)) for event in range(events)]
    began = time.perf_counter()
    failed = collector.collect(messages, writer_id="w").result.failed_message_ids
    secs = time.perf_counter() - began
    manifest = Manifest(store, "_blizzard/events_landing", "events:landing")
    found = [entry.path for ref in manifest.refs() for entry in manifest.read(ref).entries]
    if failed or sorted(found) != sorted(map(path, range(events))):
        raise WrongResult(f"collect: expected {events} entries and no failure, found {len(found)} and {len(failed)}")
    return {"secs": secs, "peak_mb": peak_bytes() / 1e6}


if __name__ == "__main__":
    print(json.dumps(measure(int(sys.argv[1]))))
