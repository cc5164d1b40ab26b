"""Processes without a JVM: a collector, a sweeper, a dispatcher, a job, or one that deletes the manifest. They work on
local files or S3 and may be killed between any two calls."""

import json
import os
import random
import secrets
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from blizzard.collect.collector import Message, collect
from blizzard.collect.routing import Route, Router
from blizzard.config.published import PublishedPipeline
from blizzard.dispatch.decide import FailurePolicy
from blizzard.dispatch.dispatcher import Dispatcher, Logs
from blizzard.environment import variables
from blizzard.ledger.merge import LedgerSettings
from blizzard.log import silent
from blizzard.manifest.pending_manifest import Manifest
from blizzard.state.batch import OnOverwrite
from blizzard.state.dead_letters import DeadLetters
from blizzard.state.identity import SourceIdentity
from blizzard.storage.base import ObjectStore
from blizzard.storage.local import LocalStore
from blizzard.storage.s3 import S3Settings, S3Store
from blizzard.sweep.report import SweepKind
from blizzard.sweep.source_sweep import SourceSweep
from spark_job.loop.files.ingest_files import ingest_files
from spark_job.ports.stopwatch import Stopwatch
from tests.proof.breaks import (
    MARKS_ALONE,
    OLDER_STATE,
    UNCONDITIONAL_PUT,
    MarksAlone,
    Overwriting,
    older_state_as_current,
)
from tests.proof.kill_calls.operator import operate
from tests.proof.kill_calls.service import FileService
from tests.proof.kill_calls.steps import SteppedStore, Steps
from tests.proof.kill_calls.table import FileDelta, Loading
from tests.proof.ledger.breaks import BREAKS, SHOWN_BY
from tests.proof.ledger.damage import damage
from tests.proof.ledger.small import keep_ledger_small
from tests.unit import fakes
from tests.unit.dispatch_world import published_source
from tests.unit.fakes import MemoryReader, MemoryTable

IDENTITY = SourceIdentity("events", "landing", "_blizzard/events_landing")
BUCKET, PREFIX = "landing", "raw/"
SETTINGS = fakes.settings(
    interval_files=4,
    interval_bytes=250,
    settle_delay_secs=0.0,
    late_overlap_secs=3600.0,
    on_overwrite=OnOverwrite.REPLACE,
    max_attempts=100,
)
BATCH_FILES = (2, 4, 7)
"""Jobs differ in it: what one commits first is only a part of what the other has read, or more."""
POLICY = FailurePolicy(max_failures=1_000_000, backoff_secs=0.0, max_backoff_secs=0.0)
ON_S3 = "s3://"
LEDGER_BREAKER = "somebody at the ledger"
"""Who deletes, tears and swaps its parts."""
OPERATOR = "operator"
"""Who replays and replaces."""
LEDGER_EVENTS = frozenset({"ledger_run_written", "ledger_rebuilding", "ledger_run_unreadable", "ledger_merge_failed"})
BROKEN = {MARKS_ALONE: MarksAlone, UNCONDITIONAL_PUT: Overwriting}
"""Storage of the manifest, by variant."""


@dataclass(frozen=True, slots=True)
class Folders:
    landing: ObjectStore
    state: ObjectStore
    delta: ObjectStore
    service: ObjectStore

    @classmethod
    def of(cls, where: str) -> "Folders":
        """In a local folder, or in the bucket `s3://…` of the S3 endpoint in the environment."""
        names = ("landing", "state", "delta", "service")
        if where.startswith(ON_S3):
            settings = S3Settings.from_environment(variables())
            return cls(*(S3Store(where.removeprefix(ON_S3), f"{name}/", settings) for name in names))
        return cls(*(LocalStore(Path(where) / name, may_be_missing=True) for name in names))


