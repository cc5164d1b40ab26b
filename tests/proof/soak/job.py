"""Runs the job under steady traffic in the JVM that the environment names, with a leak if a variant asks for one."""

import json
import os
import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from pyspark import SparkContext

import spark_job.main
import spark_job.start
from blizzard.ledger import merge
from blizzard.ledger.keeper import LedgerKeeper
from blizzard.manifest.pending_manifest import Manifest
from blizzard.paths.partition import TimeTemplate
from blizzard.state.batch import BatchPlan
from blizzard.state.checkpoint import FINISHED, Checkpoint
from blizzard.sweep.rules import SweepRules
from spark_job import wiring
from spark_job.engines.spark.transaction import Transaction
from spark_job.loop.files import source
from spark_job.loop.files.suspects import Resolution, Suspects
from spark_job.loop.ingest import Ingest
from spark_job.write.data_file import DataFile
from tests.proof.kill.job import attached
from tests.proof.kill.variants import Whole, with_tables
from tests.proof.ledger.small import keep_ledger_small

LEAK_BYTES = 12 << 20
JVM_LEAK_BYTES = 256 << 10
"""A leak that takes a thousand commits to fill a quarter of a GiB."""
SLOWER_SECS = 0.06
A_LITTLE_SLOWER_SECS = 0.0015
LEFT_OUT_EVERY = 5
"""Commits of which one is without a data file."""
IDLE_SECS = 0.1
"""In place of the seconds that an idle job waits, which would be most of the campaign."""
MIB = 1 << 20
DAY_SECS = 86_400.0
HEAP = "heap_seen"
"""The event that says how much of the JVM's heap is in use after a collection."""
HEAP_EVERY = 5
"""Commits between two such looks, each of which is a whole collection."""
_LEAK = "tests.proof.leak"
_held: list[Any] = []


def days_since(epoch_ts: float, now_ts: float, day_secs: float) -> float:
    """What time it is where a day lasts so many seconds, from `epoch_ts` on."""
    return epoch_ts + (now_ts - epoch_ts) * DAY_SECS / day_secs


def run_job(words: Sequence[str], variant: str, epoch_ts: float, day_secs: float) -> int:
    """`day_secs`: duration of a simulated day of the dated folders."""
    spark_job.start.lazy_session = attached
    wiring.POLL_SECS = wiring.LOCAL_POLL_SECS = IDLE_SECS
    keep_ledger_small(random.Random(epoch_ts), bases=False)  # the state is read, and measured
    _let_days_pass(epoch_ts, day_secs)
    _after_each_step(_tell_heap())
    if variant:
        LEAKS[variant]()
    return spark_job.main.main([*words])


def _let_days_pass(epoch_ts: float, day_secs: float) -> None:
    whole = TimeTemplate.oldest_folder

    def oldest_folder(self: TimeTemplate, now_ts: float, lookback: int) -> str:
        return whole(self, days_since(epoch_ts, now_ts, day_secs), lookback)

    TimeTemplate.oldest_folder = oldest_folder  # type: ignore[method-assign]


def _after_each_step(do: Callable[[], object]) -> None:
    whole = Ingest._log_committed

    def said(self: Ingest, *given: Any) -> None:
        whole(self, *given)
        do()

    Ingest._log_committed = said  # type: ignore[method-assign]


def _tell_heap() -> Callable[[], None]:
    count = 0

    def tell() -> None:
        nonlocal count
        count += 1
        if count % HEAP_EVERY == 0 and SparkContext._jvm is not None:
            runtime = SparkContext._jvm.java.lang.Runtime.getRuntime()
            runtime.gc()
            used = runtime.totalMemory() - runtime.freeMemory()
            print(json.dumps({"event": HEAP, "mib": round(used / MIB, 1)}), flush=True)

    return tell


def _keep_memory() -> None:
    _after_each_step(lambda: _held.append(os.urandom(LEAK_BYTES)))


def _keep_files_open() -> None:
    _after_each_step(lambda: _held.append(os.open(os.devnull, os.O_RDONLY)))


def _leave_segments() -> None:
    Manifest.trim = lambda self, position: 0  # type: ignore[method-assign]


def _keep_names() -> None:
    whole = source.next_checkpoint

    def next_checkpoint(plan: BatchPlan, records_read: Mapping[str, int]) -> Checkpoint:
        names = dict.fromkeys((file.path for file in plan.files), FINISHED)
        settled = whole(plan, records_read)
        return replace(settled, files={**plan.base.files, **names, **settled.files})

    source.next_checkpoint = next_checkpoint


def _merge_no_runs() -> None:
    merge.runs_to_merge = lambda refs, factor=0: ()


def _merge_all_and_delete_nothing() -> None:
    merge.runs_to_merge = lambda refs, factor=0: tuple(refs) if len(refs) > 1 else ()
    LedgerKeeper.clean = lambda self, checkpoint: None  # type: ignore[method-assign]


def _look_up_ever_slower() -> None:
    whole = Suspects.resolve
    count = 0

    def resolve(self: Suspects, *given: Any) -> Resolution:
        nonlocal count
        count += 1
        time.sleep(count * SLOWER_SECS)
        return whole(self, *given)

    Suspects.resolve = resolve  # type: ignore[method-assign]


def _never_close() -> None:
    SweepRules.before_window = lambda self, now_ts: None  # type: ignore[method-assign]


def _ever_slower() -> None:
    count = 0

    def commit(whole: Whole, transaction: Any, *given: Any, **named: Any) -> int:
        nonlocal count
        count += 1
        time.sleep(count * SLOWER_SECS)
        return whole(transaction, *given, **named)

    with_tables(commit)


def _ever_a_little_slower() -> None:
    """As what depends on the length of the table's past: whichever job comes."""
    whole = Transaction.commit

    def commit(self: Transaction, files: Sequence[DataFile], *, sequence: int, **named: Any) -> int:
        time.sleep(sequence * A_LITTLE_SLOWER_SECS)
        return whole(self, files, sequence=sequence, **named)

    Transaction.commit = commit  # type: ignore[method-assign]


def _leave_files_out() -> None:
    whole = Transaction.commit

    def commit(self: Transaction, files: Sequence[DataFile], *, sequence: int, **named: Any) -> int:
        taken = files if sequence % LEFT_OUT_EVERY else files[:-1]
        return whole(self, taken, sequence=sequence, **named)

    Transaction.commit = commit  # type: ignore[method-assign]


def _in_the_jvm(made: Callable[[Any], Any]) -> Callable[[], None]:
    """The JVM keeps it until it ends, across jobs."""

    def keep() -> None:
        properties = SparkContext._jvm.java.lang.System.getProperties()
        held = properties.get(_LEAK)
        if held is None:
            held = SparkContext._jvm.java.util.ArrayList()
            properties.put(_LEAK, held)
        held.append(made(SparkContext._jvm))

    return lambda: _after_each_step(keep)


def _heap_array(jvm: Any) -> Any:
    return SparkContext._gateway.new_array(jvm.byte, JVM_LEAK_BYTES)


LEAKS: Mapping[str, Callable[[], object]] = {
    "memory is kept after each commit": _keep_memory,
    "the JVM keeps a quarter of a MiB after each commit": _in_the_jvm(_heap_array),
    "a file stays open after each commit": _keep_files_open,
    "the JVM keeps a file open after each commit": _in_the_jvm(lambda jvm: jvm.java.io.FileInputStream(os.devnull)),
    "segments are not trimmed": _leave_segments,
    "the state keeps the names of ingested files": _keep_names,
    "runs of the ledger are never merged": _merge_no_runs,
    "each merge of the ledger takes all of it, and what was merged stays": _merge_all_and_delete_nothing,
    "each look-up of suspects takes longer than the one before": _look_up_ever_slower,
    "no partition is ever closed": _never_close,
    "each commit takes longer than the one before": _ever_slower,
    "each commit of the local engine takes longer than the one before": _ever_slower,
    "each commit takes 1.5 ms longer than the one before": _ever_a_little_slower,
    "every fifth commit leaves a data file out": _leave_files_out,
}