def run_process(
    who: str,
    where: str,
    seed: str,
    variant: str,
    messages: list[list[str]],
    nth: int = 0,
    at: str = "",
    after: bool = False,
    pause_secs: float = 0.0,
    begin_ts: float = 0.0,
) -> int:
    """`nth`, `at`, `after` and `pause_secs`: see Steps. `messages`: the collector's; it prints which of them failed.
    `begin_ts`: when to begin, so that several processes begin together."""
    time.sleep(max(0.0, begin_ts - time.time()))
    os.fsync = lambda fd: None  # SIGKILL loses nothing that was written to the kernel
    keep_ledger_small(random.Random(seed))
    BREAKS.get(variant, lambda: None)()
    folders, steps = Folders.of(where), Steps(nth, at=at, after=after, pause_secs=pause_secs, seed=seed)
    broken = BROKEN[variant](folders.state) if variant in BROKEN else folders.state
    state: ObjectStore = SteppedStore(broken, steps)
    landing = SteppedStore(folders.landing, steps)
    if who == "collector":
        _collect(state, messages)
    elif who in ("sweeper", "late sweeper"):
        kind = SweepKind.LATE if who == "late sweeper" else SweepKind.WATERMARK
        SourceSweep(IDENTITY, landing, state, SETTINGS.sweep_rules, time.time, _new_id, silent).sweep(kind)
    elif who == "somebody":
        _delete_the_manifest(state, random.Random(seed))
    elif who == LEDGER_BREAKER:
        how = damage(state, IDENTITY, random.Random(seed), SHOWN_BY.get(variant))
        print(json.dumps({"event": "damaged", "how": how}), flush=True)
    elif who == "dispatcher":
        _dispatch(state, FileService(folders.service, steps, variant))
    else:
        answers = random.Random(seed) if nth or not pause_secs else None
        _write_rows(who, landing, state, FileDelta(folders.delta, steps, answers, variant), variant, seed)
    print(json.dumps({"event": "ended", "calls": steps.count, "names": sorted(steps.names)}), flush=True)
    return 0


def _write_rows(who: str, landing: ObjectStore, state: ObjectStore, delta: FileDelta, variant: str, seed: str) -> None:
    if who == OPERATOR:
        rng = random.Random(f"{seed}, operator")
        operate(IDENTITY, SETTINGS, landing, state, delta, rng, variant, new_id=_new_id, log=_say_commits)
        return
    _ingest(landing, state, delta, variant, random.Random(f"{seed}, files").choice(BATCH_FILES))


def _new_id() -> str:
    return secrets.token_hex(8)


def _collect(state: ObjectStore, messages: list[list[str]]) -> None:
    manifest = Manifest(state, IDENTITY.state_prefix, IDENTITY.source_id)
    router = Router([Route(IDENTITY.source_id, f"s3://{BUCKET}/{PREFIX}", lambda path: path.endswith(".txt"))])
    result = collect(
        [Message(message_id, body) for message_id, body in messages],
        router,
        lambda _, entries: manifest.append(entries, writer_id=_new_id(), now_ts=time.time()),
    )
    print(json.dumps({"event": "collected", "failed": list(result.failed_message_ids)}), flush=True)


def _delete_the_manifest(state: ObjectStore, rng: random.Random) -> None:
    """One segment after the other, in random order: a kill leaves gaps."""
    keys = [info.key for info in state.list(f"{IDENTITY.state_prefix}/pending/")]
    rng.shuffle(keys)
    state.delete(keys)


def _dispatch(state: ObjectStore, service: FileService) -> None:
    pipeline = PublishedPipeline(IDENTITY.pipeline, state.uri, 0.0, (published_source(on_overwrite="replace"),))
    found = Dispatcher(
        pipeline,
        store=state,
        service=service,
        policy=POLICY,
        clock=time.time,
        new_id=_new_id,
        log=Logs(silent, silent, silent),
    ).dispatch()
    if found.error is not None:
        raise found.error


def _ingest(landing: ObjectStore, state: ObjectStore, delta: FileDelta, variant: str, files: int) -> None:
    """`files`: of a batch."""
    calls = Loading(delta)
    letters = DeadLetters(state, IDENTITY.state_prefix, IDENTITY.source_id)
    if variant == OLDER_STATE:
        older_state_as_current()
    totals = ingest_files(
        IDENTITY,
        replace(SETTINGS, rules=replace(SETTINGS.rules, interval_files=files), ledger=LedgerSettings()),
        table=MemoryTable(delta, IDENTITY, calls),
        reader=MemoryReader(landing, letters, IDENTITY.source_id, time.time, calls),  # type: ignore[arg-type]
        state=state,
        files=landing,
        clock=time.time,
        watch=Stopwatch(time.monotonic),
        new_id=_new_id,
        sleep=lambda secs: time.sleep(min(secs, 0.001)),
        log=_say_commits,
    ).drain()
    print(json.dumps({"event": "drained", "commits": totals.commits, "lost_races": totals.lost_races}), flush=True)


def _say_commits(event: str, /, **fields: Any) -> None:
    """Prints the receipts, from which the campaign knows what the job logged as committed, and what it does with the
    ledger."""
    if event in ("batch_read", "batch_committed"):
        print(json.dumps({"event": event, "receipt": fields.get("receipt")}), flush=True)
    if event in LEDGER_EVENTS:
        print(json.dumps({"event": event, **fields}), flush=True)
